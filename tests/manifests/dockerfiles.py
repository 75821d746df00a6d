"""Reads Dockerfiles and .dockerignore as Docker does, as far as the tests ask."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

REPO = Path(__file__).parents[2]
DOCKERFILES = sorted((REPO / "infra").rglob("Dockerfile"))


@dataclass(frozen=True)
class Instruction:
    """An instruction with its continued lines joined, comments between them left out."""

    stage: str
    """Its stage's name; empty before the first FROM."""
    line: int
    name: str
    text: str


def read(path: Path) -> list[Instruction]:
    """All instructions of a file."""
    found: list[Instruction] = []
    stage, parts, begin = "", list[str](), 0
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if line.lstrip().startswith("#") or (not parts and not line.strip()):
            continue
        begin = begin if parts else number
        parts.append(line.removesuffix("\\").strip())
        if line.endswith("\\"):
            continue
        name, _, text = " ".join(parts).partition(" ")
        if name.upper() == "FROM":
            named = re.search(r"\sAS\s+(\S+)$", text, re.IGNORECASE)
            stage = named[1] if named else str(number)
        found.append(Instruction(stage, begin, name.upper(), text.strip()))
        parts = []
    return found


def lineage(instructions: list[Instruction], stage: str) -> list[Instruction]:
    """The instructions of a stage, those of the stages that it stands on first."""
    own = [each for each in instructions if each.stage == stage]
    base = own[0].text.split()[0]
    return (lineage(instructions, base) if any(each.stage == base for each in instructions) else []) + own


class Ignored:
    """A .dockerignore: patterns of whole paths from the root, where the last one that matches decides."""

    def __init__(self, text: str) -> None:
        lines = (line.strip() for line in text.splitlines())
        self._rules = [
            (not line.startswith("!"), re.compile(_pattern(line.removeprefix("!").strip("/"))))
            for line in lines
            if line and not line.startswith("#")
        ]

    def __contains__(self, name: str) -> bool:
        path = PurePosixPath(name)
        names = [str(path), *(str(parent) for parent in path.parents if parent.name)]
        ignored = False
        for ignores, pattern in self._rules:
            if any(pattern.fullmatch(each) for each in names):
                ignored = ignores
        return ignored


def _pattern(text: str) -> str:
    parts = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return "".join(parts.get(part, re.escape(part)) for part in re.findall(r"\*\*/|\*\*|\*|\?|[^*?]+", text))
