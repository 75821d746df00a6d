"""A canary pickle in place of each model, checkpoint and journal is refused and never loaded."""

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from agggen.bundle import load_bundle, save_bundle
from agggen.config import load_config
from agggen.errors import AggGenError, BundleError, ConfigError, TrainingError
from agggen.facts.config import AllenNLPConfig, SegmenterConfig
from agggen.facts.embedded import TAGGER_FOLDER
from agggen.facts.tagger.store import load_tagger
from agggen.training.checkpoints import load_checkpoint
from agggen_platform.job_config import JobConfig
from agggen_platform.serving.config import ServeConfig
from agggen_platform.storage.checkpoints import CheckpointStore
from agggen_platform.storage.folder import Folder
from agggen_platform.sweep.config import SweepConfig
from agggen_platform.sweep.study import JOURNAL, open_study
from tests.canary import Canary
from tests.command import Run
from tests.pickling import pickle_copy
from tests.unit.cli_write.examples import RESTAURANTS, json_lines
from tests.unit.registry.examples import fix_manifest, save_model
from tests.unit.srl.fakes import install_packages
from tests.unit.toy_training import trainer

FORMS = {"pickle": Canary.pickled, "torch.save": Canary.saved_by_torch}
Form = Callable[[Canary], bytes]
forms = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)


@pytest.fixture
def canary(tmp_path: Path) -> Canary:
    return Canary(tmp_path / "canary")


def test_the_canary_detects_that_it_is_loaded(canary: Canary) -> None:
    """Control of the other tests."""
    pickle_copy(canary)
    assert canary.was_loaded


@forms
@pytest.mark.parametrize(
    "command",
    [
        *("generate BUNDLE -i r.jsonl", "plan BUNDLE -i r.jsonl", "align BUNDLE -i r.jsonl", "inspect BUNDLE"),
        *("evaluate BUNDLE --corpus elements --limit 1", "bulk BUNDLE r.jsonl --out out actors=0"),
        "models register BUNDLE",
    ],
)
def test_a_bundle_with_pickled_weights_is_refused(
    run: Run, tmp_path: Path, canary: Canary, command: str, form: Form
) -> None:
    bundle = save_model(tmp_path / "bundle", 1)
    (bundle / "weights.safetensors").write_bytes(form(canary))
    fix_manifest(bundle, "weights.safetensors")
    json_lines(tmp_path / "r.jsonl", RESTAURANTS[:1])
    code, out, err = run(*command.replace("BUNDLE", "bundle").split())
    assert (code, out, "weights.safetensors" in err) == (3, "", True), err
    assert not canary.was_loaded


@forms
def test_a_role_tagger_with_pickled_weights_is_refused(tmp_path: Path, canary: Canary, form: Form) -> None:
    shutil.copytree(TAGGER_FOLDER, tmp_path / "tagger")
    weights, manifest = tmp_path / "tagger" / "weights.safetensors", tmp_path / "tagger" / "manifest.json"
    load_tagger(tmp_path / "tagger")
    weights.write_bytes(form(canary))
    hashes = json.loads(manifest.read_text()) | {weights.name: sha256(weights.read_bytes()).hexdigest()}
    manifest.write_text(json.dumps(hashes))
    with pytest.raises(BundleError, match="are inconsistent"):
        load_tagger(tmp_path / "tagger")
    assert not canary.was_loaded


@forms
def test_a_pickled_checkpoint_is_refused(tmp_path: Path, canary: Canary, form: Form) -> None:
    """The store accepts any file; loading accepts only safetensors."""
    (tmp_path / "stranger").write_bytes(form(canary))
    store = CheckpointStore(Folder(str(tmp_path / "run")))
    store.save("joint", 1, tmp_path / "stranger")
    assert store.restore("joint", tmp_path / "restored") is not None
    with pytest.raises(TrainingError, match="is not a readable checkpoint"):
        load_checkpoint(tmp_path / "restored", trainer("joint"))
    assert not canary.was_loaded


def test_a_pickled_journal_of_a_sweep_is_refused(tmp_path: Path, canary: Canary) -> None:
    (tmp_path / JOURNAL).write_bytes(canary.pickled() + b"\n")
    with pytest.raises((AggGenError, ValueError)):
        open_study(tmp_path, "s", {})
    assert not canary.was_loaded


@pytest.mark.parametrize("command", ["align", "evaluate", "align --run-archives"])
def test_the_allennlp_archive_of_a_bundle_is_run_only_with_run_archives(
    run: Run, tmp_path: Path, canary: Canary, command: str
) -> None:
    """The author of the bundle chose its segmenter AllenNLP, with an archive and a Python interpreter."""
    python = tmp_path / "environment" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f"#!/bin/sh\n: > {canary.path}\n")
    python.chmod(0o755)
    install_packages(tmp_path / "environment")
    (tmp_path / "srl.tar.gz").write_bytes(canary.pickled())
    archive = AllenNLPConfig(str(tmp_path / "srl.tar.gz"), environment=str(tmp_path / "environment"))
    bundle = load_bundle(save_model(tmp_path / "plain", 1))
    save_bundle(tmp_path / "bundle", replace(bundle, segmenter=SegmenterConfig(source="allennlp", allennlp=archive)))
    name, *flags = command.split()
    records = json_lines(tmp_path / "r.jsonl", RESTAURANTS[:1])
    options = ("-i", records) if name == "align" else ("--corpus", "elements", "--limit", "1")
    code, out, err = run(name, "bundle", *options, *flags)
    assert canary.was_loaded == bool(flags)
    if not flags:
        assert (code, out) == (2, "")
        assert "runs its author's code" in err and "--run-archives" in err


@pytest.mark.parametrize("tag", ["!!python/object/apply:open", "!!python/object/new:open", "!!python/tuple", "!own"])
@pytest.mark.parametrize(
    ("kind", "content"),
    [
        (ServeConfig, "bundle: VALUE"),
        (ServeConfig, "{bundle: b, security: {hosts: VALUE}}"),
        (JobConfig, "corpus: {name: VALUE}"),
        (SweepConfig, "space: {model.width: {choice: VALUE}}"),
    ],
)
def test_yaml_tags_that_call_functions_are_refused(
    tmp_path: Path, canary: Canary, kind: type[Any], content: str, tag: str
) -> None:
    (tmp_path / "x.yaml").write_text(content.replace("VALUE", f"{tag} [{canary.path}, w]"))
    with pytest.raises(ConfigError, match=rf"could not determine a constructor .*{re.escape(tag.lstrip('!'))}"):
        load_config(kind, tmp_path / "x.yaml")
    assert not canary.was_loaded
