"""The READMEs are correct: links lead to files, commands parse and run, Python blocks run.

All programs, files, options and settings in shell blocks must exist. Commands of `agggen` are also run with a model of
random weights, unless `NEEDS` has a reason not to.
"""

import io
import json
import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml

from agggen.config import flatten, load_config
from agggen.corpora.elements import elements_records
from agggen.generation.config import InferenceConfig
from agggen.records import Record
from agggen_platform.job_config import JobConfig
from agggen_platform.sweep.config import SweepConfig
from tests.command import command
from tests.documents import (
    GROUP,
    READMES,
    REPO,
    Block,
    agggen_arguments,
    blocks,
    commands_of,
    find_subcommand,
    loaded_config,
)
from tests.unit.cli_write.examples import json_lines
from tests.unit.serve.conftest import save_tiny_model

BLOCKS = [block for readme in READMES for block in blocks(readme)]
SHELL = [block for block in BLOCKS if block.language == "sh"]
PYTHON = [block for block in BLOCKS if block.language == "python"]
RECORDS = [block for block in BLOCKS if block.text.startswith('{"id"')]
CODE = r"^```.*?^```$|^    [^\n]*$"
INLINE = [
    (readme, " ".join(code.split()))
    for readme in READMES
    for code in re.findall(r"`([^`]+)`", re.sub(CODE, "", readme.read_text(), flags=re.M | re.S))
]
PROGRAMS = re.compile(
    "agggen|curl|docker|echo|export|jq|kind|kubectl|make|openssl|pip|prometheus|pytest|python3?|ray|serve|source|tr"
)
PROGRAM_IN_SENTENCE = r"(sudo )?(agggen|make|pytest|python3?|kubectl|ray job submit|\w+\.py) "
FILE = r"(?!infra/compose/state)(infra|tests|jobs|serve|agggen|platform)/[a-z][\w./-]*"
NEEDS = {
    r"s3://|storage\.url": "a store",
    r"cluster\.|--address": "a cluster",
    r"http://|^serve( |$)|^studio|^runs ui": "a server that runs until it is stopped",
    r"webnlg|^corpora fetch": "a corpus that is downloaded",
    r"allennlp|^srl": "AllenNLP, or a corpus of semantic roles",
    r"^bulk (?!.*--actors 0)": "a cluster",
    r"^(demo|train|adapt|distill|sweep)": "minutes",
    r"^runs compare": "two runs",
    r"^doctor": "a machine without a fault",
    r"security\.keys_file": "a machine on a network",
}
"""Reasons not to run commands, by a pattern of their words."""


def name_of(path: Path) -> str:
    return path.relative_to(REPO).as_posix()


def check_files(words: list[str], folder: Path) -> None:
    """Asserts that words which look like files of this repository are files."""
    paths = [path for word in words if re.fullmatch(FILE, path := word.rpartition("=")[2])]
    for program, verb, option in (("kubectl", "apply", "-k"), ("docker", "build", "-f")):
        if words[:2] == [program, verb] and option in words:
            paths.append(words[words.index(option) + 1])
    for path in paths:
        assert (REPO / path).exists() or (folder / path).exists(), f"{path} does not exist"


def check_script(words: list[str], folder: Path) -> None:
    """Asserts that a script exists and that its options occur in it or in its shared module."""
    if words[1] == "-m":
        assert find_spec(words[2]), f"no module {words[2]}"
        return
    script = next((path for path in (REPO / words[1], folder / words[1]) if path.is_file()), None)
    if script is None:
        assert words[1].startswith(("/usr/", "/opt/")), f"{words[1]} does not exist"
        return
    shared = script.parent / "measuring.py"
    text = script.read_text() + (shared.read_text() if shared.exists() else "")
    assert [word for word in words[2:] if word[0] == "-" and f'"{word}"' not in text] == []


def check_command(words: list[str], folder: Path, complete: bool) -> None:
    """Asserts that a command's programs, files and options exist; a complete one (`complete`) must also be parsable."""
    words = words[1:] if words[0] == "sudo" else words
    program = words[0]
    assert PROGRAMS.fullmatch(program), f"{program} is not a program that READMEs use"
    check_files(words, folder)
    if program == "make":
        targets = re.findall(r"^([a-z-]+):", (REPO / "Makefile").read_text(), re.M)
        assert words[1] in targets, f"the Makefile has no {words[1]}"
    arguments = agggen_arguments(words)
    if arguments is None:
        if program in ("python", "python3"):
            check_script(words, folder)
        return
    name, parser, parameters = find_subcommand(arguments)
    if complete:
        with parser.make_context(name, parameters) as context:
            loaded_config(name, context.params)
    elif name and not hasattr(parser, "commands"):
        options = {option for parameter in parser.params for option in (*parameter.opts, *parameter.secondary_opts)}
        used_options = {word.partition("=")[0] for word in parameters if re.match(r"--?[a-z]", word)}
        assert used_options <= options | {"--help", "-h"}


# --- commands, links and examples --------------------------------------------------------------------------------


@pytest.mark.parametrize("block", SHELL, ids=str)
def test_programs_files_and_options_of_commands_exist(block: Block) -> None:
    for words in commands_of(block.text):
        check_command(words, block.readme.parent, complete=True)


@pytest.mark.parametrize("readme", READMES, ids=name_of)
def test_programs_files_and_options_of_commands_in_sentences_exist(readme: Path) -> None:
    for document, code in INLINE:
        if document == readme and re.match(PROGRAM_IN_SENTENCE, code):
            for words in commands_of(code.replace("COMMAND", "train")):
                words = ["python", *words] if words[0].endswith(".py") else words
                check_command(words, readme.parent, complete=any("=" in word for word in words))


@pytest.mark.parametrize("readme", READMES, ids=name_of)
def test_links_and_names_of_files_exist(readme: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)\s]+)\)", readme.read_text()):
        name, _, anchor = target.partition("#")
        path = readme.parent / name if name else readme
        assert path.exists(), target
        titles = re.findall(r"^#+ (.*)$", path.read_text(), re.M) if anchor else [""]
        assert anchor in {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}, target
    for document, code in INLINE:  # except files that the README tells the reader to create
        if document == readme and re.fullmatch(FILE, code) and not re.search("planets|commas|/count", code):
            assert (REPO / code).exists(), code


def test_the_platforms_readme_lists_every_command() -> None:
    text = (REPO / "platform/agggen_platform/README.md").read_text()
    table = text.partition("## Commands")[2].partition("\n\n| exit")[0]
    listed = {word for code in re.findall(r"`([^`]+)`", table) for word in code.split()}
    subcommands = {name for group in GROUP.commands.values() for name in getattr(group, "commands", ())}
    assert set(GROUP.commands) | subcommands == listed - {"agggen", "COMMAND", "--help", "--html", "FILE"}


@pytest.mark.parametrize("block", RECORDS, ids=str)
def test_examples_of_records_are_records(block: Block) -> None:
    for line in block.text.splitlines():
        Record.of(json.loads(line))


def test_the_example_of_a_space_is_valid(tmp_path: Path) -> None:
    (example,) = [block for block in BLOCKS if block.language == "yaml"]
    (tmp_path / "space.yaml").write_text(example.text)
    assert load_config(SweepConfig, tmp_path / "space.yaml").trials == 24


def leaf_commands(command: Any, *names: str) -> Iterator[tuple[str, Any]]:
    if not hasattr(command, "commands"):
        yield " ".join(names), command
    for name, inner in getattr(command, "commands", {}).items():
        yield from leaf_commands(inner, *names, name)


@pytest.mark.parametrize(("name", "help_text"), [(name, leaf.help) for name, leaf in leaf_commands(GROUP)])
def test_examples_in_the_help_of_a_command_parse(name: str, help_text: str) -> None:
    examples = re.findall(r"^ *(agggen .*(?:\\\n.*)*)", help_text, re.M)
    for words in commands_of("\n".join(examples)):
        if words[0] == "agggen":
            check_command(words, REPO, complete=True)


@pytest.mark.parametrize("title", ["## Settings of search", "## Training on a cluster"])
def test_tables_of_settings_name_the_defaults(title: str) -> None:
    defaults = flatten(InferenceConfig()) | flatten(load_config(JobConfig, "elements"))
    (text,) = [readme.read_text() for readme in READMES if f"{title}\n" in readme.read_text()]
    rows = re.findall(r"^\| (`.*?`) \| (.*?) \|", text.partition(title)[2].partition("\n## ")[0], re.M)
    assert len(rows) > 5
    for names, values in rows:
        keys, scope = re.findall(r"`(.*?)`", names), ""
        for key, value in zip(keys, values.replace("`", "").split(", "), strict=True):
            scope, key = (key.rpartition(".")[0], key) if "." in key else (scope, f"{scope}.{key}" if scope else key)
            assert key in defaults and defaults[key] == yaml.safe_load(re.sub(r"^\.", "0.", value)), key


def rows_of_results() -> Iterator[tuple[str, list[str]]]:
    """(name of the reproduced table, cells without the first) of each table row in the READMEs."""
    for row in (REPO / "README.md").read_text().splitlines():
        if row.startswith("|") and (match := re.search(r"`agggen reproduce ([\w.-]+)`", row)):
            yield match[1], row.split("|")[2:-2]
    for section in (REPO / "platform/agggen_platform/reproduction/README.md").read_text().split("\n### ")[1:]:
        name = re.findall(r"`agggen reproduce ([\w.-]+)`", section)[0]
        yield from ((name, row.split("|")[2:-1]) for row in re.findall(r"^\|.*\d.*\|$", section, re.M))


def test_results_in_readmes_equal_the_run_records(capsys: pytest.CaptureFixture[str]) -> None:
    rows = list(rows_of_results())
    assert len(rows) > 20
    figure_pattern = r"\d*\.\d+"
    for name in {name for name, _ in rows}:
        _, out, _ = command(capsys)("reproduce", name)
        printed_figures = [float(figure) for figure in re.findall(figure_pattern, out)]
        for cell in (cell for reproduced, cells in rows if reproduced == name for cell in cells):
            for figure in re.findall(figure_pattern, cell):
                digits = len(figure.partition(".")[2])
                assert float(figure) in {round(value, digits) for value in printed_figures}, f"{name}: {cell.strip()}"


# --- running commands and examples -------------------------------------------------------------------------------


AGGGEN_COMMANDS = [(block, words[1:]) for block in SHELL for words in commands_of(block.text) if words[0] == "agggen"]
EXAMPLE = {"id": "x", "triples": [["Aromi", name, "English"] for name in ("food", "near", "area")]}
"""A record that fits the plan in a README."""
FILMS = "title,director,year,text\n" + "".join(
    f"Film {year},Ada Moss,{year},Ada Moss directed Film {year} in {year}.\n" for year in range(1990, 2010)
)


@pytest.fixture
def example_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files that READMEs name, and a model with random weights as the run NAME."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(json.dumps(EXAMPLE).encode())))
    records = list(elements_records("dev"))[:3]
    json_lines(tmp_path / "records.jsonl", [record.as_dict() for record in records])
    for name in ("hyp.txt", "a.txt", "b.txt", "texts.txt"):
        (tmp_path / name).write_text("".join(record.references[0].text + "\n" for record in records))
    (tmp_path / "films.csv").write_text(FILMS)
    (tmp_path / "outputs.csv").write_text("name,food,output\nAromi,Thai,Aromi serves Thai food.\n")
    rated = {"triples": EXAMPLE["triples"], "text": "Aromi.", "system": "x", "Correctness": 50}
    json_lines(tmp_path / "ratings.jsonl", [rated])
    (tmp_path / "new_films.csv").write_text("title,director,year\nBlue River,Ada Moss,1999\n")
    save_tiny_model(tmp_path / "runs/NAME/bundle")
    save_tiny_model(tmp_path / "runs/OTHER/bundle", seed=6)
    return tmp_path


@pytest.mark.parametrize(
    "readme",
    [
        pytest.param(path, id=name_of(path), marks=[pytest.mark.slow][path.parent == REPO :])
        for path in READMES
        if any(block.readme == path for block, _ in AGGGEN_COMMANDS)
    ],
)
def test_commands_run(readme: Path, example_files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for block, words in AGGGEN_COMMANDS:
        if block.readme == readme and not any(re.search(pattern, " ".join(words)) for pattern in NEEDS):
            words = [{"BUNDLE": "runs/NAME/bundle", "OTHER": "runs/OTHER/bundle"}.get(word, word) for word in words]
            code, _, err = command(capsys)(*words)
            assert code == 0, f"{block}: agggen {' '.join(words)}: {err}"


@pytest.mark.parametrize(
    "block",
    [
        pytest.param(block, id=str(block), marks=[pytest.mark.slow][: "train(" in block.text])
        for block in PYTHON
        if "http:" not in block.text  # tests/integration/test_serve.py runs those
    ],
)
def test_python_blocks_run(block: Block, example_files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agggen.corpora.catalogue.elements_records", lambda split: list(elements_records(split))[:6])
    exec(compile(block.text, str(block), "exec"), {})
