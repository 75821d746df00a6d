"""The training pipeline on a toy corpus: files, exact resume, rejects and errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from agggen.bundle import Bundle, load_bundle
from agggen.errors import ConfigError, CorpusError, StoppedError, TrainingError
from agggen.generation.generator import InferenceConfig
from agggen.model.joint import ModelConfig
from agggen.records import Fact, Record, Reference, Triple
from agggen.run import CorpusConfig, FactsConfig, RunConfig, TextConfig, TrainingConfig, prepare, train
from agggen.tensors import device_of
from agggen.text.tokenise import JOINER
from agggen.training.callbacks import Callback, Metrics
from agggen.training.loop import StageConfig, Trainer
from agggen.training.objectives import ObjectiveName

NAMES = ("Oda", "Nils", "Ida", "Per", "Liv", "Jon", "Eva", "Kim", "Una", "Rolf", "Tora", "Arne")
TOWNS = ("Bergen", "Ulm", "Como")
TOOLS = ("cello", "flute", "harp", "viola")


def person(index: int) -> Record:
    name, town, tool = NAMES[index], TOWNS[index % 3], TOOLS[index % 4]
    triples = (Triple(name, "birthPlace", town), Triple(name, "instrument", tool))
    apart = Reference(
        f"{name} was born in {town}. She plays the {tool}.",
        (Fact(f"{name} was born in {town}. "), Fact(f"She plays the {tool}.")),
    )
    together = f"{name} from {town} plays the {tool}."
    return Record(f"person-{index}", triples, (apart, Reference(together, (Fact(together),))))


TRAIN, DEV = [person(index) for index in range(9)], [person(index) for index in range(9, 12)]
STAGE = StageConfig(epochs=2, learning_rate=5e-3, warmup=3, max_records=6, patience=9, log_every=1)
CONFIG = RunConfig(
    CorpusConfig(name="people"),
    FactsConfig(source="corpus"),
    TextConfig(min_count=1),
    ModelConfig(width=8, heads=2, layers=1, feed_forward=8, dropout=0.2, predicate_dim=3, predicate_dropout=0.1),
    TrainingConfig(seed=3, device="cpu", baseline=STAGE, joint=STAGE),
)


class Follow(Callback):
    """Counts updates by stage, and calls `act` at one of them."""

    def __init__(
        self, stage: ObjectiveName, updates: dict[str, int], at: tuple[str, int], act: Callable[[Trainer], None]
    ):
        self.stage, self.updates, self.at, self.act = stage, updates, at, act

    def on_log(self, trainer: Trainer, metrics: Metrics) -> None:
        self.updates[self.stage] = self.updates.get(self.stage, 0) + 1
        if self.at == (self.stage, trainer.progress.step):
            self.act(trainer)


def killed(trainer: Trainer) -> None:
    raise KeyboardInterrupt


def stop(trainer: Trainer) -> None:
    trainer.stop_requested = True


def run(
    folder: Path,
    config: RunConfig = CONFIG,
    at: tuple[str, int] = ("", 0),
    act: Callable[[Trainer], None] = killed,
    **settings: Any,
) -> tuple[Bundle, dict[str, int]]:
    updates: dict[str, int] = {}

    def listen(stage: ObjectiveName) -> Sequence[Callback]:
        return [Follow(stage, updates, at, act)]

    return train(config, TRAIN, DEV, folder, listen, **settings), updates


def same_weights(one: Bundle, other: Bundle) -> bool:
    here, there = one.model.state_dict(), other.model.state_dict()
    return here.keys() == there.keys() and all(torch.equal(here[name], there[name]) for name in here)


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> tuple[Bundle, dict[str, int], Path]:
    """An uninterrupted run."""
    folder = tmp_path_factory.mktemp("run")
    bundle, updates = run(folder, sources={"people/train": "12ab"})
    return bundle, updates, folder


# --- what a run writes ---


def test_a_run_writes_the_bundle_that_it_returns(full: tuple[Bundle, dict[str, int], Path]) -> None:
    bundle, updates, folder = full
    assert sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()) == [
        *(
            f"bundle/{name}"
            for name in ("bundle.json", "lexicon.json", "manifest.json", "predicates.json", "vocabulary.json")
        ),
        "bundle/weights.safetensors",
        "checkpoints/baseline.safetensors",
        "checkpoints/joint.safetensors",
    ]
    loaded = load_bundle(folder / "bundle")
    assert same_weights(loaded, bundle) and not bundle.model.training
    assert loaded.encoder.predicates == ("[unknown]", "birthPlace", "instrument")
    assert loaded.facts == "corpus" and loaded.inference == CONFIG.inference
    computed = {"vocabulary": bundle.encoder.vocabulary.fingerprint, "segmenter": "corpus"}
    assert loaded.sources == {"people/train": "12ab"} | computed
    assert loaded.config["training"]["seed"] == 3 and loaded.config["model"]["width"] == 8
    assert updates == {"baseline": 6, "joint": 6}
    assert (loaded.metrics["baseline.updates"], loaded.metrics["joint.updates"]) == (6.0, 6.0)
    assert loaded.metrics["baseline.dev_loss"] > 0 and loaded.metrics["joint.dev_loss"] > 0
    assert len(loaded.generator().generate(DEV)) == 3


def test_the_resolved_configuration_is_stored_in_the_bundle(tmp_path: Path) -> None:
    skipped = replace(CONFIG.training, baseline=replace(STAGE, epochs=0), joint=replace(STAGE, epochs=0))
    bundle, updates = run(tmp_path, replace(CONFIG, training=skipped), resolved={"from": "a preset"})
    assert load_bundle(tmp_path / "bundle").config == {"from": "a preset"}
    assert not updates and not bundle.metrics, "a stage of 0 epochs is skipped"


def test_a_run_is_determined_by_its_seed(full: tuple[Bundle, dict[str, int], Path], tmp_path: Path) -> None:
    torch.rand(5)
    repeated, _ = run(tmp_path / "again")
    assert same_weights(repeated, full[0])
    other, _ = run(tmp_path / "other", replace(CONFIG, training=replace(CONFIG.training, seed=4)))
    assert not same_weights(other, full[0])


# --- how it continues ---


@pytest.mark.parametrize(
    ("at", "second"),
    [
        (("baseline", 5), {"baseline": 3, "joint": 6}),  # its last checkpoint is that of the first evaluation
        (("joint", 1), {"joint": 6}),
        (("joint", 4), {"joint": 3}),
    ],
)
def test_a_killed_run_resumes_exactly(
    full: tuple[Bundle, dict[str, int], Path], tmp_path: Path, at: tuple[str, int], second: dict[str, int]
) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, at=at)
    assert not (tmp_path / "bundle").exists()
    torch.manual_seed(99)
    bundle, updates = run(tmp_path)
    assert updates == second, "what was done is not done again"
    assert same_weights(bundle, full[0])
    assert bundle.metrics == full[0].metrics


def test_a_run_killed_before_writing_its_bundle_only_writes_it(
    full: tuple[Bundle, dict[str, int], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def disk_full(path: Path, bundle: Bundle) -> str:
        raise OSError("no space left on device")

    with monkeypatch.context() as patch, pytest.raises(OSError, match="no space"):
        patch.setattr("agggen.run.save_bundle", disk_full)
        run(tmp_path)
    bundle, updates = run(tmp_path)
    assert not updates and same_weights(bundle, full[0]) and not bundle.model.training


@pytest.mark.parametrize("at", [("baseline", 2), ("baseline", 3), ("joint", 5)])
def test_a_stopped_run_writes_no_bundle_and_resumes(
    full: tuple[Bundle, dict[str, int], Path], tmp_path: Path, at: tuple[str, int]
) -> None:
    stage, step = at
    with pytest.raises(StoppedError, match=f"{stage} was stopped after update {step}; the same call resumes there"):
        run(tmp_path, at=at, act=stop)
    assert not (tmp_path / "bundle").exists()
    bundle, updates = run(tmp_path)
    assert updates == ({"baseline": 6 - step, "joint": 6} if stage == "baseline" else {"joint": 6 - step})
    assert same_weights(bundle, full[0])


def test_a_finished_run_is_refused_before_anything_is_trained(full: tuple[Bundle, dict[str, int], Path]) -> None:
    def listen(stage: ObjectiveName) -> Sequence[Callback]:
        pytest.fail(f"{stage} begins")

    with pytest.raises(TrainingError, match="bundle exists already: this run is finished"):
        train(CONFIG, TRAIN, DEV, full[2], listen)


# --- preparing ---


def test_every_reference_becomes_an_example_and_limit_counts_records() -> None:
    data = prepare(CONFIG, TRAIN, DEV)
    assert (len(data.train), len(data.dev)) == (18, 6)
    limited = prepare(replace(CONFIG, corpus=CorpusConfig(limit=4)), TRAIN, DEV)
    assert (len(limited.train), len(limited.dev)) == (8, 6)
    assert {example.id for example in limited.train} == {f"person-{index}" for index in range(4)}
    assert len(limited.encoder.vocabulary) < len(data.encoder.vocabulary), "it knows the words of those alone"


def test_vocabulary_and_predicates_are_those_of_the_training_records() -> None:
    unknown = Record(
        "s", (Triple("Mo", "hobby", "chess"),), (Reference("Mo likes chess.", (Fact("Mo likes chess."),)),)
    )
    data = prepare(CONFIG, TRAIN, [unknown])
    assert "hobby" not in data.encoder.predicates and "chess" not in data.encoder.vocabulary.words
    assert data.dev[0].predicates == (0,)


def test_constraints_are_the_configured_ones() -> None:
    free = prepare(replace(CONFIG, facts=FactsConfig(source="corpus", constraints="none")), TRAIN, DEV).train[0]
    hard = prepare(CONFIG, TRAIN, DEV).train[0]
    assert (free.required, free.max_size) == ((), 99)
    assert hard.required == (0b01, 0b10) and hard.forbidden == (0b10, 0b01)


@pytest.mark.parametrize(("keep", "lost"), [("train", "dev"), ("dev", "train"), ("", "both")])
def test_a_run_without_texts_is_refused(tmp_path: Path, keep: str, lost: str) -> None:
    bare = [Record(record.id, record.triples) for record in TRAIN]
    train_records, dev_records = (TRAIN if keep == "train" else bare), (DEV if keep == "dev" else bare)
    counts = rf"{9 if keep == 'train' else 0} training and {3 if keep == 'dev' else 0} development records"
    with pytest.raises(TrainingError, match=f"{counts} have reference texts; both need at least one"):
        train(CONFIG, train_records, dev_records, tmp_path / "run")
    assert not (tmp_path / "run").exists(), lost


VAST = Record("vast", tuple(Triple("s", f"p{i}", str(i)) for i in range(40)), (Reference("x", (Fact("x"),)),) * 2)
MUTE = Record("mute", TRAIN[0].triples, (Reference(JOINER, (Fact(JOINER),)), *TRAIN[0].references))


def test_large_records_and_texts_without_words_are_rejected() -> None:
    data = prepare(CONFIG, [VAST, *TRAIN, MUTE], [*DEV, MUTE], max_reject_share=0.2)
    assert [(reject.file, reject.id) for reject in data.rejects["people/train"]] == [
        ("people/train", name) for name in ("vast", "vast", "mute")
    ]
    first, _, last = map(str, data.rejects["people/train"])
    assert "record 'vast': has 40 triples; at most 24 can be planned at once" in first
    assert last == f"people/train: record 'mute': the text {JOINER!r} contains no words"
    assert [reject.id for reject in data.rejects["people/dev"]] == ["mute"]
    assert [example.id for example in data.train] == [r.id for r in TRAIN for _ in range(2)] + ["mute"] * 2
    assert not any(name.startswith("p1") for name in data.encoder.predicates), (
        "nothing is learned from what is left out"
    )
    assert not prepare(CONFIG, TRAIN, DEV).rejects


def test_too_many_rejected_texts_are_refused() -> None:
    with pytest.raises(
        CorpusError, match=r"people/train: 2 of 20 texts were rejected \(10\.0%, at most 5\.0% allowed\)"
    ):
        prepare(CONFIG, [*TRAIN, VAST], DEV)
    with pytest.raises(CorpusError, match=r"people/dev: 1 of 9 texts were rejected .* contains no words"):
        prepare(CONFIG, TRAIN, [*DEV, MUTE])
    with pytest.raises(TrainingError, match=r"no text of people/dev can be used; the first: .* has 40 triples"):
        prepare(CONFIG, TRAIN, [VAST], max_reject_share=1)


def test_an_unavailable_device_is_refused(tmp_path: Path) -> None:
    assert device_of("cpu").type == "cpu" and device_of("auto").type in ("cpu", "cuda")
    for name in ("abacus", "cuda:77"):
        with pytest.raises(ConfigError, match=f"training.device '{name}' is not usable here"):
            train(replace(CONFIG, training=replace(CONFIG.training, device=name)), TRAIN, DEV, tmp_path)


@pytest.mark.parametrize(
    ("kind", "values", "message"),
    [
        (CorpusConfig, {"limit": -5}, "limit must be at least 0, not -5"),  # once cut records off the end
        (ModelConfig, {"heads": 0}, "model.heads must be at least 1"),
        (ModelConfig, {"width": 15, "heads": 3}, "model.width 15 must be even"),
        (ModelConfig, {"heads": 3}, "a multiple of the 3 heads"),
        (ModelConfig, {"dropout": 2.0}, "model.dropout must be at least 0 and less than 1"),
        (TrainingConfig, {"threads": -1}, "threads must be 0 or more"),
        (InferenceConfig, {"rows": 0}, "rows must be at least 1"),
        (InferenceConfig, {"plan_weight": float("nan")}, "plan_weight must be a number"),
    ],
)
def test_settings_out_of_range_are_refused(kind: type, values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        kind(**values)


def test_training_restores_threads_and_random_state(tmp_path: Path) -> None:
    threads = torch.get_num_threads()
    config = replace(CONFIG, training=replace(CONFIG.training, threads=threads + 1, joint=replace(STAGE, epochs=0)))
    state = torch.random.get_rng_state()
    train(config, TRAIN, DEV, tmp_path / "run")
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.random.get_rng_state(), state)
