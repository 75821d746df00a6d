"""Small reports whose texts need escaping in every format."""

from agggen.evaluation import Score
from agggen.evaluation.protocols import measure
from agggen.generation.results import WrittenFact
from agggen.records import Plan, Record
from agggen.report import Measure, Report, Row, Section
from agggen.report.build import breakdowns
from agggen.verification.e2e import SlotError, SlotErrors
from agggen.verification.results import TextCheck, ValueCheck

NASTY = '</style></mark><script>alert("x")</script> & <b>\x07 \ud800 | `a` \u202eright'


def row(number: int, size: int, wrong: int = 0, slots: bool = False, text: str = "One two three.") -> Row:
    """A row with one fact per triple, in which both checks find the first `wrong` values incomplete."""
    triples = [["Mill", f"p{i}", f"value {i}"] for i in range(size)]
    category = "Food" if number % 2 else "City"
    record = Record.of({"id": f"r{number}", "triples": triples, "references": [text], "category": category})
    names = record.predicates
    cuts = [*range(0, len(text) - len(text) % size, len(text) // size), len(text)]
    facts = [WrittenFact(cuts[i], cuts[i + 1], (names[i],), names[i : i + 1] if i < wrong else ()) for i in range(size)]
    values = tuple(ValueCheck(triple, "part" if i < wrong else "literal") for i, triple in enumerate(record.triples))
    missed = tuple(SlotError(name, "x", None, None, None) for name in names[:wrong])
    return Row(
        record,
        text,
        TextCheck(values, invented=("Oslo",) if wrong > 1 else ()),
        Plan(tuple((name,) for name in names)),
        facts,
        {"bleu": 12.5},
        dict.fromkeys(names[:wrong], "no word of it"),
        SlotErrors((), missed, (), size) if slots else None,
    )


def report(rows: list[Row], title: str = "Toy", seed: int = 0, partial: str = "") -> Report:
    references = [[reference.text for reference in row.record.references] for row in rows]
    statistics = measure("plain", [row.text for row in rows], references)
    measures = (
        Measure("bleu", Score(41.25, "nrefs:var|tok:13a"), (40.0, 42.5)),
        Measure("tau", Score(float("nan"), "kendall")),
        Measure("meteor", None, None, "no Java here"),
    )
    identity, run = {"bundle": "ab12", "limit": 0}, {"bundle": title, "records": len(rows)}
    sections = [Section("text", "Texts", measures)]
    tables = {"published": None, **breakdowns(rows, statistics, ([1, 1, 2], "By rules."))}
    return Report(title, identity, run, sections, rows, tables, "None are on file.", partial, seed)
