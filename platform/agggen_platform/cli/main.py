"""The `agggen` command: its subcommands, and how errors are printed. README.md lists the exit codes.

``AGGGEN_DEBUG=1`` also prints the traceback of an error.
"""

import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any, NoReturn

import typer
from typer import Option
from typer.core import TyperGroup

from agggen.errors import AggGenError
from agggen_platform import extras
from agggen_platform.cli import (
    check,
    console,
    demo,
    doctor,
    evaluate,
    facts,
    models,
    own_data,
    runs,
    serve,
    shards,
    train,
    write,
)

BEGINNER_COMMANDS = ("demo", "studio", "prepare", "train", "generate", "evaluate")  # the help lists them first


class _Commands(TyperGroup):
    def format_commands(self, ctx: Any, formatter: Any) -> None:
        width = formatter.width - 6 - max(map(len, self.commands))
        more_commands = [name for name in self.commands if name not in BEGINNER_COMMANDS]
        for title, names in (("Commands to begin with", BEGINNER_COMMANDS), ("More commands", more_commands)):
            with formatter.section(title):
                formatter.write_dl([(name, self.commands[name].get_short_help_str(width)) for name in names])


# No rich markup, because rich would interpret the square brackets of plans.
app = typer.Typer(
    name="agggen",
    cls=_Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

# In the order in which they are typically used.
COMMANDS = (
    doctor.doctor, demo.demo, own_data.prepare, shards.segment, train.train, train.adapt, train.distill, train.sweep,
    evaluate.evaluate, evaluate.reproduce, write.generate, shards.bulk, write.plan, write.align, write.inspect,
    write.adjust, serve.serve, serve.studio, serve.ask, serve.serve_key, check.check, check.train_critic,
    evaluate.score,
)  # fmt: skip
for _command in COMMANDS:
    app.command()(_command)
for _app in (own_data.corpora_app, facts.app, facts.srl_app, runs.app, models.app):
    app.add_typer(_app)


def _print_version(requested: bool) -> None:
    if requested:
        from importlib.metadata import PackageNotFoundError, version

        try:
            console.echo(f"agggen {version('agggen')}")
        except PackageNotFoundError:
            console.echo("agggen, not installed (run from a source tree)")
        raise typer.Exit


@app.callback()
def _agggen(
    version: Annotated[
        bool, Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Learns to plan and write: texts from data, by plans you can read and change.

    A plan says which facts come in which order and which share a clause: [eatType] [near customerRating].
    """


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Runs a command line (default: that of the process) and exits; an `AggGenError` is printed as one line."""
    try:
        try:
            app(args=arguments, prog_name="agggen")
        finally:
            sys.excepthook = _print_traceback  # replaces Typer's hook
            sys.stdout.flush()  # a BrokenPipeError is raised here, and handled below
    except AggGenError as error:
        _fail(str(error), error.exit_code)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in extras.EXTRAS:
            raise
        missing = extras.missing(package)
        _fail(str(missing), missing.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        _discard_output()
        sys.exit(1)
    except OSError as error:
        location = _error_location(error)
        if location == "standard output":
            _discard_output()
        _fail(f"{error.strerror or error}: {location}", 5)
    sys.exit(0)


def _discard_output() -> None:
    """Discards buffered output; otherwise its flush when the interpreter exits would fail, with exit code 120."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _error_location(error: OSError) -> str:
    """The file of the error, or the path whose method failed, or "standard output"; else the line of code."""
    if error.filename:  # missing if an open file failed
        return str(error.filename)
    frame = [frame for frame, _ in traceback.walk_tb(error.__traceback__)][-1]
    if isinstance(path := frame.f_locals.get("self"), Path):
        return str(path)
    if frame.f_code.co_filename in (console.__file__, __file__):
        return "standard output"
    line = traceback.extract_tb(error.__traceback__)[-1]
    return f"{line.filename}, line {line.lineno}: {line.line} (AGGGEN_DEBUG=1 shows all)"


def _fail(message: str, code: int) -> NoReturn:
    if os.environ.get("AGGGEN_DEBUG") == "1" and (error := sys.exception()) is not None:
        _print_traceback(type(error), error, error.__traceback__)
    console.fail(message)
    sys.exit(code)


def _print_traceback(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Prints a traceback; secrets, which messages of libraries may contain, are masked."""
    from agggen_platform.tracking.origin import masked

    sys.stderr.write(masked("".join(traceback.format_exception(kind, error, trace))))


if __name__ == "__main__":
    main()
