"""Input and output of commands that use a bundle: records and JSON lines."""

import io
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import Annotated, Any, TextIO

from typer import Argument, Option

from agggen.corpora.rejects import Reject, write_rejects
from agggen.corpora.tables import Columns, read_jsonl
from agggen.datasets import read_file
from agggen.errors import ConfigError, CorpusError, PlanError, RecordError
from agggen.records import Record
from agggen_platform.cli import console
from agggen_platform.storage.folder import Folder

SHIPPED_BUNDLE = "elements"
_BUNDLE_HELP = "A trained model: its folder, s3://..., models:/NAME@ALIAS, models:/NAME/VERSION, or elements (shipped)."
BundleAddress = Annotated[str, Argument(metavar="BUNDLE", help=_BUNDLE_HELP)]
_ARCHIVES_HELP = "Load the AllenNLP archive that the bundle names; an archive can run any code."
RunArchives = Annotated[bool, Option("--run-archives", help=_ARCHIVES_HELP)]
Device = Annotated[str, Option(metavar="cpu|cuda|auto", help="auto: a GPU if there is one; cuda:1: the second GPU.")]
_INPUT_HELP = "Records: .jsonl, .csv, .json or .parquet; -: stdin, as JSON lines."
Input = Annotated[str, Option("--input", "-i", metavar="FILE", help=_INPUT_HELP)]
Output = Annotated[str, Option("--output", "-o", metavar="FILE", help="The output file of JSON lines; -: stdout.")]

_DEFAULT_COLUMNS = Columns()
_BATCH_RECORDS = 256
_MAX_LISTED = 20  # unknown predicates in a message


def is_remote(address: str) -> bool:
    """Whether `address` is in a store or the registry, and not a local folder."""
    return "://" in address or address.startswith("models:")


def read_records(source: str, columns: Columns = _DEFAULT_COLUMNS) -> Iterator[Record | Reject]:
    """The records of a file, in the format of its suffix, or of standard input ("-").

    Raises ConfigError if `columns` has values, but the source is not a table.
    """
    suffix, path = Path(source).suffix.lower(), Path(source)
    if source != "-" and (suffix in (".csv", ".tsv", ".json", ".parquet") or _has_table_rows(path)):
        table = read_file(path, columns)
        return chain(table.rejects, *table.records.values())
    if columns.names:
        raise ConfigError("options that name columns need a table: CSV, JSON, Parquet, or a file of JSON lines of rows")
    if source != "-":
        return read_jsonl(path)
    if sys.stdin.isatty():
        console.note("Reading records from the terminal, one JSON object per line; Ctrl-D ends the input")
    return read_jsonl(sys.stdin.buffer, "standard input")


def valid_records(path: Path, columns: Columns = _DEFAULT_COLUMNS) -> Iterator[Record]:
    """The records of a file; raises CorpusError if there are none, or if any is invalid."""
    record: Record | Reject | None = None
    for record in read_records(str(path), columns):
        if isinstance(record, Reject):
            raise CorpusError(str(record))
        yield record
    if record is None:
        raise CorpusError(f"{path} contains no records")


def _has_table_rows(path: Path) -> bool:
    """Whether a file of JSON lines contains table rows instead of records, judged by its first line."""
    if not path.is_file():  # such as a pipe, which can be read only once
        return False
    try:
        with path.open("rb") as file:
            first_value = json.loads(file.readline(1 << 20))
    except (OSError, ValueError, RecursionError):
        return False
    keys = first_value.keys() if isinstance(first_value, dict) else set()
    return not keys & {"triples", "references"} and bool(keys - {"id"})


class RejectCollector:
    """Collects rejected records, and predicates that are not in the training data."""

    def __init__(self, columns: Mapping[str, Any]) -> None:
        """`columns`: arguments of `Columns`."""
        self._columns = Columns(**columns)
        self.rejects: list[Reject] = []
        self.n_used = 0
        self.unknown_predicates: Counter[str] = Counter()  # number of records by predicate

    def batches(self, source: str, check: Callable[[Record], None]) -> Iterator[list[Record]]:
        """The records of `source`, in batches; rejects those for which `check` raises PlanError or RecordError."""
        records = self._valid_records(source, check)
        while batch := list(islice(records, _BATCH_RECORDS)):
            yield batch

    def _valid_records(self, source: str, check: Callable[[Record], None]) -> Iterator[Record]:
        for item in read_records(source, self._columns):
            if isinstance(item, Reject):
                self.rejects.append(item)
                continue
            try:
                check(item)
            except (PlanError, RecordError) as error:
                self.rejects.append(Reject(source, None, item.id, str(error)))
            else:
                self.n_used += 1
                yield item

    def reject(self, source: str, record_id: str, reason: str) -> None:
        """Rejects a record of an earlier batch, which the endpoint refused."""
        self.n_used -= 1
        self.rejects.append(Reject(source, None, record_id, reason))

    def report(self, output: str) -> None:
        """Prints unknown predicates, writes and counts the rejects; raises CorpusError if no record was used."""
        note_unknown_predicates(self.unknown_predicates)
        file = None if output == "-" or _is_stream(Path(output)) else Path(output + ".rejects.jsonl")
        if not self.rejects:
            if not self.n_used:
                raise CorpusError("the input contains no records")
            if file:
                file.unlink(missing_ok=True)  # rejects of an earlier run
            return
        advice = "; --output FILE lists all in FILE.rejects.jsonl" if len(self.rejects) > 1 else ""
        if file:
            write_rejects(file, self.rejects)
            advice = f"; see {file}"
        reject = self.rejects[0]
        location = reject.file + (f", line {reject.line}" if reject.line else "")
        if reject.id and repr(reject.id) not in reject.reason:
            location += f", record {reject.id!r}"
        if not self.n_used:
            raise CorpusError(f"no record could be used: {reject.reason} ({location}){advice}")
        count = f"{len(self.rejects):,} of {len(self.rejects) + self.n_used:,} records rejected"
        console.note(f"{count}, first: {reject.reason} ({location}){advice}")


def note_unknown_predicates(predicates: Mapping[str, int]) -> None:
    if not predicates:
        return
    by_count = sorted(predicates.items(), key=lambda item: (-item[1], item[0]))
    listed = ", ".join(f"{name} ({count:,})" for name, count in by_count[:_MAX_LISTED])
    unlisted = f" and {len(by_count) - _MAX_LISTED:,} more" if len(by_count) > _MAX_LISTED else ""
    console.note(f"Predicates that are not in the training data, with their number of records: {listed}{unlisted}")


def _is_stream(target: Path) -> bool:
    """Whether `target` is a device or pipe, so that no file may replace it."""
    return target.exists() and not target.is_file() and not target.is_dir()


@contextmanager
def output_lines(path: str, source: str = "-") -> Iterator[TextIO]:
    """Opens standard output ("-"), a device or pipe, or a file, which is written atomically.

    Raises ConfigError if `path` is a folder, or the input file `source`.
    """
    if path == "-":
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(encoding="utf-8")  # regardless of the terminal's encoding
        yield sys.stdout
        return
    target = Path(path)
    if _is_stream(target):
        with target.open("w", encoding="utf-8") as file:
            yield file
        return
    target = target.resolve()  # replaces the target of a link, not the link
    if target.is_dir():
        raise ConfigError(f"cannot write {path}: it is a folder; give a file in it")
    if source != "-" and target == Path(source).resolve():
        raise ConfigError(f"--output {path} would overwrite the input; give another file")
    with Folder(str(target.parent)).new(target.name) as temporary, temporary.open("w", encoding="utf-8") as file:
        yield file


def write_line(file: TextIO, value: Any) -> None:
    file.write(json.dumps(value, ensure_ascii=False) + "\n")
