"""The command: ``python -m infra.stack up|run|down``."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NoReturn

import psutil
import typer
from rich.console import Console

from infra.stack.errors import RefusedError, StackError
from infra.stack.stack import PORTS, Stack, Supervisor, free_ports
from infra.stack.state import UNSET, State

app = typer.Typer(
    help="PostgreSQL, an S3 server and MLflow on this machine, without containers. Without a command: up.",
    add_completion=False,
    pretty_exceptions_enable=False,
)
_console = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_STATE = Path(".stack")

Folder = Annotated[Path, typer.Option("--state", help="The stack's folder: data, passwords, logs.")]
Ray = Annotated[bool, typer.Option("--ray", help="Also start a Ray head, with a token.")]
FreePorts = Annotated[bool, typer.Option("--free-ports", help="Use ports that are free now.")]
Ports = Annotated[
    list[str] | None, typer.Option("--port", metavar="NAME=NUMBER", help=f"Can be repeated: {', '.join(PORTS)}.")
]


@contextmanager
def _running(folder: Path, settings: dict[str, Any]) -> Iterator[tuple[Stack, Supervisor]]:
    """A stack while it answers. A signal ends the block with SystemExit, status 128 + signal."""
    for number in _SIGNALS:
        signal.signal(number, _stop)
    for name in UNSET:
        os.environ.pop(name, None)
    state = State(folder)
    with state.locked():
        stack = Stack(state, **settings)
        supervisor = Supervisor(state, stack.parts, _console.print)
        try:
            supervisor.up()
            state.write(settings, stack.environment)
            yield stack, supervisor
        finally:
            for number in _SIGNALS:
                signal.signal(number, signal.SIG_IGN)
            supervisor.down()


def _stop(number: int, _: object) -> NoReturn:
    raise SystemExit(128 + number)


@app.callback(invoke_without_command=True)
def _default(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        up()


@app.command()
def up(
    state: Folder = _STATE,
    ray: Ray = False,
    port: Ports = None,
    free_ports: FreePorts = False,
) -> None:
    """Start the stack and keep it until Ctrl-C. A part that dies ends all, with the end of its log."""
    with _running(state, _settings(ray, port, free_ports)) as (stack, supervisor):
        _console.print(f"The stack is up. In another shell:  source {stack.state.env_file}")
        supervisor.watch()


@app.command()
def run(
    command: Annotated[list[str], typer.Argument(help="What to run; put -- before it.")],
    state: Folder = _STATE,
    ray: Ray = False,
    port: Ports = None,
    free_ports: FreePorts = False,
) -> None:
    """Start the stack, run a command with its environment, and end the stack; the exit status is the command's."""
    with _running(state, _settings(ray, port, free_ports)) as (stack, supervisor):
        try:
            process = subprocess.Popen(command, env=os.environ | stack.environment)
        except OSError as error:
            raise StackError(f"{command[0]} cannot be run: {error.strerror}") from error
        try:
            supervisor.watch(lambda: process.poll() is not None)
        finally:
            if process.poll() is None:
                process.terminate()
            status = process.wait()
    raise typer.Exit(128 - status if status < 0 else status)


@app.command()
def down(state: Folder = _STATE) -> None:
    """End the stack that runs in a folder; return when it has ended."""
    place = State(state)
    pid = place.holder()
    if pid is None:
        raise StackError(f"no stack runs in {place}; `python -m infra.stack up --state {place}` starts one")
    psutil.Process(pid).terminate()
    while place.holder() is not None:
        time.sleep(0.1)


def _settings(ray: bool, options: list[str] | None, free: bool) -> dict[str, Any]:
    """The arguments of `Stack`; ports that are given take precedence over free ones."""
    ports = free_ports() if free else dict(PORTS)
    for option in options or ():
        name, _, number = option.partition("=")
        if name not in PORTS or not number.isdecimal() or not 0 < int(number) < 65536:
            raise RefusedError(f"--port {option}: NAME is one of {', '.join(PORTS)}, NUMBER is from 1 to 65535")
        ports[name] = int(number)
    if len(set(ports.values())) < len(ports):
        raise RefusedError(f"each part needs a port of its own, not {ports}")
    return {"ports": ports, "ray": ray}


def main() -> None:
    """Run the command; an error of the stack is a message and an exit status."""
    try:
        app()
    except StackError as error:
        _console.print(str(error), style="red")
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
