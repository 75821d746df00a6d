"""The READMEs of the repository, their blocks of code, and the commands in these."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt

REPO = Path(__file__).parents[1]
READMES = sorted(
    path for path in REPO.rglob("README.md") if not any(part[0] == "." for part in path.relative_to(REPO).parts)
)


@dataclass(frozen=True)
class Block:
    """A block of code of a README."""

    readme: Path
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.readme.relative_to(REPO)}:{self.line}"


def blocks(readme: Path) -> Iterator[Block]:
    """Fenced blocks with their language, and indented ones, as `sh` if they begin like a command, else as `text`."""
    for token in MarkdownIt().parse(readme.read_text(encoding="utf-8")):
        if token.type in ("fence", "code_block") and token.map:
            text = token.content.rstrip()
            indented = "sh" if re.match(r"[a-z.\d]+( |$)", text, re.M) else "text"
            yield Block(readme, token.map[0] + 1, token.info if token.type == "fence" else indented, text)


def commands_of(text: str) -> Iterator[list[str]]:
    """The simple commands of shell code, as lists of words, without redirections and assignments before commands."""
    logical = ""
    for line in text.replace("\\\n", " ").splitlines():
        logical += line
        try:
            shlex.split(logical, comments=True)
        except ValueError:  # a quotation that continues in the next line
            logical += "\n"
            continue
        lexer = shlex.shlex(logical, posix=True, punctuation_chars=";|&<>")
        lexer.whitespace_split = True
        words: list[str] = []
        target = False
        for token in [*lexer, ";"]:
            if set(token) <= set(";|&"):
                if words:
                    yield words
                words = []
            elif set(token) <= set("<>"):
                target = True
            elif target:
                target = False
            elif words or not re.match(r"\w+=", token):
                words.append(token)
        logical = ""
    assert not logical, f"an open quotation: {logical}"
