"""`agggen models`: versions of trained models, their evaluations and their aliases."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from agggen_platform.cli import console
from agggen_platform.cli.records import is_remote

if TYPE_CHECKING:
    from agggen_platform.registry.registration import Promotion

app = typer.Typer(name="models", no_args_is_help=True, help="Register versions of models and promote one to champion.")

_REGISTRY_HELP = "MLflow [default: MLFLOW_REGISTRY_URI, MLFLOW_TRACKING_URI or runs/mlflow.db]"
RegistryUri = Annotated[str | None, Option("--registry", metavar="URI", help=_REGISTRY_HELP)]
Model = Annotated[str, Argument(metavar="MODEL", help="A version: NAME/VERSION or NAME@ALIAS.")]
Alias = Annotated[str, Option(help="The alias to move.")]


@app.command("list")
def list_models(
    name: Annotated[str | None, Argument(metavar="[NAME]", help="Only versions of this model.")] = None,
    registry: RegistryUri = None,
) -> None:
    """Show all versions, with their aliases and bundle addresses."""
    from agggen_platform.registry import Registry
    from agggen_platform.registry.store import RUN

    model_registry = Registry(registry)
    rows = []
    for model in [name] if name else model_registry.names():
        for version in model_registry.versions(model):
            aliases, digest = " ".join(version.aliases) or "-", version.fingerprint[:12] or "-"
            registered = _utc_minute(version.registered)
            rows.append((str(version), aliases, digest, version.tags.get(RUN, "-"), registered, version.source))
    console.print_table(("version", "aliases", "bundle", "run", "registered", "address"), rows)


@app.command()
def show(model: Model, registry: RegistryUri = None) -> None:
    """Show a version, its scores, and the history of its aliases.

    \b
        agggen models show agggen@champion
    """
    from agggen_platform.registry import Registry, evaluations_of, parse_address
    from agggen_platform.registry.store import EVALUATION, METRIC

    model_registry = Registry(registry)
    version = model_registry.version(parse_address(model))
    rows = [
        ("version", str(version)),
        ("address", version.source),
        ("registered", _utc_minute(version.registered)),
        ("aliases", " ".join(version.aliases) or "-"),
    ]
    rows += [(key, value) for key, value in sorted(version.tags.items()) if not key.startswith((METRIC, EVALUATION))]
    rows += [(name, f"{float(value):.4f}") for name, value in version.tagged(METRIC).items()]
    for evaluation in evaluations_of(version):
        rows += [(f"{name} on {evaluation}", f"{value:.4f}") for name, (value, _) in evaluation.scores.items()]
    for alias in version.aliases:
        for move in model_registry.moves(version.name, alias):
            rows.append((f"{alias}, {move.at or 'moved by another program'}", str(move)))
    console.print_table(("field", "value"), rows)


@app.command()
def register(
    bundle: Annotated[str, Argument(metavar="BUNDLE", help="A trained model or critic: its folder or s3://...")],
    name: Annotated[str, Option(help="The model's name.")] = "agggen",
    to: Annotated[str | None, Option(metavar="ADDRESS", help="First copy BUNDLE to this folder or s3:// path.")] = None,
    registry: RegistryUri = None,
) -> None:
    """Register a bundle as a version of a model.

    The version gets the alias candidate, unless the bundle is registered already.

    \b
        agggen models register runs/elements-0123456789ab/bundle
        agggen models register runs/webnlg-0123456789ab/bundle --to s3://models/agggen
        agggen models register critic --name critic
    """
    from agggen.bundle import fingerprint
    from agggen_platform import registry as models
    from agggen_platform.registry.registration import run_of
    from agggen_platform.registry.store import RUN
    from agggen_platform.storage.bundles import get_bundle, put_bundle
    from agggen_platform.storage.folder import Folder

    if not is_remote(bundle):
        bundle = str(Path(bundle).absolute())
    tags = {RUN: run_of(bundle)}  # from the original's address; the address of a copy lacks the run's name
    if to is not None:
        folder = get_bundle(bundle)
        bundle = put_bundle(folder, Folder(to).at(f"{fingerprint(folder)[:16]}/bundle"))
    version = models.register(bundle, name, tags=tags, uri=registry)
    message = f"{version} is {bundle}"
    if not version.new:
        message = f"{bundle} is already version {version.number} of {name}; the alias candidate did not move"
    console.note(f"{message}; promote it with: agggen models promote {version}")
    console.echo(f"models:/{version}")


@app.command()
def record(
    model: Model,
    report: Annotated[str, Argument(metavar="REPORT", help="A report of `evaluate`: a folder, s3:// or runs:/RUN_ID.")],
    registry: RegistryUri = None,
) -> None:
    """Record an evaluation of a version.

    `agggen models promote` compares recorded scores.

    \b
        agggen evaluate models:/agggen@candidate --corpus webnlg --split dev -o report
        agggen models record agggen@candidate report
        agggen models record agggen@candidate s3://models/reports/candidate
    """
    from agggen_platform import registry as models

    evaluation = models.record(model, report, uri=registry)
    console.echo(f"{len(evaluation.scores)} scores on {evaluation}")


@app.command()
def promote(
    model: Model,
    alias: Alias = "champion",
    metric: Annotated[str, Option(help="The metric to compare, on all common evaluations.")] = "plain/bleu",
    tolerance: Annotated[float, Option(help="Points by which the version may be worse.")] = 0.0,
    force: Annotated[bool, Option(help="Ignore the comparison, but not the other checks.")] = False,
    registry: RegistryUri = None,
) -> None:
    """Check a version and give it an alias.

    The bundle must be unchanged, must not be worse than the version that has the alias, on the same evaluations, and
    must generate texts with valid plans. An error lists all failed checks.

    \b
        agggen models promote agggen@candidate
        agggen models promote agggen/3 --metric plain/chrf --tolerance 0.5
    """
    from agggen_platform import registry as models

    gate = models.Gate(metric, tolerance)
    version = models.Registry(registry).version(models.parse_address(model))
    promotion = models.promote(version.name, version.number, alias, gate=gate, force=force, uri=registry)
    console.note(f"{'METRIC GATE OVERRULED: ' if promotion.forced else ''}{promotion.note}")
    _print_move(promotion, alias)


@app.command()
def rollback(
    name: Annotated[str, Argument(metavar="NAME", help="The model's name.")],
    alias: Alias = "champion",
    registry: RegistryUri = None,
) -> None:
    """Give an alias back to the version that had it before.

    A second call goes back one version further.
    """
    from agggen_platform import registry as models

    _print_move(models.rollback(name, alias, uri=registry), alias)


def _print_move(promotion: Promotion, alias: str) -> None:
    before = f" (before: {promotion.previous.number})" if promotion.previous else ""
    console.echo(f"models:/{promotion.version.name}@{alias} is version {promotion.version.number}{before}")


def _utc_minute(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(seconds))
