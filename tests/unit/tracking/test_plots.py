"""Plots: values, labels and their order, for few predicates and for many."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

from agggen.bundle import Bundle
from agggen.encoding import Encoder
from agggen.errors import RecordError
from agggen.generation.generator import InferenceConfig
from agggen.model.joint import JointModel, ModelConfig
from agggen.records import Fact, Record, Reference, Triple
from agggen.text import Vocabulary
from agggen_platform.tracking.plots import alignment, transitions

LIKES = ("name", "eatType", "food", "priceRange", "customerRating")


def record_of(names: tuple[str, ...]) -> Record:
    facts = tuple(Fact(f"the {name} is value{number} ") for number, name in enumerate(names))
    text = "".join(fact.text for fact in facts)
    triples = tuple(Triple("x", name, f"value{number}") for number, name in enumerate(names))
    return Record("r", triples, (Reference(text, facts),))


def bundle_of(names: tuple[str, ...]) -> Bundle:
    """A model that says the predicates in this order."""
    records = [record_of(names[begin : begin + 5]) for begin in range(0, len(names), 5)]
    vocabulary = Vocabulary.build(records, min_count=1)
    encoder = Encoder(vocabulary, Encoder.predicate_table(records), max_group_size=2)
    config = ModelConfig(
        width=8, heads=2, layers=1, feed_forward=8, dropout=0, predicate_dim=len(names) + 1, max_group_size=2
    )
    torch.manual_seed(1)
    model = JointModel(config, len(vocabulary), vocabulary.n_output, len(encoder.predicates)).eval()
    rank = {name: number for number, name in enumerate(names)}
    with torch.no_grad():
        for index, name in enumerate(encoder.predicates):
            if name in rank:  # what begins at rank r asks for rank r + 1
                model.transitions.a_out[index] = 4.0 * torch.eye(len(names) + 1)[rank[name] + 1]
                model.transitions.b_out[index] = torch.eye(len(names) + 1)[rank[name]]
        model.transitions.a_out[-1] = 4.0 * torch.eye(len(names) + 1)[0]
    return Bundle(model, encoder, InferenceConfig())


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


def test_an_alignment_is_the_posterior_of_each_predicate() -> None:
    bundle, record = bundle_of(LIKES), record_of(LIKES)
    axes = alignment(bundle, record).axes[0]
    rows, columns = rows_and_columns(axes)
    assert columns == list(LIKES)
    assert rows[0] == "1  the name is value0"
    shown = np.asarray(axes.images[0].get_array())
    assert shown.shape == (5, 5)
    (aligned,) = bundle.generator().align([record], [[fact.text for fact in record.references[0].facts or ()]])
    for row, state in zip(shown, aligned.states, strict=True):
        assert 1.0 - 1e-4 <= row.sum() <= 2.0 + 1e-4  # a fact says one or two predicates (L = 2)
        assert LIKES[int(row.argmax())] in state
    with pytest.raises(RecordError, match="no reference"):
        alignment(bundle, Record("n", record.triples))
