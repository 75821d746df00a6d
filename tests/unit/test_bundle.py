"""Bundles: lossless round trip, no pickles; modified and inconsistent files are refused; the shipped bundle."""

import errno
import io
import json
import re
import resource
import shutil
import textwrap
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from agggen.api import load_model
from agggen.bundle import (
    FILES,
    SHIPPED,
    Bundle,
    check_bundle,
    describe_bundle,
    fingerprint,
    load_bundle,
    save_bundle,
    write_manifest,
)
from agggen.config import as_overrides, load_config
from agggen.corpora.elements import elements_records
from agggen.datasets import fingerprint_of
from agggen.errors import BundleError
from agggen.facts.config import AllenNLPConfig, SegmenterConfig
from agggen.files import save_tensors
from agggen.generation.generator import InferenceConfig
from agggen.run import RunConfig
from agggen.verification.learning import learn
from agggen_platform.serving.config import ServeConfig, serve_settings
from agggen_platform.serving.target import find_target
from tests.command import Run
from tests.tiny_models import tiny_bundle
from tests.unit.registry.examples import RECORDS

EVERY_FILE = (*FILES, "manifest.json")


def small_bundle() -> Bundle:
    """A bundle whose fields all differ from the defaults."""
    archive = AllenNLPConfig("srl.tar.gz", sha256="0" * 64)
    bundle = tiny_bundle(
        RECORDS,
        config={"training": {"seed": 3}, "note": "Ålesund"},
        metrics={"joint.dev_loss": 1.25},
        sources={"made-up/train": "0f"},
        facts="allennlp",
        segmenter=SegmenterConfig(source="allennlp", level="paper", allennlp=archive),
        lexicon=learn(RECORDS),
    )
    inference = InferenceConfig(planner="two-stage", plans=2, plan_weight=0.25, beam=bundle.inference.beam)
    return replace(bundle, encoder=replace(bundle.encoder, max_group_size=2), inference=inference)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bundles") / "model"
    save_bundle(path, small_bundle())
    return path


@pytest.fixture
def copied(saved: Path, tmp_path: Path) -> Path:
    """A copy that a test may damage."""
    return Path(shutil.copytree(saved, tmp_path / "bundle"))


# --- round trip ---


def test_the_round_trip_of_a_bundle_is_lossless(tmp_path: Path) -> None:
    bundle = small_bundle()
    name = save_bundle(tmp_path / "runs" / "model", bundle)
    assert name == fingerprint(tmp_path / "runs" / "model")
    assert (tmp_path / "runs" / "model").stat().st_mode & 0o055 == 0o055, "other users cannot read it"
    loaded = load_bundle(str(tmp_path / "runs" / "model"))
    before, after = bundle.model.state_dict(), loaded.model.state_dict()
    assert before.keys() == after.keys() and all(torch.equal(before[key], after[key]) for key in before)
    assert loaded.model.config == bundle.model.config and not loaded.model.training
    assert loaded.encoder.vocabulary.to_json() == bundle.encoder.vocabulary.to_json()
    assert (loaded.encoder.predicates, loaded.encoder.max_group_size) == (bundle.encoder.predicates, 2)
    for name in ("inference", "config", "metrics", "sources", "facts", "segmenter", "lexicon"):
        assert getattr(loaded, name) == getattr(bundle, name)
    for record in RECORDS:
        assert loaded.encoder.source(record) == bundle.encoder.source(record)
    assert loaded.generator().generate(RECORDS, n_best=3) == bundle.generator().generate(RECORDS, n_best=3)


# --- saving ---


def test_an_existing_folder_is_never_overwritten(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match=f"{tmp_path} exists already; a bundle is never overwritten"):
        save_bundle(tmp_path, small_bundle())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("failing", ["safetensors.torch.save_file", "agggen.bundle.json.dumps", "os.rename"])
def test_a_failed_save_leaves_no_files(tmp_path: Path, failing: str) -> None:
    bundle = small_bundle()
    with patch(failing, side_effect=OSError("no space left on device")), pytest.raises(OSError, match="no space"):
        save_bundle(tmp_path / "model", bundle)
    assert list(tmp_path.iterdir()) == []


# --- damaged bundles ---


@given(data=st.data())
@settings(max_examples=300)
def test_any_change_of_any_byte_is_refused(
    saved: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Also in the manifest, which has no hash."""
    path = data.draw(st.sampled_from([saved / name for name in EVERY_FILE]))
    original_bytes = path.read_bytes()
    at, flip = data.draw(st.integers(0, len(original_bytes) - 1)), data.draw(st.integers(1, 255))
    try:
        path.write_bytes(original_bytes[:at] + bytes([original_bytes[at] ^ flip]) + original_bytes[at + 1 :])
        with pytest.raises(BundleError, match=path.name):
            check_bundle(saved)
    finally:
        path.write_bytes(original_bytes)
    check_bundle(saved)


@pytest.mark.parametrize("name", EVERY_FILE)
def test_a_missing_file_is_named(copied: Path, name: str) -> None:
    (copied / name).unlink()
    with pytest.raises(BundleError, match=f"{name}"):
        load_bundle(copied)


def test_a_path_without_a_bundle_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for name in ("none", "file"):
        with pytest.raises(BundleError, match=rf"no bundle at .*{name}; `agggen train` writes one"):
            load_bundle(tmp_path / name)
    with pytest.raises(BundleError, match=r"is not a bundle: it has no manifest\.json"):
        load_bundle(tmp_path)


# --- inconsistent content with a valid manifest ---


def rewrite(folder: Path, name: str, change: Callable[[Any], Any]) -> None:
    """Changes a file and updates the manifest."""
    file = folder / name
    if name == "weights.safetensors":
        save_file(change(load_file(file)), file)
    else:
        file.write_text(json.dumps(change(json.loads(file.read_text("utf-8")))), encoding="utf-8")
    write_manifest(folder, FILES)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("bundle.json", lambda d: d | {"format": 1}, "has bundle format 1; this version reads 3"),
        ("bundle.json", lambda d: [d], "has bundle format None; this version reads 3"),
        ("bundle.json", lambda d: {k: v for k, v in d.items() if k != "inference"}, r"bundle\.json lacks 'inference'"),
        ("bundle.json", lambda d: d | {"model": d["model"] | {"heat": 1}}, "'heat', .* this version's ModelConfig"),
        ("bundle.json", lambda d: d | {"model": d["model"] | {"width": 8}}, r"weights\.safetensors does not fit"),
        ("bundle.json", lambda d: d | {"inference": d["inference"] | {"b": 1}}, "this version's InferenceConfig"),
        ("predicates.json", lambda p: [*p, "more"], r"weights\.safetensors does not fit"),
        ("predicates.json", lambda p: p[1:], r"must begin with \[unknown\]"),
        ("vocabulary.json", lambda v: v | {"words": v["words"][:-1]}, "n_output must lie between|does not fit"),
        ("vocabulary.json", lambda v: {"words": v["words"]}, "a vocabulary must be an object with the keys"),
        ("weights.safetensors", lambda w: {k: v for k, v in w.items() if k != "output_bias"}, "output_bias"),
    ],
)
def test_inconsistent_content_with_a_valid_manifest_is_refused(
    copied: Path, name: str, change: Callable[[Any], Any], message: str
) -> None:
    rewrite(copied, name, change)
    check_bundle(copied)
    with pytest.raises(BundleError, match=message):
        load_bundle(copied)


def test_a_generator_on_another_device_has_its_own_model(saved: Path) -> None:
    bundle = load_bundle(saved)
    first = bundle.generator()
    expected = first.generate(RECORDS)
    second = bundle.generator("meta")
    assert {parameter.device.type for parameter in second.model.parameters()} == {"meta"}
    assert first.generate(RECORDS) == expected


def test_a_failed_write_raises_oserror_and_keeps_the_file(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"old")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))  # maximum file size in bytes
    try:
        with pytest.raises(OSError) as caught:
            save_tensors(path, {"a": torch.ones(2)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (caught.value.errno, caught.value.filename) == (errno.EFBIG, str(path))
    assert [entry.name for entry in tmp_path.iterdir()] == ["x"]
    assert path.read_bytes() == b"old"
    with pytest.raises(FileNotFoundError):
        save_tensors(tmp_path / "nowhere" / "x", {})


FINGERPRINT = "3617a81b996c73a8aa9f8c8b4b7c8a90cbbaf04f18a7bd19daf8d05aed2b9c71"
HYDROGEN = {"id": "H", "triples": [["Hydrogen", "category", "nonmetal"], ["Hydrogen", "discoveryYear", "1766"]]}


def test_the_included_bundle_has_the_configuration_and_data_of_its_preset() -> None:
    """After a change of preset or corpus, run `make bundle` and update FINGERPRINT."""
    folder = SHIPPED["elements"]
    described = describe_bundle(folder)
    assert fingerprint(folder) == FINGERPRINT
    overrides = [item for item in as_overrides(described["config"]) if not item.endswith(".accumulate=1")]  # removed
    assert load_config(RunConfig, overrides=overrides) == load_config(RunConfig, "elements")
    sources = {f"elements/{name}": fingerprint_of(list(elements_records(name))) for name in ("train", "dev")}
    assert described["sources"].items() >= sources.items()
    assert sum(file.stat().st_size for file in folder.iterdir()) < 4e6


def test_commands_without_a_bundle_use_the_included_one(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for words in (["generate"], ["generate", "elements"], ["plan"], ["align"]):
        line = HYDROGEN | ({"references": ["Hydrogen is a nonmetal."]} if words == ["align"] else {})
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
    assert (target.source, target.display_address) == (str(SHIPPED["elements"]), "elements")
    assert target.fingerprint == FINGERPRINT
    assert serve_settings("http.port=8123", ["studio=false"]).bundle == "elements"
    assert serve_settings("s3://a/b=c", []).bundle == "s3://a/b=c"
