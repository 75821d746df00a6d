"""`agggen corpora`: list, fetch and prepare the corpora of the catalogue."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from agggen_platform.cli import console

app = typer.Typer(no_args_is_help=True, help="List, fetch and prepare corpora.", rich_markup_mode=None)

Name = Annotated[str, typer.Argument(metavar="NAME", help="A corpus that `agggen corpora list` names.")]


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
    console.note(f"Corpora lie in {home} (AGGGEN_DATA_HOME)")


@app.command()
def fetch(name: Name) -> None:
    """Download a corpus into the data home (AGGGEN_DATA_HOME), checking each file's SHA-256.

    Files that are there already are kept, so the same command continues an interrupted download.

    \b
        agggen corpora fetch webnlg
    """
    from agggen.corpora.fetch import fetch as fetch_corpus

    report = fetch_corpus(name, progress=console.byte_progress())
    console.note(f"{report.downloaded} files downloaded, {report.present} already present")
    console.say(str(report.folder))


@app.command()
def prepare(
    name: Name,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="The folder for the Parquet files.")],
    split: Annotated[list[str] | None, typer.Option(help="Only this split; can be repeated. [default: all]")] = None,
    max_reject_share: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Fail if more than this share of a split cannot be read.")
    ] = 1.0,
) -> None:
    """Read a corpus and write it as Parquet, one file per split.

    Records that cannot be read go to DIR/rejects.jsonl with file, line, id and reason.

    \b
        agggen corpora prepare elements --out prepared/elements
    """
    from agggen.corpora.catalogue import get_corpus
    from agggen.corpora.rejects import check_reject_share
    from agggen.datasets import catalogue_dataset

    data = catalogue_dataset(name, split or get_corpus(name).splits)
    rows = []
    for part, records in data.splits.items():
        rejects = data.rejects.get(part, [])
        check_reject_share(len(records), rejects, max_reject_share, f"{name} {part}")
        rows.append((part, len(records), sum(len(record.references) for record in records), len(rejects)))
    data.save(out)
    console.print_table(("split", "records", "references", "rejects"), rows)
    rejected = sum(map(len, data.rejects.values()))
    console.note(f"Written to {out}" + (f"; rejected: {rejected:,}, see {out / 'rejects.jsonl'}" if rejected else ""))
