"""Writes the files of `agggen evaluate`, in a folder that is replaced atomically, and of `agggen check`.

report.html      a self-contained page
report.json      all scores with signatures and intervals
records.jsonl    one line per record: text, plan, facts, scores, errors
"""

import csv
import io
import json
import os
import random
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from agggen.checks import CheckedText
from agggen.display import split_at_spans
from agggen.errors import ConfigError
from agggen.generation.results import WrittenFact
from agggen.report.content import OUR_NAME, Report, Row, finite_or_none, format_cell

FILES = ("report.html", "report.json", "records.jsonl")
REVIEW_COLUMNS = ("id", "triples", "text", "risk", "faults", "corrected")
MAX_ROWS = 30  # maximum number of sampled rows; maximum number of rows with the most faults
FACT_COLOURS = 6  # number of colours for facts, which are used in turn

# Control characters, lone surrogates and non-characters, which HTML does not allow.
_INVALID_IN_HTML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")


def to_json(report: Report) -> dict[str, Any]:
    """The content of report.json."""
    return {
        "format": 1,
        "title": report.title,
        "identity": dict(report.identity),
        "partial": report.partial or None,
        "run": {name: finite_or_none(value) for name, value in report.run.items()},
        "scores": {
            section.key: {
                "title": section.title,
                "note": section.note,
                "measures": [measure.as_dict() for measure in section.measures],
            }
            for section in report.sections
        },
        "published_note": report.published_note,
        **{name: None if table is None else table.as_dicts() for name, table in report.tables.items()},
    }


def check_target(folder: Path, identity: Mapping[str, str | int]) -> None:
    """Raises ConfigError unless `folder` is empty, has a report with the same identity, or can be created.

    It must not be the working directory or a mount point, since `write_report` renames it.
    """
    if folder.is_symlink():
        raise ConfigError(f"{folder} is a symbolic link, which cannot be replaced; name its target")
    if folder.is_mount() or folder.resolve() == Path.cwd():
        problem = "is the working directory or a mount point, which cannot be replaced"
        raise ConfigError(f"{folder} {problem}; name a subfolder")
    parent = next(parent for parent in folder.absolute().parents if parent.exists())
    if not parent.is_dir():
        raise ConfigError(f"cannot write a report to {folder}: {parent} is a file, not a folder")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise ConfigError(f"cannot write a report to {folder}: no permission to write in {parent}")
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"cannot write a report to {folder}: it is a file; name a folder")
    names = sorted(path.name for path in folder.iterdir()) if folder.exists() else []
    if not names:
        return
    if "report.json" not in names or (foreign_files := sorted(set(names) - set(FILES))):
        foreign_file = foreign_files[0] if "report.json" in names else names[0]
        raise ConfigError(f"{folder} has {foreign_file}, which is not part of a report; name another folder")
    try:
        existing_identity = json.loads((folder / "report.json").read_text(encoding="utf-8"))["identity"]
    except (ValueError, KeyError, TypeError) as error:
        problem = f"{folder / 'report.json'} is not a valid report"
        raise ConfigError(f"{problem}; remove it, or name another folder") from error
    if existing_identity != dict(identity):
        changed_names = [name for name in identity if existing_identity.get(name) != identity[name]] or ["settings"]
        problem = f"has the report of another evaluation (its {changed_names[0].replace('_', ' ')} differs)"
        raise ConfigError(f"{folder} {problem}; name another folder, or remove it")


def write_report(folder: Path, report: Report) -> None:
    """Writes the report's files; replaces a report with the same identity (`check_target`).

    If the files cannot be written, `folder` is unchanged.
    """
    check_target(folder, report.identity)
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        new_folder, old_folder = temporary / "new", temporary / "old"
        new_folder.mkdir()
        rows = "".join(json.dumps(row.as_dict(), ensure_ascii=False, allow_nan=False) + "\n" for row in report.rows)
        scores = json.dumps(to_json(report), ensure_ascii=False, allow_nan=False, indent=1)
        for name, text in zip(FILES, (to_html(report), scores + "\n", rows), strict=True):
            # A lone surrogate cannot be encoded as UTF-8; in JSON it is escaped.
            (new_folder / name).write_text(text, encoding="utf-8", errors="backslashreplace")
        if folder.exists():
            os.rename(folder, old_folder)
        try:
            os.rename(new_folder, folder)
        except OSError:
            if old_folder.exists():
                os.rename(old_folder, folder)
            raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _environment() -> Environment:
    """The Jinja environment of this package's templates, which escapes all texts."""
    loader = PackageLoader("agggen", "report")
    return Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined)


def to_html(report: Report) -> str:
    templates = _environment()
    templates.filters |= {"pieces": pieces, "format_cell": format_cell, "triples_of": triples_of}
    page = templates.get_template("page.html.jinja").render(
        report=report, samples=sample_rows(report), worst=most_faulty(report), ours=OUR_NAME, colours=FACT_COLOURS
    )
    return _INVALID_IN_HTML.sub("\N{REPLACEMENT CHARACTER}", page)


def write_checks_page(path: Path, checked: Sequence[CheckedText], name: str) -> None:
    """Writes the page of `agggen check`: texts with marked spans and verdicts, in descending order of risk."""
    by_risk = sorted(checked, key=lambda entry: -entry.risk)
    template = _environment().get_template("checks.html.jinja")
    path.write_text(template.render(name=name, checked=by_risk, pieces=split_at_spans), encoding="utf-8")


def sample_rows(report: Report) -> list[Row]:
    """At most MAX_ROWS random rows (with the report's seed), in the order of the corpus."""
    indices = random.Random(report.seed).sample(range(len(report.rows)), min(MAX_ROWS, len(report.rows)))
    return [report.rows[index] for index in sorted(indices)]


def most_faulty(report: Report) -> list[Row]:
    """At most MAX_ROWS rows with faults, by descending number of faults, then by number of triples."""
    faulty = [row for row in report.rows if row.check.faults]
    faulty.sort(key=lambda row: (-len(row.check.faults), len(row.record.triples), row.record.id))
    return faulty[:MAX_ROWS]


def pieces(row: Row) -> list[tuple[int, str]]:
    """The text as (fact number from 1, or 0 outside facts; substring); ignores facts that overlap an earlier fact."""
    spans = []
    for fact in row.facts:
        piece = row.text[fact.start : fact.end]
        start = fact.start + len(piece) - len(piece.lstrip())
        spans.append((start, start + len(piece.strip())))
    return split_at_spans(row.text, spans)


def triples_of(row: Row, fact: WrittenFact) -> str:
    """A fact's triples as one line, or ``no triple``."""
    triple_of = dict(zip(row.record.predicates, row.record.triples, strict=True))
    return "; ".join(str(triple_of.get(name, name)) for name in fact.predicates) or "no triple"


def check_review(path: Path) -> None:
    """Raises ConfigError if `path` exists or its folder does not."""
    if path.exists():
        raise ConfigError(f"{path} exists and may contain corrections; name another file for the review table")
    if not path.parent.is_dir():
        raise ConfigError(f"cannot write {path}: no folder {path.parent}")


def write_review(path: Path, checked: Sequence[CheckedText]) -> None:
    """Writes a CSV of risky texts, which people correct for use as training data.

    ``triples`` is JSON. `agggen.corpora.tables` reads such tables: a text in ``corrected`` becomes the record's
    reference; if ``corrected`` is empty, the record has no reference. Spreadsheets need the byte order mark.
    """
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer)
    writer.writerow(REVIEW_COLUMNS)
    for entry in checked:
        triples = entry.record.as_dict()["triples"]
        triples_cell = "[" + ",\n ".join(json.dumps(triple, ensure_ascii=False) for triple in triples) + "]"
        faults = "\n".join([*entry.faults, *entry.doubts])
        writer.writerow((entry.record.id, triples_cell, entry.text, f"{entry.risk:.4f}", faults, ""))
    path.write_text(buffer.getvalue(), encoding="utf-8-sig", errors="backslashreplace", newline="")
