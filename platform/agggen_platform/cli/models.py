"""`agggen models`: versions of trained models, their evaluations, and the aliases that others use them by."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agggen_platform.cli import console
from agggen_platform.cli.records import is_elsewhere

if TYPE_CHECKING:
    from agggen_platform.registry import Version

app = typer.Typer(no_args_is_help=True, help="Keep versions of trained models, and say which one is in use.")

RegistryUri = Annotated[
    str | None,
    typer.Option(
        "--registry",
        metavar="URI",
        help="MLflow's. [default: MLFLOW_REGISTRY_URI or MLFLOW_TRACKING_URI, else runs/mlflow.db]",
    ),
]
Model = Annotated[str, typer.Argument(metavar="MODEL", help="A version: NAME/VERSION or NAME@ALIAS.")]
Alias = Annotated[str, typer.Option(help="The alias to move.")]


@app.command("list", short_help="Show all versions.")
def list_models(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Only this model's.")] = None,
    registry: RegistryUri = None,
) -> None:
    """Show the registered models with their versions, aliases, and where their bundles lie."""
    from agggen_platform.registry import Registry
    from agggen_platform.registry.store import RUN

    models = Registry(registry)
    rows = [
        (
            str(version),
            " ".join(version.aliases) or "-",
            version.fingerprint[:12] or "-",
            version.tags.get(RUN, "-"),
            _day(version.registered),
            version.source,
        )
        for model in ([name] if name else models.names())
        for version in models.versions(model)
    ]
    console.print_table(("version", "aliases", "bundle", "run", "registered", "address"), rows)


@app.command("show", short_help="Show all about a version.")
def show(model: Model, registry: RegistryUri = None) -> None:
    """Show a version: where its bundle lies, what it was made from, its metrics and evaluations, and its aliases.

    \b
        agggen models show agggen@champion
    """
    from agggen_platform.registry import Registry, evaluations_of, parse_address
    from agggen_platform.registry.store import EVALUATION, METRIC

    models = Registry(registry)
    version = models.version(parse_address(model))
    rows: list[tuple[str, str]] = [
        ("version", str(version)),
        ("address", version.source),
        ("registered", _day(version.registered)),
        ("aliases", " ".join(version.aliases) or "-"),
    ]
    rows += [(key, value) for key, value in sorted(version.tags.items()) if not key.startswith((METRIC, EVALUATION))]
    rows += [(name, f"{float(value):.4f}") for name, value in version.tagged(METRIC).items()]
    for evaluation in evaluations_of(version):
        rows += [(f"{name} on {evaluation}", f"{value:.4f}") for name, (value, _) in evaluation.scores.items()]
    for alias in version.aliases:
        for move in models.moves(version.name, alias):
            rows.append((f"{alias}, {move.at or 'by other means'}", str(move)))
    console.print_table(("what", "value"), rows)


@app.command("register", short_help="Make a bundle a version of a model.")
def register(
    bundle: Annotated[str, typer.Argument(metavar="BUNDLE", help="A trained model: its folder or s3://...")],
    name: Annotated[str, typer.Option(help="The model's name.")] = "agggen",
    to: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Copy it below this folder or s3:// prefix first, by its fingerprint."),
    ] = None,
    evaluation: Annotated[
        list[str] | None,
        typer.Option(
            "--evaluation",
            metavar="REPORT",
            help="A report to keep with it, as `agggen models record` takes it; repeatable.",
        ),
    ] = None,
    registry: RegistryUri = None,
) -> None:
    """Make a bundle a version of a model and its candidate; one that is a version already moves nothing.

    \b
        agggen models register runs/elements-0123456789ab/bundle --evaluation report
        agggen models register runs/webnlg-0123456789ab/bundle --to s3://models/agggen
    """
    from agggen.bundle import fingerprint
    from agggen_platform import registry as models
    from agggen_platform.storage.bundles import get_bundle, put_bundle

    if to is not None:
        folder = get_bundle(bundle)
        bundle = put_bundle(folder, f"{to.rstrip('/')}/{fingerprint(folder)[:16]}/bundle")
    elif not is_elsewhere(bundle):
        bundle = str(Path(bundle).absolute())
    version = models.register(bundle, name, evaluations=evaluation or (), uri=registry)
    message = f"{version} is {bundle}"
    if not version.new:
        message = f"{bundle} is version {version.number} of {name} already, and the candidate stays what it is"
    console.note(f"{message}; make it the one in use with: agggen models promote {version}")
    console.say(f"models:/{version}")


@app.command("record", short_help="Keep an evaluation with a version.")
def record(
    model: Model,
    report: Annotated[
        str,
        typer.Argument(metavar="REPORT", help="Of `agggen evaluate`: a folder, s3://..., or MLflow's runs:/RUN_ID."),
    ],
    registry: RegistryUri = None,
) -> None:
    """Keep the scores of a report with the version that it is about; promotion compares them.

    \b
        agggen evaluate models:/agggen@candidate --corpus webnlg --split dev -o report
        agggen models record agggen@candidate report
        agggen models record agggen@candidate s3://models/reports/candidate
    """
    from agggen_platform import registry as models

    evaluation = models.record(model, report, uri=registry)
    console.say(f"{len(evaluation.scores)} scores on {evaluation}")


@app.command("promote", short_help="Give a version an alias, after checks.")
def promote(
    model: Model,
    alias: Alias = "champion",
    metric: Annotated[str, typer.Option(help="Decides, on each evaluation that both versions have.")] = "plain/bleu",
    tolerance: Annotated[float, typer.Option(help="So many points worse than the present one is accepted.")] = 0.0,
    corpus: Annotated[str | None, typer.Option(help="Compare only on this corpus. [default: all]")] = None,
    split: Annotated[str | None, typer.Option(help="Compare only on this split. [default: all]")] = None,
    force: Annotated[bool, typer.Option(help="Ignore what the comparison says; the other checks stay.")] = False,
    registry: RegistryUri = None,
) -> None:
    """Give a version the alias, champion by default, if it passes all checks.

    Its bundle is where it was registered with right hashes; it is not worse than the present one on the same
    evaluation; it writes texts by valid plans. A version that fails is refused with every reason.

    \b
        agggen models promote agggen@candidate
        agggen models promote agggen/3 --metric plain/chrf --corpus webnlg --split dev --tolerance 0.5
    """
    from agggen_platform import registry as models

    gate = models.Gate(metric, tolerance, corpus, split)
    version = models.version_of(model, uri=registry)
    done = models.promote(version.name, version.number, alias, gate=gate, force=force, uri=registry)
    console.note(f"{'FORCED past the metric gate: ' if done.forced else ''}{done.note}")
    console.say(f"models:/{version.name}@{alias} is version {version.number}{_before(done.before)}")


@app.command("rollback", short_help="Give an alias back to the version before.")
def rollback(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The model's name.")],
    alias: Alias = "champion",
    registry: RegistryUri = None,
) -> None:
    """Give an alias back to the version that had it before; once more, to the one before that."""
    from agggen_platform import registry as models

    done = models.rollback(name, alias, uri=registry)
    console.say(f"models:/{name}@{alias} is version {done.version.number}{_before(done.before)}")


def _before(version: Version | None) -> str:
    return "" if version is None else f" (before: {version.number})"


def _day(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(seconds))
