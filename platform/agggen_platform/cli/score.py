"""`agggen score`, `score-plans` and `score-alignments`: files of a system, ours or another, against gold ones."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agggen_platform.cli import console
from agggen_platform.cli.records import output_lines, write_line

if TYPE_CHECKING:
    from agggen.evaluation import Score

Gold = Annotated[Path, typer.Option(metavar="FILE", help="The gold, as JSON lines.")]
Json = Annotated[
    str | None, typer.Option("--json", metavar="FILE", help="Also write the scores as JSON, with full precision.")
]


def score_plans(
    gold: Gold,
    plans: Annotated[Path, typer.Option(metavar="FILE", help="The system's plans as JSON lines, one an id.")],
    json: Json = None,
) -> None:
    """Score plans against human plans: who shares a fact, in which order, how many groups.

    Lines are {"id": "7", "plan": "[leader capital] [currency]"}; the gold may have several of one id, which are then
    also compared with each other (human_...). [] is a fact that says no triple.

    \b
        agggen score-plans --gold gold.jsonl --plans plans.jsonl
    """
    from agggen.evaluation.plan_files import read_plans
    from agggen.evaluation.plans import plan_scores

    check_json(json, [gold, plans])
    read = read_plans(gold, plans)
    if alone := sum(len(names) == 1 for names in read.predicates):
        console.note(f"{alone:,} inputs have a single predicate; there all plans agree")
    report(plan_scores(read.plans, read.references, read.predicates), json)


def score_alignments(
    gold: Gold,
    predicted: Annotated[Path, typer.Option(metavar="FILE", help="The alignments to score, as JSON lines.")],
    json: Json = None,
) -> None:
    """Score alignments of triples to facts against human ones, in percent.

    Lines are {"id": "7", "plan": "[leader capital] [currency]", "facts": ["Rome, led by Ann, and", "it has euros."]},
    one group a fact. "recall" is the paper's: triples that were given any fact at all; "accuracy" counts right ones.

    \b
        agggen score-alignments --gold gold.jsonl --predicted aligned.jsonl
    """
    from agggen.evaluation.alignments import alignment_scores
    from agggen.evaluation.plan_files import read_alignments

    check_json(json, [gold, predicted])
    read = read_alignments(gold, predicted)
    if read.rephrased:
        first = f"first: id {read.rephrased[0]!r}"
        console.note(f"The facts of {len(read.rephrased):,} texts read otherwise than the gold's ({first})")
    if read.repeated:
        first = f"first: id {read.repeated[0]!r}"
        console.note(f"In {len(read.repeated):,} texts two facts say one predicate; the last counts ({first})")
    report(alignment_scores(read.predicted, read.gold).percentages(), json)


def check_json(path: str | None, inputs: Sequence[Path]) -> None:
    """Refuses a file for the scores that could not be written, before anything is scored.

    Raises:
        ConfigError: its folder does not exist or may not be written to, it is a folder, or it is one of the inputs.
    """
    from agggen.errors import ConfigError

    if path is None or path == "-":
        return
    target = Path(path)
    if not target.parent.is_dir():
        raise ConfigError(f"cannot write {path}: there is no folder {target.parent}; make it first")
    if target.is_dir():
        raise ConfigError(f"cannot write {path}: it is a folder; name a file in it")
    if any(target.resolve() == source.resolve() for source in inputs):
        raise ConfigError(f"--json {path} is one of the inputs, which would be lost; name another file")
    if not os.access(target if target.exists() and not target.is_file() else target.resolve().parent, os.W_OK):
        raise ConfigError(f"cannot write {path}: no permission to write there")


def report(scores: Mapping[str, Score], json: str | None) -> None:
    """A table of the scores with their signatures; JSON to the file `json`, or for "-" in place of the table.

    A score that no input allows (NaN) is null in JSON.
    """
    if json is not None:
        written = {
            name: {"score": None if math.isnan(score.value) else score.value, "signature": score.signature}
            for name, score in scores.items()
        }
        with output_lines(json) as file:
            write_line(file, written)
    if json != "-":
        rows = [
            (name, "undefined" if math.isnan(score.value) else f"{score.value:.4f}", score.signature)
            for name, score in scores.items()
        ]
        console.print_table(("score", "value", "signature"), rows)
