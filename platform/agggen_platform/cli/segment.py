"""`agggen segment`: segments reference texts into facts, on this machine or a Ray cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from agggen_platform.cli import console
from agggen_platform.cli.options import FactSource, Fresh, Overrides, Runs
from agggen_platform.cli.shards import Actors, RunLogFactory, reused_message, shard_progress

if TYPE_CHECKING:
    from agggen_platform.segmentation.job import Progress


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
    import json

    from agggen.config import load_config
    from agggen_platform.extras import require
    from agggen_platform.segmentation.config import SegmentConfig
    from agggen_platform.segmentation.job import segment as run_job

    settings = list(overrides or ())
    settings += [f"facts.source={json.dumps(facts)}"] if facts else []
    settings += [f"actors={actors}"] if actors is not None else []
    config = load_config(SegmentConfig, None, settings)
    if config.actors != 0:
        require("ray")
    run_log = RunLogFactory(runs)
    with shard_progress(_speed, _counts) as print_progress:
        report = run_job(source, out, config, splits=split or (), fresh=fresh, tracker=run_log, progress=print_progress)
    rows = [(name, n.records, n.references, n.facts, n.rejects) for name, n in report.splits.items()]
    console.print_table(("split", "records", "texts", "facts", "rejects"), rows)
    if report.was_already_finished:
        console.note(f"{out} already has the facts of this job; --fresh segments again")
        return
    if (progress := report.progress) is not None:
        counts = progress.counts
        cached = f", {counts.cached:,} texts from the cache" if counts.cached else ""
        details = f"{_speed(progress)} after start-up{cached}{reused_message(progress)}"
        console.note(f"Segmented in {report.seconds:.0f} s ({details})")
        if counts.cache_errors:
            problem = f"The cache in {config.cache_folder} could not be used (see the workers' logs)"
            console.note(f"{problem}; texts were segmented without it")
    run_log.finish(out, sum(counts.rejects for counts in report.splits.values()))


def _speed(progress: Progress) -> str:
    return f"{progress.counts.references / progress.seconds:,.0f} texts/s"


def _counts(progress: Progress) -> str:
    return f"{progress.counts.facts:,} facts  {progress.counts.rejects} rejects"
