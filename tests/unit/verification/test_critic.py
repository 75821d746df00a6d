"""The critic: its inputs and training examples, training, files, independence of batches; the shipped critic."""

import json
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import mean

import pytest

from agggen.checks import RISK_THRESHOLD, check, check_all, shipped_critic
from agggen.errors import CorpusError
from agggen.evaluation.ratings import agreement, read_ratings
from agggen.records import Record
from agggen.verification.critic.corruption import Corruptor
from agggen.verification.critic.critic import Critic, CriticError, Judgement, NetworkConfig, load_critic
from agggen.verification.critic.examples import MISSING, PART, SAID, UNKNOWN, WRONG, Example, locate, to_example
from agggen.verification.critic.tokens import Role, collate, predicate_words, text_words, value_words
from agggen.verification.critic.training import CriticTraining, train_critic
from tests.unit.verification.conftest import records_of
from tests.unit.verification.texts import CITIES, record, texts_of

# --- inputs ----------------------------------------------------------------------------------------------------------


def test_words_of_a_text_have_normal_forms_and_characters() -> None:
    text = "Zoë's pub opened on 5 May 1999, with 1,200.0 seats! It is cheap"
    forms, spans = text_words(text)
    expected = "zoe s pub opened on @1999-5-5 , with #1200 seats . it is cheap ."
    assert forms == expected.split()
    assert [text[start:end] for start, end in spans][:2] == ["Zoë", "'s"]
    assert text[slice(*spans[5])] == "5 May 1999"
    assert all(start <= end for start, end in spans)
    assert text_words("") == ([], [])


@pytest.mark.parametrize(
    ("actual", "words"),
    [
        (value_words("Nord_(Year_of_No_Light_album)"), "nord year of no light album"),
        (value_words("Nord_(Year_of_No_Light_album)", qualifier=False), "nord"),
        (value_words('"Governator"'), "governator"),
        (value_words("(a)", qualifier=False), "a"),
        (value_words("!"), "!"),
        (value_words("89.0"), "#89"),
        (predicate_words("birthPlace"), "birth place"),
        (predicate_words("location/city"), "city"),
        (predicate_words("is_part_of"), "is part of"),
        (text_words("5\uff9e")[0], "#5 \uff9e ."),  # Regression: the empty normal form of a sound mark
    ],
)
def test_words_of_values_and_predicates(actual: Sequence[str], words: str) -> None:
    assert list(actual) == words.split()


def test_a_batch_names_the_part_of_each_word() -> None:
    inputs = collate([([("A b", "isIn", "C")], ["a", "b", "."]), ([("D", "x", "E"), ("D", "y", "F")], [])], {"b": 1})
    assert inputs.roles.tolist()[0] == [Role.TRIPLE, 1, 1, 2, 2, 3, 4, 4, 4, 4]
    assert inputs.words.tolist()[0] == [0, 0, 1, 0, 0, 0, 0, 0, 1, 0]
    assert inputs.triples.tolist() == [[0] * 6 + [-1] * 4, [0] * 4 + [1] * 4 + [-1] * 2]
    assert inputs.padding.tolist()[1] == [False] * 9 + [True]
    assert inputs.content.tolist()[0] == [0, 1, 1, 1, 1, 1, 0, 1, 1, 0]
    assert len(inputs.offsets) == 20


# --- examples with synthetic errors ---------------------------------------------------------------------------------


TEXTS = {
    "Silicon is in period 3 and group 14. It was discovered by Jons Jacob Berzelius.": [
        *(("Silicon", "period", "3"), ("Silicon", "group", "14"), ("Silicon", "discoveredBy", "Jons Jacob Berzelius")),
    ],
    "Aromi serves English food in the city centre.": [("Aromi", "food", "English"), ("Aromi", "area", "city centre")],
    "Ann Lee was born in Ulm, which is in Germany.": [("Ann Lee", "birthPlace", "Ulm"), ("Ulm", "country", "Germany")],
    "Nord is a sludge metal album.": [("Nord (album)", "genre", "Sludge metal")],
    "Ben Ray died in Oslo.": [("Ben Ray", "deathPlace", "Oslo")],
}


def originals() -> list[Example]:
    return [example for text, triples in TEXTS.items() if (example := to_example(triples, text))]


@pytest.fixture(scope="module")
def drawn() -> list[Example]:
    corruptor = Corruptor(originals(), seed=3)
    return [corruptor.draw() for _ in range(3000)]


def test_every_triple_and_word_has_a_label(drawn: list[Example]) -> None:
    for example in drawn:
        assert len(example.labels) == len(example.triples) > 0
        assert len(example.invented) == len(example.words) > 0
    labels = Counter(label for example in drawn for label in example.labels)
    assert min(labels[label] for label in (SAID, PART, WRONG, MISSING, UNKNOWN)) > 30
    assert to_example([("A", "b", "C")], "?!") is None is to_example([], "Words.")
    assert 0.02 < sum(sum(example.invented) for example in drawn) / sum(len(example.words) for example in drawn) < 0.2


def test_missing_values_are_not_in_the_text(drawn: list[Example]) -> None:
    once = [example for example in drawn if example.labels.count(MISSING) == 1]
    values = [example.triples[example.labels.index(MISSING)][2] for example in once]
    mentioned = sum(bool(locate(value, example.words)[1]) for value, example in zip(values, once, strict=True))
    assert mentioned < 0.05 * len(once)  # unless a second error inserts a sentence with the value


def test_invented_words_are_in_no_triple(drawn: list[Example]) -> None:
    for example in drawn:
        invented = {word for word, mark in zip(example.words, example.invented, strict=True) if mark}
        assert len(invented & example.value_words()) <= 3  # unless a second error added a triple with these words


def test_the_same_seed_draws_the_same_examples_and_changes_no_original_text(drawn: list[Example]) -> None:
    examples = originals()
    corruptor = Corruptor(examples, seed=3)
    assert [corruptor.draw() for _ in range(500)] == drawn[:500]
    assert examples == originals()


# --- training --------------------------------------------------------------------------------------------------------


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
    with pytest.raises(CorpusError, match="no texts for the training of the critic"):
        train_critic([], examples(3))


def test_a_critic_is_saved_and_loaded(tiny: Critic, tmp_path: Path) -> None:
    tiny.save(tmp_path / "critic")
    loaded = load_critic(tmp_path / "critic")
    assert (loaded.vocabulary, loaded.temperature, loaded.metrics) == (tiny.vocabulary, tiny.temperature, tiny.metrics)
    assert loaded.sources == {"corpora": ["people"]}
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
    for text, judgement in zip(texts, tiny.judge([ANN] * 3, texts), strict=True):
        alone = tiny.judge([ANN], [text])[0]
        scores = pytest.approx((judgement.coverage, judgement.correctness), abs=1e-5)
        assert ((alone.coverage, alone.correctness), alone.invented) == (scores, judgement.invented)


# --- the shipped critic ----------------------------------------------------------------------------------------------


SILICON = record("period = 3", "group = 14", subject="Silicon")
GOOD = "Silicon is in period 3 and group 14."


def judged(text: str, item: Record = SILICON) -> Judgement:
    return shipped_critic().judge([item], [text])[0]


def test_wrong_texts_do_not_express_the_triple() -> None:
    assert [verdict.verdict for verdict in judged(GOOD).verdicts] == ["said", "said"]
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
    assert judged(GOOD).invented == ()


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
    for score, rating, per_system in (("coverage", "DataCoverage", 0.93), ("correctness", "Correctness", 0.90)):
        agreed = agreement(rated, [result.scores[score] for result in checked])
        assert agreed.per_text[rating] > 0.59 and agreed.per_system[rating] > per_system


def test_lower_case_and_separate_punctuation_lower_scores_by_less_than_a_point(data_home: Path) -> None:
    records, texts = zip(*list(texts_of(records_of("webnlg", "dev")))[::5], strict=True)
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
