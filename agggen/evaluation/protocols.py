"""Sets of text metrics by name, computed as published numbers were, so that scores compare.

`plain`: sacreBLEU's BLEU, chrF and TER, with case; for anything new.

`e2e`: as tuetschek/e2e-metrics, the E2E challenge's scorer: mteval-v13a's BLEU and NIST, and METEOR, ROUGE-L and
CIDEr over PTB tokens without punctuation. It tokenises whatever it is given, so texts may be raw or tokenised, but
references must be of the same kind: the paper's E2E rows were measured against the release's tokenised references.

`webnlg-2017`: as the WebNLG challenge and the paper: up to 3 references, lower-cased; Moses multi-bleu, in which
references that a text lacks, beside the one that has most, count as blank ones; tercom's TER; METEOR 1.5. Raw texts
get the challenge's tokens. The paper's own outputs and references were tokenised by Stanza: with `tokenised` its
printed numbers come out; without, they get the challenge's tokens too, and compare with raw texts and with its systems.

Scores are in percent, except NIST and CIDEr, which are as printed.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence

from agggen.errors import AggGenError
from agggen.evaluation import Score
from agggen.evaluation.coco import cider_statistics, ptb_tokens, rouge_l_statistics
from agggen.evaluation.meteor import meteor_statistics
from agggen.evaluation.nist import mteval_tokens, nist_statistics
from agggen.evaluation.segments import References, SegmentStatistics, present_references
from agggen.evaluation.text_metrics import (
    bleu_statistics,
    chrf_statistics,
    multi_bleu_statistics,
    ter_statistics,
    tercom_statistics,
)

PROTOCOLS: Mapping[str, tuple[str, ...]] = {
    "plain": ("bleu", "chrf", "ter"),
    "e2e": ("bleu", "nist", "meteor", "rouge_l", "cider"),
    "webnlg-2017": ("bleu", "meteor", "ter"),
}
"""Each protocol's metrics."""

_WEBNLG_REFERENCES = 3
_NOT_WORD = re.compile(r"(\W)")
_LETTERS = str.maketrans(
    dict(
        zip("\u00f8\u0131\u0142\u0111\u00f0", "oildd", strict=True)
    )  # o with stroke, dotless i, l and d with stroke, eth
    | {"\u00fe": "th", "\u00df": "ss", "\u00e6": "ae", "\u0153": "oe"}  # thorn, sharp s, ligatures
    | {"\u2013": "-", "\u2014": "--", "\u2018": "'", "\u2019": "'", "\u2032": "'", "\u201c": '"', "\u201d": '"'}
)


def score_texts(
    protocol: str,
    hypotheses: Sequence[str],
    references: References,
    metrics: Sequence[str] | None = None,
    tokenised: bool = False,
) -> dict[str, Score]:
    """The scores of a corpus by metric; see ``measure``."""
    return {
        name: found.corpus() for name, found in measure(protocol, hypotheses, references, metrics, tokenised).items()
    }


def measure(
    protocol: str,
    hypotheses: Sequence[str],
    references: References,
    metrics: Sequence[str] | None = None,
    tokenised: bool = False,
) -> dict[str, SegmentStatistics]:
    """What the protocol's metrics count in each text: for scores of all kinds and for tests, from one run.

    Args:
        protocol: one of ``PROTOCOLS``.
        references: for each text, one or more; blank ones do not count.
        metrics: some of the protocol's metrics, in the order wanted; all by default.
        tokenised: texts and references are tokenised, with blanks between tokens. The protocol then leaves their
            tokens as they are; e2e tokenises in any case.

    Raises:
        AggGenError: unknown names, texts that cannot be scored (see ``present_references``), or, for METEOR, ROUGE-L
            and CIDEr, no Java runtime or no pycocoevalcap.
    """
    names = known_metrics(protocol, metrics)
    groups = present_references(hypotheses, references)
    ways = _PREPARE[protocol](list(hypotheses), groups, tokenised, names)
    return {name: ways[name]() for name in names}


def challenge_tokens(text: str) -> str:
    """`text` lower-cased, without diacritics, split at every sign: the tokens of the WebNLG challenge's scorer.

    The challenge took unidecode for the diacritics; here, Latin letters and quotes are covered. All 4,894 references
    of its test set come out equal.
    """
    plain = unicodedata.normalize("NFKD", text.lower())
    plain = "".join(sign for sign in plain if not unicodedata.combining(sign)).translate(_LETTERS)
    return " ".join(_NOT_WORD.sub(r" \1 ", plain).split())


_Ways = dict[str, Callable[[], SegmentStatistics]]


def _plain(texts: list[str], groups: list[list[str]], tokenised: bool, names: Sequence[str]) -> _Ways:
    return {
        "bleu": lambda: bleu_statistics(texts, groups, tokenised=tokenised),
        "chrf": lambda: chrf_statistics(texts, groups),
        "ter": lambda: ter_statistics(texts, groups, tokenised=tokenised),
    }


def _e2e(texts: list[str], groups: list[list[str]], tokenised: bool, names: Sequence[str]) -> _Ways:
    ways: _Ways = {}
    if {"bleu", "nist"} & set(names):
        words, others = _flat(lambda flat: [mteval_tokens(text) for text in flat], texts, groups)
        ways["bleu"] = lambda: bleu_statistics(words, others, tokenised=True).noted("texts:lc-ascii+13a")
        ways["nist"] = lambda: nist_statistics(words, others).noted("texts:lc-ascii+13a")
    if {"meteor", "rouge_l", "cider"} & set(names):
        tokens, other_tokens = _flat(ptb_tokens, texts, groups)
        ways["meteor"] = lambda: meteor_statistics(tokens, other_tokens).noted("texts:ptb-nopunct")
        ways["rouge_l"] = lambda: rouge_l_statistics(tokens, other_tokens).noted("texts:ptb-nopunct")
        ways["cider"] = lambda: cider_statistics(tokens, other_tokens).noted("texts:ptb-nopunct")
    return ways


def _webnlg(texts: list[str], groups: list[list[str]], tokenised: bool, names: Sequence[str]) -> _Ways:
    tokens = str.lower if tokenised else challenge_tokens
    three = [group[:_WEBNLG_REFERENCES] for group in groups]
    words, others = _flat(lambda flat: [tokens(text) for text in flat], texts, three)
    remark = f"refs:max{_WEBNLG_REFERENCES}|texts:{'lc' if tokenised else 'lc+webnlg-challenge'}"
    return {
        "bleu": lambda: multi_bleu_statistics(words, others).noted(remark),
        "meteor": lambda: meteor_statistics(words, others).noted(remark),
        "ter": lambda: tercom_statistics(words, others).noted(remark),
    }


_PREPARE = {"plain": _plain, "e2e": _e2e, "webnlg-2017": _webnlg}


def known_metrics(protocol: str, metrics: Sequence[str] | None) -> Sequence[str]:
    """The metrics to compute: `metrics`, or all that the protocol has.

    Raises:
        AggGenError: the protocol or a metric is unknown, or none is named.
    """
    if protocol not in PROTOCOLS:
        raise AggGenError(f"there is no protocol {protocol!r}; there are {', '.join(PROTOCOLS)}")
    known = PROTOCOLS[protocol]
    if metrics is None:
        return known
    if not metrics:
        raise AggGenError(f"no metric is named; protocol {protocol} has {', '.join(known)}")
    if isinstance(metrics, str):
        raise AggGenError(f"metrics are a list of names, not {metrics!r}; {protocol} has {', '.join(known)}")
    for name in metrics:
        if name not in known:
            raise AggGenError(f"protocol {protocol} has no metric {name!r}; it has {', '.join(known)}")
    return metrics


def _flat(
    change: Callable[[list[str]], list[str]], texts: list[str], groups: list[list[str]]
) -> tuple[list[str], list[list[str]]]:
    """`change` applied to all texts and references in one call."""
    changed = iter(change([*texts, *(text for group in groups for text in group)]))
    return [next(changed) for _ in texts], [[next(changed) for _ in group] for group in groups]
