"""Data of a training job: rejects, settings of an earlier run, and examples in the run's folder (written once)."""

import json
import tracemalloc
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agggen.corpora.prepared import write_records
from agggen.errors import AggGenError, ConfigError, StoppedError
from agggen.facts.clauses import SentenceSegmenter
from agggen.generation.planner import MAX_TRIPLES
from agggen.records import Record, Reference, Triple
from agggen.run import Prepared, prepare
from agggen.training.batches import fingerprint
from agggen.training.data import Data, check_unchanged
from agggen_platform.job_config import JobConfig
from agggen_platform.storage.errors import StorageError
from agggen_platform.storage.folder import Folder
from agggen_platform.training.job import data_of, train_job
from agggen_platform.training.prepared import load_or_prepare, read_prepared
from tests.unit.model.enumeration import random_example
from tests.unit.training.toy import RECORDS, config_of, write_corpus


class Short(SentenceSegmenter):
    """A segmenter that fails on some texts, as BERT does on long ones."""

    def segment(self, texts: Sequence[str]) -> list[tuple[str, ...]]:
        if any("Café Zoë" in text or "Strada" in text for text in texts):
            raise AggGenError("a text is too long for the model")
        return super().segment(texts)


def test_a_text_that_cannot_be_segmented_is_reported(
    config: JobConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agggen.run.segmenter", lambda _: Short())
    config = replace(config, max_reject_share=0.5)
    messages: list[str] = []
    with pytest.raises(StoppedError):
        train_job(config, "r", runs_dir=tmp_path / "runs", report=messages.append, on_evaluation=lambda event: True)
    path, toy = tmp_path / "runs" / "r" / "rejects.jsonl", config.corpus.name
    assert messages == [f"1 texts of {toy}/{split} are left out; see {path}" for split in ("train", "dev")]
    rejects = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    reason = "reference 1: AggGenError: a text is too long for the model"
    assert rejects == [
        {"file": f"{toy}/train", "line": None, "id": "Café Zoë", "reason": reason},
        {"file": f"{toy}/dev", "line": None, "id": "Strada", "reason": reason},
    ]
    messages.clear()
    assert train_job(config, "r", runs_dir=tmp_path / "runs", report=messages.append).trained
    assert len(messages) == 2, "a resumed run must report the same texts"


def test_records_with_too_many_triples_are_not_sampled(tmp_path: Path) -> None:
    vast = Record("vast", tuple(Triple("Vast", f"p{n}", "1") for n in range(MAX_TRIPLES + 1)), (Reference("Vast."),))
    corpus = write_corpus(tmp_path / "toy")
    write_records(corpus / "large.parquet", [vast, *RECORDS[:3]], "toy", "large")
    config = config_of(corpus)
    config = replace(config, corpus=replace(config.corpus, dev="large"), max_reject_share=0.5)
    assert data_of(config).samples(9) == RECORDS[:3]


@pytest.mark.parametrize(
    ("before", "now", "message"),
    [
        ({"inference.verify": "strict"}, {}, ""),  # a run of a version without this setting
        ({"training.joint.accumulate": 1}, {}, ""),  # a run of a version with this setting
        ({}, {"inference.verify": "off"}, r"inference\.verify was 'strict' and is 'off'"),
        ({"training.start": "a"}, {"training.start": "b"}, ""),  # compared by the content
        ({"start": "12"}, {"start": "34"}, "start was '12' and is '34'"),
        ({"training.joint.epochs": 0}, {"training.joint.epochs": 0, "training.joint.warmup": 1}, ""),
        ({"training.joint.epochs": 0}, {"training.joint.epochs": 9}, r"training\.joint\.epochs was 0 and is 9"),
        (dict.fromkeys("abcdefg", 1), {}, "e was 1 and is None and 2 more. Give another --name to start over"),
    ],
)
def test_runs_differ_in_settings_that_affect_the_result(
    before: dict[str, Any], now: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=f"the run r .*{message}") if message else nullcontext():
        check_unchanged(before, now, "the run r", "another --name")


# --- prepared examples ---


def content(prepared: Prepared) -> tuple[object, ...]:
    """All parts of the prepared data, for comparison."""
    encoder = prepared.encoder
    described = encoder.vocabulary.to_json(), encoder.predicates, encoder.max_group_size
    return *described, list(prepared.train), list(prepared.dev), prepared.segmenter, prepared.n_replayed


DATA = Data(RECORDS[:6], RECORDS[8:], {"toy/train": "12", "toy/dev": "34"}, "sentences-1", replay=RECORDS[6:8])


def test_examples_are_read_unchanged(config: JobConfig, tmp_path: Path) -> None:
    written, place = load_or_prepare(Folder(str(tmp_path)), config, DATA)
    read = read_prepared(Folder(str(tmp_path)), place)
    expected = prepare(config, DATA.train, DATA.dev, replay=DATA.replay)
    assert content(read) == content(written) == content(expected)
    assert fingerprint(read.train) == fingerprint(expected.train), "checkpoints would be incompatible"
    assert read.train[0].required, "the toy corpus must have constraints"


def test_every_example_is_read_unchanged(config: JobConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = prepare(config, DATA.train, DATA.dev)
    masks = {"required": (1 << 23, 0), "forbidden": (0, 5)}
    odd = replace(random_example(3, 3, [2, 3]), facts=((1, 2), ()), kept=(0, 2), **masks)
    bare = replace(random_example(4, 2, []), facts=())
    examples = Prepared(written.encoder, [odd, bare], written.dev, "a segmenter")
    monkeypatch.setattr("agggen_platform.training.prepared.prepare", lambda *_: examples)
    _, place = load_or_prepare(Folder(str(tmp_path)), config, DATA)
    assert content(read_prepared(Folder(str(tmp_path)), place)) == content(examples)


def test_a_worker_stores_examples_in_less_than_100_bytes_of_python_objects(
    config: JobConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = prepare(config, DATA.train, DATA.dev)
    many = replace(written, train=[*written.train] * 250)
    monkeypatch.setattr("agggen_platform.training.prepared.prepare", lambda *_: many)
    _, place = load_or_prepare(Folder(str(tmp_path)), config, DATA)
    tracemalloc.start()
    read = read_prepared(Folder(str(tmp_path)), place)
    traced, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert traced < 100 * len(many.train)
    assert read.train[-2:] == [written.train[-2], written.train[-1]]
    with pytest.raises(IndexError):
        read.train[len(many.train)]


def test_the_path_of_examples_depends_on_exactly_what_affects_them(config: JobConfig, tmp_path: Path) -> None:
    folder = Folder(str(tmp_path))

    def place(section: str, **values: Any) -> str:
        """The path for other values of a section of the configuration or of the data."""
        if section == "data":
            return load_or_prepare(folder, config, replace(DATA, **values))[1]
        part = replace(getattr(config, section), **values)
        return load_or_prepare(folder, replace(config, **{section: part}), DATA)[1]

    same = {place("data"), place("training", seed=9), place("model", width=16)}
    others = [
        *(place("facts", source="clauses"), place("facts", constraints="none"), place("text", min_count=2)),
        *(place("corpus", limit=3), place("model", max_group_size=2), place("data", replay=RECORDS[7:8])),
        *(place("data", fingerprints={"toy/train": "13"}), place("data", segmenter="sentences-2")),
    ]
    assert len(same) == 1 and len({*others} - same) == len(others)


def test_an_incomplete_folder_is_written_again_and_damaged_examples_are_refused(
    config: JobConfig, tmp_path: Path
) -> None:
    folder = Folder(str(tmp_path))
    _, place = load_or_prepare(folder, config, DATA)
    folder.delete(f"{place}/encoder.json")  # written last
    written, _ = load_or_prepare(folder, config, DATA)
    assert content(read_prepared(folder, place)) == content(written)
    whole = folder.read(f"{place}/train.parquet")
    assert whole is not None
    folder.write(f"{place}/train.parquet", whole[:-1] + b"?")
    with pytest.raises(StorageError, match=r"train\.parquet is damaged"):
        read_prepared(folder, place)
    with pytest.raises(StorageError, match=r"does not exist on this node; set storage\.url"):
        read_prepared(folder, "prepared/nowhere")
