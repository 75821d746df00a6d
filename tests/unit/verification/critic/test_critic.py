"""The critic: training, files, independence of batches; verdicts of the shipped critic."""

import json
import re
from pathlib import Path
from statistics import mean

import pytest
import torch

from agggen.checks import RISK_THRESHOLD, check, check_all, shipped_critic
from agggen.corpora.catalogue import load
from agggen.corpora.rejects import split_rejects
from agggen.errors import AggGenError, CorpusError
from agggen.evaluation.ratings import agreement, read_ratings
from agggen.records import Record
from agggen.verification.critic.critic import Critic, CriticError, Judgement, load_critic
from agggen.verification.critic.examples import Example
from agggen.verification.critic.network import NetworkConfig
from agggen.verification.critic.tokens import text_words
from agggen.verification.critic.training import CriticTraining, reliability, train_critic
from tests.unit.verification.texts import CITIES, record, texts_of

TINY = NetworkConfig(width=16, layers=1, heads=2, feed_forward=16)


def examples(count: int = 40) -> list[Example]:
    items = []
    for number in range(count):
        name, city, age = f"Person {number}", CITIES[number % 5], str(number + 20)
        text = f"{name} was born in {city} and is {age} years old."
        items.append(Example([(name, "birthPlace", city), (name, "age", age)], text_words(text)[0]))
    return items


@pytest.fixture(scope="module")
def tiny() -> Critic:
    config = CriticTraining(steps=20, batch=8, warmup=5, dev_texts=60)
    return train_critic(examples(), examples(10), config, TINY, {"corpora": ["people"]})


ANN = record("birthPlace = Ulm", "age = 31", subject="Ann Lee")


def test_training_reduces_the_loss_and_is_reproducible() -> None:
    config = CriticTraining(steps=200, batch=8, warmup=20, dev_texts=60)
    losses: list[list[float]] = []
    for _ in range(2):
        losses.append([])
        train_critic(examples(), examples(10), config, TINY, progress=lambda step, loss: losses[-1].append(loss))
    assert losses[0] == losses[1]
    assert losses[0][1] < losses[0][0]


def test_a_critic_is_saved_and_loaded(tiny: Critic, tmp_path: Path) -> None:
    tiny.save(tmp_path / "critic")
    loaded = load_critic(tmp_path / "critic")
    assert (loaded.vocabulary, loaded.temperature, loaded.metrics) == (tiny.vocabulary, tiny.temperature, tiny.metrics)
    assert loaded.sources == {"corpora": ["people"]}
    assert [tuple(row) for row in loaded.reliability] == tiny.reliability
    first, second = (critic.judge([ANN], ["Ann Lee is 31."])[0] for critic in (tiny, loaded))
    assert second.coverage == pytest.approx(first.coverage, abs=0.01)  # weights are saved as 16-bit floats


def test_folders_without_a_valid_critic_are_named(tiny: Critic, tmp_path: Path) -> None:
    with pytest.raises(CriticError, match=r"no critic in .*absent: No such file"):
        load_critic(tmp_path / "absent")
    tiny.save(tmp_path)
    file, weights = tmp_path / "critic.json", tmp_path / "weights.safetensors"
    valid = json.loads(file.read_text())
    for description, size, message in (
        (valid | {"format": "x"}, None, "is not a critic: it has the format 'x'"),
        (valid | {"vocabulary": []}, None, "is not a critic"),
        ({name: valid[name] for name in valid if name != "temperature"}, None, "critic.json lacks 'temperature'"),
        (valid, 1000, "is not a critic: .*header"),  # Regression: SafetensorError
    ):
        file.write_text(json.dumps(description))
        weights.write_bytes(weights.read_bytes()[:size])
        with pytest.raises(CriticError, match=message):
            load_critic(tmp_path)


def test_judgements_do_not_depend_on_the_batch(tiny: Critic) -> None:
    texts = ["Ann Lee was born in Ulm.", "Ann Lee is 31 years old and was born in Ulm, a city by the river.", ""]
    together = tiny.judge([ANN] * 3, texts)
    for text, judgement in zip(texts, together, strict=True):
        alone = tiny.judge([ANN], [text])[0]
        assert alone.coverage == pytest.approx(judgement.coverage, abs=1e-5)
        assert alone.correctness == pytest.approx(judgement.correctness, abs=1e-5)
        assert alone.invented == judgement.invented


def test_texts_and_records_are_paired(tiny: Critic) -> None:
    with pytest.raises(AggGenError, match="1 records but 2 texts"):
        tiny.judge([ANN], ["a", "b"])
    with pytest.raises(CorpusError, match="no texts for the training of the critic"):
        train_critic([], examples(3))


def test_a_reliability_diagram_counts_every_triple() -> None:
    bins = reliability(torch.tensor([0.05, 0.95, 0.93, 1.0]), torch.tensor([False, True, True, False]))
    assert bins == [(pytest.approx(0.05), 0.0, 1), (pytest.approx(0.96), pytest.approx(2 / 3), 3)]


# --- the shipped critic ----------------------------------------------------------------------------------------------


SILICON = record("period = 3", "group = 14", subject="Silicon")
SAID = "Silicon is in period 3 and group 14."


def judged(text: str, item: Record = SILICON) -> Judgement:
    return shipped_critic().judge([item], [text])[0]


def test_wrong_texts_do_not_express_the_triple() -> None:
    assert [verdict.verdict for verdict in judged(SAID).verdicts] == ["said", "said"]
    for wrong, triple in (
        ("Carbon is in period 3 and group 14.", 0),
        ("Silicon is in period 3.", 1),
        ("Silicon is in period 3 and group 16.", 1),
        ("Silicon is in period 14 and group 3.", 0),
    ):
        assert judged(wrong).verdicts[triple].verdict != "said", wrong


def test_other_relations_and_negations_are_less_probable() -> None:
    for triple, right, wrong in (
        ("deathPlace = Ulm", "Ann Lee died in Ulm.", "Ann Lee was born in Ulm."),
        ("birthPlace = Ulm", "Ann Lee was born in Ulm.", "Ann Lee was not born in Ulm."),
    ):
        item = record(triple, subject="Ann Lee")
        assert judged(right, item).verdicts[0].said > judged(wrong, item).verdicts[0].said + 0.2


def test_every_copy_of_a_triple_counts_in_the_share_of_mentioned_values() -> None:
    """Regression: repeated missing triples counted once."""
    copies = record("period = 3", "period = 3", subject="Silicon")
    assert check(copies, "Silicon is a solid.").shares == (0.0, 1.0)
    assert check(SILICON, "Silicon is in period 3.").shares == (0.5, 1.0)


def test_invented_words_are_marked() -> None:
    text = "Silicon, discovered by Marie Curie, is in period 3 and group 14."
    marked = [text[start:end] for start, end in judged(text).invented]
    assert {"Marie", "Curie"} & set(marked)
    assert judged(SAID).invented == ()


def test_the_shipped_critic_is_calibrated() -> None:
    critic = shipped_critic()
    assert critic.metrics["calibration_error"] < 0.1
    assert critic.metrics["accuracy"] > 0.85
    assert critic.sources["corpora"] == ["rel2text", "elements"]  # only texts whose licences allow distribution


def test_the_critic_agrees_with_human_ratings(data_home: Path) -> None:
    path = data_home / "webnlg_2020_human/ratings.jsonl"
    if not path.exists():
        pytest.skip(f"{path} does not exist; it is not in the catalogue")
    rated = read_ratings(path)
    checked = check_all([text.record for text in rated], [text.text for text in rated])
    coverage = agreement(rated, [result.scores["coverage"] for result in checked])
    correctness = agreement(rated, [result.scores["correctness"] for result in checked])
    assert coverage.per_text["DataCoverage"] > 0.59
    assert correctness.per_text["Correctness"] > 0.59
    assert coverage.per_system["DataCoverage"] > 0.93
    assert correctness.per_system["Correctness"] > 0.90


def test_lower_case_and_separate_punctuation_lower_scores_by_less_than_a_point(data_home: Path) -> None:
    records, texts = zip(*list(texts_of(split_rejects(load("webnlg", "dev"))[0]))[::5], strict=True)
    plain = [" ".join(re.findall(r"(?:[a-z]\.){2,}|\d[\w.,:/-]*\w|\w+|[^\w\s]", text.lower())) for text in texts]
    written, lowered = (check_all(records, form) for form in (texts, plain))
    for measure in (
        lambda checked: checked.scores["coverage"],
        lambda checked: checked.scores["correctness"],
        lambda checked: float(checked.risk <= RISK_THRESHOLD),
        lambda checked: sum(value.whole for value in checked.result.values) / len(checked.result.values),
    ):
        before, after = (mean(map(measure, checks)) for checks in (written, lowered))
        assert after > before - 0.01
