"""Diversity: how different are the texts and plans offered for one record, and a system's texts among themselves?

Plans by how many of the n best are different, texts by distinct-n (Li et al. 2016) and self-BLEU (Zhu et al. 2018).
None of them asks whether a text is right: they stand beside the metrics that do, never alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from sacrebleu.metrics import BLEU
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

from agggen.errors import AggGenError
from agggen.evaluation import Score
from agggen.evaluation.segments import SegmentStatistics, share_statistics
from agggen.records import Plan


def distinct_plans(n_best: Sequence[Sequence[Plan]]) -> SegmentStatistics:
    """The mean number of different plans a record; the order inside a group makes no difference.

    Args:
        n_best: the plans of each record.

    Raises:
        AggGenError: there is no record, or one has no plan.
    """
    _check(n_best, "plan")
    counts = [len({tuple(map(frozenset, plan.states)) for plan in plans}) for plans in n_best]
    most = max(map(len, n_best))
    signature = f"diversity|different plans|order:of groups|n-best:{most}|records:{len(counts)}"
    return share_statistics([(count, 1) for count in counts], signature)


def distinct_n(texts: Sequence[str], n: int = 2) -> Score:
    """Distinct-n (Li et al. 2016): different n-grams among all n-grams of all texts, 0..1.

    It falls with the amount of text: compare only sets of about the same size. Tokens are sacreBLEU's 13a,
    lower-cased. NaN where no text has n tokens.

    Raises:
        AggGenError: there are no texts.
    """
    if not texts:
        raise AggGenError("there are no texts to take n-grams of")
    tokenise = Tokenizer13a()
    tokens = [tokenise(text.lower()).split() for text in texts]
    grams = [tuple(line[i : i + n]) for line in tokens for i in range(len(line) - n + 1)]
    value = len(set(grams)) / len(grams) if grams else float("nan")
    return Score(value, f"distinct-{n}|tok:13a|case:lc|texts:{len(texts)}|n-grams:{len(grams)}")


def self_bleu(n_best: Sequence[Sequence[str]]) -> SegmentStatistics:
    """Self-BLEU (Zhu et al. 2018), percent: each text's sentence BLEU against the others of its record, the mean.

    100 is no diversity at all. Records with a single text are left out; NaN where there are no others.

    Raises:
        AggGenError: there is no record, or one has no text.
    """
    _check(n_best, "text")
    metric = BLEU(lowercase=True, effective_order=True)
    counts = []
    for texts in n_best:
        others = [[*texts[:i], *texts[i + 1 :]] for i in range(len(texts))] if len(texts) > 1 else []
        scores = [metric.sentence_score(text, rest).score for text, rest in zip(texts, others, strict=False)]
        counts.append((sum(scores), len(scores)))
    total = sum(count for _, count in counts)
    signature = str(metric.get_signature()) if total else "BLEU"
    return share_statistics(counts, f"self-BLEU|{signature}|texts:{total}")


def _check(n_best: Sequence[Sequence[object]], what: str) -> None:
    if not n_best:
        raise AggGenError(f"there are no {what}s to compare")
    for number, items in enumerate(n_best, start=1):
        if not items:
            raise AggGenError(f"record {number} has no {what}")
