"""Display of results, and their tables."""

import re
from dataclasses import dataclass, field
from typing import Any

import pytest

from agggen.display import Results, group_labels, html


@dataclass
class Result:
    id: str
    more: dict[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        return {"id": self.id, **self.more}


def test_tables_have_the_columns_of_all_results() -> None:
    results = Results([Result("1"), Result("2", {"faults": ["x"]})])
    assert results.to_arrow().to_pydict() == {"id": ["1", "2"], "faults": [None, ["x"]]}
    pytest.importorskip("pandas")
    assert list(results.to_frame().columns) == ["id", "faults"]
    assert Results[Result]([]).to_arrow().num_rows == 0


def test_groups_are_in_the_notation_of_plans() -> None:
    assert group_labels([("customer rating", "near"), ()]) == ['["customer rating" near]', "[]"]


def test_a_page_has_the_spaces_of_the_text() -> None:
    page = html("", [("[near]", "Ulm"), ("[area]", ", a city in "), ("[country]", "Oz.")], [])
    assert re.sub("<[^>]+>", "", page.split("<p>")[1].split("</p>")[0]) == "Ulm, a city in Oz."
