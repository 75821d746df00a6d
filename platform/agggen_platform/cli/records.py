"""Records in and lines out, for the commands that work on a bundle: any of the formats, files or `-`."""

from __future__ import annotations

import errno
import io
import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from agggen.corpora.rejects import Reject, write_rejects
from agggen.corpora.tables import Columns
from agggen.errors import ConfigError, CorpusError, PlanError, RecordError
from agggen.records import Record
from agggen_platform.cli import console

if TYPE_CHECKING:
    from agggen.facts import FactSegmenter

SHIPPED_BUNDLE = "elements"
BundleAddress = Annotated[
    str,
    typer.Argument(
        metavar="BUNDLE",
        help="A trained model: its folder, s3://..., models:/NAME@ALIAS, models:/NAME/VERSION, or elements (shipped).",
    ),
]
RunArchives = Annotated[
    bool,
    typer.Option("--run-archives", help="Load the AllenNLP archive that the bundle names. It can run any code."),
]
Device = Annotated[
    str, typer.Option(metavar="cpu|cuda|auto", help="What computes; auto is a GPU if there is one, cuda:1 the second.")
]
Input = Annotated[
    str,
    typer.Option("--input", "-i", metavar="FILE", help="Records: a .jsonl, .csv, .json or .parquet file, or -."),
]
Output = Annotated[str, typer.Option("--output", "-o", metavar="FILE", help="Where JSON lines go, or -.")]

_USUAL = Columns()
_BLOCK = 256  # records that are worked on together
_NAMED = 20  # unknown predicates that one message names
_DISK_FULL = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)


def is_elsewhere(address: str) -> bool:
    """Whether a bundle is named by its address in a store or in the registry, not by its folder."""
    return "://" in address or address.startswith("models:")


def read_records(source: str, columns: Columns = _USUAL) -> Iterator[Record | Reject]:
    """The records of a file by its ending, or of standard input.

    Raises:
        CorpusError: the file as a whole cannot be read.
        ConfigError: `columns` are named, and the source is not a table.
    """
    suffix, path = Path(source).suffix.lower(), Path(source)
    if source != "-" and (suffix in (".csv", ".tsv", ".json", ".parquet") or _holds_objects(path)):
        from agggen.datasets import read_file

        table = read_file(path, columns)
        return chain(table.rejects, *table.records.values())
    if columns.named:
        raise ConfigError("options that name columns need a table: CSV, JSON, Parquet, or a file of JSON lines of rows")
    if source == "-":
        from agggen.corpora.json_lines import read_jsonl

        if sys.stdin.isatty():
            console.note("Reading records from the keyboard, one JSON object a line; end with Ctrl-D")
        return read_jsonl(sys.stdin.buffer, "standard input")
    from agggen.corpora.json_lines import read_jsonl

    return read_jsonl(path)


def _holds_objects(path: Path) -> bool:
    """Whether JSON lines are objects of other keys than records have, by the first line."""
    try:
        with path.open("rb") as file:
            first = json.loads(file.readline(1 << 20))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(first, dict) and not first.keys() & {"triples", "references"} and bool(first.keys() - {"id"})


class Rejected:
    """Collects what could not be used, and what training never saw; a run that used nothing fails with a reason."""

    def __init__(self, columns: Columns = _USUAL) -> None:
        """`columns`: of a table of records."""
        self._columns = columns
        self.rejects: list[Reject] = []
        self.used = 0
        self.unknown: Counter[str] = Counter()
        """In how many records each predicate is that training never saw."""

    def blocks(self, source: str, check: Callable[[Record], None]) -> Iterator[list[Record]]:
        """The records of `source` that `check` passes, in blocks; all others are set aside with the reason."""
        block: list[Record] = []
        for item in read_records(source, self._columns):
            if isinstance(item, Reject):
                self.rejects.append(item)
                continue
            try:
                check(item)
            except (PlanError, RecordError) as error:
                self.rejects.append(Reject(source, None, item.id, str(error)))
                continue
            self.used += 1
            block.append(item)
            if len(block) == _BLOCK:
                yield block
                block = []
        if block:
            yield block

    def refuse(self, source: str, record: str, reason: str) -> None:
        """Sets aside a record that a block held after all; whoever was asked about it refused it."""
        self.used -= 1
        self.rejects.append(Reject(source, None, record, reason))

    def note_unknown(self, predicates: Iterable[str]) -> None:
        """Counts a record's predicates that training never saw."""
        self.unknown.update(set(predicates))

    def report(self, output: str) -> None:
        """Says what training never saw, and how many were rejected and where they are written.

        Raises:
            CorpusError: nothing was used at all; gives the first reason.
        """
        name_unknown(self.unknown)
        beside = _rejects_file(output)
        if not self.rejects:
            if not self.used:
                raise CorpusError("the input holds no record")
            if beside:
                beside.unlink(missing_ok=True)  # what an earlier run left would be read as this one's
            return
        if beside:
            write_rejects(beside, self.rejects)
        where = f"; see {beside}" if beside else "; --output FILE lists all in FILE.rejects.jsonl"
        where = where if beside or len(self.rejects) > 1 else ""
        first = self.rejects[0]
        place = first.file + (f", line {first.line}" if first.line else "")
        if first.id and repr(first.id) not in first.reason:
            place += f", record {first.id!r}"
        if not self.used:
            raise CorpusError(f"no record could be used: {first.reason} ({place}){where}")
        count = f"{len(self.rejects):,} of {len(self.rejects) + self.used:,} records rejected"
        console.note(f"{count}, first: {first.reason} ({place}){where}")


def name_unknown(predicates: Mapping[str, int]) -> None:
    """Names the predicates that training never saw, each with how many records have it; the most frequent of many."""
    if not predicates:
        return
    often = sorted(predicates.items(), key=lambda item: (-item[1], item[0]))
    named = ", ".join(f"{name} ({count:,})" for name, count in often[:_NAMED])
    more = f" and {len(often) - _NAMED:,} more" if len(often) > _NAMED else ""
    console.note(f"Predicates that training never saw, and how many records have each: {named}{more}")


def _rejects_file(output: str) -> Path | None:
    """Where the rejects of a run that writes to `output` go; None beside a stream."""
    return None if output == "-" or _is_stream(Path(output)) else Path(output + ".rejects.jsonl")


def _is_stream(target: Path) -> bool:
    """Whether `target` is a device or pipe, which is written to and never replaced."""
    return target.exists() and not target.is_file() and not target.is_dir()


@contextmanager
def output_lines(path: str, source: str = "-") -> Iterator[TextIO]:
    """Standard output, a device or pipe, or a file that appears under its name only when it is whole.

    Raises:
        ConfigError: `path` is a folder, lies below a file, or is the file `source` that is being read.
    """
    if path == "-":
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(encoding="utf-8")  # JSON lines are UTF-8, whatever the terminal is
        yield sys.stdout
        return
    target = Path(path)
    try:
        if _is_stream(target):
            with target.open("w", encoding="utf-8") as file:
                yield file
            return
        target = target.resolve()  # a link keeps pointing at what is written
        with _whole_file(target, path, source) as file:
            yield file
    except OSError as error:
        if error.errno in _DISK_FULL and error.filename is None:
            raise OSError(error.errno, error.strerror, path) from error
        raise


@contextmanager
def _whole_file(target: Path, path: str, source: str) -> Iterator[TextIO]:
    """A file beside `target` that takes its name at the end; `path` is what the user calls it."""
    if target.is_dir():
        raise ConfigError(f"cannot write {path}: it is a folder; name a file in it")
    if source != "-" and target == Path(source).resolve():
        raise ConfigError(f"--output {path} is the input itself, which would be lost; name another file")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise ConfigError(f"cannot write {path}: {error.filename} is a file, no folder") from error
    beside = target.with_name(f"{target.name}.{os.getpid()}.tmp")
    try:
        try:
            file = beside.open("w", encoding="utf-8")
        except OSError as error:
            raise OSError(error.errno, f"cannot write: {error.strerror}", path) from error
        with file:
            yield file
        beside.replace(target)
    finally:
        beside.unlink(missing_ok=True)


def write_line(file: TextIO, value: Any) -> None:
    """One JSON object a line."""
    file.write(json.dumps(value, ensure_ascii=False) + "\n")


def texts_with_facts(records: Sequence[Record], cut: FactSegmenter) -> list[tuple[Record, int, tuple[str, ...]]]:
    """Every reference of every record with its number and its facts: its own, or what `cut` makes of it."""
    texts = [(record, number, text) for record in records for number, text in enumerate(record.references)]
    new = iter(cut.segment([reference.text for _, _, reference in texts if reference.facts is None]))
    return [
        (record, number, next(new) if text.facts is None else tuple(fact.text for fact in text.facts))
        for record, number, text in texts
    ]
