"""Sentences for predicates that training never saw: plain clauses beside phrases of another corpus.

    python tests/benchmarks/phrases.py [--corpus webnlg] [--split dev] [--phrases rel2text]

No model is used: every predicate counts as unknown, and each triple of a record, in the record's order, becomes a
sentence of its own. BLEU by the corpus's protocol; texts without a fault by the strict check. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json

from agggen.generation.truth import sentence
from agggen.report.sections import protocol_of
from agggen.scoring import score
from agggen.verification.check import Checker
from agggen.verification.learning import learn_phrases
from agggen.verification.lexicon import Lexicon
from agggen_platform.local import records_of


def main() -> None:
    parser = argparse.ArgumentParser(description="plain clauses beside phrases of another corpus")
    parser.add_argument("--corpus", default="webnlg")
    parser.add_argument("--split", default="dev")
    parser.add_argument("--phrases", default="rel2text")
    options = parser.parse_args()
    records = records_of(options.corpus, options.split)
    phrases = learn_phrases(records_of(options.phrases, "train"))
    result: dict[str, object] = {"records": len(records), "learned phrases": len(phrases)}
    for name, lexicon in (("plain clauses", Lexicon()), ("phrases", Lexicon(phrases=phrases))):
        checker = Checker(lexicon)
        texts = [" ".join(sentence(checker, triple) for triple in record.triples) for record in records]
        checks = [checker.check(record, text) for record, text in zip(records, texts, strict=True)]
        bleu = score(texts, records, protocol_of(options.corpus), ["bleu"])["bleu"]
        triples = [triple for record in records for triple in record.triples]
        result[name] = {
            "bleu": bleu.value,
            "triples with a phrase": sum(lexicon.template(triple.predicate) is not None for triple in triples)
            / len(triples),
            "without a fault": sum(all(value.whole for value in check.values) and not check.faults for check in checks),
        }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
