"""`agggen bulk`: texts for records by the million, on this machine or a Ray cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agggen_platform.cli import console
from agggen_platform.cli.records import BundleAddress, name_unknown

if TYPE_CHECKING:
    from agggen_platform.bulk.job import Progress


def bulk(
    bundle: BundleAddress,
    source: Annotated[
        str, typer.Argument(metavar="INPUT", help="Records: .parquet, .jsonl or .csv, or a folder of such; or s3://")
    ],
    out: Annotated[str, typer.Option("--out", "-o", metavar="DIR", help="Where the texts go; or s3://")],
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Settings, say n_best=3 inference.plans=10")
    ] = None,
    actors: Annotated[int | None, typer.Option(help="Workers; 0 does without Ray. [default: one a CPU]")] = None,
    fresh: Annotated[bool, typer.Option(help="Throw away what a bulk generation left in the output folder.")] = False,
    preset: Annotated[str | None, typer.Option(metavar="FILE", help="Settings from a YAML file.")] = None,
    print_config: Annotated[bool, typer.Option(help="Print the resolved configuration and stop.")] = False,
    runs: Annotated[Path, typer.Option("--runs", metavar="DIR", help="Where the run log lives.")] = Path("runs"),
) -> None:
    """Write texts for many records, each exactly once.

    The same command continues a job that was cut off and finds a finished one. Records that get no text go to
    DIR/rejects.jsonl. A record may carry its own plan, in a column or key `plan`.

    \b
        agggen bulk BUNDLE records.jsonl --out texts
        agggen bulk models:/agggen@champion s3://corpora/in --out s3://corpora/texts format=jsonl n_best=3
    """
    import json

    from agggen.config import config_hash, resolved
    from agggen_platform.bulk.job import generate
    from agggen_platform.bulk.model import bulk_config, open_model
    from agggen_platform.cli.shards import shard_progress
    from agggen_platform.tracking import Tracker

    settings = [*(overrides or ()), *([f"actors={actors}"] if actors is not None else [])]
    model = open_model(bundle)
    config = bulk_config(model, settings, preset and Path(preset))
    if print_config:
        console.say(json.dumps(resolved(config), indent=2))
        console.note(config_hash(config))
        return
    log: list[Tracker] = []

    def tracker(name: str) -> Tracker:
        log.append(Tracker(run_name=name, runs_dir=runs))
        return log[0]

    with shard_progress(_speed, _counts) as show:
        report = generate(model, source, out, config, fresh=fresh, tracker=tracker, progress=show)
    found = report.summary
    rows = [
        (found.records, found.texts, f"{found.fulfilled_share:.1%}", f"{found.mean_plan_length:.2f}", found.rejects)
    ]
    console.print_table(("records", "texts", "fulfilled", "facts a text", "rejects"), rows)
    name_unknown(found.unknown_predicates)
    if report.finished_before:
        console.note(f"{out} has the texts of this job already: nothing was done; --fresh does it anew")
        return
    if (done := report.progress) is not None:
        kept = f"; {done.found:,} of {done.total:,} shards were there" if done.found else ""
        again = f"; {report.redone:,} were begun before and done again" if report.redone else ""
        console.note(f"Written in {report.seconds:.0f} s ({_speed(done)} at work{kept}{again})")
    if found.rejects:
        console.note(f"Rejected: {found.rejects:,}, see {out}/rejects.jsonl")
    console.note(f"Compare runs with: {log[0].ui_command()}")
    console.say(out)


def _speed(now: Progress) -> str:
    return f"{now.counts.records / now.seconds:,.1f} records/s"


def _counts(now: Progress) -> str:
    return f"{now.counts.texts:,} texts  {now.counts.rejects} rejects"
