"""`agggen srl check`: checks whether AllenNLP works on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer import Option

from agggen_platform.cli import console

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Semantic role labelling by AllenNLP's models.")


@app.command()
def check(
    folder: Annotated[
        Path | None,
        Option("--dir", metavar="DIR", help="The environment. [default: AGGGEN_SRL_ENV, else ~/.cache/agggen/srl-env]"),
    ] = None,
) -> None:
    """Check that AllenNLP's environment works, and print the versions of its packages.

    To show the semantic roles that an archive finds in a text:

    \b
        agggen facts inspect "Ada wrote it." --facts allennlp facts.allennlp.archive=srl.tar.gz
    """
    from agggen_platform.srl.environment import find_environment, worker_versions

    environment = find_environment(folder)
    versions = worker_versions(environment)
    console.note(f"AllenNLP works in {environment.folder}")
    console.print_table(("package", "version"), list(versions.items()))
