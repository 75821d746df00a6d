"""How results look: plain in terminals, with coloured facts in notebooks; and as tables of pandas and Arrow."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    import pandas
    import pyarrow

_COLOURS = ("230,159,0", "86,180,233", "0,158,115", "240,228,66", "0,114,178", "204,121,167")
"""Of facts, as red, green, blue; a text with more facts starts over."""


class Result(Protocol):
    """One result for one record."""

    def as_dict(self) -> dict[str, Any]: ...


R = TypeVar("R", bound=Result)


class Shown:
    """Is shown in IPython's terminal as it is printed."""

    __slots__ = ()

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))


class Results(list[R]):
    """A list of results that shows itself and becomes a table."""

    def __repr__(self) -> str:
        shown = [str(one) for one in self]
        return ("\n\n" if any("\n" in one for one in shown) else "\n").join(shown)

    def _repr_html_(self) -> str:
        return "".join(
            one._repr_html_() if hasattr(one, "_repr_html_") else f"<pre>{escape(str(one))}</pre>" for one in self
        )

    def to_arrow(self) -> pyarrow.Table:
        """An Arrow table, one row a result."""
        import pyarrow

        return pyarrow.Table.from_pylist(_rows(self))

    def to_frame(self) -> pandas.DataFrame:
        """A DataFrame, one row a result. Needs pandas."""
        import pandas

        return pandas.DataFrame(_rows(self))


def _rows(results: Sequence[Any]) -> list[dict[str, Any]]:
    return [row for one in results for row in (_rows(one) if isinstance(one, Results) else [one.as_dict()])]


def groups(states: Sequence[Sequence[str]]) -> list[str]:
    """States as plans write them: ``[near customerRating]``."""
    return ["[" + " ".join(state) + "]" for state in states]


def plain(head: str, text: str, facts: Sequence[tuple[str, str]], remarks: Sequence[str]) -> str:
    """The plan, the text, its facts, each with its group, and remarks."""
    width = max((len(group) for group, _ in facts), default=0)
    return "\n".join([head, text, *(f"  {group:<{width}}  {piece.strip()}" for group, piece in facts), *remarks])


def html(head: str, facts: Sequence[tuple[str, str]], remarks: Sequence[str]) -> str:
    """The text with its facts coloured as their groups in the plan; all of it escaped.

    Args:
        head: what stands behind the plan.
        facts: group and piece of the text; the pieces are the whole text.
    """
    plan = " ".join(_coloured(number, group) for number, (group, _) in enumerate(facts))
    text = " ".join(_coloured(number, piece.strip(), group) for number, (group, piece) in enumerate(facts))
    return f"<div><div><code>{plan}</code> <small>{escape(head)}</small></div><p>{text}</p>{_below(remarks)}</div>"


def html_of_spans(text: str, spans: Sequence[tuple[str, tuple[int, int]]], remarks: Sequence[str]) -> str:
    """The text with spans of its characters coloured, each with a title; one inside another is left out."""
    parts, position = [], 0
    for number, (title, (start, end)) in enumerate(sorted(spans, key=lambda each: (each[1][0], -each[1][1]))):
        if start >= position:
            parts += [escape(text[position:start]), _coloured(number, text[start:end], title)]
            position = end
    return f"<div><p>{''.join(parts)}{escape(text[position:])}</p>{_below(remarks)}</div>"


def _coloured(number: int, said: str, title: str = "") -> str:
    style = f"background:rgba({_COLOURS[number % len(_COLOURS)]},.35);border-radius:.3em;padding:0 .15em"
    return f'<span style="{style}" title="{escape(title)}">{escape(said)}</span>'


def _below(remarks: Sequence[str]) -> str:
    return "".join(f"<div><small>{escape(remark)}</small></div>" for remark in remarks)
