"""The dashboard of jobs over shards: segmentation and bulk generation."""

from __future__ import annotations

from infra.monitoring.panels.board import Board, Panel, machines

_JOBS = 'kind=~"$kind", run=~"$run"'


def _items(items: str) -> str:
    return f'sum by (run, item) (rate(ray_agggen_job_items_total{{{_JOBS}, item=~"{items}"}}[$__rate_interval]))'


BULK = Board(
    "bulk",
    "segmentation and bulk generation",
    "Jobs over shards that work with actors of a Ray cluster, while they run.",
    6,
    [
        ("kind", "Kind", "label_values(ray_agggen_job_shards, kind)"),
        ("run", "Run", 'label_values(ray_agggen_job_shards{kind=~"$kind"}, run)'),
    ],
    [
        Panel(
            "Shards done",
            "Of all shards of the job, by this run and those before.",
            "percentunit",
            [
                (
                    f"1 - max by (kind, run) (ray_agggen_job_shards_left{{{_JOBS}}})"
                    f" / max by (kind, run) (ray_agggen_job_shards{{{_JOBS}}})",
                    "{{run}}",
                )
            ],
            kind="stat",
        ),
        Panel(
            "Time left",
            "Shards left by the pace of the last quarter of an hour.",
            "s",
            [
                (
                    f"max by (kind, run) (ray_agggen_job_shards_left{{{_JOBS}}})"
                    f" / (-deriv((max by (kind, run) (ray_agggen_job_shards_left{{{_JOBS}}}))[15m:30s]) > 0)",
                    "{{run}}",
                )
            ],
            kind="stat",
        ),
        Panel(
            "Since the last shard",
            "An alert follows at half an hour.",
            "s",
            [(f"time() - max by (kind, run) (ray_agggen_job_shard_timestamp_seconds{{{_JOBS}}})", "{{run}}")],
            kind="stat",
            red=1800,
        ),
        "Work",
        Panel(
            "Rows a second",
            "Records with texts (generation) or read (segmentation), and the texts themselves.",
            "short",
            [(_items("records|texts|references"), "{{run}} {{item}}")],
        ),
        Panel(
            "Seconds a record",
            "Of one worker: how slow the work is, however many workers there are.",
            "s",
            [
                (
                    f"sum by (run) (rate(ray_agggen_job_work_seconds_total{{{_JOBS}}}[15m]))"
                    f' / sum by (run) (rate(ray_agggen_job_items_total{{{_JOBS}, item="records"}}[15m]))',
                    "{{run}}",
                )
            ],
        ),
        Panel(
            "Workers that work",
            "Seconds of work a second. Below the number of actors: they wait for shards, or for room to start.",
            "short",
            [(f"sum by (run) (rate(ray_agggen_job_work_seconds_total{{{_JOBS}}}[15m]))", "{{run}}")],
        ),
        Panel(
            "Shards left",
            "Falls evenly while all goes well.",
            "short",
            [(f"max by (run) (ray_agggen_job_shards_left{{{_JOBS}}})", "{{run}}")],
        ),
        Panel(
            "What a segmentation cuts",
            "Different texts and sentences that the segmenter saw, and texts that the cache knew, a second.",
            "short",
            [(_items("segmented|sentences|cached"), "{{run}} {{item}}")],
        ),
        Panel(
            "Log that MLflow lacks",
            "The job does not wait for MLflow. Above zero for long: MLflow is down, slow or full.",
            "bytes",
            [('max by (run) (ray_agggen_tracking_unsent_bytes{run=~"$run"})', "{{run}}")],
        ),
        "Faults",
        Panel(
            "Rejects",
            "Share of what was read by this run, and the share that fails the job.",
            "percentunit",
            [
                (f"agggen:job_reject_ratio{{{_JOBS}}}", "{{run}}"),
                (f"max by (run) (ray_agggen_job_reject_limit_ratio{{{_JOBS}}})", "{{run}} allowed"),
            ],
        ),
        Panel(
            "Rejects and failures",
            "Of this run so far. Failed are rejects that the model or segmenter broke on, maybe by its own fault.",
            "short",
            [
                (
                    f'sum by (run, item) (ray_agggen_job_items_total{{{_JOBS}, item=~"rejects|failed|cache_errors"}})',
                    "{{run}} {{item}}",
                )
            ],
        ),
        Panel(
            "Duplicate ids, shards begun again",
            "Later records with an id that an earlier one has are rejects. A shard is begun again if its worker died.",
            "short",
            [
                (f"max by (run) (ray_agggen_job_duplicates{{{_JOBS}}})", "{{run}} duplicates"),
                (f"sum by (run) (ray_agggen_job_shards_again_total{{{_JOBS}}})", "{{run}} again"),
            ],
        ),
        *machines("the jobs' actors"),
    ],
)
