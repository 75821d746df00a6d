"""The table of transition probabilities."""

import csv
from types import SimpleNamespace
from typing import Any

import torch

from agggen_platform.tracking.transitions import transitions_table

ORDER = ("name", "eatType", "food", "priceRange", "customerRating")


def bundle_of(names: tuple[str, ...]) -> Any:
    """A bundle whose most probable order of predicates is `names`; its predicate table is sorted."""
    size = len(names) + 1
    states = torch.eye(size)  # row r: the predicate of rank r
    table = sorted(names)
    ranks = [names.index(name) for name in table]
    after = torch.stack([torch.zeros(size), *(states[rank + 1] for rank in ranks), states[0]])
    before = torch.stack([torch.zeros(size), *(states[rank] for rank in ranks)])
    parameters = SimpleNamespace(a_out=4.0 * after, b_out=before, a_in=after, b_in=before)
    encoder = SimpleNamespace(predicates=["unknown", *table])
    return SimpleNamespace(model=SimpleNamespace(transitions=parameters), encoder=encoder)


def test_the_most_probable_next_predicates_come_first() -> None:
    rows = list(csv.DictReader(transitions_table(bundle_of(ORDER)).splitlines()))
    assert {row["relation"] for row in rows} == {"next fact", "same fact"}
    for relation in ("next fact", "same fact"):
        by_last: dict[str, list[dict[str, str]]] = {}
        for row in rows:
            if row["relation"] == relation:
                by_last.setdefault(row["last"], []).append(row)
        assert list(by_last) == ["", *sorted(ORDER)]
        for last, following in by_last.items():
            assert abs(sum(float(row["probability"]) for row in following) - 1) < 1e-3
            assert last not in [row["next"] for row in following]
        assert [by_last[last][0]["next"] for last in ("", *ORDER[:-1])] == list(ORDER)


def test_each_predicate_has_at_most_five_rows() -> None:
    assert len(transitions_table(bundle_of(tuple(f"p{n}" for n in range(70)))).splitlines()) == 1 + 2 * 71 * 5
    assert len(transitions_table(bundle_of(("only",))).splitlines()) == 1 + 2 * 2
