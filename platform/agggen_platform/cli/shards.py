"""`agggen segment` and `agggen bulk`: jobs that process shards, on this machine or a Ray cluster."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from agggen_platform.cli import console
from agggen_platform.cli.options import FactSource, Fresh, Overrides, PrintConfig, Runs, warn_if_temporary
from agggen_platform.cli.records import BundleAddress, note_unknown_predicates
from agggen_platform.extras import require

if TYPE_CHECKING:
    from agggen_platform.sharded.driver import Progress
    from agggen_platform.tracking import Tracker

FormatProgress = Callable[["Progress[Any]"], str]

Actors = Annotated[int | None, Option(help="Maximum number of workers; 0: without Ray. [default: one per CPU]")]


def _run_log(name: str, runs: Path) -> Tracker:
    """The run log of a job, which the job creates only if there are unfinished shards."""
    from agggen_platform.tracking import Tracker

    return Tracker(run_name=name, runs_dir=runs)


def _finish(out: str, rejects: int, runs: Path) -> None:
    if rejects:
        console.note(f"Rejected: {rejects:,}, see {out}/rejects")
    if command := _run_log("run", runs).ui_command():
        console.note(f"Compare runs: {command}")
    console.echo(out)


def _reused_message(progress: Progress[Any]) -> str:
    """The end of a message: how many shards an earlier run finished; empty if none."""
    return f"; {progress.reused:,} of {progress.total:,} shards were already done" if progress.reused else ""


@contextmanager
def shard_progress(speed: FormatProgress, counts: FormatProgress) -> Iterator[Callable[[Progress[Any]], None]]:
    """Yields a callback that prints a job's progress every few seconds; redirects Ray's output to stderr."""
    last_line_time = time.monotonic()

    def print_progress(progress: Progress[Any]) -> None:
        nonlocal last_line_time
        if time.monotonic() - last_line_time >= console.SECONDS_BETWEEN_LINES:
            last_line_time = time.monotonic()
            finished, total = progress.shards, progress.total
            shards = f"{finished / total:.0%}  {finished:,} of {total:,} shards"
            parts = [shards, counts(progress), speed(progress)]
            if n_new := finished - progress.reused:
                parts.append(f"{timedelta(seconds=round((total - finished) * progress.seconds / n_new))} left")
            console.note("  ".join(parts))

    with redirect_stdout(sys.stderr):
        yield print_progress


def records_per_second(progress: Progress[Any]) -> str:
    return f"{progress.counts.records / progress.seconds:,.1f} records/s"


def segment(
    source: Annotated[str, Argument(metavar="CORPUS", help="A prepared corpus: its folder, a file of it, or s3://")],
    out: Annotated[str, Option("--out", "-o", metavar="DIR", help="The output folder, or s3://")],
    overrides: Overrides = None,
    facts: FactSource = None,
    split: Annotated[list[str] | None, Option(help="Only this split; can be repeated. [default: all]")] = None,
    actors: Actors = None,
    fresh: Fresh = False,
    runs: Runs = Path("runs"),
) -> None:
    """Segment the texts of a corpus into facts.

    Each fact is aligned with the triples that it states. The result is a corpus for training (facts.source=corpus): the
    files of DIR/SPLIT, in the order of their names, and DIR/manifest.json, written last. The same command resumes an
    interrupted job. Texts that cannot be segmented go to DIR/rejects.

    \b
        agggen prepare e2e --out prepared/e2e
        agggen segment prepared/e2e --out segmented/e2e
        agggen train e2e corpus.name=segmented/e2e facts.source=corpus
        agggen segment prepared/e2e --out allennlp/e2e --facts allennlp facts.allennlp.archive=srl.tar.gz
    """
    from agggen.config import load_config
    from agggen_platform.segmentation.config import SegmentConfig
    from agggen_platform.segmentation.job import segment as run_job

    settings = list(overrides or ())
    settings += [f"facts.source={json.dumps(facts)}"] if facts else []
    settings += [f"actors={actors}"] if actors is not None else []
    config = load_config(SegmentConfig, None, settings)
    if config.actors != 0:
        require("ray")
    warn_if_temporary(runs, "--runs")
    job = partial(run_job, source, out, config, splits=split or (), fresh=fresh, tracker=partial(_run_log, runs=runs))
    with shard_progress(_texts_per_second, _fact_counts) as print_progress:
        report = job(progress=print_progress)
    rows = [(name, n.records, n.references, n.facts, n.rejects) for name, n in report.splits.items()]
    console.print_table(("split", "records", "texts", "facts", "rejects"), rows)
    if (progress := report.progress) is None:
        console.note(f"{out} already has the facts of this job; --fresh segments again")
        return
    counts = progress.counts
    cached = f", {counts.cached:,} texts from the cache" if counts.cached else ""
    details = f"{_texts_per_second(progress)} after start-up{cached}{_reused_message(progress)}"
    console.note(f"Segmented in {report.seconds:.0f} s ({details})")
    if counts.cache_errors:
        problem = f"The cache in {config.cache_folder} could not be used (see the workers' logs)"
        console.note(f"{problem}; texts were segmented without it")
    _finish(out, sum(counts.rejects for counts in report.splits.values()), runs)


def _texts_per_second(progress: Progress[Any]) -> str:
    return f"{progress.counts.references / progress.seconds:,.0f} texts/s"


def _fact_counts(progress: Progress[Any]) -> str:
    return f"{progress.counts.facts:,} facts  {progress.counts.rejects} rejects"


def bulk(
    bundle: BundleAddress,
    source: Annotated[str, Argument(metavar="INPUT", help="Records: .parquet, .jsonl, .csv, a folder of them, s3://")],
    out: Annotated[str, Option("--out", "-o", metavar="DIR", help="The output folder; or s3://")],
    overrides: Overrides = None,
    actors: Actors = None,
    fresh: Fresh = False,
    print_config: PrintConfig = False,
    single_file: Annotated[bool, Option("--single-file", help="Also write all texts to DIR/texts.parquet.")] = False,
    endpoint: Annotated[str | None, Option(metavar="URL", help="Generate with this endpoint of BUNDLE.")] = None,
    review: Annotated[Path | None, Option(metavar="FILE", help="Riskiest texts as CSV; needs critic=included.")] = None,
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
    from agggen.checks import RISK_THRESHOLD
    from agggen.config import config_hash, resolved
    from agggen.report.folder import check_review, write_review
    from agggen_platform.bulk.job import generate
    from agggen_platform.bulk.model import bulk_config, open_model

    settings = [*(overrides or ()), *([f"actors={actors}"] if actors is not None else [])]
    model = open_model(bundle)
    config = bulk_config(model, settings)
    if print_config:
        console.echo(json.dumps(resolved(config), indent=2))
        console.note(config_hash(config))
        return
    if endpoint or config.actors != 0:
        require("httpx" if endpoint else "ray")
    warn_if_temporary(runs, "--runs")
    if review:
        check_review(review)
    job = partial(generate, model, source, out, config, fresh=fresh, single_file=single_file, endpoint=endpoint)
    with shard_progress(records_per_second, _text_counts) as print_progress:
        report = job(tracker=partial(_run_log, runs=runs), progress=print_progress, review=worst if review else 0)
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
    if (progress := report.progress) is None:
        console.note(f"{out} already has the texts of this job; --fresh writes them again")
        return
    retries = f"; {report.retries:,} shards were retried" if report.retries else ""
    details = f"{records_per_second(progress)} after start-up{_reused_message(progress)}{retries}"
    console.note(f"Written in {report.seconds:.0f} s ({details})")
    _finish(out, counts.rejects, runs)


def _text_counts(progress: Progress[Any]) -> str:
    return f"{progress.counts.texts:,} texts  {progress.counts.rejects} rejects"
