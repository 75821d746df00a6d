"""`agggen demo`: trains a model on the shipped corpus, evaluates it, and generates texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING, Annotated

from typer import Option

from agggen.records import Plan, Record
from agggen_platform.cli import console
from agggen_platform.cli.options import Overrides, Runs

if TYPE_CHECKING:
    from agggen.bundle import Bundle

_EPOCHS = ("training.baseline.epochs=6", "training.joint.epochs=5")  # fewer than the preset, for a training in minutes
_N_SAMPLES = 3  # each with the texts of three plans


def demo(
    runs: Runs = Path("runs"),
    overrides: Overrides = None,
    fresh: Annotated[bool, Option(help="Train again, even if an earlier demo has trained the model.")] = False,
) -> None:
    """Train, evaluate and generate on shipped data, in minutes.

    Trains the plain Transformer and the joint model on texts about chemical elements, evaluates on twelve elements that
    training never saw, shows plans and texts, and logs everything to a local MLflow.
    """
    from agggen.api import Model, evaluate
    from agggen.config import load_config
    from agggen.datasets import Dataset, load_dataset
    from agggen.training.progress import ProgressLines
    from agggen_platform.extras import is_installed
    from agggen_platform.job_config import JobConfig
    from agggen_platform.tracking import Tracker
    from agggen_platform.training.job import data_of, default_name, train_job

    console.note(
        "Takes 4 to 8 minutes on two cores; if an earlier demo has trained the model, it only generates and evaluates."
    )
    config = load_config(JobConfig, "elements", [*_EPOCHS, *(overrides or ())])
    data = data_of(config)
    name = default_name("elements", config, data)
    test = load_dataset(config.corpus.name, splits=(config.corpus.test,)).split(config.corpus.test)
    progress = ProgressLines(console.note)
    run = train_job(config, name, runs_dir=runs, fresh=fresh, show=progress, report=console.note, data=data)
    training = f"trained in {run.seconds / 60:.1f} minutes" if run.trained else "trained by an earlier demo"
    console.note(f"{training}; generating for {len(test)} unseen elements")
    with Tracker(config.tracking.uri, config.tracking.experiment, name, runs_dir=runs) as tracker:
        report = evaluate(Model(run.bundle, run.path), Dataset(config.corpus.name, {"test": test}))
        tracker.log_metrics({f"test/{name}": value for name, value in report.measures().items()})
        console.echo(repr(report))
        samples = _samples(run.bundle, test)
        tracker.log_text(samples, "samples.txt")
        console.echo(samples)
    fulfilled = round(len(test) * report.measures()["faithfulness/fulfilled"])
    console.echo(f"{fulfilled} of {len(test)} texts state every value in full, without a fault in the strict check.")
    facts = '[["Xium", "symbol", "Xi"], ["Xium", "period", "6"], ["Xium", "block", "d-block"]]'
    console.echo(f"The model: {run.path}. Three things to try:")
    console.echo("  # Your own facts and plan: change values, move brackets")
    console.echo(f"""  echo '{{"triples": {facts}}}' | agggen generate {run.path} --plan '[block] [symbol period]'""")
    console.echo("  # A report with every text and score: open report/report.html")
    console.echo(f"  agggen evaluate {run.path} --corpus elements --split test --out report")
    requirement = "" if is_installed("mlflow") else "; needs pip install 'agggen[ray]'"
    console.echo(f"  # Training curves in MLflow{requirement}")
    console.echo(f"  agggen runs ui --runs {runs}")


def _samples(bundle: Bundle, records: Sequence[Record]) -> str:
    generator = bundle.generator()
    sample_records = [record for record in records if len(record.triples) == 4][:_N_SAMPLES]
    human_plans = [Plan((names[:1], names[1:3], names[3:])) for names in (r.predicates for r in sample_records)]
    texts_by_title = {
        "the learned plan": generator.generate(sample_records),
        "a human plan": generator.generate(sample_records, human_plans),
        "no aggregation": generator.generate(sample_records, config=replace(bundle.inference, level=1)),
    }
    lines: list[str] = []
    for number, record in enumerate(sample_records):
        lines += ["", f"Record {record.id}", *(f"    {triple}" for triple in record.triples)]
        for title, generations in texts_by_title.items():
            lines.append(indent(f"{title}: {generations[number][0]}", "  "))
    return "\n".join([*lines, ""])
