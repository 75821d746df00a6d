"""`agggen check` and `agggen train-critic`: check texts of any system against their records; train the critic."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from agggen.corpora.tables import Columns
from agggen.errors import CorpusError, RecordError
from agggen.evaluation.files import json_objects, read_texts
from agggen.records import Record
from agggen_platform.cli import console, own_data
from agggen_platform.cli.evaluate import check_output
from agggen_platform.cli.options import split_names
from agggen_platform.cli.records import output_lines, valid_records, write_line

if TYPE_CHECKING:
    from agggen.checks import CheckedText
    from agggen.verification.critic.critic import Critic


@own_data.with_column_options(*own_data.RECORD_COLUMNS)
def check(
    records: Annotated[
        Path, Argument(metavar="RECORDS", help="Records with or without texts: .jsonl, .csv, .json or .parquet.")
    ],
    texts: Annotated[
        Path | None,
        Argument(metavar="[TEXTS]", help="One text per line in the records' order, or .jsonl with id and text."),
    ] = None,
    json: Annotated[str | None, Option(metavar="FILE", help="Write all verdicts as JSON lines; -: to stdout.")] = None,
    report: Annotated[Path | None, Option(metavar="FILE", help="Write an HTML page, the riskiest text first.")] = None,
    review: Annotated[Path | None, Option(metavar="FILE", help="Write a CSV of the riskiest texts, to edit.")] = None,
    worst: Annotated[int, Option(min=0, help="Number of the riskiest texts to print and review.")] = 10,
    critic: Annotated[
        str, Option(metavar="ADDRESS", help="A critic that train-critic wrote: a folder, s3:// or models:/.")
    ] = "included",
    meta_evaluate: Annotated[
        bool, Option("--meta-evaluate", help="RECORDS have human ratings: compare scores with them.")
    ] = False,
    columns: own_data.ColumnValues = own_data.NO_COLUMNS,
) -> None:
    """Check any system's texts against their records.

    Finds what a text states, omits, contradicts and invents. The strict check compares values, but not the relations
    between them; a learned critic also detects wrong relations, subjects and negations. Each text gets coverage,
    correctness, fluency and risk (0 to 1). Without TEXTS, RECORDS must contain texts: a "text" beside "triples",
    references, or text columns.

    \b
        agggen check records.jsonl texts.txt
        agggen check outputs.csv --text output --json checks.jsonl --report checks.html
        agggen check outputs.csv --text output --review review.csv --worst 100
        agggen check ratings.jsonl --meta-evaluate
    """
    from agggen.checks import check_all
    from agggen.report.folder import check_review, write_checks_page, write_review
    from agggen_platform.storage.critics import open_critic

    inputs = [records, *([texts] if texts else [])]
    for target in (json, str(report) if report else None):
        check_output(target, inputs)
    if review is not None:
        check_review(review)
    loaded_critic, _ = open_critic(critic)
    if meta_evaluate:
        _meta_evaluate(records, loaded_critic)
        return
    if texts is None:
        input_records, input_texts = _records_with_texts(records, Columns(**columns))
    else:
        input_records = list(valid_records(records, Columns(**columns)))
        input_texts = read_texts(texts, [record.id for record in input_records], records)
    checks = check_all(input_records, input_texts, critic=loaded_critic)
    if json is not None:
        with output_lines(json) as file:
            for entry in checks:
                write_line(file, entry.as_dict())
    if report is not None:
        write_checks_page(report, checks, str(texts or records))
    riskiest = sorted(checks, key=lambda entry: -entry.risk)[:worst]
    if review is not None:
        write_review(review, riskiest)
    if json != "-":
        _print_checks(checks, riskiest)


def _records_with_texts(path: Path, columns: Columns) -> tuple[list[Record], list[str]]:
    """The texts of a file, and the record of each text."""
    records: list[Record] = []
    texts: list[str] = []
    if path.suffix.lower() == ".jsonl" and not columns.names:
        for line, data in json_objects(path):
            if "triples" not in data or "text" not in data:
                break
            try:
                records.append(Record.of({"id": data.get("id", str(line)), "triples": data["triples"]}))
            except RecordError as error:
                raise CorpusError(f"{path}, line {line}: {error}") from error
            if not isinstance(data["text"], str):
                raise CorpusError(f"{path}, line {line}: the text must be a string, not {data['text']!r:.80}")
            texts.append(data["text"])
        else:
            return records, texts
        if records:
            raise CorpusError(f"{path}, line {line}: needs triples and text, as in the lines before")
    for record in valid_records(path, columns):
        if not record.references:
            raise CorpusError(f"{path}, record {record.id!r}: no text to check; give a file of texts, too")
        records += [record] * len(record.references)
        texts += [reference.text for reference in record.references]
    return records, texts


def _print_checks(checks: Sequence[CheckedText], riskiest: Sequence[CheckedText]) -> None:
    """Prints the riskiest texts to stdout, and means over all texts to stderr."""
    from agggen.checks import RISK_THRESHOLD

    rows = []
    for entry in riskiest:
        verdicts = [verdict for verdict in entry.judgement.verdicts if verdict.verdict != "said"]
        not_said = "; ".join(f"{verdict.verdict} {verdict.triple.predicate}" for verdict in verdicts)
        numbers = [f"{number:.2f}" for number in (entry.risk, *entry.scores.values())]
        rows.append((entry.record.id, *numbers, not_said, entry.text))
    if rows:
        console.print_table(["id", "risk", "coverage", "correctness", "fluency", "not said", "text"], rows)
    n_complete = sum(entry.result.whole for entry in checks)
    n_faultless = sum(not entry.faults for entry in checks)
    n_risky = sum(entry.risk > RISK_THRESHOLD for entry in checks)
    means = ", ".join(f"{name} {fmean(entry.scores[name] for entry in checks):.3f}" for name in checks[0].scores)
    console.note(
        f"{len(checks):,} texts; strict check: {n_complete:,} state every value in full, "
        f"{n_faultless:,} have no fault; {means}; {n_risky:,} have a risk over {RISK_THRESHOLD}"
    )


def _meta_evaluate(path: Path, critic: Critic) -> None:
    """Prints correlations of scores with human ratings, and how many texts that pass are rated incorrect."""
    from agggen.checks import RISK_THRESHOLD, check_all
    from agggen.evaluation.ratings import DIMENSIONS, agreement, passed_but_incorrect, read_ratings, reference_scores
    from agggen.verification.lenient import find_mentions

    ratings = read_ratings(path)
    checks = check_all([text.record for text in ratings], [text.text for text in ratings], critic=critic)
    sizes = [len(text.record.triples) for text in ratings]
    scores = {
        "values whole (strict)": [1 - len(entry.missing) / size for entry, size in zip(checks, sizes, strict=True)],
        "values mentioned (lenient)": [
            1 - len(find_mentions(text.record, text.text).missing) / size
            for text, size in zip(ratings, sizes, strict=True)
        ],
        "no fault (strict check)": [float(not entry.faults) for entry in checks],
        "critic: coverage": [entry.judgement.coverage for entry in checks],
        "critic: correctness": [entry.judgement.correctness for entry in checks],
        **{name: [entry.scores[name] for entry in checks] for name in checks[0].scores},
        "1 - risk": [1 - entry.risk for entry in checks],
        **reference_scores(ratings),
    }
    systems = {text.system for text in ratings}
    rows = []
    for name, values in scores.items():
        result = agreement(ratings, values)
        pairs = [(scale, key) for scale in (result.per_text, result.per_system) for key in DIMENSIONS]
        rows.append((name, *(f"{scale[key]:.3f}" if key in scale else "" for scale, key in pairs)))
    columns = ["score", *DIMENSIONS, *(f"{dimension}, systems" for dimension in DIMENSIONS)]
    title = f"Pearson correlation with ratings of {len(ratings):,} texts of {len(systems)} systems"
    console.print_table(columns, rows, title)
    if all("Correctness" in text.ratings for text in ratings):
        for name, passed in (
            ("no fault (strict check)", [not entry.faults for entry in checks]),
            (f"risk of at most {RISK_THRESHOLD}", [entry.risk <= RISK_THRESHOLD for entry in checks]),
        ):
            pass_rate, incorrect_rate = passed_but_incorrect(ratings, passed)
            rates = f"{pass_rate:.1%} of the texts pass; people call {incorrect_rate:.1%} of these incorrect"
            console.note(f"{name}: {rates}")


def train_critic(
    out: Annotated[Path, Option("--out", "-o", metavar="DIR", help="The folder of the critic.")],
    corpora: Annotated[str, Option(metavar="NAME,...", help="Corpora with splits train, dev.")] = "rel2text,elements",
    steps: Annotated[int, Option(min=1, help="Updates, each of 48 texts; 6,000 take half an hour on one core.")] = 6000,
    seed: Annotated[int, Option(min=0, help="Seed of the weights and the synthetic errors.")] = 1,
) -> None:
    """Train the critic of `agggen check`.

    It learns from texts with synthetic errors, on one core, without a GPU; with rel2text, also from texts that
    annotators marked as corrupted. The included critic was trained with the default options.

    \b
        agggen train-critic --out critic
        agggen train-critic --corpora webnlg-3.0,rel2text --out critic
    """
    from agggen.bundle import CRITIC_FILES, write_manifest
    from agggen.corpora.catalogue import data_home, load
    from agggen.corpora.rejects import split_rejects
    from agggen.corpora.rel2text import read_corrupted
    from agggen.verification.critic.examples import WRONG, to_example
    from agggen.verification.critic.training import CriticTraining, examples_of, train_critic

    names = split_names(corpora)
    train, dev = (
        [example for name in names for example in examples_of(split_rejects(load(name, split))[0])]
        for split in ("train", "dev")
    )
    if "rel2text" in names:
        held_out_predicates = {
            triple.predicate
            for split in ("dev", "test")
            for record in split_rejects(load("rel2text", split))[0]
            for triple in record.triples
        }
        for triple, text in read_corrupted(data_home() / "rel2text/rel2text_raw_annotated.tsv", held_out_predicates):
            example = to_example([(triple.subject, triple.predicate, triple.object)], text, WRONG)
            train += [] if example is None else [example]
    console.note(f"Training on {len(train):,} texts")

    def print_loss(step: int, loss: float) -> None:
        if step % 500 == 0 or step == steps:
            console.note(f"step {step:,} of {steps:,}, loss {loss:.3f}")

    config = CriticTraining(steps=steps, seed=seed)
    sources = {"corpora": list(names), "texts": len(train), "steps": steps, "seed": seed}
    critic = train_critic(train, dev, config, sources=sources, progress=print_loss)
    critic.save(out)
    write_manifest(out, CRITIC_FILES)
    rows = [(name, f"{value:.4f}") for name, value in critic.metrics.items()]
    console.print_table(["measure", "dev, with synthetic errors"], rows)
    console.echo(str(out))
