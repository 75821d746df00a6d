"""Malicious files: pickles are never loaded; small files that would need a deep stack or much memory are refused."""

import json
import re
import resource
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from agggen.bundle import load_bundle, save_bundle
from agggen.config import load_config
from agggen.corpora.prepared import read_records, schema, write_records
from agggen.errors import AggGenError, BundleError, ConfigError, CorpusError, TrainingError
from agggen.facts.config import AllenNLPConfig, SegmenterConfig
from agggen.facts.tagger.store import TAGGER_FOLDER, load_tagger
from agggen.records import Record
from agggen.training.checkpoints import load_checkpoint
from agggen.training.data import Data
from agggen_platform.bulk.inputs import find_inputs
from agggen_platform.bulk.records import record_schema
from agggen_platform.job_config import JobConfig
from agggen_platform.serving.config import ServeConfig
from agggen_platform.sharded.shards import Shard, read_rows, rows_at
from agggen_platform.sharded.worker import open_part
from agggen_platform.storage import verified
from agggen_platform.storage.bundles import get_bundle, put_bundle
from agggen_platform.storage.checkpoints import CheckpointStore
from agggen_platform.storage.folder import Folder
from agggen_platform.sweep.config import SweepConfig
from agggen_platform.sweep.study import JOURNAL, open_study
from agggen_platform.training.prepared import load_or_prepare, read_prepared
from tests.canary import Canary
from tests.command import Run
from tests.pickling import pickle_copy
from tests.unit.cli_write.examples import RESTAURANTS, json_lines
from tests.unit.registry.examples import fix_manifest, save_model
from tests.unit.srl.fakes import install_packages
from tests.unit.toy_training import trainer
from tests.unit.training.toy import RECORDS as TOY_RECORDS
from tests.unit.training.toy import config_of

# Importing Ray Data, as every worker of a job over shards does, registers Arrow types whose values are pickles.
pytest.importorskip("ray.data", reason="Ray is not installed: pip install -e '.[dev]'")

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


DEEP = "[" * 200_000
HEADROOM = 2 << 30  # bytes


@pytest.fixture
def memory_limit() -> Iterator[None]:
    """Limits this process to its present memory plus `HEADROOM`; larger allocations raise MemoryError."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + HEADROOM, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.mark.parametrize("name", ["manifest.json", "bundle.json", "vocabulary.json", "predicates.json"])
def test_deep_json_in_a_bundle_is_refused(tmp_path: Path, name: str) -> None:
    bundle = save_model(tmp_path / "bundle", 1)
    (bundle / name).write_text(DEEP)
    if name != "manifest.json":
        fix_manifest(bundle, name)
    with pytest.raises(BundleError, match=rf"{name} is nested too deeply"):
        load_bundle(bundle)


def test_deep_json_in_the_manifest_of_a_stored_bundle_is_refused(
    tmp_path: Path, s3: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGGGEN_CACHE", str(tmp_path / "cache"))
    address = put_bundle(save_model(tmp_path / "bundle", 1), f"{s3}/bundle")
    Folder(address).write("manifest.json", DEEP.encode())
    with pytest.raises(BundleError, match=r"manifest\.json is nested too deeply"):
        get_bundle(address)


@pytest.mark.parametrize("text", ["[" * 20_000, "{a: " * 20_000, "- " * 20_000], ids=["lists", "mappings", "lines"])
def test_deep_yaml_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.yaml").write_text(text)
    with pytest.raises(ConfigError, match="nested too deeply"):
        load_config(ServeConfig, tmp_path / "x.yaml")


SIZES = {"width": 200_000, "layers": 10**7, "feed_forward": 10**10, "predicate_dim": 10**9, "max_group_size": 10**9}


@pytest.mark.parametrize(("name", "size"), SIZES.items())
@pytest.mark.usefixtures("memory_limit")
def test_sizes_that_do_not_fit_the_weights_are_refused(tmp_path: Path, name: str, size: int) -> None:
    bundle = save_model(tmp_path / "bundle", 1)
    description = json.loads((bundle / "bundle.json").read_text())
    description["model"][name] = size
    (bundle / "bundle.json").write_text(json.dumps(description))
    fix_manifest(bundle, "bundle.json")
    with pytest.raises(BundleError, match="does not fit the bundle's configuration: it has"):
        load_bundle(bundle)


@pytest.mark.parametrize("length", [1 << 62, 99_999_999, 0])
@pytest.mark.usefixtures("memory_limit")
def test_weights_whose_header_is_longer_than_the_file_are_refused(tmp_path: Path, length: int) -> None:
    bundle = save_model(tmp_path / "bundle", 1)
    (bundle / "weights.safetensors").write_bytes(length.to_bytes(8, "little") + b"{}")
    fix_manifest(bundle, "weights.safetensors")
    with pytest.raises(BundleError, match=r"weights\.safetensors cannot be read"):
        load_bundle(bundle)


def pickles(canary: Canary) -> pa.Array:
    from ray.data._internal.object_extensions.arrow import ArrowPythonObjectType

    return ArrowPythonObjectType().wrap_array(pa.array([canary.pickled()], pa.large_binary()))


def pickles_in_triples(canary: Canary) -> pa.Array:
    """A column of triples that have pickles in an additional field."""
    triple = [pa.array([value]) for value in ("Oda", "birthPlace", "Bergen")]
    names = ["subject", "predicate", "object", "note"]
    return pa.ListArray.from_arrays([0, 1], pa.StructArray.from_arrays([*triple, pickles(canary)], names))


PICKLED_COLUMNS: dict[str, Callable[[Canary], pa.Array]] = {"triples": pickles_in_triples, "category": pickles}
every_pickled_column = pytest.mark.parametrize("column", PICKLED_COLUMNS)


def corpus(folder: Path, column: str, canary: Canary) -> Path:
    """A prepared corpus of one record, with pickles in `column`."""
    folder.mkdir(exist_ok=True)
    path = folder / "dev.parquet"
    record = Record.of({"id": "1", "triples": [["Oda", "birthPlace", "Bergen"]], "references": ["Oda is of Bergen."]})
    write_records(path, [record], "toy", "dev")
    table = pq.read_table(path)
    changed = table.set_column(table.column_names.index(column), column, PICKLED_COLUMNS[column](canary))
    pq.write_table(changed.replace_schema_metadata(table.schema.metadata), path)
    return path


@every_pickled_column
@pytest.mark.parametrize(
    "arguments",
    [
        ("bulk", "BUNDLE", "FILE", "--out", "out", "actors=0"),
        ("segment", "FOLDER", "--out", "out", "--facts", "clauses", "actors=0", "cache=off"),
        ("generate", "BUNDLE", "-i", "FILE"),
        ("evaluate", "BUNDLE", "--corpus", "FOLDER", "--split", "dev"),
        ("train", "elements", "corpus.name=FOLDER"),
        ("prepare", "FILE", "--out", "prepared"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_commands_load_no_pickles_in_parquet(
    run: Run, tmp_path: Path, canary: Canary, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], column: str
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "nonsense://x")  # an invalid store, so that nothing is logged
    path = corpus(tmp_path / "corpus", column, canary)
    if arguments[0] == "train":
        (path.parent / "train.parquet").write_bytes(path.read_bytes())
    names = {"BUNDLE": save_model(tmp_path / "bundle", 1), "FILE": path, "FOLDER": path.parent}
    words = [str(names.get(word, word)).replace("FOLDER", str(path.parent)) for word in arguments]
    code, _, err = run(*words)
    assert not canary.was_loaded
    if arguments[0] not in ("bulk", "segment"):
        assert (code, "error: " in err) == (2, True), err  # bulk and segment may ignore unused columns


def test_workers_refuse_pickles_in_parquet(tmp_path: Path, canary: Canary) -> None:
    """The file was changed after the driver had checked it, so workers must check it."""
    corpus(tmp_path, "triples", canary)
    folder = Folder(str(tmp_path))
    shard = Shard(0, folder.address, "dev.parquet", "parts/0.parquet", (0,), 0, 0, 1, folder.at("dev.parquet"))
    for read in (
        lambda: list(read_rows(shard, 10, schema().names)),
        lambda: list(read_rows(shard, 10, record_schema().names)),
        lambda: list(read_rows(shard, 10, None)),
        lambda: list(rows_at(folder, shard.name, ["triples"], np.arange(1))),
        lambda: find_inputs(folder.at(shard.name)),
        lambda: read_records(folder.at(shard.name)),
    ):
        with pytest.raises(CorpusError):
            read()
    with pytest.raises(CorpusError, match="could run code"), open_part(folder, shard.name):
        pass
    assert not canary.was_loaded


def test_training_workers_refuse_pickles_in_parquet(tmp_path: Path, canary: Canary) -> None:
    """An attacker who can write to the run's folder can also write the matching hash."""
    folder = Folder(str(tmp_path / "run"))
    data = Data(TOY_RECORDS[:8], TOY_RECORDS[8:], {"train": "1", "dev": "2"}, "sentences")
    _, prepared_path = load_or_prepare(folder, config_of(tmp_path / "toy"), data)
    assert read_prepared(folder, prepared_path).train
    path = tmp_path / "run" / prepared_path / "train.parquet"
    pq.write_table(pa.table({"id": pickles(canary)}), path)
    size, digest = verified.measure(path)
    description = json.loads(folder.read(f"{prepared_path}/encoder.json") or b"")
    description["files"]["train"] = {"size": size, "sha256": digest}
    folder.write(f"{prepared_path}/encoder.json", json.dumps(description).encode())
    with pytest.raises(CorpusError, match=r"train\.parquet: the column 'id' has values of the extension type"):
        read_prepared(folder, prepared_path)
    assert not canary.was_loaded
