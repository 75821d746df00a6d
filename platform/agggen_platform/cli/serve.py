"""`agggen serve`, `studio`, `serve-key` and `ask`: the endpoint, its keys and its client."""

from __future__ import annotations

import time
import webbrowser
from collections.abc import Iterator
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer import Argument, Option

from agggen.errors import ConfigError
from agggen.training.stopping import StopRequest
from agggen_platform.cli import console, own_data, records
from agggen_platform.cli.options import Overrides
from agggen_platform.extras import require

if TYPE_CHECKING:
    from agggen_platform.serving.config import ServeConfig


def serve(
    bundle: records.BundleAddress = records.SHIPPED_BUNDLE,
    overrides: Overrides = None,
    address: Annotated[str | None, Option(metavar="ADDRESS", help="A cluster, or auto. [default: a local one]")] = None,
    follow: Annotated[
        float,
        Option(metavar="SECONDS", min=0, help="Interval of checks for a new version of the alias. [default: never]"),
    ] = 0,
    preset: Annotated[str | None, Option("--config", metavar="FILE", help="A YAML file with settings.")] = None,
    print_config: Annotated[bool, Option(help="Only print a configuration for `serve deploy`.")] = False,
) -> None:
    """Serve a model over HTTP.

    Serves until Ctrl-C or SIGTERM, and then finishes running requests. It listens on 127.0.0.1:8000, where a browser
    shows the plan studio. Access from other machines requires API keys, which `agggen serve-key` creates
    (http.host=0.0.0.0 security.keys_file=FILE). With --follow, the endpoint switches without failed requests when the
    alias is moved to a bundle that passes its self-test.

    \b
        agggen serve                                    # the shipped model of the chemical elements
        agggen serve runs/elements-1/bundle
        agggen serve models:/agggen@champion --follow 30
        agggen serve models:/agggen@champion --address auto generator.max_replicas=4 generator.gpus=1
        curl -H 'Content-Type: application/json' localhost:8000/v1/generate \\
            -d '{"records": [{"triples": [["Aromi", "food", "English"]]}]}'
    """
    from agggen_platform.serving.config import serve_settings
    from agggen_platform.serving.deploy import deploy_file
    from agggen_platform.serving.target import find_target

    require("fastapi")
    config = serve_settings(bundle, overrides or (), Path(preset) if preset else None)
    if print_config:
        console.echo(deploy_file(config, find_target(config)))
        return
    raise typer.Exit(_serve_until_signal(config, address, follow))


def _serve_until_signal(config: ServeConfig, address: str | None, follow: float) -> int:
    """Serves until a signal; returns the exit code 128 + signal."""
    from agggen_platform.serving.deploy import Follower, Stopped, check_followed, endpoint
    from agggen_platform.serving.target import find_target

    if follow:
        check_followed(config)
    target = find_target(config)
    with endpoint(config, address, console.note) as running_endpoint, StopRequest() as stop:
        try:
            console.note(f"Starting the replicas of {target.display_address} ({target.fingerprint[:12]})")
            running_endpoint.deploy(target, stop)
            console.echo(running_endpoint.url)
            console.note("Ready. Ctrl-C stops the endpoint after the running requests.")
            follower = Follower(config, running_endpoint, console.note) if follow else None
            next_check = time.monotonic() + follow
            while not stop():
                time.sleep(0.25)
                running_endpoint.watch()
                if follower is not None and time.monotonic() >= next_check:
                    follower.check(stop)
                    next_check = time.monotonic() + follow
        except Stopped:
            pass
        console.note("Finishing the running requests; a second signal stops immediately")
    return 128 + (stop.signal or 0)


def studio(
    bundle: records.BundleAddress = records.SHIPPED_BUNDLE,
    overrides: Overrides = None,
    compare: Annotated[str | None, Option(metavar="BUNDLE", help="A second bundle, to show its texts, too.")] = None,
    browser: Annotated[bool, Option(help="Open the page in the browser.")] = True,
) -> None:
    """Move facts of a plan and watch the text change in a browser.

    Serves the model in this process, without a cluster, until Ctrl-C, and opens the plan studio. The default for BUNDLE
    is the small model of the chemical elements that agggen ships. With --compare, the page shows the texts of two
    bundles by the same plan and marks the differences.

    \b
        agggen studio
        agggen studio runs/NAME/bundle http.port=8080
        agggen studio models:/agggen@candidate --compare models:/agggen@champion
    """
    from agggen_platform.serving.config import serve_settings

    require("fastapi", "uvicorn")
    config = serve_settings(bundle, overrides or ())
    console.note(f"Loading {config.bundle}" + (f" and {compare}" if compare else ""))
    local = resolve_name("serve.local")
    with StopRequest() as stop, local.running(local.local_app(config, compare), config) as url:
        console.echo(url)
        console.note("Ready. Ctrl-C stops the studio.")
        if browser:
            webbrowser.open(url)
        while not stop():
            time.sleep(0.1)
    raise typer.Exit(128 + (stop.signal or 0))


def serve_key(
    name: Annotated[str, Argument(metavar="NAME", help="The key's owner, named in logs and limits.")],
    file: Annotated[Path | None, Option(help="Add the key's line to this file; a new one has mode 0600.")] = None,
) -> None:
    """Create an API key for the endpoint.

    Prints the random key; only its hash is stored.

    \b
        agggen serve-key alice                             # prints the key, and its line for the file of keys
        agggen serve-key alice --file keys.txt             # adds the line to the file and prints the key
        agggen serve BUNDLE security.keys_file=keys.txt    # requires keys; new keys are read within a second
    """
    from agggen_platform.serving.keys import add_key, new_key

    key, line = new_key(name)
    if file is not None:
        add_key(file, line)
    console.echo(key)
    if file is None:
        console.echo(str(line))


@own_data.with_column_options(*own_data.RECORD_COLUMNS)
def ask(
    url: Annotated[str, Argument(metavar="URL", help="The endpoint's address, like http://127.0.0.1:8000.")],
    input: records.Input = "-",  # noqa: A002 - the option's name
    output: records.Output = "-",
    plan: Annotated[str | None, Option(help="The plan of all texts, followed exactly.")] = None,
    complete: Annotated[bool, Option(help="Let the model add the predicates that --plan omits.")] = False,
    level: Annotated[int | None, Option(min=1, help="Maximum number of triples in a fact.")] = None,
    n_best: Annotated[int, Option(min=1, help="Maximum number of texts per record, best first.")] = 1,
    verify: Annotated[
        Literal["strict", "off"] | None, Option(help="strict: all values in full, no fault; off: no constraints.")
    ] = None,
    deadline: Annotated[float, Option(min=0.001, help="Seconds to wait for the next text, with retries.")] = 300.0,
    columns: own_data.ColumnValues = own_data.NO_COLUMNS,
) -> None:
    """Request texts for records from an endpoint (`agggen serve`).

    Output and rejects are as for `agggen generate`. Failed requests are retried. If the endpoint requires an API key,
    set AGGGEN_API_KEY.

    \b
        agggen ask http://127.0.0.1:8000 -i records.jsonl -o texts.jsonl
        echo '{"triples": [["Aromi", "food", "English"]]}' | agggen ask http://127.0.0.1:8000
    """
    from agggen.records import Plan
    from agggen_platform.client import Client

    plan_field = {} if plan is None else {"plan": str(Plan.parse(plan))}
    if complete and not plan_field:
        raise ConfigError("--complete needs --plan")
    if plan_field and level is not None:
        raise ConfigError("--level cannot be combined with --plan, which already fixes the facts")
    options: dict[str, Any] = {"n_best": n_best, "verify": verify, "complete": complete or None, "level": level}
    options = {name: value for name, value in options.items() if value is not None}
    collector = records.RejectCollector(columns)

    def request_records() -> Iterator[dict[str, Any]]:
        for batch in collector.batches(input, lambda record: None):
            for record in batch:
                yield {"id": record.id, "triples": record.as_dict()["triples"], **plan_field}

    with records.output_lines(output, input) as file, Client(url, deadline=deadline) as client:
        for answer in client.stream(request_records(), **options):
            if answer["status"] == "error":
                collector.reject(input, answer["id"], answer["error"]["detail"])
                continue
            collector.unknown_predicates.update(set(answer["texts"][0].get("unknown_predicates", ())))
            for rank, text in enumerate(answer["texts"], start=1):
                records.write_line(file, {"id": answer["id"], **text} | ({"rank": rank} if n_best > 1 else {}))
        collector.report(output)
