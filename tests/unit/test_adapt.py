"""`agggen.adapt` and the command: new predicates and words, replay of old texts."""

from pathlib import Path
from typing import Any

import pytest

import agggen
from agggen.bundle import fingerprint
from agggen.errors import AggGenError, BundleError, ConfigError, CorpusError, StoppedError, TrainingError
from agggen.run import RunConfig, prepare
from agggen.training.adaptation import adaptation
from agggen.training.batches import epoch_examples
from tests.command import Run
from tests.unit.cli_write.examples import json_lines
from tests.unit.test_api import ROWS, train
from tests.unit.toy_training import Log

COLOURS = [
    {"id": name, "name": name, "food": "Thai", "colour": colour, "text": f"{name} is {colour} and serves Thai food."}
    for name, colour in zip("ABCDEFGHIJKL", ("red", "blue", "green") * 4, strict=True)
]
NEW = agggen.load_dataset(COLOURS, name="colours")
FAST: dict[str, Any] = {"threads": 1, "device": "cpu", "joint": {"epochs": 2, "log_every": 1, "patience": 9}}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return json_lines(tmp_path_factory.mktemp("data") / "old.jsonl", ROWS)


@pytest.fixture(scope="module")
def base(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> agggen.Model:
    return train(tmp_path_factory.mktemp("runs") / "base", str(corpus))


def adapt(base: Any, output: Path, data: Any = NEW, **changes: Any) -> agggen.Model:
    return agggen.adapt(base, data, output, **{"progress": False, "training": FAST} | changes)


def test_a_model_learns_new_words_and_predicates(base: agggen.Model, tmp_path: Path) -> None:
    training = FAST | {"joint": {"epochs": 25, "learning_rate": 0.01, "patience": 25, "batch_positions": 64}}
    few, many = adapt(base, tmp_path / "few"), adapt(base, tmp_path / "many", training=training)
    assert many.bundle.metrics["joint.dev_loss"] < few.bundle.metrics["joint.dev_loss"] - 0.5
    assert many.predicates == (*base.predicates, "colour")
    words = many.bundle.encoder.vocabulary
    assert "red" in words.words[: words.n_output] and "red" not in base.bundle.encoder.vocabulary.words
    assert many.bundle.sources["start"] == fingerprint(base.path)
    assert many.generate(NEW.test[0]).plan.predicates and base.predicates == ("area", "food")


def test_replayed_texts_come_from_the_corpora_that_the_bundle_names(
    base: agggen.Model, corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    once = adapt(base, tmp_path / "once", progress=True)
    assert f"Each epoch mixes 8 of 8 old texts of {corpus} into 10 new texts" in capsys.readouterr().err
    assert f"replay {corpus}/train" in once.bundle.sources and "colours/train" in once.bundle.sources
    third = [row | {"shape": "round", "text": f"{row['name']} is round."} for row in COLOURS]
    twice = adapt(once, tmp_path / "twice", agggen.load_dataset(third, name="shapes"), progress=True)
    messages = capsys.readouterr().err
    assert "No old texts of colours are mixed in, so the model may forget: no corpus 'colours'" in messages
    assert f"Each epoch mixes 8 of 8 old texts of {corpus} into 10 new texts" in messages, "own replay"
    assert twice.predicates == (*once.predicates, "shape")
    assert twice.bundle.sources["start"] == fingerprint(once.path)


def test_a_modified_corpus_is_not_replayed(
    base: agggen.Model, corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    complete = corpus.read_text()
    corpus.write_text(complete.replace("Thai", "Tai"))
    model = adapt(base, tmp_path / "changed", progress=True)
    corpus.write_text(complete)
    assert "differs from the one that the bundle was trained on" in capsys.readouterr().err
    assert not replayed(model)


@pytest.mark.parametrize(("width", "learning_rate"), [(8, 1e-3), (256, 2.5e-4)])
def test_learning_rates_depend_on_the_width(width: int, learning_rate: float, tmp_path: Path) -> None:
    model = {"width": width, "heads": 2, "layers": 1, "feed_forward": 8, "predicate_dim": 4}
    path = train(tmp_path / "base", model=model, training=FAST | {"joint": {"epochs": 1}}).path
    joint = adaptation(RunConfig, path, NEW)[0].training.joint
    assert (joint.learning_rate, joint.transition_learning_rate) == (learning_rate, 10 * learning_rate)
    changed = adaptation(RunConfig, path, NEW, overrides=["training.joint.learning_rate=0.5"])[0].training.joint
    assert (changed.learning_rate, changed.transition_learning_rate) == (0.5, 10 * learning_rate)


def test_each_epoch_has_all_new_texts_and_at_least_200_other_old_texts() -> None:
    messages: list[str] = []
    config, data = adaptation(RunConfig, "elements", NEW, note=messages.append)
    start = data.start.bundle if data.start else None
    prepared = prepare(config, data.train, data.dev, start=start, replay=data.replay)
    n_old = sum(len(record.references) for record in data.replay)
    assert prepared.n_replayed == n_old == len(prepared.train) - 10 and 1600 <= n_old < 1610
    assert f"Each epoch mixes 200 of {n_old:,} old texts of elements into 10 new texts" in messages
    epochs = [epoch_examples(len(prepared.train), n_old, config.training.replay, epoch) for epoch in range(8)]
    texts = [{prepared.train[index] for index in indices} for indices in epochs]
    new_texts = set(prepared.train[:10])
    assert all(epoch_texts >= new_texts and len(epoch_texts) == 210 for epoch_texts in texts)
    assert set.intersection(*texts) == new_texts and len(set.union(*texts)) == 1610


@pytest.mark.parametrize(
    ("n_new", "n_old", "share", "used"),  # with a share above 0, at least 200 old texts, if there are as many
    [(3, 0, 0.5, 0), (9, 2, 0, 0), (2, 3, 0.5, 3), (10, 999, 0.5, 200), (300, 999, 0.5, 300), (300, 999, 0.75, 900)],
)
def test_the_number_of_old_texts_in_an_epoch(n_new: int, n_old: int, share: float, used: int) -> None:
    for epoch in range(3):
        new, old = (indices := epoch_examples(n_new + n_old, n_old, share, epoch))[:n_new], {*indices[n_new:]}
        assert new == list(range(n_new)) and old <= {*range(n_new, n_new + n_old)}
        assert len(old) == len(indices) - n_new == used


def replayed(model: agggen.Model) -> set[str]:
    return {name.removeprefix("replay ") for name in model.bundle.sources if name.startswith("replay ")}


def test_replay_of_a_named_corpus_and_without_replay(base: agggen.Model, tmp_path: Path, capsys: Any) -> None:
    named = adapt(base, tmp_path / "given", replay=agggen.load_dataset(ROWS, name="mine"), progress=True)
    assert "8 of 8 old texts of mine" in capsys.readouterr().err and replayed(named) == {"mine/train", "mine/dev"}
    none = adapt(base, tmp_path / "none", training=FAST | {"replay": 0}, progress=True)
    assert "old texts" not in capsys.readouterr().err and not replayed(none)


def test_a_stopped_run_continues_and_a_finished_one_is_returned(base: agggen.Model, tmp_path: Path) -> None:
    with pytest.raises(StoppedError):
        adapt(base, tmp_path / "cut", callbacks=[Log(stop_at=1)])
    resumed, none = Log(), Log()
    ended = adapt(base, tmp_path / "cut", callbacks=[resumed])
    complete = adapt(base.path, tmp_path / "whole")
    assert len(resumed.losses) == complete.bundle.metrics["joint.updates"] - 1
    assert ended.generate(NEW.test) == complete.generate(NEW.test)
    assert adapt(base, tmp_path / "cut", callbacks=[none]).path == ended.path and not none.events


WITHOUT_TEXTS = [{key: value for key, value in row.items() if key != "text"} for row in COLOURS]


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"model": {"max_group_size": 2}}, ConfigError, r"another model\.max_group_size \(3, not 2\)"),
        ({"model": {"transition": "paper"}}, ConfigError, r"another model\.transition \(normalised, not paper\)"),
        ({"model": {"width": 16}}, ConfigError, r"another model\.width \(8, not 16\)"),
        ({"data": {"train": WITHOUT_TEXTS, "dev": COLOURS}}, TrainingError, "none of the 12 records of train has"),
        ({"data": {"train": COLOURS, "dev": WITHOUT_TEXTS}}, TrainingError, "none of the 12 records of dev has"),
        ({"data": {"train": COLOURS}}, CorpusError, "data has no split 'dev'"),
        ({"replay": "nowhere.csv"}, CorpusError, "cannot read nowhere.csv"),
        ({"base": "nowhere"}, BundleError, "no bundle at nowhere"),
    ],
)
def test_invalid_arguments_are_refused_before_a_run_is_written(
    base: agggen.Model, tmp_path: Path, change: dict[str, Any], error: type[AggGenError], message: str
) -> None:
    with pytest.raises(error, match=message):
        adapt(**{"base": base, "output": tmp_path / "run"} | change)
    assert not (tmp_path / "run").exists()


def test_the_command_writes_a_bundle_and_returns_a_finished_run(base: agggen.Model, run: Run) -> None:
    lines = ["title,colour,plot", *(f"{row['name']},{row['colour']},{row['text']}" for row in COLOURS)]
    Path("new.csv").write_text("\n".join(lines) + "\n")
    arguments = ("adapt", base.path, "new.csv", "--text", "plot", "training.joint.epochs=1", "training.threads=1")
    code, out, err = run(*arguments)
    assert code == 0
    assert "1 predicates are new to the model, which knows 2" in err and "old texts of" in err
    bundle = Path(out.strip())
    assert bundle.parent.name.startswith("adapt-new-")
    assert agggen.load_model(bundle).predicates == (*base.predicates, "colour")
    code, repeated, err = run(*arguments)
    assert (code, repeated) == (0, out) and "This run is finished" in err
