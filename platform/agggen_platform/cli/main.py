"""The `agggen` command: its subcommands, errors and exit codes.

Exit codes: 0 success; 1 an internal error (with a traceback), or a closed output pipe; 2 invalid input, option or
configuration, or an extra that is not installed; 3 an unusable bundle; 4 training or a job failed; 5 the operating
system or the store refused (disk full, permission); 6 no cluster, another job is running, or entries were not sent to
MLflow; 8 no such version, alias or registry; 9 a promotion was refused; 10 an endpoint does not answer, or its
answer is invalid; 11 `agggen doctor` found an error; 130 and 143 interrupted by SIGINT and SIGTERM.
``AGGGEN_DEBUG=1`` shows the traceback of every error.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from agggen.errors import AggGenError
from agggen_platform import extras
from agggen_platform.cli import (
    ask,
    bulk,
    check,
    console,
    corpora,
    demo,
    doctor,
    evaluate,
    facts,
    models,
    own_data,
    reproduce,
    runs,
    score,
    segment,
    serve,
    srl,
    sweep,
    train,
    write,
)

OPERATING_SYSTEM_REFUSED = 5
INTERRUPTED = 130
FIRST = ("demo", "studio", "prepare", "train", "generate", "evaluate")
"""The commands that the help lists first, for beginners."""


class _Commands(TyperGroup):
    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Lists the commands for beginners, then all other commands."""
        width = formatter.width - 6 - max(map(len, self.commands))
        others = [name for name in self.commands if name not in FIRST]
        for title, names in (("Commands to begin with", FIRST), ("More commands", others)):
            with formatter.section(title):
                formatter.write_dl([(name, self.commands[name].get_short_help_str(width)) for name in names])


# No rich markup in help, because rich would interpret the square brackets of plans.
app = typer.Typer(
    name="agggen",
    cls=_Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

# --- the commands, in the order of their use; their modules import heavy packages inside functions only -----------
app.command("doctor", short_help="Check this machine, and the servers that a job uses.")(doctor.doctor)
app.command("demo", short_help="Train, evaluate and generate on the shipped corpus, in minutes.")(demo.demo)
app.add_typer(corpora.app, name="corpora")
app.command("prepare", short_help="Read your own data, check it, write it as a corpus.")(own_data.prepare)
app.command("segment", short_help="Segment the texts of a corpus into facts.")(segment.segment)
app.add_typer(facts.app, name="facts")
app.add_typer(srl.app, name="srl")
app.command("train", short_help="Train a model by a preset and write a bundle.")(train.train)
app.command("adapt", short_help="Continue training a model on new data.")(train.adapt)
app.command("distill", short_help="Train a model on texts of trained models.")(train.distill)
app.command("sweep", short_help="Search a space of settings: many trainings, the best bundle.")(sweep.sweep)
app.command("evaluate", short_help="Score texts, plans and alignments on a split.")(evaluate.evaluate)
app.command("reproduce", short_help="Show the paper's tables with our numbers.")(reproduce.reproduce)
app.add_typer(runs.app, name="runs")
app.command("generate")(write.generate)
app.command("bulk", short_help="Write texts for millions of records.")(bulk.bulk)
app.command("plan", short_help="Find the most likely plans of records.")(write.plan)
app.command("align", short_help="Find which triples each fact of a text states.")(write.align)
app.command("inspect")(write.inspect)
app.command("adjust", short_help="Write a bundle with other inference settings.")(write.adjust)
app.add_typer(models.app, name="models")
app.command("serve", short_help="Serve a model over HTTP.")(serve.serve)
app.command("studio", short_help="Move facts of a plan and watch the text change, in a browser.")(serve.studio)
app.command("ask", short_help="Have an endpoint write texts for records.")(ask.ask)
app.command("serve-key", short_help="Create an API key for the endpoint.")(serve.serve_key)
app.command("check", short_help="Check any system's texts against their records.")(check.check)
app.command("train-critic", short_help="Train the critic of `agggen check`.")(check.train_critic)
app.command("score", short_help="Score any system's texts against references.")(score.score)


def _print_version(requested: bool) -> None:
    if requested:
        from importlib.metadata import PackageNotFoundError, version

        try:
            console.say(f"agggen {version('agggen')}")
        except PackageNotFoundError:
            console.say("agggen, not installed (run from a source tree)")
        raise typer.Exit


@app.callback()
def _agggen(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Learns to plan and write: texts from data, by plans you can read and change.

    A plan says which facts come in which order and which share a clause: [eatType] [near customerRating].
    """


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Runs a command line (by default that of the process) and exits; an `AggGenError` is printed in one line."""
    try:
        folder = os.getcwd()
    except FileNotFoundError:
        _fail("the working directory of this command was deleted; start it in another one", OPERATING_SYSTEM_REFUSED)
    try:
        try:
            app(args=arguments, prog_name="agggen")
        finally:
            sys.excepthook = _print_traceback  # replaces Typer's hook
            sys.stdout.flush()  # raises BrokenPipeError here
    except AggGenError as error:
        _fail(str(error), error.exit_code)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in extras.EXTRAS:
            raise
        missing = extras.missing(package)
        _fail(str(missing), missing.exit_code)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        # Discards buffered output, which the interpreter would fail to flush at exit and report as an error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        _fail(f"{error.strerror or error}: {_object_of(error, folder)}", OPERATING_SYSTEM_REFUSED)
    sys.exit(0)


def _object_of(error: OSError, folder: str) -> str:
    """The file that caused the error, or the line of code.

    An error on an open file has no file name: the result is then the path whose method failed, or standard output.
    """
    if error.filename:
        return str(error.filename)
    if not os.path.isdir(folder):
        return f"the working directory {folder} was deleted"
    frame = [frame for frame, _ in traceback.walk_tb(error.__traceback__)][-1]
    if isinstance(path := frame.f_locals.get("self"), Path):
        return str(path)
    if frame.f_code.co_filename in (console.__file__, __file__):
        return "standard output"
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{place.filename}, line {place.lineno}: {place.line} (AGGGEN_DEBUG=1 shows all)"


def _fail(message: str, code: int) -> NoReturn:
    if os.environ.get("AGGGEN_DEBUG") == "1" and (error := sys.exception()) is not None:
        _print_traceback(type(error), error, error.__traceback__)
    console.fail(message)
    sys.exit(code)


def _print_traceback(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Prints a traceback, masking secrets that the messages of libraries may contain."""
    from agggen_platform.tracking.origin import masked

    sys.stderr.write(masked("".join(traceback.format_exception(kind, error, trace))))


if __name__ == "__main__":
    main()
