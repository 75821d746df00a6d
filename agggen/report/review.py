"""The review table: a CSV of risky texts, which people correct for use as training data.

``triples`` is JSON. `agggen.corpora.tables` reads such tables: a text in ``corrected`` becomes the record's reference;
if ``corrected`` is empty, the record has no reference.
"""

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path

from agggen.checks import CheckedText
from agggen.errors import ConfigError

COLUMNS = ("id", "triples", "text", "risk", "faults", "corrected")


def check_review(path: Path) -> None:
    """Raises ConfigError if `path` exists or its folder does not."""
    if path.exists():
        raise ConfigError(f"{path} exists and may contain corrections; name another file for the review table")
    if not path.parent.is_dir():
        raise ConfigError(f"cannot write {path}: there is no folder {path.parent}")


def write_review(path: Path, checked: Sequence[CheckedText]) -> None:
    """Writes the table, with a byte order mark, so that spreadsheets read it as UTF-8."""
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer)
    writer.writerow(COLUMNS)
    for entry in checked:
        triples = entry.record.as_dict()["triples"]
        triples_cell = "[" + ",\n ".join(json.dumps(triple, ensure_ascii=False) for triple in triples) + "]"
        faults = "\n".join([*entry.faults, *entry.doubts])
        writer.writerow((entry.record.id, triples_cell, entry.text, f"{entry.risk:.4f}", faults, ""))
    path.write_text(buffer.getvalue(), encoding="utf-8-sig", errors="backslashreplace", newline="")
