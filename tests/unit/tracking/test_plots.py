"""Plots: values, labels and their order, for few predicates and for many."""

from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from agggen_platform.tracking.plots import transitions

LIKES = ("name", "eatType", "food", "priceRange", "customerRating")


def bundle_of(names: tuple[str, ...]) -> Any:
    """A model that says the predicates in this order; its table of predicates is in another."""
    size = len(names) + 1
    states = torch.eye(size)  # of the predicate that comes r-th: row r
    table = sorted(names)
    ranks = [names.index(name) for name in table]
    after = torch.stack([torch.zeros(size), *(states[rank + 1] for rank in ranks), states[0]])
    before = torch.stack([torch.zeros(size), *(states[rank] for rank in ranks)])
    parameters = SimpleNamespace(a_out=4.0 * after, b_out=before, a_in=after, b_in=before)
    encoder = SimpleNamespace(predicates=["unknown", *table])
    return SimpleNamespace(model=SimpleNamespace(transitions=parameters), encoder=encoder)


def rows_and_columns(axes: Any) -> tuple[list[str], list[str]]:
    return [label.get_text() for label in axes.get_yticklabels()], [
        label.get_text() for label in axes.get_xticklabels()
    ]


def overlapping(labels: list[Any]) -> int:
    boxes = [label.get_window_extent() for label in labels]
    return sum(box.overlaps(following) for box, following in pairwise(boxes))


@pytest.mark.parametrize("number", [5, 60])
def test_transitions_are_named_in_the_order_of_saying_and_readable(number: int) -> None:
    names = LIKES if number == 5 else tuple(f"somePredicate{n:02d}Name" for n in range(number))
    figure = transitions(bundle_of(names))
    axes = figure.axes[0]
    rows, columns = rows_and_columns(axes)
    assert rows[0] == "start of the text"
    assert rows[1:] == columns == list(names)
    shown = np.asarray(axes.images[0].get_array())
    assert shown.sum(1) == pytest.approx(1.0)
    assert columns[shown[0].argmax()] == names[0]
    for row, name in enumerate(rows[1:], start=1):
        if name != names[-1]:
            assert columns[shown[row].argmax()] == names[names.index(name) + 1]
    figure.canvas.draw()
    assert overlapping(axes.get_yticklabels()) == overlapping(axes.get_xticklabels()) == 0


def test_of_very_many_predicates_the_likeliest_are_shown() -> None:
    axes = transitions(bundle_of(tuple(f"p{n}" for n in range(70)))).axes[0]
    assert len(rows_and_columns(axes)[1]) == 60
    assert "60 of 70" in axes.get_title(loc="left")
