"""Sentences for predicates unknown from training: plain clauses against phrases learned from Rel2Text.

    python tests/benchmarks/phrases.py [--corpus webnlg]

No model is used: all predicates count as unknown, and sentences have up to 1, 2 or 3 triples of one subject. Prints
BLEU by the corpus's protocol and the number of texts without a fault. The last line is JSON.
"""

import argparse
import json
from itertools import chain

from agggen.api import score
from agggen.datasets import load_dataset
from agggen.generation.fallbacks import fallback_sentences
from agggen.generation.planner import unknown_groups
from agggen.records import Record
from agggen.report.sections import protocol_of
from agggen.verification.check import Checker
from agggen.verification.lexicon import Lexicon
from agggen.verification.templates import learn_phrases


def text_of(checker: Checker, record: Record, size: int) -> str:
    """A text with up to `size` triples per sentence."""
    groups = ([record.triples[index] for index in group] for group in chain(*unknown_groups(record, (), size)))
    return " ".join(text for group in groups for _, text in fallback_sentences(checker, group))


def main() -> None:
    parser = argparse.ArgumentParser(description="plain clauses against phrases of Rel2Text")
    parser.add_argument("--corpus", default="webnlg")
    options = parser.parse_args()
    records = load_dataset(options.corpus, splits=("dev",)).dev
    phrases = learn_phrases(load_dataset("rel2text", splits=("train",)).train)
    result: dict[str, object] = {"records": len(records)}
    for name, lexicon in (("plain clauses", Lexicon()), ("phrases", Lexicon(phrases=phrases))):
        checker = Checker(lexicon)
        rows: dict[str, object] = {}
        for size in (1, 2, 3):
            texts = [text_of(checker, record, size) for record in records]
            checks = [checker.check(record, text) for record, text in zip(records, texts, strict=True)]
            bleu = score(texts, records, protocol_of(options.corpus), ["bleu"])["bleu"]
            faultless = sum(not check.faults for check in checks)
            rows[f"{size} a sentence"] = {"bleu": bleu.value, "without a fault": faultless}
        result[name] = rows
    print(json.dumps(result))


if __name__ == "__main__":
    main()
