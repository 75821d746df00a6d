"""The command: ``python -m infra.stack up|run|check|down``."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import psutil
import typer
from rich.console import Console
from rich.table import Table

from infra.stack.errors import StackError
from infra.stack.stack import Settings, Stack, findings, running
from infra.stack.state import UNSET, State
from infra.stack.supervisor import StoppedError, Supervisor

_HELP = "PostgreSQL, an S3 server and MLflow on this machine, without containers. Without a command: up."
app = typer.Typer(help=_HELP, add_completion=False, pretty_exceptions_enable=False)
_console = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_COMMAND_PATIENCE = 30.0  # seconds that the command of `run` may take to end when it is asked to

Folder = Annotated[Path, typer.Option("--state", help="The stack's folder: data, passwords, logs.", show_default=True)]
Port = Annotated[int | None, typer.Option(min=1, max=65535)]
_STATE = Path(".stack")


class Asked:
    """Which signal asked for the end; None so far."""

    def __init__(self) -> None:
        self.number: signal.Signals | None = None
        for number in _SIGNALS:
            signal.signal(number, self._note)

    def __bool__(self) -> bool:
        return self.number is not None

    def _note(self, number: int, _: Any) -> None:
        self.number = self.number or signal.Signals(number)


@contextmanager
def _stack(settings: Settings, folder: Path, asked: Asked) -> Iterator[tuple[Stack, Supervisor]]:
    """A stack that answers, for the block."""
    state = State(folder)
    with state.locked() as lock:
        stack = Stack(settings, state)
        supervisor = Supervisor(state, stack.parts, lock, _console.print, lambda: bool(asked))
        try:
            with _console.status(f"The stack starts; its logs are in {state.path / 'logs'}"):
                supervisor.up()
            stack.remember()
            yield stack, supervisor
        except StoppedError:
            assert asked.number is not None
            raise typer.Exit(128 + asked.number) from None
        finally:
            supervisor.down()


@app.callback(invoke_without_command=True)
def _default(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        up()


@app.command()
def up(
    state: Folder = _STATE,
    postgres_port: Port = None,
    s3_port: Port = None,
    mlflow_port: Port = None,
    ray: Annotated[bool, typer.Option("--ray", help="A Ray head with a token too.")] = False,
    ray_port: Port = None,
    ray_cluster_port: Port = None,
    ray_client_port: Port = None,
    ray_agent_port: Port = None,
    prometheus: Annotated[bool, typer.Option("--prometheus", help="Prometheus too.")] = False,
    prometheus_port: Port = None,
    prometheus_config: Annotated[Path | None, typer.Option(help="By default this project's.")] = None,
    free_ports: Annotated[bool, typer.Option("--free-ports", help="Ports that nothing listens on.")] = False,
) -> None:
    """Starts the stack and keeps it until Ctrl-C. A part that dies ends all, with the end of its log."""
    settings = _settings(locals())
    asked = Asked()
    with _stack(settings, state, asked) as (stack, supervisor):
        _console.print(f"The stack is up. In another shell:  source {stack.state.env_file}")
        supervisor.watch()
    assert asked.number is not None
    raise typer.Exit(128 + asked.number)


@app.command()
def run(
    command: Annotated[list[str], typer.Argument(help="What to run; put -- before it.")],
    state: Folder = _STATE,
    ray: Annotated[bool, typer.Option("--ray", help="A Ray head with a token too.")] = False,
    prometheus: Annotated[bool, typer.Option("--prometheus", help="Prometheus too.")] = False,
    free_ports: Annotated[bool, typer.Option("--free-ports", help="Ports that nothing listens on.")] = False,
) -> None:
    """Starts the stack, runs a command with its environment, and ends the stack; the exit status is the command's."""
    settings = _settings(locals())
    asked = Asked()
    with _stack(settings, state, asked) as (stack, supervisor):
        env = {name: value for name, value in os.environ.items() if name not in UNSET} | stack.environment
        try:
            process = subprocess.Popen(command, env=env)
        except OSError as error:
            raise StackError(f"{command[0]} cannot be run: {error.strerror}") from error
        try:
            supervisor.watch(lambda: process.poll() is not None)
        finally:
            _end(process, asked)
    status = process.returncode
    raise typer.Exit(128 - status if status < 0 else status)


def _end(process: subprocess.Popen[bytes], asked: Asked) -> None:
    """Ends the command of `run`; Ctrl-C at a terminal has reached it already."""
    if process.poll() is None and asked.number != signal.SIGINT:
        process.terminate()
    for last in (process.terminate, process.kill):
        try:
            process.wait(_COMMAND_PATIENCE)
            return
        except subprocess.TimeoutExpired:
            last()
    process.wait()


@app.command()
def check(state: Folder = _STATE) -> None:
    """Asks each part of the stack that runs in a folder; exit status 1 where one does not answer as it should."""
    stack = running(State(state))
    found = findings(stack.parts)
    table = Table("part", "address", "answers", box=None)
    for part in stack.parts:
        table.add_row(part.title, part.address, found[part.address] or "yes")
    Console(highlight=False, markup=False).print(table)
    if any(found.values()):
        raise typer.Exit(1)


@app.command()
def down(state: Folder = _STATE) -> None:
    """Ends the stack that runs in a folder; returns when it has ended."""
    place = State(state)
    pid = running(place).state.supervisor()
    if pid is not None:
        with suppress(psutil.NoSuchProcess):  # it ends just now
            psutil.Process(pid).terminate()
    while place.is_held():
        time.sleep(0.1)


def _settings(options: dict[str, Any]) -> Settings:
    """Settings out of a command's options: ports that are given, else free or the usual ones."""
    known = {field.name for field in fields(Settings)}
    given = {name: value for name, value in options.items() if name in known and value is not None}
    if "prometheus_config" in given:
        given["prometheus_config"] = str(Path(given["prometheus_config"]).absolute())
    usual = Settings().with_free_ports() if options["free_ports"] else Settings()
    return Settings(**{field.name: given.get(field.name, getattr(usual, field.name)) for field in fields(Settings)})


def main() -> None:
    """Runs the command; an error of the stack is a message and a status."""
    try:
        app()
    except StackError as error:
        _console.print(str(error), style="red")
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
