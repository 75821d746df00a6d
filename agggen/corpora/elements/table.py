"""The 118 chemical elements and their facts, read from the table shipped beside this file.

`facts.tsv` has one line an element and one column a predicate. A cell is empty where the element has no such fact
(group of the f-block), where nobody is known to have discovered it (gold, iron), or where good sources disagree
(the discovery of nobelium, the melting point of carbon). The table was written from general knowledge, not copied from
a database; what is written there is meant to be true.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

from agggen.errors import CorpusError

PREDICATES = (
    "symbol",
    "atomicNumber",
    "category",
    "period",
    "group",
    "block",
    "stateAtRoomTemperature",
    "standardAtomicWeight",
    "meltingPoint",
    "color",
    "discoveredBy",
    "discoveryYear",
    "discoveryPlace",
    "namedAfter",
)
"""The predicates of the table, in the order of its columns. Melting points are in kelvin, weights without a unit."""


@dataclass(frozen=True, slots=True)
class Element:
    """One chemical element: its English name with a capital, and the object of each predicate that it has."""

    name: str
    facts: Mapping[str, str]

    @property
    def symbol(self) -> str:
        return self.facts["symbol"]


@cache
def elements() -> tuple[Element, ...]:
    """All elements in the order of their atomic numbers.

    Raises:
        CorpusError: the table shipped with the package is damaged; names its line.
    """
    table = resources.files(__package__).joinpath("facts.tsv").read_text(encoding="utf-8")
    return parse_table(table)


def parse_table(table: str) -> tuple[Element, ...]:
    """Reads the tab-separated table: a header ``name symbol ...``, then one element a line.

    Raises:
        CorpusError: names the line and what is wrong with it.
    """
    lines = table.splitlines()
    header = ("name", *PREDICATES)
    if not lines or tuple(lines[0].split("\t")) != header:
        raise CorpusError(f"facts.tsv line 1: the columns must be {', '.join(header)}, separated by tabs")
    found: list[Element] = []
    for number, line in enumerate(lines[1:], start=2):
        cells = line.split("\t")
        if len(cells) != len(header):
            raise CorpusError(f"facts.tsv line {number}: {len(cells)} cells where the header names {len(header)}")
        name, *objects = cells
        facts = {predicate: value for predicate, value in zip(PREDICATES, objects, strict=True) if value}
        if not name or "symbol" not in facts:
            raise CorpusError(f"facts.tsv line {number}: an element needs a name and a symbol")
        found.append(Element(name, facts))
    return tuple(found)
