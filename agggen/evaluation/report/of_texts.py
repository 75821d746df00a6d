"""A report on any system's texts, of which neither plans nor facts are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agggen.errors import AggGenError
from agggen.evaluation.report.build import build, rows_of
from agggen.evaluation.report.content import Cell, Report
from agggen.evaluation.report.measures import diversity, faithfulness
from agggen.evaluation.report.texts import Wanted, text_scores
from agggen.records import Record


def report_of_texts(
    title: str,
    identity: Mapping[str, str | int],
    run: Mapping[str, Cell],
    records: Sequence[Record],
    texts: Sequence[str],
    wanted: Wanted | None = None,
    seed: int = 0,
) -> Report:
    """Scores one text a record and takes the scores apart; `write_report` puts the result into a folder.

    Args:
        identity: what makes the evaluation what it is, say hashes of both files; see `check_target`.
        run: what is shown under "The run", in this order.
        wanted: the protocol and its metrics; plain sacreBLEU by default.
        seed: of the samples shown and the intervals.

    Raises:
        AggGenError: not one text a record, no records, a record without references, or a metric that was asked for
            by name cannot be computed.
    """
    if len(records) != len(texts):
        raise AggGenError(f"{len(records)} records but {len(texts)} texts; there must be one text a record")
    scores = text_scores(wanted or Wanted(), records, texts, seed)
    rows = rows_of(records, texts, scores=scores.single)
    sections = [*scores.sections, faithfulness(rows, seed), diversity(texts, (), seed)]
    why = "Nothing is known of the system, so it is not put beside published ones."
    return build(title, identity, run, rows, sections, scores.plain, published=(None, why), seed=seed)
