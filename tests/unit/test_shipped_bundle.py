"""The shipped bundle: its provenance, and its use as the default of commands."""

import io
import json
import re
import shutil
import textwrap
from pathlib import Path

import pytest

from agggen.api import load_model
from agggen.bundle import SHIPPED, describe_bundle, fingerprint
from agggen.config import as_overrides, load_config
from agggen.corpora.elements import elements_records
from agggen.datasets import fingerprint_of
from agggen.run import RunConfig
from agggen_platform.serving.config import ServeConfig, serve_settings
from agggen_platform.serving.target import find_target
from tests.command import Run

FINGERPRINT = "3617a81b996c73a8aa9f8c8b4b7c8a90cbbaf04f18a7bd19daf8d05aed2b9c71"
RECORD = {"id": "H", "triples": [["Hydrogen", "category", "nonmetal"], ["Hydrogen", "discoveryYear", "1766"]]}


def test_the_included_bundle_has_the_configuration_and_data_of_its_preset() -> None:
    """After a change of preset or corpus, run `make bundle` and update FINGERPRINT."""
    folder = SHIPPED["elements"]
    described = describe_bundle(folder)
    assert fingerprint(folder) == FINGERPRINT
    assert load_config(RunConfig, overrides=as_overrides(described["config"])) == load_config(RunConfig, "elements")
    sources = {f"elements/{name}": fingerprint_of(list(elements_records(name))) for name in ("train", "dev")}
    assert described["sources"].items() >= sources.items()
    assert sum(file.stat().st_size for file in folder.iterdir()) < 4e6


def test_commands_without_a_bundle_use_the_included_one(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for words in (["generate"], ["generate", "elements"], ["plan"], ["align"]):
        line = RECORD | ({"references": ["Hydrogen is a nonmetal."]} if words == ["align"] else {})
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(json.dumps(line).encode())))
        code, out, err = run(*words)
        assert code == 0, err
        if words[0] == "generate":
            text = json.loads(out)
            assert text["fulfilled"] and text["text"].startswith("Hydrogen") and "1766" in text["text"]
    assert FINGERPRINT in run("inspect")[1]


def test_the_included_bundle_generates_the_example_of_the_readme() -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    section = readme.partition("## One example")[2].partition("\n## ")[0]
    blocks = re.findall(r"(?:^    .*\n)+", section, re.MULTILINE)
    triples_block, expected = (textwrap.dedent(block).strip() for block in blocks)
    record = {"id": "1", "triples": [line.split(" | ") for line in triples_block.splitlines()]}
    assert str(load_model("elements").generate(record)) == expected


def test_out_of_vocabulary_words_are_marked_as_copied() -> None:
    text = load_model("elements").generate({"id": "X", "triples": [["Xenonium", "symbol", "Xq"]]}, plan="[symbol]")
    copied = [text.text[start:end] for start, end in text.copied]
    assert set(copied) == {"Xenonium", "Xq"} and text.as_dict()["copied"] == [list(span) for span in text.copied]
    clause = load_model("elements").generate({"id": "X", "triples": [["Xenonium", "flavour", "Xq"]]})
    assert "Xq" in clause.text and clause.copied == ()


def test_a_local_bundle_of_the_same_name_takes_precedence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elements").mkdir()  # such as a corpus
    assert load_model("elements").path == SHIPPED["elements"]
    shutil.copytree(SHIPPED["elements"], tmp_path / "elements" / "bundle")
    assert load_model("elements").path == Path("elements/bundle")


def test_the_endpoint_serves_the_included_bundle_by_name() -> None:
    target = find_target(ServeConfig("elements"))
    assert (target.source, target.display_address, target.fingerprint) == (
        str(SHIPPED["elements"]),
        "elements",
        FINGERPRINT,
    )
    assert serve_settings("http.port=8123", ["studio=false"]).bundle == "elements"
    assert serve_settings("s3://a/b=c", []).bundle == "s3://a/b=c"
