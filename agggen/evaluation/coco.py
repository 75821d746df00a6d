"""ROUGE-L, CIDEr and the PTB tokeniser of the MS-COCO caption scorer (pycocoevalcap), as in the E2E challenge's scorer.

The tokeniser's jar is run directly, since pycocoevalcap's wrapper writes to the folder of the installed package.
"""

from collections.abc import Sequence

import numpy as np

from agggen.evaluation.java import PACKAGE, package_version, run_lines
from agggen.evaluation.segments import References, SegmentStatistics, count_of_references, mean_statistics, one_line


def ptb_tokens(texts: Sequence[str]) -> list[str]:
    """Lower-cases and tokenises `texts` with CoreNLP 3.4.1 and removes punctuation; tokens are joined by spaces.

    Raises:
        AggGenError: there is no Java runtime or no jar, or the process failed.
    """
    arguments = ("edu.stanford.nlp.process.PTBTokenizer", "-preserveLines", "-lowerCase")
    lines = run_lines(
        "PTBTokenizer", "tokenizer/stanford-corenlp-3.4.1.jar", ("-cp",), arguments, [one_line(text) for text in texts]
    )
    from pycocoevalcap.tokenizer.ptbtokenizer import PUNCTUATIONS  # after `run_lines`, which checks the package

    punctuation = frozenset(PUNCTUATIONS)
    return [" ".join(token for token in line.split() if token not in punctuation) for line in lines]


def rouge_l_statistics(hypotheses: Sequence[str], references: References) -> SegmentStatistics:
    """ROUGE-L of tokenised texts, in percent: F1.2 of the highest precision and highest recall over the references."""
    signature = _signature("rouge_l", references, "beta:1.2")
    from pycocoevalcap.rouge.rouge import Rouge

    metric = Rouge()
    values = [metric.calc_score([text], group) for text, group in zip(hypotheses, references, strict=True)]
    return mean_statistics(100 * np.array(values, dtype=float), signature)


def cider_statistics(hypotheses: Sequence[str], references: References) -> SegmentStatistics:
    """CIDEr-D of tokenised texts, from 0 to 10, with document frequencies from the references of the corpus."""
    signature = _signature("cider", references, f"df:corpus{len(references)}|n:4|sigma:6")
    from pycocoevalcap.cider.cider import Cider

    values = np.zeros(len(references))
    if any(text.split() for group in references for text in group):  # without any token, all scores are 0
        scores = Cider().compute_score(dict(enumerate(references)), {i: [text] for i, text in enumerate(hypotheses)})
        values = np.array(scores[1], dtype=float)
    return mean_statistics(values, signature)


def _signature(metric: str, references: References, settings: str) -> str:
    nrefs = count_of_references(references)
    return f"{metric}|tool:{PACKAGE}|version:{package_version()}|{settings}|nrefs:{nrefs}|case:mixed|tok:none"
