"""Code blocks and commands of the READMEs, and how `agggen` parses these commands."""

import re
import runpy
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import typer
from markdown_it import MarkdownIt

from agggen.config import load_config, overrides_of, preset_names
from agggen.generation.config import InferenceConfig
from agggen_platform.bulk.model import BulkConfig
from agggen_platform.cli import main as command_line
from agggen_platform.job_config import JobConfig
from agggen_platform.segmentation.config import SegmentConfig
from agggen_platform.serving.config import ServeConfig

REPO = Path(__file__).parents[1]
READMES = sorted(
    path for path in REPO.rglob("README.md") if not any(part[0] == "." for part in path.relative_to(REPO).parts)
)
GROUP: Any = typer.main.get_command(command_line.app)
CONFIGS: dict[str, Any] = {
    **dict.fromkeys(("train", "adapt", "distill", "sweep", "doctor", "demo", "reproduce"), JobConfig),
    **dict.fromkeys(("generate", "plan", "evaluate", "adjust"), InferenceConfig),
    **dict.fromkeys(("serve", "studio"), ServeConfig),
    "segment": SegmentConfig,
    "bulk": BulkConfig,
}
"""The configuration class of each command with settings."""


@dataclass(frozen=True)
class Block:
    readme: Path
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.readme.relative_to(REPO)}:{self.line}"


def blocks(readme: Path) -> Iterator[Block]:
    """Fenced blocks, with their language, and indented ones: `sh` if they begin like a command, else `text`."""
    for token in MarkdownIt().parse(readme.read_text(encoding="utf-8")):
        if token.type in ("fence", "code_block") and token.map:
            text = token.content.rstrip()
            indented = "sh" if re.match(r"[a-z.\d]+( |$)", text, re.M) else "text"
            yield Block(readme, token.map[0] + 1, token.info if token.type == "fence" else indented, text)


def commands_of(text: str) -> Iterator[list[str]]:
    """The words of each simple command of shell code, without redirections and leading assignments."""
    logical = ""
    for line in text.replace("\\\n", " ").splitlines():
        logical += line
        try:
            shlex.split(logical, comments=True)
        except ValueError:  # the quotation continues on the next line
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
    assert not logical, f"unterminated quotation: {logical}"


def agggen_arguments(words: list[str]) -> list[str] | None:
    """The arguments of `agggen` in a command that runs it directly or as a job; None for other commands."""
    for at, word in enumerate(words):
        if word == "agggen" and words[at - 1] not in ("-n", "namespace"):
            return words[at + 1 :]
        if match := re.search(r"(?:^|/)jobs/(\w+\.py)$", word):
            called: list[list[str]] = []
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(command_line, "main", called.append)
                patch.setattr("sys.argv", words[at:])
                runpy.run_path(str(REPO / "jobs" / match[1]), run_name="__main__")
            return called[0]
    return None


def find_subcommand(words: list[str]) -> tuple[str, Any, list[str]]:
    """The name of the called subcommand, its parser, and its arguments."""
    parser, names, rest = GROUP, list[str](), list(words)
    while rest and hasattr(parser, "commands"):
        assert rest[0] in parser.commands, f"agggen has no command {' '.join([*names, rest[0]])!r}"
        names.append(rest.pop(0))
        parser = parser.commands[names[-1]]
    return " ".join(names), parser, rest


def loaded_config(name: str, params: dict[str, Any]) -> Any:
    """The configuration that command `name` loads for these parameters; None if it has no settings."""
    words = [word for word in params.get("overrides") or params.get("settings") or () if "=" in word]
    settings = [re.sub(r"=\.\.\.$", "=PLACE", word) for word in words]
    if (kind := CONFIGS.get(name)) is None:
        assert not settings, f"CONFIGS lacks the settings class of {name}"
        return None
    if kind in (SegmentConfig, BulkConfig) and params["actors"] is not None:
        settings.append(f"actors={params['actors']}")
    of_bundle = [f"inference.{setting}" for setting in overrides_of(InferenceConfig())]
    defaults = {BulkConfig: of_bundle, ServeConfig: ["bundle=BUNDLE"]}.get(kind, [])
    presets = [params.get("preset"), params.get("source")] if kind is JobConfig else []
    preset = next((preset for preset in presets if preset in preset_names()), None)
    return load_config(kind, preset, settings, defaults=defaults)
