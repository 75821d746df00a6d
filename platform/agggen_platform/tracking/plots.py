"""Plots of a run as matplotlib figures, drawn without pyplot: no global state, no display, any thread.

transitions(bundle).savefig("transitions.png")
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch import Tensor

    from agggen.bundle import Bundle
    from agggen.records import Record

_MOST_PREDICATES = 60
_LETTER_INCHES = 0.066
_NUMBERED_COLUMNS = 12


def transitions(bundle: Bundle) -> Figure:
    """How the model orders and groups: p(next fact begins with | last predicate), p(next in the fact | predicate).

    Rows are the last predicate, columns the next one, both in the model's most likely order; the first row is the
    beginning. Probabilities are over all predicates shown, as in a record that has them all. Of more
    than 60 predicates, the ones that most likely follow others are shown.
    """
    import torch

    parameters = bundle.model.transitions
    names = list(bundle.encoder.predicates)[1:]  # index 0 is for predicates not seen in training
    with torch.no_grad():
        out = (parameters.a_out[1:] @ parameters.b_out[1:].T).float().cpu()  # (K, K); the last row is the beginning
        inside = (parameters.a_in[1:] @ parameters.b_in[1:].T).float().cpu()
    shown = _most_likely(out, _MOST_PREDICATES)
    shown = [shown[i] for i in _order(_next(out, shown))]
    labels = [names[i] for i in shown]
    part = "" if len(shown) == len(names) else f" ({len(shown)} of {len(names)} predicates)"
    panels = (
        (out, f"next fact begins with{part}", ["start of the text", *labels]),
        (inside, f"next in the same fact{part}", ["start of a fact", *labels]),
    )
    maps = [_Map(_next(logits, shown).tolist(), rows, labels, title) for logits, title, rows in panels]
    return _heat_maps(maps, 0.2)


def alignment(bundle: Bundle, record: Record) -> Figure:
    """Which predicates each fact of the record's first reference realises: p(predicate in z_t | text, record).

    Raises:
        RecordError: the record has no reference, or too many triples.
    """
    import torch

    from agggen.errors import RecordError
    from agggen.facts.config import segmenter
    from agggen.model.batch import collate
    from agggen.model.hmm import posterior

    if not record.references:
        raise RecordError(f"record {record.id!r} has no reference text to align")
    reference = record.references[0]
    if reference.facts is not None:
        facts = tuple(fact.text for fact in reference.facts)
    else:
        facts = segmenter(bundle.segmenter).segment([reference.text])[0]
    generator = bundle.generator()
    generator.planner.check(record)
    example = bundle.encoder.example(record, facts)
    with torch.no_grad():
        potentials, states = generator.model.potentials(collate([example]), prune=False)
        shares = posterior(potentials, states)[0] @ states.members.float()  # (T, J)
    rows = {t: row for row, t in enumerate(example.kept)}  # a fact without the start of a word has no state
    nothing = [0.0] * len(record.predicates)
    values = [shares[rows[t], : len(record.predicates)].tolist() if t in rows else nothing for t in range(len(facts))]
    texts = [f"{number}  {_wrapped(text.strip())}" for number, text in enumerate(facts, start=1)]
    title = f"record {record.id}: p(predicate in the fact | text)"
    return _heat_maps([_Map(values, texts, list(record.predicates), title)], 0.45)


class _Map(NamedTuple):
    """A heat map of probabilities."""

    values: list[list[float]]
    rows: list[str]
    columns: list[str]
    title: str


def _heat_maps(maps: Sequence[_Map], row_height: float) -> Figure:
    """Heat maps beside each other, large enough for their labels; few columns have their numbers written in."""
    from matplotlib.figure import Figure

    labels = maps[0]
    numbered = len(labels.columns) <= _NUMBERED_COLUMNS
    longest = max(len(line) for row in labels.rows for line in row.split("\n"))
    cells = (0.42 if numbered else 0.2) * len(labels.columns)
    width = _LETTER_INCHES * longest + max(cells, 0.085 * len(labels.title)) + 1.2
    height = _LETTER_INCHES * max(map(len, labels.columns)) + row_height * len(labels.rows) + 0.8
    figure = Figure(figsize=(width * len(maps), height), layout="constrained")
    for axes, shown in zip(figure.subplots(1, len(maps), squeeze=False)[0], maps, strict=True):
        most = max(0.05, *(max(row) for row in shown.values))
        image = axes.imshow(shown.values, cmap="Blues", vmin=0.0, vmax=most, aspect="auto")
        axes.set_xticks(range(len(shown.columns)), shown.columns, rotation=90, fontsize=8)
        axes.set_yticks(range(len(shown.rows)), shown.rows, fontsize=8)
        axes.set_title(shown.title, fontsize=10, loc="left")
        figure.colorbar(image, ax=axes).ax.tick_params(labelsize=7)
        for y, row in enumerate(shown.values if numbered else ()):
            for x, value in enumerate(row):
                colour = "white" if value > 0.6 * most else "black"
                axes.text(x, y, f"{value:.2f}", ha="center", va="center", fontsize=7, color=colour)
    return figure


def _next(logits: Tensor, shown: list[int]) -> Tensor:
    """p(next | last) among the predicates `shown`, (n + 1, n): the first row is the beginning; none follows itself."""
    import torch

    rows = logits[[len(logits) - 1, *shown]][:, shown].clone()
    if len(shown) > 1:
        rows[1:].fill_diagonal_(-torch.inf)
    return torch.softmax(rows, -1)


def _most_likely(logits: Tensor, most: int) -> list[int]:
    """The `most` predicates that most likely follow the others, in table order."""
    everything = list(range(logits.shape[1]))
    if len(everything) <= most:
        return everything
    return sorted(_next(logits, everything).sum(0).topk(most).indices.tolist())


def _order(probability: Tensor) -> list[int]:
    """Predicates in greedy order: each time the most likely one that is left."""
    remaining, order, row = set(range(probability.shape[1])), [], probability[0]
    while remaining:
        order.append(max(remaining, key=lambda i: float(row[i])))
        remaining.remove(order[-1])
        row = probability[1 + order[-1]]
    return order


def _wrapped(text: str, width: int = 70) -> str:
    import textwrap

    return "\n".join(textwrap.wrap(text, width)) or "(no words)"
