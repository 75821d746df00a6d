"""Confidence intervals and paired tests, compared with sacreBLEU and known distributions."""

import numpy as np
import pytest
from sacrebleu.metrics import BLEU
from sacrebleu.significance import PairedTest

from agggen.errors import AggGenError
from agggen.evaluation.protocols import measure
from agggen.evaluation.segments import mean_statistics
from agggen.evaluation.significance import confidence_interval, paired_bootstrap

WORDS = [f"w{i}" for i in range(20)]


def noisy(references: list[list[str]], share: float, seed: int) -> list[str]:
    """The first reference of each text, in which a `share` of the words is replaced."""
    rng = np.random.default_rng(seed)
    words = [[str(rng.choice(WORDS)) if rng.random() < share else w for w in group[0].split()] for group in references]
    return list(map(" ".join, words))


@pytest.fixture(scope="module")
def references() -> list[list[str]]:
    rng = np.random.default_rng(7)
    return [[" ".join(rng.choice(WORDS, size=rng.integers(5, 15)))] for _ in range(300)]


def test_the_interval_of_a_mean_equals_the_normal_approximation() -> None:
    values = np.random.default_rng(1).normal(50, 10, size=400)
    result = confidence_interval(mean_statistics(values, "mean"), resamples=4000)
    error = 1.96 * values.std() / np.sqrt(len(values))
    assert result.value == pytest.approx(values.mean())
    assert (result.low, result.high) == pytest.approx((values.mean() - error, values.mean() + error), abs=0.15)


def test_the_interval_of_bleu_agrees_with_sacrebleu(references: list[list[str]]) -> None:
    texts, columns = noisy(references, 0.3, seed=1), list(zip(*references, strict=True))
    expected = BLEU(tokenize="none", force=True).corpus_score(texts, columns, n_bootstrap=1000)
    interval = confidence_interval(measure("plain", texts, references, ["bleu"], tokenised=True)["bleu"])
    assert interval.value == expected.score
    assert (interval.high - interval.low) / 2 == pytest.approx(expected._ci, rel=0.15)


def test_only_different_systems_differ_significantly(references: list[list[str]]) -> None:
    systems = [noisy(references, share, seed) for share, seed in ((0.1, 1), (0.1, 2), (0.2, 3))]
    results = [measure("plain", texts, references, tokenised=True) for texts in systems]
    for metric in ("bleu", "chrf", "ter"):
        first, equal, worse = (result[metric] for result in results)
        assert paired_bootstrap(first, first).p_value == 1
        different, similar = paired_bootstrap(first, worse), paired_bootstrap(first, equal)
        assert different.p_value < 0.01
        assert similar.p_value > 0.05
        assert different.low <= different.difference <= different.high
        assert different.low * different.high > 0  # the interval excludes 0
        assert similar.low < 0 < similar.high


@pytest.mark.parametrize("share", [0.10, 0.11, 0.12])
def test_p_values_agree_with_sacrebleu(references: list[list[str]], share: float) -> None:
    """Only approximately: a bootstrap test here, approximate randomisation in sacreBLEU."""
    systems = [("first", noisy(references, 0.1, 4)), ("second", noisy(references, share, 5))]
    columns, metrics = [[group[0] for group in references]], {"BLEU": BLEU(tokenize="none", force=True)}
    expected = PairedTest(systems, metrics, columns, test_type="ar", n_samples=2000, n_jobs=1)()[1]["BLEU"][1]
    first, second = (measure("plain", texts, references, ["bleu"], tokenised=True)["bleu"] for _, texts in systems)
    assert second.corpus().value == expected.score
    assert paired_bootstrap(first, second, resamples=2000).p_value == pytest.approx(expected.p_value, abs=0.06)


def test_intervals_depend_on_the_seed(references: list[list[str]]) -> None:
    bleu = measure("plain", noisy(references, 0.3, 1), references, ["bleu"])["bleu"]
    assert confidence_interval(bleu) == confidence_interval(bleu)
    assert confidence_interval(bleu, seed=1).low != confidence_interval(bleu, seed=2).low
    remark = "level:0.95|resamples:1000|seed:3"
    assert confidence_interval(bleu, seed=3).signature.endswith(f"|ci:bootstrap-percentile|{remark}")
    assert paired_bootstrap(bleu, bleu, seed=3).signature.endswith(f"|test:paired-bootstrap|{remark}")


@pytest.mark.parametrize(
    ("size", "metric", "message"),
    [(3, "mean", "have 2 and 3 texts"), (2, "another", "metrics differ: mean.* and another")],
)
def test_systems_that_are_not_comparable_are_refused(size: int, metric: str, message: str) -> None:
    with pytest.raises(AggGenError, match=message):
        paired_bootstrap(mean_statistics(np.ones(2), "mean"), mean_statistics(np.ones(size), metric))
