"""The critic: training, files, independence of batches, and the verdicts of the included one."""

from __future__ import annotations

import json
import re
from pathlib import Path
from statistics import mean

import pytest
import torch

from agggen.checks import check, included_critic
from agggen.corpora.catalogue import load
from agggen.corpora.rejects import split_rejects
from agggen.errors import AggGenError, CorpusError
from agggen.records import Record, Triple
from agggen.verification.critic.critic import Critic, CriticError, Judgement, load_critic
from agggen.verification.critic.examples import Example, to_example
from agggen.verification.critic.network import NetworkConfig
from agggen.verification.critic.training import CriticTraining, reliability, train_critic

TINY = NetworkConfig(width=16, layers=1, heads=2, feed_forward=16)


def examples(count: int = 40) -> list[Example]:
    cities = ("Ulm", "Oslo", "Rome", "Bern", "Graz")
    all_examples = [
        to_example(
            [(f"Person {number}", "birthPlace", cities[number % 5]), (f"Person {number}", "age", str(number + 20))],
            f"Person {number} was born in {cities[number % 5]} and is {number + 20} years old.",
        )
        for number in range(count)
    ]
    return [example for example in all_examples if example is not None]


@pytest.fixture(scope="module")
def tiny() -> Critic:
    config = CriticTraining(steps=20, batch=8, warmup=5, dev_texts=60)
    return train_critic(examples(), examples(10), config, TINY, {"corpora": ["people"]})


def record(*triples: tuple[str, str, str]) -> Record:
    return Record("1", tuple(Triple(*triple) for triple in triples))


ANN = record(("Ann Lee", "birthPlace", "Ulm"), ("Ann Lee", "age", "31"))


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
    tiny.save(tmp_path / "critic")
    description = json.loads((tmp_path / "critic/critic.json").read_text())
    without_temperature = {name: value for name, value in description.items() if name != "temperature"}
    for invalid, message in (
        (description | {"format": "x"}, "critic is not a critic: it has the format 'x'"),
        (description | {"vocabulary": []}, "is not a critic"),
        (without_temperature, "critic.json lacks 'temperature'"),  # Regression: KeyError
    ):
        (tmp_path / "critic/critic.json").write_text(json.dumps(invalid))
        with pytest.raises(CriticError, match=message):
            load_critic(tmp_path / "critic")


def test_truncated_weights_are_no_critic(tiny: Critic, tmp_path: Path) -> None:
    """Regression: SafetensorError."""
    tiny.save(tmp_path)
    weights = tmp_path / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(CriticError, match=r"is not a critic: .*header"):
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
    with pytest.raises(CorpusError, match="one of the two has none"):
        train_critic([], examples(3))


def test_a_reliability_diagram_counts_every_triple() -> None:
    bins = reliability(torch.tensor([0.05, 0.95, 0.93, 1.0]), torch.tensor([False, True, True, False]))
    assert bins == [(pytest.approx(0.05), 0.0, 1), (pytest.approx(0.96), pytest.approx(2 / 3), 3)]


# --- the included critic ----------------------------------------------------------------------------------------------


def judged(text: str, *triples: tuple[str, str, str]) -> Judgement:
    return included_critic().judge([record(*triples)], [text])[0]


SILICON = (("Silicon", "period", "3"), ("Silicon", "group", "14"))


@pytest.mark.parametrize(
    ("right", "wrong", "triple"),
    [
        ("Silicon is in period 3 and group 14.", "Carbon is in period 3 and group 14.", 0),
        ("Silicon is in period 3 and group 14.", "Silicon is in period 3.", 1),
        ("Silicon is in period 3 and group 14.", "Silicon is in period 3 and group 16.", 1),
        ("Silicon is in period 3 and group 14.", "Silicon is in period 14 and group 3.", 0),
    ],
)
def test_wrong_texts_do_not_express_the_triple(right: str, wrong: str, triple: int) -> None:
    assert judged(right, *SILICON).verdicts[triple].verdict == "said"
    assert judged(wrong, *SILICON).verdicts[triple].verdict != "said"


@pytest.mark.parametrize(
    ("triple", "right", "wrong"),
    [
        (("Ann Lee", "deathPlace", "Ulm"), "Ann Lee died in Ulm.", "Ann Lee was born in Ulm."),
        (("Ann Lee", "birthPlace", "Ulm"), "Ann Lee was born in Ulm.", "Ann Lee was not born in Ulm."),
    ],
)
def test_other_relations_and_negations_are_less_probable(triple: tuple[str, str, str], right: str, wrong: str) -> None:
    assert judged(right, triple).verdicts[0].said > judged(wrong, triple).verdicts[0].said + 0.2


def test_every_copy_of_a_triple_counts_in_the_share_of_mentioned_values() -> None:
    """Regression: copies of a missing triple counted once."""
    assert check(record(SILICON[0], SILICON[0]), "Silicon is a solid.").shares == (0.0, 1.0)
    assert check(record(*SILICON), "Silicon is in period 3.").shares == (0.5, 1.0)


def test_invented_words_are_marked() -> None:
    text = "Silicon, discovered by Marie Curie, is in period 3 and group 14."
    marked = [text[start:end] for start, end in judged(text, *SILICON).invented]
    assert {"Marie", "Curie"} & set(marked)
    assert judged("Silicon is in period 3 and group 14.", *SILICON).invented == ()


def test_case_and_tokenisation_hardly_change_the_coverage() -> None:
    original = judged("Silicon is in period 3, and in group 14.", *SILICON)
    tokenised = judged("silicon is in period 3 , and in group 14 .", *SILICON)
    assert tokenised.coverage == pytest.approx(original.coverage, abs=0.01)


def test_the_included_critic_is_calibrated() -> None:
    critic = included_critic()
    assert critic.metrics["calibration_error"] < 0.1
    assert critic.metrics["accuracy"] > 0.85
    assert critic.sources["corpora"] == ["rel2text", "elements"]  # whose licences allow its distribution


def test_the_critic_agrees_with_people(data_home: Path) -> None:
    from agggen.checks import check_all
    from agggen.evaluation.ratings import agreement, read_ratings

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
    from agggen.checks import RISKY, check_all

    pairs = [
        (record, reference.text)
        for record in split_rejects(load("webnlg", "dev"))[0]
        for reference in record.references
    ][::5]
    records, texts = zip(*pairs, strict=True)
    plain = [" ".join(re.findall(r"(?:[a-z]\.){2,}|\d[\w.,:/-]*\w|\w+|[^\w\s]", text.lower())) for text in texts]
    written, lowered = (check_all(records, form) for form in (texts, plain))
    for measure in (
        lambda checked: checked.scores["coverage"],
        lambda checked: checked.scores["correctness"],
        lambda checked: float(checked.risk <= RISKY),
        lambda checked: sum(value.whole for value in checked.result.values) / len(checked.result.values),
    ):
        before, after = (mean(map(measure, checks)) for checks in (written, lowered))
        assert after > before - 0.01
