"""`agggen corpora`: lists and downloads the corpora of the catalogue."""

from __future__ import annotations

from typing import Annotated

import typer
from typer import Argument

from agggen_platform.cli import console

app = typer.Typer(name="corpora", no_args_is_help=True, help="List and fetch corpora.")


@app.command("list")
def list_() -> None:
    """List the corpora and whether they are on this machine."""
    from agggen.corpora.catalogue import data_home, list_corpora

    home = data_home()
    rows = []
    for corpus in list_corpora():
        present = "shipped" if corpus.folder is None else "yes" if (home / corpus.folder).is_dir() else "no"
        rows.append((corpus.name, present, ", ".join(corpus.splits), corpus.licence, corpus.title))
    console.print_table(("name", "present", "splits", "licence", "title"), rows)
    console.note(f"The data home is {home} (AGGGEN_DATA_HOME)")


@app.command()
def fetch(name: Annotated[str, Argument(metavar="NAME", help="A corpus of `agggen corpora list`.")]) -> None:
    """Download a corpus into the data home (AGGGEN_DATA_HOME), and check each file's SHA-256.

    The same command continues an interrupted download.

    \b
        agggen corpora fetch webnlg
    """
    from agggen.corpora.fetch import fetch as fetch_corpus

    report = fetch_corpus(name, progress=console.byte_progress())
    console.note(f"{report.n_downloaded} files downloaded, {report.n_present} already present")
    console.echo(str(report.folder))
