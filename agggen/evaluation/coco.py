"""ROUGE-L and CIDEr of the MS-COCO caption scorer, which the E2E challenge's scorer wraps, and its tokeniser.

The two metrics are pycocoevalcap's own; the tokeniser's jar is run here, because pycocoevalcap's way to run it writes
into the installed package.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from agggen.evaluation.java import PACKAGE, package_version, run_lines
from agggen.evaluation.segments import (
    References,
    SegmentStatistics,
    count_of_references,
    mean_statistics,
    one_line,
)


def ptb_tokens(texts: Sequence[str]) -> list[str]:
    """`texts` lower-cased and tokenised by CoreNLP 3.4.1, without punctuation; tokens joined by blanks.

    Raises:
        AggGenError: no Java runtime, no jar, or its process failed.
    """
    package_version()
    from pycocoevalcap.tokenizer.ptbtokenizer import PUNCTUATIONS

    arguments = ("edu.stanford.nlp.process.PTBTokenizer", "-preserveLines", "-lowerCase")
    lines = run_lines(
        "PTBTokenizer", "tokenizer/stanford-corenlp-3.4.1.jar", ("-cp",), arguments, [one_line(text) for text in texts]
    )
    dropped = frozenset(PUNCTUATIONS)
    return [" ".join(token for token in line.split() if token not in dropped) for line in lines]


def rouge_l_statistics(hypotheses: Sequence[str], references: References) -> SegmentStatistics:
    """ROUGE-L of tokenised texts in percent: F (beta 1.2) of the best precision and best recall of any reference."""
    signature = _signature("rouge_l", references, "beta:1.2")
    from pycocoevalcap.rouge.rouge import Rouge

    metric = Rouge()
    values = [metric.calc_score([text], group) for text, group in zip(hypotheses, references, strict=True)]
    return mean_statistics(100 * np.array(values, dtype=float), signature)


def cider_statistics(hypotheses: Sequence[str], references: References) -> SegmentStatistics:
    """CIDEr of tokenised texts, as printed: 10 is a perfect match. The idf comes from the references of the corpus.

    (The E2E scorer's CIDEr is CIDEr-D: clipped counts, and a penalty for lengths that differ.)
    """
    signature = _signature("cider", references, f"df:corpus{len(references)}|n:4|sigma:6")
    from pycocoevalcap.cider.cider import Cider

    values = np.zeros(len(references))
    if any(text.split() for group in references for text in group):  # without, there are no n-grams to weigh
        found = Cider().compute_score(dict(enumerate(references)), {i: [text] for i, text in enumerate(hypotheses)})
        values = np.array(found[1], dtype=float)
    return mean_statistics(values, signature)


def _signature(metric: str, references: References, settings: str) -> str:
    nrefs = count_of_references(references)
    return f"{metric}|tool:{PACKAGE}|version:{package_version()}|{settings}|nrefs:{nrefs}|case:mixed|tok:none"
