"""Training on this machine: preparation of records, files of a run, exact resume, rejects and invalid settings."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch

import agggen
from agggen.bundle import FILES, load_bundle
from agggen.config import as_overrides, load_config
from agggen.errors import ConfigError, CorpusError, StoppedError, TrainingError
from agggen.generation.generator import InferenceConfig
from agggen.model.joint import ModelConfig
from agggen.records import Fact, Record, Reference, Triple
from agggen.run import CorpusConfig, RunConfig, TrainingConfig, prepare
from agggen.text.tokenise import JOINER
from agggen.training.callbacks import Callback, Metrics
from agggen.training.loop import StageConfig, Trainer
from agggen_platform.job_config import ClusterConfig
from tests.unit.toy_training import same, weights
from tests.unit.training import toy

NAMES = ("Oda", "Nils", "Ida", "Per", "Liv", "Jon", "Eva", "Kim", "Una", "Rolf", "Tora", "Arne")
TOWNS = ("Bergen", "Ulm", "Como")
TOOLS = ("cello", "flute", "harp", "viola")


def person(index: int) -> Record:
    name, town, tool = NAMES[index], TOWNS[index % 3], TOOLS[index % 4]
    triples = (Triple(name, "birthPlace", town), Triple(name, "instrument", tool))
    texts = [f"{name} was born in {town}. ", f"She plays the {tool}."], [f"{name} from {town} plays the {tool}."]
    return Record(f"person-{index}", triples, tuple(Reference("".join(t), tuple(map(Fact, t))) for t in texts))


TRAIN, DEV = [person(index) for index in range(9)], [person(index) for index in range(9, 12)]
DATA = agggen.Dataset("people", {"train": TRAIN, "dev": DEV})
TRAINING = {"seed": 3, "device": "cpu", **dict.fromkeys(("baseline", "joint"), toy.STAGE | {"max_records": 6})}
SETTINGS = toy.SETTINGS | {"facts": {"source": "corpus"}, "training": TRAINING}


def config(**changes: Any) -> RunConfig:
    return load_config(RunConfig, None, as_overrides(SETTINGS | {"corpus": {"name": "people"}} | changes))


def killed(trainer: Trainer) -> None:
    raise KeyboardInterrupt


def stopped(trainer: Trainer) -> None:
    trainer.stop_requested = True


class ActAtUpdate(Callback):
    """Counts updates by stage, and calls `act` at one of them."""

    def __init__(self, at: tuple[str, int], act: Callable[[Trainer], None]) -> None:
        self.updates: Counter[str] = Counter()
        self.at, self.act = at, act

    def on_log(self, trainer: Trainer, metrics: Metrics) -> None:
        self.updates[trainer.stage] += 1
        if self.at == (trainer.stage, trainer.progress.step):
            self.act(trainer)


def run(
    output: Path, at: tuple[str, int] = ("", 0), act: Callable[[Trainer], None] = killed, **training: Any
) -> tuple[agggen.Model, Counter[str]]:
    follow = ActAtUpdate(at, act)
    settings = SETTINGS | {"training": TRAINING | training}
    return agggen.train(DATA, "tiny", output, callbacks=[follow], progress=False, **settings), follow.updates


def same_weights(one: agggen.Model, other: agggen.Model) -> bool:
    return same(weights(one.bundle.model), weights(other.bundle.model))


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> tuple[agggen.Model, Counter[str]]:
    return run(tmp_path_factory.mktemp("run"))


def test_a_run_writes_the_bundle_that_it_returns(uninterrupted: tuple[agggen.Model, Counter[str]]) -> None:
    model, updates = uninterrupted
    folder = model.path.parent
    assert {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()} == {
        *(f"bundle/{name}" for name in (*FILES, "manifest.json")),
        *("checkpoints/baseline.safetensors", "checkpoints/joint.safetensors", "run.json"),
    }
    bundle = load_bundle(model.path)
    assert same(weights(bundle.model), weights(model.bundle.model)) and not bundle.model.training
    assert bundle.encoder.predicates == ("[unknown]", "birthPlace", "instrument")
    assert bundle.facts == "corpus" and bundle.config["training"]["seed"] == 3
    assert bundle.sources.keys() == {"people/train", "people/dev", "vocabulary", "segmenter"}
    assert bundle.sources["segmenter"] == "corpus"
    assert updates == {"baseline": 6, "joint": 6}
    assert (bundle.metrics["baseline.updates"], bundle.metrics["joint.updates"]) == (6.0, 6.0)
    assert bundle.metrics["baseline.dev_loss"] > 0 and bundle.metrics["joint.dev_loss"] > 0
    assert len(bundle.generator().generate(DEV)) == 3


def test_a_run_is_determined_by_its_seed(uninterrupted: tuple[agggen.Model, Counter[str]], tmp_path: Path) -> None:
    torch.rand(5)
    assert same_weights(run(tmp_path / "again")[0], uninterrupted[0])
    threads, state = torch.get_num_threads(), torch.random.get_rng_state()
    other, updates = run(tmp_path / "other", seed=4, threads=threads + 1, joint={"epochs": 0})
    assert not same_weights(other, uninterrupted[0]) and updates.keys() == {"baseline"}
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.random.get_rng_state(), state)


@pytest.mark.parametrize(
    ("act", "at", "second"),
    [
        (killed, ("baseline", 5), {"baseline": 3, "joint": 6}),  # the last checkpoint is that of the first evaluation
        (killed, ("joint", 1), {"joint": 6}),
        (killed, ("joint", 4), {"joint": 3}),
        (stopped, ("baseline", 2), {"baseline": 4, "joint": 6}),
        (stopped, ("baseline", 3), {"baseline": 3, "joint": 6}),
        (stopped, ("joint", 5), {"joint": 1}),
    ],
)
def test_an_interrupted_run_resumes_exactly(
    uninterrupted: tuple[agggen.Model, Counter[str]],
    tmp_path: Path,
    act: Callable[[Trainer], None],
    at: tuple[str, int],
    second: dict[str, int],
) -> None:
    message = f"{at[0]} was stopped after update {at[1]}; the same command resumes it" if act is stopped else None
    with pytest.raises((KeyboardInterrupt, StoppedError), match=message):
        run(tmp_path, at, act)
    assert not (tmp_path / "bundle").exists()
    torch.manual_seed(99)
    model, updates = run(tmp_path)
    assert updates == second, "a finished update was repeated"
    assert same_weights(model, uninterrupted[0]) and model.bundle.metrics == uninterrupted[0].bundle.metrics


def test_a_run_killed_before_writing_its_bundle_only_writes_it(
    uninterrupted: tuple[agggen.Model, Counter[str]], tmp_path: Path
) -> None:
    with patch("agggen.api.save_bundle", side_effect=OSError("no space")), pytest.raises(OSError, match="no space"):
        run(tmp_path)
    model, updates = run(tmp_path)
    assert not updates and same_weights(model, uninterrupted[0])


# --- preparation ---


def test_every_reference_becomes_an_example_and_limit_counts_records() -> None:
    data, limited = prepare(config(), TRAIN, DEV), prepare(config(corpus={"limit": 4}), TRAIN, DEV)
    assert (len(data.train), len(data.dev), len(limited.train), len(limited.dev)) == (18, 6, 8, 6)
    assert {example.id for example in limited.train} == {f"person-{index}" for index in range(4)}
    assert len(limited.encoder.vocabulary) < len(data.encoder.vocabulary), "words of other records"


def test_vocabulary_and_predicates_are_those_of_the_training_records() -> None:
    text = "Mo likes chess."
    data = prepare(config(), TRAIN, [Record("s", (Triple("Mo", "hobby", "chess"),), (Reference(text, (Fact(text),)),))])
    assert "hobby" not in data.encoder.predicates and "chess" not in data.encoder.vocabulary.words
    assert data.dev[0].predicates == (0,)


def test_constraints_are_the_configured_ones() -> None:
    free = prepare(config(facts={"source": "corpus", "constraints": "none"}), TRAIN, DEV).train[0]
    hard = prepare(config(), TRAIN, DEV).train[0]
    assert (free.required, free.max_size) == ((), 99)
    assert hard.required == (0b01, 0b10) and hard.forbidden == (0b10, 0b01)


WITHOUT_TEXTS = [Record(record.id, record.triples) for record in TRAIN]
LARGE = Record("large", tuple(Triple("s", f"p{i}", str(i)) for i in range(40)), (Reference("x", (Fact("x"),)),) * 2)
WORDLESS = Record("wordless", TRAIN[0].triples, (Reference(JOINER, (Fact(JOINER),)), *TRAIN[0].references))


@pytest.mark.parametrize(
    ("train", "dev", "share", "error", "message"),
    [
        (TRAIN, WITHOUT_TEXTS, 0.05, TrainingError, "9 training and 0 development records have reference texts; both"),
        (WITHOUT_TEXTS, DEV, 0.05, TrainingError, "0 training and 3 development records have reference texts"),
        ([*TRAIN, LARGE], DEV, 0.05, CorpusError, r"people/train: 2 of 20 texts were rejected \(10\.0%, at most 5\.0%"),
        (TRAIN, [*DEV, WORDLESS], 0.05, CorpusError, r"people/dev: 1 of 9 texts were rejected .* contains no words"),
        (TRAIN, [LARGE], 1, TrainingError, r"no text of people/dev can be used; the first reject: .* has 40 triples"),
    ],
)
def test_data_with_too_few_texts_are_refused(
    train: list[Record], dev: list[Record], share: float, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        prepare(config(), train, dev, max_reject_share=share)


def test_large_records_and_texts_without_words_are_rejected() -> None:
    data = prepare(config(), [LARGE, *TRAIN, WORDLESS], [*DEV, WORDLESS], max_reject_share=0.2)
    rejects = data.rejects["people/train"]
    assert {reject.file for reject in rejects} == {"people/train"}
    assert [reject.id for reject in rejects] == ["large", "large", "wordless"]
    assert "record 'large': has 40 triples; at most 24 can be planned at once" in str(rejects[0])
    assert str(rejects[-1]) == f"people/train: record 'wordless': the text {JOINER!r} contains no words"
    assert [reject.id for reject in data.rejects["people/dev"]] == ["wordless"]
    assert [example.id for example in data.train] == [r.id for r in TRAIN for _ in range(2)] + ["wordless"] * 2
    assert not any(name.startswith("p1") for name in data.encoder.predicates), "learned from rejected texts"
    assert not prepare(config(), TRAIN, DEV).rejects


# --- settings ---


@pytest.mark.parametrize("name", ["abacus", "cuda:77"])
def test_an_unavailable_device_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match=f"training.device '{name}' is not usable here"):
        run(tmp_path, device=name)


@pytest.mark.parametrize(
    ("kind", "values", "message"),
    [
        (CorpusConfig, {"limit": -5}, "limit must be at least 0, not -5"),  # regression: removed records from the end
        (ModelConfig, {"heads": 0}, "model.heads must be at least 1"),
        (ModelConfig, {"width": 15, "heads": 3}, "model.width 15 must be even"),
        (ModelConfig, {"heads": 3}, "a multiple of the 3 heads"),
        (ModelConfig, {"dropout": 2.0}, "model.dropout must be at least 0 and less than 1"),
        (TrainingConfig, {"threads": -1}, "threads must be 0 or more"),
        (TrainingConfig, {"replay": 1}, r"training\.replay must be at least 0 and less than 1"),
        (InferenceConfig, {"rows": 0}, "rows must be at least 1"),
        (InferenceConfig, {"plan_weight": float("nan")}, "plan_weight must be a number"),
        *(
            (StageConfig, {name: 0}, f"{name} must be at least 1, not 0")
            for name in ("log_every", "batch_positions", "max_records", "patience")
        ),
        (StageConfig, {"label_smoothing": 1.0}, "label_smoothing must be at least 0 and less than 1"),
        (StageConfig, {"alignment_penalty": float("nan")}, "alignment_penalty must be at least 0, or null"),
        (StageConfig, {"omission_weight": -1.0}, "omission_weight must be a number of 0 or more, not -1.0"),
        (StageConfig, {"substitute": -0.1}, "substitute must be between 0 and 1"),
        (StageConfig, {"initial_share": 1.5}, "initial_share must be between 0 and 1, not 1.5"),
        (StageConfig, {"clip": 0.0}, "clip must be greater than 0"),
        (ClusterConfig, {"workers": 2, "gpus_per_worker": 0.5}, r"gpus_per_worker must be a whole number .* not 0\.5"),
    ],
)
def test_settings_out_of_range_are_refused(kind: type, values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        kind(**values)
