"""The dashboard of training."""

from __future__ import annotations

from infra.monitoring.panels.board import Board, Panel, machines

_RUNS = 'run=~"$run"'
_STAGE = "max by (run, stage)"


def _training(title: str, about: str, unit: str, metric: str, red: float | None = None) -> Panel:
    query = f"{_STAGE} (ray_agggen_training_{metric}{{{_RUNS}}})"
    return Panel(title, about, unit, [(query, "{{run}} {{stage}}")], red=red)


TRAINING = Board(
    "training",
    "training",
    "Training jobs and a sweep's trials that are connected to a Ray cluster, while they run.",
    6,
    [("run", "Run", "label_values(ray_agggen_training_checkpoint_timestamp_seconds, run)")],
    [
        Panel(
            "Runs",
            "That train now.",
            "short",
            [(f"count(max by (run) (ray_agggen_training_checkpoint_timestamp_seconds{{{_RUNS}}}))", "runs")],
            width=4,
            kind="stat",
        ),
        Panel(
            "Since the last checkpoint",
            "So much would be trained again. An alert follows at five of the run's intervals and ten minutes.",
            "s",
            [
                (
                    f"time() - max by (run) (ray_agggen_training_checkpoint_timestamp_seconds{{{_RUNS}}})",
                    "{{run}}",
                )
            ],
            width=10,
            kind="stat",
            red=1200,
        ),
        Panel(
            "Progress of the stage",
            "Updates made of all that the stage may have; it may end earlier.",
            "percentunit",
            [(f"{_STAGE} (ray_agggen_training_progress_ratio{{{_RUNS}}})", "{{run}} {{stage}}")],
            width=10,
            kind="stat",
        ),
        "Learning",
        Panel(
            "Loss",
            "Nats a scored position: of training since the last log line, of development after each epoch.",
            "short",
            [
                (
                    f"max by (run, stage, split) (ray_agggen_training_loss_nats{{{_RUNS}}})",
                    "{{run}} {{stage}} {{split}}",
                )
            ],
            width=12,
            least=None,
        ),
        _training(
            "Norm of the gradient", "Before it is clipped. It grows before a loss does.", "short", "gradient_norm"
        ),
        _training("Learning rate", "Of the last update.", "sci", "learning_rate"),
        "Speed and workers",
        _training("Texts a second", "Since the last log line, of all workers.", "short", "texts_per_second"),
        Panel(
            "Updates a second",
            "Those that are made again after a restart count too.",
            "short",
            [
                (
                    f"sum by (run, stage) (rate(ray_agggen_training_updates_total{{{_RUNS}}}[$__rate_interval]))",
                    "{{run}} {{stage}}",
                )
            ],
        ),
        Panel(
            "Workers",
            "That train, and that were asked for. No line: the job trains in its own process.",
            "short",
            [
                (f"max by (run) (ray_agggen_training_workers{{{_RUNS}}})", "{{run}}"),
                (f"max by (run) (ray_agggen_training_workers_wanted{{{_RUNS}}})", "{{run}} wanted"),
            ],
        ),
        Panel(
            "Restarts in an hour",
            "How often workers were started again from a checkpoint. Nothing: never.",
            "short",
            [(f"agggen:training_restarts:1h{{{_RUNS}}}", "{{run}}")],
            red=3,
        ),
        Panel(
            "Log that MLflow lacks",
            "Training does not wait for MLflow. Above zero for long: MLflow is down, slow or full.",
            "bytes",
            [(f"max by (run) (ray_agggen_tracking_unsent_bytes{{{_RUNS}}})", "{{run}}")],
        ),
        *machines("training's workers"),
    ],
)
