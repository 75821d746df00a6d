"""Writes the folder of a report atomically.

report.html      a self-contained page
report.json      all scores with signatures and intervals
records.jsonl    one line per record: text, plan, facts, scores, errors
"""

import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agggen.errors import ConfigError
from agggen.report.content import Report, finite_or_none
from agggen.report.page import to_html

FORMAT = 1
FILES = ("report.html", "report.json", "records.jsonl")


def to_json(report: Report) -> dict[str, Any]:
    """The content of report.json."""
    return {
        "format": FORMAT,
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
    if not folder.exists():
        return
    if not folder.is_dir():
        raise ConfigError(f"cannot write a report to {folder}: it is a file; name a folder")
    names = sorted(path.name for path in folder.iterdir())
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
        _write(new_folder / "records.jsonl", rows)
        scores = json.dumps(to_json(report), ensure_ascii=False, allow_nan=False, indent=1)
        _write(new_folder / "report.json", scores + "\n")
        _write(new_folder / "report.html", to_html(report))
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


def _write(path: Path, text: str) -> None:
    # A lone surrogate cannot be encoded as UTF-8; in JSON it is escaped.
    path.write_text(text, encoding="utf-8", errors="backslashreplace")
