"""Text against references: BLEU, chrF and TER by sacreBLEU, and the two BLEU protocols of the paper's WebNLG table.

References are ragged: one list per hypothesis, with at least one text in each. All values are percentages.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from sacrebleu.metrics import BLEU, CHRF, TER
from sacrebleu.metrics.base import Metric
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

from agggen.errors import AggGenError
from agggen.evaluation import Score

References = Sequence[Sequence[str]]

_HYPHEN = re.compile(r"(?<=\w)([-\u2013])(?=\w)")
_CLITIC = re.compile(r"'(s|re|ve|ll|d|m)\b")


def corpus_bleu(hypotheses: Sequence[str], references: References, lowercase: bool = False) -> Score:
    """sacreBLEU's BLEU of raw texts (tokenised by its 13a), with as many references as each input has."""
    return _score(BLEU(lowercase=lowercase), hypotheses, references)


def corpus_chrf(hypotheses: Sequence[str], references: References, lowercase: bool = False) -> Score:
    """chrF2 (characters only) of raw texts."""
    return _score(CHRF(lowercase=lowercase), hypotheses, references)


def corpus_ter(hypotheses: Sequence[str], references: References, lowercase: bool = False) -> Score:
    """Translation edit rate of raw texts, in percent (the paper prints it as a share); lower is better."""
    return _score(TER(normalized=True, case_sensitive=not lowercase), hypotheses, references)


def multi_bleu(
    hypotheses: Sequence[str], references: References, lowercase: bool = True, pad_missing: bool = True
) -> Score:
    """Moses multi-bleu over texts that are already tokenised with blanks: how the paper's WebNLG column was computed.

    Args:
        pad_missing: count a missing reference as a blank one of length 0, as the paper's reference files do. Its
            length can then be the closest to a short text's, which flatters short output (METHOD 7).
    """
    metric = BLEU(tokenize="none", lowercase=lowercase, force=True)
    score = _score(metric, hypotheses, references, pad="" if pad_missing else None)
    return Score(score.value, f"{score.signature}|missing:{'blank' if pad_missing else 'none'}")


def webnlg_bleu(hypotheses: Sequence[str], references: References, pad_missing: bool = True) -> Score:
    """The paper's WebNLG protocol for raw texts: lower-cased, tokenised, at most 3 references, multi-bleu.

    The tokens are ``webnlg_tokens``. They equal those of the paper's own reference files (made with Stanza) in 79 % of
    the texts and differ in a token or two in the others, so compare with the printed numbers within some tenths.
    """
    texts = [webnlg_tokens(text) for text in hypotheses]
    three = [[webnlg_tokens(text) for text in _present(group)[:3]] for group in references]
    score = multi_bleu(texts, three, pad_missing=pad_missing)
    return Score(score.value, f"{score.signature}|refs:max3|tok:13a+hyphen")


def webnlg_tokens(text: str) -> str:
    """`text` lower-cased and tokenised, tokens joined by blanks: sacreBLEU's 13a, hyphens and 's split off."""
    text = _CLITIC.sub(r" '\1", _HYPHEN.sub(r" \1 ", text.lower()))
    return str(Tokenizer13a()(text))


def _present(group: Sequence[str]) -> list[str]:
    return [text for text in group if text.strip()]


def _score(metric: Metric, hypotheses: Sequence[str], references: References, pad: str | None = None) -> Score:
    """The corpus score over references laid out in columns; None stands for a reference that an input lacks."""
    if len(hypotheses) != len(references):
        raise AggGenError(f"{len(hypotheses)} texts but references for {len(references)}; there must be as many")
    if not hypotheses:
        raise AggGenError("there are no texts to score")
    present = [_present(group) for group in references]
    for number, group in enumerate(present, start=1):
        if not group:
            raise AggGenError(f"text {number} ({hypotheses[number - 1]!r:.60}) has no reference to be scored against")
    width = max(len(group) for group in references) if pad is not None else max(map(len, present))
    columns = [[group[i] if i < len(group) else pad for group in present] for i in range(width)]
    result = metric.corpus_score(list(hypotheses), columns)
    return Score(float(result.score), str(metric.get_signature()))
