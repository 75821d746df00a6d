"""`agggen studio`: the endpoint in this process and its page in the browser."""

from __future__ import annotations

from typing import Annotated

import typer

from agggen_platform.cli import console
from agggen_platform.cli.records import SHIPPED_BUNDLE, BundleAddress


def studio(
    bundle: BundleAddress = SHIPPED_BUNDLE,
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Settings as of agggen serve, say http.port=8080")
    ] = None,
    compare: Annotated[
        str | None, typer.Option(metavar="BUNDLE", help="A second bundle, whose texts stand beside.")
    ] = None,
    browser: Annotated[bool, typer.Option(help="Open the page in the browser.")] = True,
) -> None:
    """Open the plan studio: facts as chips that one moves, and the text that follows.

    Serves the model in this process, without a cluster, until Ctrl-C, and opens the page. Without BUNDLE it is the
    small model of the chemical elements that agggen ships. With --compare, the page shows the texts of two bundles by
    the same plan, differences marked.

    \b
        agggen studio
        agggen studio runs/NAME/bundle http.port=8080
        agggen studio models:/agggen@candidate --compare models:/agggen@champion
    """
    import time
    import webbrowser
    from pkgutil import resolve_name

    from agggen.training.stopping import StopRequest
    from agggen_platform.extras import require
    from agggen_platform.serving.config import serve_settings

    require("fastapi", "uvicorn")
    config = serve_settings(bundle, overrides or ())
    console.note(f"Loading {config.bundle}" + (f" and {compare}" if compare else ""))
    local = resolve_name("serve.local")
    with StopRequest() as stop, local.running(local.local_app(config, compare), config) as url:
        console.say(url)
        console.note("Ready. Ctrl-C ends it.")
        if browser:
            webbrowser.open(url)
        while not stop():
            time.sleep(0.1)
    raise typer.Exit(128 + (stop.signal or 0))
