"""Evaluation protocols: sets of text metrics, computed in a way that makes them comparable with published scores.

`plain`: sacreBLEU's BLEU, chrF and TER, case-sensitive; for new corpora.

`e2e`: tuetschek/e2e-metrics, the E2E challenge's scorer: BLEU and NIST of mteval-v13a; METEOR, ROUGE-L and CIDEr over
PTB tokens without punctuation. All texts and references are tokenised; they may be tokenised already, but either all
or none. The paper's E2E scores were measured against the tokenised references of its release.

`webnlg-2017`: the scorers of the WebNLG challenge and the paper: up to 3 references, lower-cased; Moses multi-bleu,
with empty texts in place of missing references; TER of tercom; METEOR 1.5. Raw texts are tokenised as in the challenge.
The paper's released outputs and references are tokenised by Stanza. With `tokenised`, they have the paper's scores;
otherwise they are tokenised again, so that their scores are comparable with those of raw texts and of the challenge.

Scores are in percent, except NIST and CIDEr.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial

from agggen.errors import AggGenError
from agggen.evaluation.java import cider_statistics, meteor_statistics, ptb_tokens, rouge_l_statistics
from agggen.evaluation.segments import References, SegmentStatistics, non_blank_references
from agggen.evaluation.text_metrics import (
    bleu_statistics,
    chrf_statistics,
    mteval_tokens,
    multi_bleu_statistics,
    nist_statistics,
    ter_statistics,
    tercom_statistics,
)

PROTOCOLS: Mapping[str, tuple[str, ...]] = {  # the metrics of each protocol
    "plain": ("bleu", "chrf", "ter"),
    "e2e": ("bleu", "nist", "meteor", "rouge_l", "cider"),
    "webnlg-2017": ("bleu", "meteor", "ter"),
}

_WEBNLG_REFERENCES = 3
_NOT_WORD = re.compile(r"(\W)")
_ASCII_REPLACEMENTS = str.maketrans(
    # o with stroke, dotless i, l and d with stroke, eth
    dict(zip("\u00f8\u0131\u0142\u0111\u00f0", "oildd", strict=True))
    | {"\u00fe": "th", "\u00df": "ss", "\u00e6": "ae", "\u0153": "oe"}  # thorn, sharp s, ligatures
    | {"\u2013": "-", "\u2014": "--", "\u2018": "'", "\u2019": "'", "\u2032": "'", "\u201c": '"', "\u201d": '"'}
)
_Tokenise = Callable[[list[str]], Iterable[str]]
_Statistics = Callable[[list[str], list[list[str]]], SegmentStatistics]


def measure(
    protocol: str,
    hypotheses: Sequence[str],
    references: References,
    metrics: Sequence[str] | None = None,
    tokenised: bool = False,
) -> dict[str, SegmentStatistics]:
    """The statistics of the texts by metric (by default all metrics of the protocol); blank references are ignored.

    If texts and references are already `tokenised`, with spaces between tokens, only e2e tokenises them again. Raises
    AggGenError if a name is unknown, a text cannot be scored (`non_blank_references`), or the Java runtime or
    pycocoevalcap, needed for METEOR, ROUGE-L and CIDEr, is missing.
    """
    names = requested_metrics(protocol, metrics)
    groups = non_blank_references(hypotheses, references)
    if protocol == "webnlg-2017":
        groups = [group[:_WEBNLG_REFERENCES] for group in groups]

    @cache
    def tokenised_by(tokenise: _Tokenise) -> tuple[list[str], list[list[str]]]:
        # Texts and references are tokenised in one call, since starting Java is slow.
        tokens = iter(tokenise([*hypotheses, *(text for group in groups for text in group)]))
        return [next(tokens) for _ in hypotheses], [[next(tokens) for _ in group] for group in groups]

    metrics_by_name, result = _metrics_of(protocol, tokenised), {}
    for name in names:
        statistics, tokenise, remark = metrics_by_name[name]
        measured = statistics(*tokenised_by(tokenise))
        result[name] = replace(measured, signature=measured.signature + remark)
    return result


def challenge_tokens(text: str) -> str:
    """The tokens of the WebNLG challenge's scorer: lower-cased, without diacritics, split at each punctuation mark.

    The challenge used unidecode; for all 4,894 references of the test set, the tokens are the same.
    """
    plain = unicodedata.normalize("NFKD", text.lower())
    plain = "".join(char for char in plain if not unicodedata.combining(char)).translate(_ASCII_REPLACEMENTS)
    return " ".join(_NOT_WORD.sub(r" \1 ", plain).split())


def _metrics_of(protocol: str, tokenised: bool) -> dict[str, tuple[_Statistics, _Tokenise, str]]:
    """By metric: (function for tokenised texts, tokeniser, remark for the signature)."""
    if protocol == "plain":
        bleu, ter = partial(bleu_statistics, tokenised=tokenised), partial(ter_statistics, tokenised=tokenised)
        return {"bleu": (bleu, iter, ""), "chrf": (chrf_statistics, iter, ""), "ter": (ter, iter, "")}
    if protocol == "e2e":
        mteval = partial(map, mteval_tokens)
        return {
            "bleu": (partial(bleu_statistics, tokenised=True), mteval, "|texts:lc-ascii+13a"),
            "nist": (nist_statistics, mteval, "|texts:lc-ascii+13a"),
            "meteor": (meteor_statistics, ptb_tokens, "|texts:ptb-nopunct"),
            "rouge_l": (rouge_l_statistics, ptb_tokens, "|texts:ptb-nopunct"),
            "cider": (cider_statistics, ptb_tokens, "|texts:ptb-nopunct"),
        }
    tokenise = partial(map, str.lower if tokenised else challenge_tokens)
    remark = f"|refs:max{_WEBNLG_REFERENCES}|texts:{'lc' if tokenised else 'lc+webnlg-challenge'}"
    return {
        "bleu": (multi_bleu_statistics, tokenise, remark),
        "meteor": (meteor_statistics, tokenise, remark),
        "ter": (tercom_statistics, tokenise, remark),
    }


def requested_metrics(protocol: str, metrics: Sequence[str] | None) -> Sequence[str]:
    """`metrics`, or all metrics of the protocol if None. Raises AggGenError if there is none or a name is unknown."""
    if protocol not in PROTOCOLS:
        raise AggGenError(f"unknown protocol {protocol!r}; known are {', '.join(PROTOCOLS)}")
    all_metrics = PROTOCOLS[protocol]
    if metrics is not None:
        check_metrics(protocol, metrics, all_metrics)
    return all_metrics if metrics is None else metrics


def check_metrics(protocol: str, metrics: Sequence[str], all_metrics: Sequence[str]) -> None:
    """Raises AggGenError if `metrics` is empty or has a name that is not in `all_metrics`."""
    if not metrics:
        raise AggGenError(f"no metric is requested; protocol {protocol} has {', '.join(all_metrics)}")
    for name in metrics:
        if name not in all_metrics:
            raise AggGenError(f"protocol {protocol} has no metric {name!r}; it has {', '.join(all_metrics)}")
