"""The `agggen` command: its subcommands, and what a user sees when something goes wrong.

Exit codes: 0 done; 1 a fault of ours (with a traceback), or the reader of our output went away; 2 wrong input, option
or configuration, or an extra that is not installed; 3 a bundle that cannot be used; 4 training or a job cannot go on; 5
the operating system or the store refused (disk full, permission); 6 no cluster, another job in the way, or MLflow has
not got everything; 7 no Python that AllenNLP runs on; 8 no such version, alias or registry; 9 a promotion refused; 10
an endpoint that does not answer, or not as it should; 11 `agggen doctor` found an error; 130 and 143 interrupted by
SIGINT and SIGTERM.
``AGGGEN_DEBUG=1`` shows the traceback of every error.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from types import TracebackType
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from agggen.errors import AggGenError
from agggen_platform import extras
from agggen_platform.cli import (
    adapt,
    ask,
    bulk,
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
    serve_key,
    srl,
    studio,
    sweep,
    train,
    write,
)

OPERATING_SYSTEM_REFUSED = 5
INTERRUPTED = 130
FIRST = ("demo", "studio", "prepare", "train", "generate", "evaluate")
"""The commands that a newcomer needs; the help lists them before the others."""


class _Commands(TyperGroup):
    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Writes the commands that a newcomer needs, then the others."""
        width = formatter.width - 6 - max(map(len, self.commands))
        others = [name for name in self.commands if name not in FIRST]
        for title, names in (("Commands to begin with", FIRST), ("More commands", others)):
            with formatter.section(title):
                formatter.write_dl([(name, self.commands[name].get_short_help_str(width)) for name in names])


# No rich markup in help: it would swallow the square brackets of plans.
app = typer.Typer(
    name="agggen",
    cls=_Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

# --- the commands, in the order in which one needs them. A command's module imports heavily only inside functions. ---
app.command("doctor", short_help="Check this machine, and the servers that a job would use.")(doctor.doctor)
app.command("demo", short_help="Train and show it all on the shipped corpus, in minutes.")(demo.demo)
app.add_typer(corpora.app, name="corpora")
app.command("prepare", short_help="Read your own data, and look at it before training.")(own_data.prepare)
app.command("segment", short_help="Cut the texts of a corpus into facts.")(segment.segment)
app.add_typer(facts.app, name="facts")
app.add_typer(srl.app, name="srl")
app.command("train", short_help="Train a model by a preset and write a bundle.")(train.train)
app.command("adapt", short_help="Continue a trained model on new data of your own.")(adapt.adapt)
app.command("sweep", short_help="Search a space of settings: many trainings, the best bundle.")(sweep.sweep)
app.command("evaluate", short_help="Score texts, plans and alignments on a split.")(evaluate.evaluate)
app.command("reproduce", short_help="Make the paper's tables again, ours beside the published.")(reproduce.reproduce)
app.add_typer(runs.app, name="runs")
app.command("generate")(write.generate)
app.command("bulk", short_help="Write texts for records by the million.")(bulk.bulk)
app.command("plan", short_help="Find the most likely plans of records.")(write.plan)
app.command("align", short_help="Find which triples each fact of a text says.")(write.align)
app.command("inspect")(write.inspect)
app.command("adjust", short_help="Write a bundle that searches and chooses otherwise.")(write.adjust)
app.add_typer(models.app, name="models")
app.command("serve", short_help="Answer over HTTP.")(serve.serve)
app.command("studio", short_help="Move facts of a plan and watch the text change, in a browser.")(studio.studio)
app.command("ask", short_help="Write texts for records by an endpoint.")(ask.ask)
app.command("serve-key", short_help="Make an API key of the endpoint.")(serve_key.serve_key)
app.command("score", short_help="Score any system's texts against references.")(score.score)
app.command("score-plans", short_help="Score plans against human plans.")(score.score_plans)
app.command("score-alignments", short_help="Score alignments against human ones.")(score.score_alignments)
# ----------------------------------------------------------------------------------------------------------------------


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
    """Runs the command line (the process's by default) and exits; a user's error is one line, without a traceback."""
    try:
        folder = os.getcwd()
    except FileNotFoundError:
        _fail("the folder in which this command was started is gone; run it in another one", OPERATING_SYSTEM_REFUSED)
    try:
        try:
            app(args=arguments, prog_name="agggen")
        finally:
            sys.excepthook = _show_fault  # now: Typer sets its own as it begins
            sys.stdout.flush()  # here, where a reader that went away can still be handled quietly
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
        # What is still buffered goes nowhere, or the interpreter complains about it when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        _fail(f"{error.strerror or error}: {_object_of(error, folder)}", OPERATING_SYSTEM_REFUSED)
    sys.exit(0)


def _object_of(error: OSError, folder: str) -> str:
    """What the operating system refused: a path, or where in the code it was."""
    if error.filename:
        return str(error.filename)
    if not os.path.isdir(folder):
        return f"the folder {folder}, in which this command works, is gone"
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{place.filename}, line {place.lineno}: {place.line} (AGGGEN_DEBUG=1 shows all)"


def _fail(message: str, code: int) -> NoReturn:
    if os.environ.get("AGGGEN_DEBUG") == "1" and (error := sys.exception()) is not None:
        _show_fault(type(error), error, error.__traceback__)
    console.fail(message)
    sys.exit(code)


def _show_fault(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Prints a traceback without secrets: messages of other libraries may quote an address with its password."""
    from agggen_platform.tracking.origin import masked

    sys.stderr.write(masked("".join(traceback.format_exception(kind, error, trace))))


if __name__ == "__main__":
    main()
