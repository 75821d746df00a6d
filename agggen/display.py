"""Display of results: plain text in terminals, coloured facts in notebooks, pandas and Arrow tables."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any, TypeVar

from agggen.records import Plan, State

if TYPE_CHECKING:
    import pandas
    import pyarrow

_COLOURS = ("230,159,0", "86,180,233", "0,158,115", "240,228,66", "0,114,178", "204,121,167")  # RGB, used cyclically


R = TypeVar("R")


class PrettyPrinted:
    """Mixin: IPython's terminal displays the object as `print` does."""

    __slots__ = ()

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))


class Results(list[R]):
    """A list of results (with ``as_dict``) that can be displayed and converted to a table."""

    def __repr__(self) -> str:
        texts = list(map(str, self))
        return ("\n\n" if any("\n" in text for text in texts) else "\n").join(texts)

    def _repr_html_(self) -> str:
        return "".join(
            result._repr_html_() if hasattr(result, "_repr_html_") else f"<pre>{escape(str(result))}</pre>"
            for result in self
        )

    def to_arrow(self) -> pyarrow.Table:
        """An Arrow table with a row per result, with the keys of all results as columns."""
        import pyarrow

        rows = _rows(self)
        names = dict.fromkeys(name for row in rows for name in row)  # `from_pylist` reads only the first row's keys
        return pyarrow.table({name: [row.get(name) for row in rows] for name in names})

    def to_frame(self) -> pandas.DataFrame:
        """A DataFrame with a row per result; needs pandas."""
        import pandas

        return pandas.DataFrame(_rows(self))


def _rows(results: Sequence[Any]) -> list[dict[str, Any]]:
    return [row for result in results for row in (_rows(result) if isinstance(result, Results) else [result.as_dict()])]


def group_labels(states: Sequence[State]) -> list[str]:
    """Each group in the notation of plans: ``[near "customer rating"]``, or ``[]`` for an empty group."""
    return [str(Plan((state,))) if state else "[]" for state in states]


def plain_text(head: str, text: str, facts: Sequence[tuple[str, str]], remarks: Sequence[str]) -> str:
    """Plain text, one line each: `head`, `text`, each fact (its group and segment), each remark."""
    width = max((len(group) for group, _ in facts), default=0)
    return "\n".join([head, text, *(f"  {group:<{width}}  {piece.strip()}" for group, piece in facts), *remarks])


def html(head: str, facts: Sequence[tuple[str, str]], remarks: Sequence[str]) -> str:
    """HTML of plan, `head`, text and remarks. Each fact is a (group, segment), displayed in the same colour."""
    plan = " ".join(_coloured(index, group) for index, (group, _) in enumerate(facts))
    text = "".join(_coloured(index, piece, group) for index, (group, piece) in enumerate(facts))
    return (
        f"<div><div><code>{plan}</code> <small>{escape(head)}</small></div><p>{text}</p>{_remark_lines(remarks)}</div>"
    )


def split_at_spans(text: str, spans: Sequence[tuple[int, int]]) -> list[tuple[int, str]]:
    """Splits a text into (span number, piece); the numbers begin with 1, and 0 is outside all spans.

    A span that overlaps an earlier span is ignored.
    """
    pieces, position = [], 0
    for number, (start, end) in sorted(enumerate(spans, start=1), key=lambda item: (item[1][0], -item[1][1])):
        if start >= position and end > start:
            pieces += [(0, text[position:start]), (number, text[start:end])]
            position = end
    return [*pieces, (0, text[position:])]


def html_of_spans(text: str, spans: Sequence[tuple[str, tuple[int, int]]], remarks: Sequence[str]) -> str:
    """HTML of a text with coloured spans, and the remarks. A span is a (title, (start, end)); overlaps are ignored."""
    parts = [
        _coloured(number - 1, piece, spans[number - 1][0]) if number else escape(piece)
        for number, piece in split_at_spans(text, [span for _, span in spans])
    ]
    return f"<div><p>{''.join(parts)}</p>{_remark_lines(remarks)}</div>"


def _coloured(index: int, text: str, title: str = "") -> str:
    style = f"background:rgba({_COLOURS[index % len(_COLOURS)]},.35);border-radius:.3em;padding:0 .15em"
    return f'<span style="{style}" title="{escape(title)}">{escape(text)}</span>'


def _remark_lines(remarks: Sequence[str]) -> str:
    return "".join(f"<div><small>{escape(remark)}</small></div>" for remark in remarks)
