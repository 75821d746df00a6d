"""`agggen bulk`: writes texts for millions of records, on this machine or a Ray cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from agggen_platform.cli import console
from agggen_platform.cli.options import Fresh, Overrides, PrintConfig, Runs
from agggen_platform.cli.records import BundleAddress, note_unknown_predicates
from agggen_platform.cli.shards import Actors, RunLogFactory, records_per_second, reused_message, shard_progress

if TYPE_CHECKING:
    from agggen_platform.bulk.job import Progress


def bulk(
    bundle: BundleAddress,
    source: Annotated[
        str, Argument(metavar="INPUT", help="Records: a .parquet, .jsonl or .csv file, a folder of them, or s3://")
    ],
    out: Annotated[str, Option("--out", "-o", metavar="DIR", help="The output folder; or s3://")],
    overrides: Overrides = None,
    actors: Actors = None,
    fresh: Fresh = False,
    print_config: PrintConfig = False,
    single_file: Annotated[bool, Option("--single-file", help="Also write all texts to DIR/texts.parquet.")] = False,
    endpoint: Annotated[str | None, Option(metavar="URL", help="Generate with this endpoint of BUNDLE.")] = None,
    review: Annotated[
        Path | None, Option(metavar="FILE", help="Riskiest texts, as CSV; needs critic=included.")
    ] = None,
    worst: Annotated[int, Option(min=1, help="Number of texts in the review.")] = 100,
    runs: Runs = Path("runs"),
) -> None:
    """Write texts for millions of records.

    Each text is written exactly once, to the files of DIR/texts, in the order of their names; DIR/manifest.json is
    written last and marks them complete. The same command resumes an interrupted job. Records without a text go to
    DIR/rejects. A record may have its own plan, in a column or key `plan`.

    \b
        agggen bulk BUNDLE records.jsonl --out texts
        agggen bulk BUNDLE records.jsonl --out texts --endpoint http://127.0.0.1:8000
        agggen bulk BUNDLE records.jsonl --out texts critic=included --review review.csv
        agggen bulk models:/agggen@champion s3://corpora/in --out s3://corpora/texts format=jsonl n_best=3
    """
    import json
    from functools import partial

    from agggen.checks import RISK_THRESHOLD
    from agggen.config import config_hash, resolved
    from agggen.report.review import check_review, write_review
    from agggen_platform.bulk.job import generate
    from agggen_platform.bulk.model import bulk_config, open_model
    from agggen_platform.extras import require

    settings = [*(overrides or ()), *([f"actors={actors}"] if actors is not None else [])]
    model = open_model(bundle)
    config = bulk_config(model, settings)
    if print_config:
        console.echo(json.dumps(resolved(config), indent=2))
        console.note(config_hash(config))
        return
    if endpoint or config.actors != 0:
        require("httpx" if endpoint else "ray")
    run_log = RunLogFactory(runs)
    if review:
        check_review(review)
    job = partial(generate, model, source, out, config, fresh=fresh, single_file=single_file, endpoint=endpoint)
    with shard_progress(records_per_second, _counts) as print_progress:
        report = job(tracker=run_log, progress=print_progress, review=worst if review else 0)
    counts = report.summary
    fulfilled, facts_per_text = counts.means().values()
    row = (counts.records, counts.texts, f"{fulfilled:.1%}", f"{facts_per_text:.2f}", counts.rejects)
    console.print_table(("records", "texts", "fulfilled", "facts per text", "rejects"), [row])
    note_unknown_predicates(counts.unknown_predicates)
    if counts.scored:
        console.note(f"{counts.risky:,} of {counts.scored:,} records have a risk over {RISK_THRESHOLD}")
    if review:
        write_review(review, report.review)
        console.note(f"Correct the texts in {review}, then: agggen adapt {bundle} {review}")
    if report.was_already_finished:
        console.note(f"{out} already has the texts of this job; --fresh writes them again")
        return
    if (progress := report.progress) is not None:
        retries = f"; {report.retries:,} shards were retried" if report.retries else ""
        details = f"{records_per_second(progress)} after start-up{reused_message(progress)}{retries}"
        console.note(f"Written in {report.seconds:.0f} s ({details})")
    run_log.finish(out, counts.rejects)


def _counts(progress: Progress) -> str:
    return f"{progress.counts.texts:,} texts  {progress.counts.rejects} rejects"
