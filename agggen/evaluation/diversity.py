"""Diversity: how different from each other are the plans and texts offered for one record, and a system's texts at all?

Plans by how many of the n best are different, texts by distinct-n (Li et al. 2016) and self-BLEU (Zhu et al. 2018).
None of them asks whether a text is right: they stand beside the metrics that do, never alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from agggen.errors import AggGenError
from agggen.evaluation import Score
from agggen.records import Plan


def distinct_plans(n_best: Sequence[Sequence[Plan]], ordered: bool = True) -> Score:
    """The mean number of different plans a record; the order inside a group makes no difference.

    Args:
        n_best: the plans of each record.
        ordered: plans also differ in the order of their groups; else only in who shares a group.

    Raises:
        AggGenError: there is no record, or one has no plan.
    """
    _check(n_best, "plan")
    shape = tuple if ordered else frozenset
    counts = [len({shape(frozenset(state) for state in plan.states) for plan in plans}) for plans in n_best]
    order = "of groups" if ordered else "none"
    most = max(map(len, n_best))
    return Score(
        sum(counts) / len(counts), f"diversity|different plans|order:{order}|n-best:{most}|records:{len(counts)}"
    )


def distinct_n(texts: Sequence[str], n: int = 2) -> Score:
    """Distinct-n (Li et al. 2016): different n-grams among all n-grams of all texts, 0..1.

    It falls with the amount of text: compare only sets of about the same size. Tokens are sacreBLEU's 13a,
    lower-cased. NaN where no text has n tokens.

    Raises:
        AggGenError: there are no texts.
    """
    if not texts:
        raise AggGenError("there are no texts to take n-grams of")
    from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

    tokenise = Tokenizer13a()
    tokens = [tokenise(text.lower()).split() for text in texts]
    grams = [tuple(line[i : i + n]) for line in tokens for i in range(len(line) - n + 1)]
    value = len(set(grams)) / len(grams) if grams else float("nan")
    return Score(value, f"distinct-{n}|tok:13a|case:lc|texts:{len(texts)}|n-grams:{len(grams)}")


def self_bleu(n_best: Sequence[Sequence[str]]) -> Score:
    """Self-BLEU (Zhu et al. 2018), percent: each text's sentence BLEU against the others of its record, the mean.

    100 is no diversity at all. Records with a single text are left out; NaN where there are no others.

    Raises:
        AggGenError: there is no record, or one has no text.
    """
    _check(n_best, "text")
    from sacrebleu.metrics import BLEU

    metric = BLEU(lowercase=True, effective_order=True)
    values = [
        metric.sentence_score(text, [*texts[:i], *texts[i + 1 :]]).score
        for texts in n_best
        if len(texts) > 1
        for i, text in enumerate(texts)
    ]
    value = sum(values) / len(values) if values else float("nan")
    signature = str(metric.get_signature()) if values else "BLEU"
    return Score(value, f"self-BLEU|{signature}|texts:{len(values)}")


def _check(n_best: Sequence[Sequence[object]], what: str) -> None:
    if not n_best:
        raise AggGenError(f"there are no {what}s to compare")
    for number, items in enumerate(n_best, start=1):
        if not items:
            raise AggGenError(f"record {number} has no {what}")
