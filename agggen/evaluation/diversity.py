"""Diversity of the n-best plans and texts of records, and of all texts of a system.

These metrics do not measure correctness, so they should be reported together with metrics that do.
"""

from collections.abc import Sequence

from sacrebleu.metrics import BLEU
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

from agggen.evaluation import Score
from agggen.evaluation.segments import SegmentStatistics, quotient_statistics
from agggen.records import Plan


def distinct_plans(n_best: Sequence[Sequence[Plan]]) -> SegmentStatistics:
    """The mean number of distinct plans per record; the order within a group is ignored."""
    counts = [len({tuple(map(frozenset, plan.states)) for plan in plans}) for plans in n_best]
    max_plans = max(map(len, n_best))
    signature = f"diversity|different plans|order:of groups|n-best:{max_plans}|records:{len(counts)}"
    return quotient_statistics([(count, 1) for count in counts], signature)


def distinct_n(texts: Sequence[str], n: int = 2) -> Score:
    """Distinct-n (Li et al. 2016): the fraction of distinct n-grams among the n-grams of all texts, in [0, 1].

    Distinct-n decreases with the amount of text, so only sets of texts of similar size are comparable. Tokens are
    sacreBLEU's 13a tokens, lower-cased. NaN if no text has n tokens.
    """
    tokenise = Tokenizer13a()
    tokens = [tokenise(text.lower()).split() for text in texts]
    grams = [tuple(line[i : i + n]) for line in tokens for i in range(len(line) - n + 1)]
    value = len(set(grams)) / len(grams) if grams else float("nan")
    return Score(value, f"distinct-{n}|tok:13a|case:lc|texts:{len(texts)}|n-grams:{len(grams)}")


def self_bleu(n_best: Sequence[Sequence[str]]) -> SegmentStatistics:
    """Self-BLEU (Zhu et al. 2018), in percent: the mean sentence BLEU of a text against the other texts of its record.

    100 if all texts of each record are equal. Records with a single text are ignored; NaN without other records.
    """
    metric = BLEU(lowercase=True, effective_order=True)
    counts = []
    for texts in n_best:
        pairs = [(text, [*texts[:i], *texts[i + 1 :]]) for i, text in enumerate(texts)] if len(texts) > 1 else []
        scores = [metric.sentence_score(text, other_texts).score for text, other_texts in pairs]
        counts.append((sum(scores), len(scores)))
    total = sum(count for _, count in counts)
    signature = str(metric.get_signature()) if total else "BLEU"
    return quotient_statistics(counts, f"self-BLEU|{signature}|texts:{total}")
