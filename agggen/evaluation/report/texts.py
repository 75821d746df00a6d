"""The text metrics of a report: by the corpus's own protocol and, always, by plain sacreBLEU.

A metric that this machine cannot compute (METEOR without Java) does not stop the others: the report says why it is
missing. One that was asked for by name is an error instead.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agggen.errors import AggGenError, ConfigError
from agggen.evaluation.java import package_version
from agggen.evaluation.protocols import PROTOCOLS, measure
from agggen.evaluation.report.content import Measure, Section
from agggen.evaluation.segments import SegmentStatistics
from agggen.evaluation.significance import confidence_interval
from agggen.records import Record

PLAIN = "plain"
_WITH_JAVA = frozenset({"meteor", "rouge_l", "cider"})
_TITLES = {
    "plain": "Texts against references: sacreBLEU",
    "e2e": "Texts against references: as the E2E challenge scored",
    "webnlg-2017": "Texts against references: as the WebNLG challenge and the AggGen paper scored",
}


@dataclass(frozen=True)
class Wanted:
    """Which text metrics to compute."""

    protocol: str = PLAIN
    metrics: tuple[str, ...] | None = None
    """Of the protocol; None: all that can be computed here."""
    meteor: bool = True

    def __post_init__(self) -> None:
        """Refuses what does not exist or cannot be computed here, before any text is written.

        Raises:
            ConfigError: no such protocol or metric, or one that was asked for needs Java and there is none.
        """
        if self.protocol not in PROTOCOLS:
            raise ConfigError(f"there is no protocol {self.protocol!r}; there are {', '.join(PROTOCOLS)}")
        known = PROTOCOLS[self.protocol]
        if self.metrics is not None and not self.metrics:
            raise ConfigError(f"no metric is named; protocol {self.protocol} has {', '.join(known)}")
        for name in self.metrics or ():
            if name not in known:
                raise ConfigError(f"protocol {self.protocol} has no metric {name!r}; it has {', '.join(known)}")
            if name == "meteor" and not self.meteor:
                raise ConfigError("--metrics meteor and --no-meteor exclude each other")
            if name in _WITH_JAVA:
                package_version()
                if shutil.which("java") is None:
                    raise ConfigError(f"{name} needs a Java runtime, and no `java` is on the PATH")


def protocol_of(corpus: str) -> str:
    """The protocol by which a corpus's published scores were computed; ``plain`` for a corpus without any."""
    return "webnlg-2017" if corpus.startswith("webnlg") else "e2e" if corpus.startswith("e2e") else PLAIN


@dataclass(frozen=True)
class TextScores:
    """What the text metrics found."""

    sections: list[Section]
    plain: Mapping[str, SegmentStatistics]
    """What plain sacreBLEU counted in each text, for scores of parts of the corpus."""
    single: dict[str, list[float]]
    """The scores of each text, by ``protocol/metric``."""


def text_scores(wanted: Wanted, records: Sequence[Record], texts: Sequence[str], seed: int = 0) -> TextScores:
    """Scores one text a record; all records must have references.

    Raises:
        AggGenError: a metric that was asked for by name cannot be computed, or a record has no reference.
    """
    references = [[reference.text for reference in record.references] for record in records]
    plain = measure(PLAIN, texts, references)
    found = TextScores([], plain, {})
    if wanted.protocol != PLAIN or wanted.metrics is not None:
        statistics, missing = _measured(wanted, texts, references)
        _add(found, wanted.protocol, statistics, missing, seed)
    if wanted.protocol != PLAIN or wanted.metrics is None:
        _add(found, PLAIN, plain, {}, seed)
    return found


def _measured(
    wanted: Wanted, texts: Sequence[str], references: Sequence[Sequence[str]]
) -> tuple[dict[str, SegmentStatistics], dict[str, str]]:
    """The statistics of each metric, and why the others were not computed."""
    if wanted.metrics is not None:
        return measure(wanted.protocol, texts, references, wanted.metrics), {}
    names = PROTOCOLS[wanted.protocol]
    missing = {} if wanted.meteor or "meteor" not in names else {"meteor": "--no-meteor was given"}
    names = tuple(name for name in names if name not in missing)
    try:
        return measure(wanted.protocol, texts, references, names), missing
    except AggGenError:
        pass  # which one it was comes out below
    statistics: dict[str, SegmentStatistics] = {}
    for name in names:
        try:
            statistics |= measure(wanted.protocol, texts, references, [name])
        except AggGenError as error:
            missing[name] = str(error)
    return statistics, missing


def _add(
    found: TextScores,
    protocol: str,
    statistics: Mapping[str, SegmentStatistics],
    missing: Mapping[str, str],
    seed: int,
) -> None:
    measures = []
    for name in (name for name in PROTOCOLS[protocol] if name in statistics or name in missing):
        if name in missing:
            measures.append(Measure(name, None, None, missing[name]))
            continue
        counted = statistics[name]
        interval = None
        if len(counted.rows) > 1:
            sure = confidence_interval(counted, seed=seed)
            interval = (sure.low, sure.high)
        measures.append(Measure(name, counted.corpus(), interval))
        if counted.single is not None:
            found.single[f"{protocol}/{name}"] = [float(value) for value in counted.single.values]
    percent = "In percent." if protocol != "e2e" else "In percent; NIST and CIDEr as the tools print them."
    note = percent + (" TER: lower is better." if "ter" in PROTOCOLS[protocol] else "")
    found.sections.append(Section(protocol, _TITLES.get(protocol, protocol), tuple(measures), note))
