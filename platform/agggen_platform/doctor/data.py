"""Corpora in the data home, hashed as `agggen corpora fetch` does it, and folders that agggen writes to."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from agggen.corpora.catalogue import Corpus, data_home, get_corpus, list_corpora
from agggen.corpora.fetch import _is_right, read_manifest
from agggen.errors import CorpusError
from agggen.facts.allennlp.environment import cache_folder
from agggen_platform.doctor.findings import Check, Finding, Level, error, ok, warning
from agggen_platform.doctor.settings import Settings
from agggen_platform.doctor.store import writable

DATA, CACHES = "data", "caches"
_MODE_OF_STRANGERS = 0o022


def checks(settings: Settings) -> list[Check]:
    return [
        Check(DATA, "data home", home, 10),
        Check(DATA, "corpora", lambda: corpora(settings), 120),
        Check(DATA, "corpus of the job", lambda: job(settings), 10),
    ]


def cache_checks(settings: Settings) -> list[Check]:
    return [Check(CACHES, "folders", lambda: folders(settings), 20)]


def home() -> Iterator[Finding]:
    folder = data_home()
    if folder.is_dir():
        yield ok("data home", f"{folder}")
    elif os.environ.get("AGGGEN_DATA_HOME"):
        yield warning("data home", f"AGGGEN_DATA_HOME={folder} is no folder", f"mkdir -p {folder}")
    else:
        yield ok("data home", f"{folder} is made by the first `agggen corpora fetch`")


def corpora(settings: Settings) -> Iterator[Finding]:
    """Each corpus of the catalogue: all files there with the pinned SHA-256, some, or none."""
    for corpus in list_corpora():
        yield _corpus(corpus, corpus.name == settings.corpus)


def _corpus(corpus: Corpus, needed: bool) -> Finding:
    if corpus.folder is None:
        return ok(corpus.name, "part of agggen")
    files = read_manifest(corpus.name)
    folder = data_home() / corpus.folder
    if corpus.copied_from:
        if folder.is_dir():
            return ok(corpus.name, f"{folder}, copied by hand: its files have no pinned SHA-256")
        copy = f"copy {corpus.copied_from} to {folder}"
        return Finding(Level.ERROR if needed else Level.NOTE, corpus.name, f"not in {data_home()}", copy)
    missing = [file for file in files if not (folder / file.path).is_file()]
    changed = [file for file in files if (folder / file.path).is_file() and not _is_right(folder / file.path, file)]
    fetch = f"agggen corpora fetch {corpus.name}"
    if len(missing) == len(files):
        return Finding(Level.ERROR if needed else Level.NOTE, corpus.name, f"not in {data_home()}", fetch)
    if missing or changed:
        level = Level.ERROR if needed else Level.WARNING
        first = f"{(changed or missing)[0].path} is {'changed' if changed else 'missing'}"
        found = f"{folder}: {len(missing)} of {len(files)} files are missing and {len(changed)} changed ({first})"
        return Finding(level, corpus.name, found, fetch)
    return ok(corpus.name, f"{len(files)} files in {folder} have the pinned SHA-256")


def job(settings: Settings) -> Iterator[Finding]:
    """What the job reads besides the catalogue: a prepared folder, or precomputed frames."""
    if settings.frames is not None and not Path(settings.frames).is_file():
        found = f"there is no file of frames {settings.frames} (facts.precomputed)"
        yield error("frames", found, "facts.precomputed=FILE  # or facts.source=embedded")
    if settings.corpus is None or settings.corpus in {known.name for known in list_corpora()}:
        if settings.corpus is not None:
            yield from _splits(settings, set(get_corpus(settings.corpus).splits))
        return
    folder = Path(settings.corpus)
    if not folder.is_dir():
        try:
            get_corpus(settings.corpus)
        except CorpusError as unknown:
            yield error("corpus", f"{unknown}", "agggen corpora list")
        return
    yield from _splits(settings, {path.stem for path in folder.glob("*.parquet")})


def _splits(settings: Settings, there: set[str]) -> Iterator[Finding]:
    missing = [split for split in settings.splits if split not in there]
    if missing:
        found = (
            f"{settings.corpus} has no split {' and no '.join(missing)}; it has {', '.join(sorted(there)) or 'none'}"
        )
        yield error("splits", found, "corpus.train=SPLIT corpus.dev=SPLIT  # or: agggen corpora prepare NAME --out DIR")
    else:
        yield ok("splits", f"{settings.corpus} has {', '.join(settings.splits)}")


def folders(settings: Settings) -> Iterator[Finding]:
    """Folders that jobs write to on this machine."""
    wanted = {
        "cache": (cache_folder(), "export AGGGEN_CACHE=FOLDER"),
        "runs": (settings.runs, "agggen train PRESET --runs FOLDER"),
        "temporary files": (Path(tempfile.gettempdir()), "export TMPDIR=FOLDER"),
    }
    for name, (folder, choose) in wanted.items():
        finding = writable(folder, choose)
        yield Finding(finding.level, name, finding.found, finding.remedy)
    cache = cache_folder()
    if cache.is_dir() and cache.stat().st_mode & _MODE_OF_STRANGERS:
        # What lies there is checked by its hash, but an environment of AllenNLP's in there is run.
        yield warning("cache", f"others may write to {cache}", f"chmod go-w {cache}")
