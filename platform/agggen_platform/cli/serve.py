"""`agggen serve`: an HTTP endpoint on this machine or a Ray cluster, as long as the command runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from agggen_platform.cli import console
from agggen_platform.cli.records import SHIPPED_BUNDLE, BundleAddress

if TYPE_CHECKING:
    from agggen_platform.serving.config import ServeConfig

_POLL_SECONDS = 0.25


def serve(
    bundle: BundleAddress = SHIPPED_BUNDLE,
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Settings, say http.port=8080 generator.cpus=4")
    ] = None,
    address: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="A Ray cluster, or auto. [default: one of its own]")
    ] = None,
    follow: Annotated[
        float,
        typer.Option(
            metavar="SECONDS", min=0, help="How often to check for a new version of the alias. [default: never]"
        ),
    ] = 0,
    preset: Annotated[str | None, typer.Option("--config", metavar="FILE", help="Settings from a YAML file.")] = None,
    print_config: Annotated[bool, typer.Option(help="Print a file for `serve deploy` instead.")] = False,
) -> None:
    """Serve a model over HTTP until Ctrl-C or SIGTERM, after which running requests are finished.

    It listens on 127.0.0.1:8000, where a browser shows the plan studio. Beyond this machine it wants keys
    (http.host=0.0.0.0 security.keys_file=FILE; agggen serve-key makes them). With --follow, a bundle that an alias is
    moved to replaces the one before without a failed request, if it passes its self-test.

    \b
        agggen serve                                    # the shipped model of the chemical elements
        agggen serve runs/elements-1/bundle
        agggen serve models:/agggen@champion --follow 30
        agggen serve models:/agggen@champion --address auto generator.max_replicas=4 generator.gpus=1
        curl -H 'Content-Type: application/json' localhost:8000/v1/generate \\
            -d '{"records": [{"triples": [["Aromi", "food", "English"]]}]}'
    """
    from pathlib import Path

    from agggen_platform.extras import require
    from agggen_platform.serving.config import serve_settings
    from agggen_platform.serving.deploy import deploy_file
    from agggen_platform.serving.target import find_target

    require("fastapi")
    config = serve_settings(bundle, overrides or (), Path(preset) if preset else None)
    if print_config:
        console.say(deploy_file(config, find_target(config)))
        return
    raise typer.Exit(_run(config, address, follow))


def _run(config: ServeConfig, address: str | None, follow: float) -> int:
    """Serves until a signal; returns 128 + signal."""
    import time

    from agggen.training.stopping import StopRequest
    from agggen_platform.serving.deploy import Stopped, endpoint
    from agggen_platform.serving.follow import Follower, check_followed
    from agggen_platform.serving.target import find_target

    if follow:
        check_followed(config)
    target = find_target(config)
    with endpoint(config, address, console.note) as served, StopRequest() as stop:
        try:
            console.note(f"Starting the replicas of {target.shown} ({target.fingerprint[:12]})")
            served.deploy(target, stop)
            console.say(served.url)
            console.note("Ready. Ctrl-C ends it when what is being worked on is done.")
            follower = Follower(config, served, console.note) if follow else None
            due = time.monotonic() + follow
            while not stop():
                time.sleep(_POLL_SECONDS)
                served.watch()
                if follower is not None and time.monotonic() >= due:
                    follower.look(stop)
                    due = time.monotonic() + follow
        except Stopped:
            pass
        console.note("Finishing what is being worked on; once more ends it at once")
    return 128 + (stop.signal or 0)
