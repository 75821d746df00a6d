"""The HTML page of `agggen check`: every text with its marked spans and verdicts, the riskiest first."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from agggen.checks import CheckedText
from agggen.display import split_at_spans
from agggen.report.page import environment


def write_checks_page(path: Path, checked: Sequence[CheckedText], name: str) -> None:
    """Writes the page; all values and texts are escaped."""
    riskiest = sorted(checked, key=lambda entry: -entry.risk)
    template = environment().get_template("checks.html.jinja")
    path.write_text(template.render(name=name, checked=riskiest, pieces=split_at_spans), encoding="utf-8")
