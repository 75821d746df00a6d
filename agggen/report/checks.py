"""The HTML page of `agggen check`: every text with its marked spans and verdicts, the riskiest first."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from jinja2 import Environment

from agggen.checks import CheckedText


def write_checks_page(path: Path, checked: Sequence[CheckedText], name: str) -> None:
    """Writes the page; all values and texts are escaped."""
    css, template = ((files("agggen.report") / file).read_text("utf-8") for file in ("page.css", "checks.html.jinja"))
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    riskiest = sorted(checked, key=lambda entry: -entry.risk)
    page = environment.from_string(template).render(name=name, css=css, checked=riskiest, pieces=_pieces)
    path.write_text(page, encoding="utf-8")


def _pieces(entry: CheckedText) -> list[tuple[bool, str]]:
    """The text in pieces, and whether each is invented."""
    pieces, position = [], 0
    for start, end in entry.judgement.invented:
        pieces += [(False, entry.text[position:start]), (True, entry.text[start:end])]
        position = end
    return [*pieces, (False, entry.text[position:])]
