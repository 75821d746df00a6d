"""The transitions of a model as a matplotlib figure, drawn without pyplot: no global state, no display, any thread.

transitions(bundle).savefig("transitions.png")
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch import Tensor

    from agggen.bundle import Bundle

_MOST_PREDICATES = 60
_NUMBERED = 12  # of at most this many predicates the numbers are written into the cells


def transitions(bundle: Bundle) -> Figure:
    """How the model orders and groups: p(next fact begins with | last predicate), p(next in the fact | predicate).

    Rows are the last predicate, columns the next one, both in the model's most likely order; the first row is the
    beginning. Probabilities are over all predicates shown, as in a record that has them all. Of more
    than 60 predicates, the ones that most likely follow others are shown.
    """
    import torch
    from matplotlib.figure import Figure

    parameters = bundle.model.transitions
    names = list(bundle.encoder.predicates)[1:]  # index 0 is for predicates not seen in training
    with torch.no_grad():
        out = (parameters.a_out[1:] @ parameters.b_out[1:].T).float().cpu()  # (K + 1, K); the last row is the beginning
        inside = (parameters.a_in[1:] @ parameters.b_in[1:].T).float().cpu()
    shown = list(range(len(names)))
    if len(names) > _MOST_PREDICATES:
        shown = sorted(_next(out, shown).sum(0).topk(_MOST_PREDICATES).indices.tolist())
    shown = [shown[i] for i in _order(_next(out, shown))]
    labels = [names[i] for i in shown]
    part = "" if len(shown) == len(names) else f" ({len(shown)} of {len(names)} predicates)"
    cell, letters = (0.42 if len(shown) <= _NUMBERED else 0.2), 0.066 * max(map(len, [*labels, "start of the text"]))
    width = letters + max(cell * len(shown), 5.0) + 1.2
    figure = Figure(figsize=(2 * width, letters + 0.2 * len(shown) + 1.0), layout="constrained")
    for axes, logits, title, start in zip(
        figure.subplots(1, 2),
        (out, inside),
        ("next fact begins with", "next in the same fact"),
        ("start of the text", "start of a fact"),
        strict=True,
    ):
        values = _next(logits, shown)
        most = max(0.05, float(values.max()))
        image = axes.imshow(values.numpy(), cmap="Blues", vmin=0.0, vmax=most, aspect="auto")
        axes.set_xticks(range(len(shown)), labels, rotation=90, fontsize=8)
        axes.set_yticks(range(len(shown) + 1), [start, *labels], fontsize=8)
        axes.set_title(f"{title}{part}", fontsize=10, loc="left")
        figure.colorbar(image, ax=axes).ax.tick_params(labelsize=7)
        for y, row in enumerate(values.tolist() if len(shown) <= _NUMBERED else ()):
            for x, value in enumerate(row):
                colour = "white" if value > 0.6 * most else "black"
                axes.text(x, y, f"{value:.2f}", ha="center", va="center", fontsize=7, color=colour)
    return figure


def _next(logits: Tensor, shown: list[int]) -> Tensor:
    """p(next | last) of the n predicates `shown`, (n + 1, n): the first row is the beginning; none follows itself."""
    import torch

    rows = logits[[len(logits) - 1, *shown]][:, shown].clone()
    if len(shown) > 1:
        rows[1:].fill_diagonal_(-torch.inf)
    return torch.softmax(rows, -1)


def _order(probability: Tensor) -> list[int]:
    """Predicates in greedy order: each time the most likely of those that are left."""
    remaining, order, row = set(range(probability.shape[1])), [], probability[0]
    while remaining:
        order.append(max(remaining, key=lambda i: float(row[i])))
        remaining.remove(order[-1])
        row = probability[1 + order[-1]]
    return order
