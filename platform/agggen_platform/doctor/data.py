"""Corpora in the data home."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from agggen.corpora.catalogue import Corpus, data_home, get_corpus, list_corpora
from agggen.corpora.fetch import read_manifest
from agggen.errors import CorpusError
from agggen_platform.doctor.findings import Finding, Level, error, ok, warning
from agggen_platform.doctor.settings import Settings


def check(settings: Settings) -> Iterator[Finding]:
    home = data_home()
    if home.exists() and not home.is_dir():
        yield warning("data home", f"AGGGEN_DATA_HOME={home} is not a folder", "export AGGGEN_DATA_HOME=FOLDER")
    else:
        yield ok("data home", f"{home}{'' if home.exists() else ' will be created by `agggen corpora fetch`'}")
    for corpus in list_corpora():
        yield _corpus(corpus, needed=corpus.name == settings.corpus)
    if settings.corpus is not None and not Path(settings.corpus).is_dir():
        try:
            get_corpus(settings.corpus)
        except CorpusError as failure:
            yield error("corpus", str(failure), "agggen corpora list")


def _corpus(corpus: Corpus, needed: bool) -> Finding:
    """Whether all files of a corpus are there with their sizes; `agggen corpora fetch` compares their SHA-256."""
    if corpus.folder is None:
        return ok(corpus.name, "part of agggen")
    folder = data_home() / corpus.folder
    fetch = f"agggen corpora fetch {corpus.name}"
    if not folder.is_dir():
        get = f"copy {corpus.copied_from} to {folder}" if corpus.copied_from else fetch
        return Finding(Level.ERROR if needed else Level.NOTE, corpus.name, f"not in {data_home()}", get)
    files = read_manifest(corpus.name)
    wrong = [
        file.path
        for file in files
        if not (folder / file.path).is_file() or file.bytes not in (None, (folder / file.path).stat().st_size)
    ]
    if wrong:
        message = f"{folder}: {len(wrong)} of {len(files)} files are missing or changed, the first is {wrong[0]}"
        return Finding(Level.ERROR if needed else Level.WARNING, corpus.name, message, fetch)
    return ok(corpus.name, f"complete in {folder}")
