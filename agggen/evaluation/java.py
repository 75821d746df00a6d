"""METEOR, ROUGE-L and CIDEr of the Python package pycocoevalcap, as in the E2E challenge's scorer.

Its Java tools, METEOR 1.5 (Denkowski and Lavie 2014) and CoreNLP's PTB tokeniser, print one line per input line. They
are run directly, since the package's wrappers write to its folder. The jar of METEOR counts the matches; scores are
computed here and equal those in the logs of the WebNLG challenge to the last digit. Loading METEOR's paraphrase table
takes seconds, so it is faster to score the texts of several systems in one call.
"""

import shutil
import signal
import subprocess
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

import numpy as np

from agggen.errors import AggGenError
from agggen.evaluation.segments import (
    References,
    SegmentStatistics,
    count_of_references,
    mean_statistics,
    one_line,
    ratio,
)

_PACKAGE = "pycocoevalcap"
# UTF-8 in every locale; single-threaded garbage collection, which halves METEOR's memory.
_OPTIONS = ("-Dfile.encoding=UTF-8", "-XX:+UseSerialGC")
_ALPHA, _BETA, _GAMMA, _DELTA = 0.85, 0.2, 0.6, 0.75  # METEOR's parameters for English
_STAGES = np.array([1.0, 0.6, 0.8, 0.6])  # exact, stem, synonym, paraphrase


def package_version() -> str:
    """The version of pycocoevalcap. Raises AggGenError if it is not installed."""
    try:
        return metadata.version(_PACKAGE)
    except metadata.PackageNotFoundError as error:
        raise AggGenError(
            f"METEOR, ROUGE-L and CIDEr need the package {_PACKAGE}, which is not installed: "
            "pip install 'agggen[metrics]'"
        ) from error


def run_lines(tool: str, jar: str, options: Sequence[str], arguments: Sequence[str], lines: Sequence[str]) -> list[str]:
    """The line that the tool prints for each of `lines`; AggGenError if Java or the jar is missing, or the tool fails.

    `jar` is the path of the tool's jar in the package. Java's `options` come before it, `arguments` after.
    """
    version = package_version()
    jar_path = Path(str(metadata.distribution(_PACKAGE).locate_file(f"{_PACKAGE}/{jar}")))
    if not jar_path.is_file():
        raise AggGenError(
            f"{tool} needs {jar_path}, which {_PACKAGE} {version} lacks: pip install --force-reinstall {_PACKAGE}==1.2"
        )
    java = shutil.which("java")
    if java is None:
        raise AggGenError(
            f"{tool} needs a Java runtime, and no `java` is on the PATH (on Debian: apt install default-jre-headless)"
        )
    text = "".join(f"{line}\n" for line in lines)
    # `run` writes and reads concurrently, and kills the process after an interrupt.
    process = subprocess.run(
        [java, *_OPTIONS, *options, str(jar_path), *arguments],
        input=text.encode("utf-8", errors="replace"),
        capture_output=True,
    )
    code, output_lines = process.returncode, process.stdout.decode("utf-8", errors="replace").split("\n")[:-1]
    if not code and len(output_lines) == len(lines):
        return output_lines
    if code < 0:
        failure = f"was killed ({signal.Signals(-code).name}); it needs up to 2 GB of memory"
    elif code:
        failure = f"ended with {code}; it needs Java 8 or newer and up to 2 GB of memory"
    else:
        failure = f"printed {len(output_lines)} lines for {len(lines)} texts"
    stderr = " ".join(process.stderr.decode("utf-8", errors="replace").split())[-500:]
    details = f". Its error output: {stderr}" if stderr else ""
    raise AggGenError(f"{tool}: its Java process {failure}{details}")


def meteor_statistics(hypotheses: Sequence[str], references: References) -> SegmentStatistics:
    """METEOR with the options `-l en -norm`, in percent; METEOR tokenises and lower-cases the texts."""
    lines = []
    for text, group in zip(hypotheses, references, strict=True):
        lines.append(" ||| ".join(["SCORE", *(one_line(part).replace("|||", " ") for part in (*group, text))]))
    arguments = ("-", "-", "-stdio", "-l", "en", "-norm")
    output_lines = run_lines("METEOR", "meteor/meteor-1.5.jar", ("-Xmx2G", "-jar"), arguments, lines)
    try:
        rows = np.array([line.split() for line in output_lines], dtype=float).reshape(len(lines), 23)
    except ValueError as error:
        raise AggGenError(f"METEOR must print 23 counts per text, but printed {output_lines[0]!r:.80}") from error
    # A complete match in a single chunk has no fragmentation penalty.
    rows[(rows[:, 20] == 1) & (rows[:, 21] == rows[:, 0]) & (rows[:, 22] == rows[:, 1]), 20] = 0
    signature = _signature("meteor", references, "meteor:1.5|args:-l en -norm", "case:lc|tok:norm")
    return SegmentStatistics(rows, meteor_score, signature, meteor_score(rows))


def meteor_score(counts: np.ndarray) -> np.ndarray:
    """METEOR in percent (...) from the jar's counts (..., 23).

    The counts, in pairs (text, reference) except for the chunks: words; function words; for each of the 4 stages,
    matched content words and matched function words; chunks; matched words.
    """
    words, function_words = counts[..., :2], counts[..., 2:4]
    stages = counts[..., 4:20].reshape(*counts.shape[:-1], 4, 4)
    matched = (_DELTA * stages[..., :2] + (1 - _DELTA) * stages[..., 2:]).swapaxes(-1, -2) @ _STAGES  # (..., 2)
    weighted_words = _DELTA * (words - function_words) + (1 - _DELTA) * function_words
    precision, recall = np.moveaxis(ratio(matched, weighted_words), -1, 0)
    harmonic_mean = ratio(precision * recall, _ALPHA * precision + (1 - _ALPHA) * recall)
    fragmentation = ratio(counts[..., 20], (counts[..., 21] + counts[..., 22]) / 2)
    return 100 * harmonic_mean * (1 - _GAMMA * fragmentation**_BETA)


def ptb_tokens(texts: Sequence[str]) -> list[str]:
    """Lower-cases and tokenises `texts` with CoreNLP 3.4.1 and removes punctuation; tokens are joined by spaces."""
    arguments = ("edu.stanford.nlp.process.PTBTokenizer", "-preserveLines", "-lowerCase")
    jar = "tokenizer/stanford-corenlp-3.4.1.jar"
    lines = run_lines("PTBTokenizer", jar, ("-cp",), arguments, list(map(one_line, texts)))
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


def _signature(metric: str, references: References, settings: str, tokens: str = "case:mixed|tok:none") -> str:
    version, nrefs = package_version(), count_of_references(references)
    return f"{metric}|tool:{_PACKAGE}|version:{version}|{settings}|nrefs:{nrefs}|{tokens}"
