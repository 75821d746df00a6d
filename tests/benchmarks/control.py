"""Control: does a model follow plans of any kind, what does the aggregation level do, and what of ten triples?

    AGGGEN_DATA_HOME=... python tests/benchmarks/control.py BUNDLE [--corpus webnlg] [--split dev] [--plans 200]

Three experiments; the last line is JSON.

*Plans*: so many records with three triples or more, each under a random plan: its predicates in random order, in
groups of sizes that are drawn as people group (the facts of the same records' reference texts, aligned by rules; 1 to
L triples). Of the texts: the triples whose value is said whole (strict) in the fact where the plan put it, and how
often a fact mentions the value of another triple (lenient). A value that shares its words with a triple of that fact,
or with its own subject, may stand there and is not counted. `free` is unconstrained (`verify=off`). First it says how
many triples a group holds, of people and in the likeliest plans.

*Levels*: the development records written at aggregation level 1 to L: groups a text, BLEU by the corpus's protocol,
the measures of values (`agggen.evaluation.values`), and slot errors where the corpus has slots.

*Ten triples*: the triples of one subject from several records, where there are ten and more: the measures of values,
and the seconds. (E2E has eight slots, so its part is left out.)
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from agggen.alignment import align
from agggen.bundle import load_bundle
from agggen.evaluation.held_out import write
from agggen.evaluation.values import read_values
from agggen.facts import FactSegmenter
from agggen.generation.generator import Generation, Generator, InferenceConfig
from agggen.records import Plan, Record, Triple
from agggen.report.sections import TextMetrics, protocol_of, text_scores
from agggen.verification.check import Checker
from agggen.verification.e2e import slot_error_rate, slot_of
from agggen.verification.lenient import mentioned
from agggen_platform.local import records_of

TEN = 10


def group_sizes(records: Sequence[Record], generator: Generator, cut: FactSegmenter) -> Counter[int]:
    """How many triples people put into a fact, by the rule-based aligner."""
    sizes: Counter[int] = Counter()
    texts = [(record, reference.text) for record in records for reference in record.references]
    facts = cut.segment([text for _, text in texts])
    for (record, _), pieces in zip(texts, facts, strict=True):
        sizes.update(Counter(align(record, pieces).fact_of).values())
    largest = generator.model.config.max_group_size
    return Counter({size: sizes[size] for size in range(1, largest + 1)})


def random_plan(record: Record, sizes: Counter[int], rng: np.random.Generator) -> Plan:
    names = list(rng.permutation(record.predicates))
    values = list(sizes)
    shares = np.array([sizes[size] for size in values], dtype=float)
    groups: list[tuple[str, ...]] = []
    while names:
        size = int(rng.choice(values, p=shares / shares.sum()))
        groups.append(tuple(names[:size]))
        names = names[size:]
    return Plan(tuple(groups))


def followed(records: Sequence[Record], written: Sequence[Generation]) -> dict[str, float]:
    """Shares, in percent: triples said whole where they belong, mentioned elsewhere, texts without either mistake."""
    own = foreign = triples = pairs = whole = 0
    for record, generation in zip(records, written, strict=True):
        value = dict(zip(record.predicates, record.triples, strict=True))
        wrong = 0
        for fact in generation.facts:
            said = generation.text[fact.start : fact.end]
            wrong += len(fact.missing)
            own += len(fact.predicates) - len(fact.missing)
            inside = " ".join(part for name in fact.predicates for part in (value[name].subject, value[name].object))
            for name in set(value) - set(fact.predicates):
                if mentioned(value[name], inside) or mentioned(value[name], value[name].subject):
                    continue
                pairs += 1
                elsewhere = mentioned(value[name], said)
                foreign += elsewhere
                wrong += elsewhere
        triples += len(value)
        whole += not wrong
    return {
        "said_whole_in_its_fact": 100 * own / triples,
        "mentioned_in_another_fact": 100 * foreign / max(pairs, 1),
        "texts_as_planned": 100 * whole / len(written),
    }


def of_texts(corpus: str, records: Sequence[Record], texts: Sequence[str], checker: Checker) -> dict[str, float]:
    protocol = protocol_of(corpus)
    (section, *_) = text_scores(TextMetrics(protocol, ("bleu",)), records, texts).sections
    found = {measure.name: measure.score.value for measure in section.measures if measure.score is not None}
    result = {"bleu": found["bleu"]} | values_of(records, texts, checker)
    if all(slot_of(triple.predicate) for record in records for triple in record.triples):
        result |= {"ser": slot_error_rate(records, texts)["ser.ser"].value}
    return result


def values_of(records: Sequence[Record], texts: Sequence[str], checker: Checker) -> dict[str, float]:
    return {name: one.corpus().value for name, one in read_values(records, texts, checker).statistics.items()}


def levels(generator: Generator, corpus: str, records: Sequence[Record]) -> dict[str, dict[str, float]]:
    found = {}
    for level in range(1, generator.model.config.max_group_size + 1):
        written = write(generator, records, replace(generator.config, level=level))
        groups = sum(len(generation.plan.states) for generation in written.generations) / len(written.records)
        found[str(level)] = {"groups": groups, **of_texts(corpus, written.records, written.texts, generator.checker)}
        say(f"level {level}: {found[str(level)]}")
    return found


def of_ten_triples(records: Sequence[Record], count: int) -> list[Record]:
    """Joins records that share a subject until they hold ten different triples."""
    by_subject: dict[str, dict[tuple[str, str], Triple]] = {}
    for record in records:
        for subject in {triple.subject for triple in record.triples}:
            known = by_subject.setdefault(subject, {})
            known |= {(triple.subject, triple.predicate): triple for triple in record.triples}
    chosen = [list(known.values()) for known in by_subject.values() if len(known) >= TEN][:count]
    return [Record(f"ten-{number}", tuple(triples[:TEN])) for number, triples in enumerate(chosen)]


def stress(generator: Generator, records: Sequence[Record], config: InferenceConfig) -> dict[str, float]:
    began = time.process_time()
    written = [found[0] for found in generator.generate(records, config=config)]
    seconds = time.process_time() - began
    texts = [generation.text for generation in written]
    return {
        "records": len(records),
        **values_of(records, texts, generator.checker),
        "fulfilled": 100 * sum(generation.fulfilled for generation in written) / len(written),
        "facts": sum(len(generation.facts) for generation in written) / len(written),
        "cpu_seconds_a_record": seconds / len(records),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="random plans, aggregation levels, ten triples")
    parser.add_argument("bundle")
    parser.add_argument("--corpus", default="webnlg")
    parser.add_argument("--split", default="dev")
    parser.add_argument("--plans", type=int, default=200)
    parser.add_argument("--limit", type=int, default=0, help="records for the levels; 0: all")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    bundle = load_bundle(options.bundle)
    generator = bundle.generator()
    records = records_of(options.corpus, options.split)
    rng = np.random.default_rng(options.seed)
    many = [record for record in records if len(record.triples) >= 3]
    planned = [many[place] for place in sorted(rng.choice(len(many), min(options.plans, len(many)), replace=False))]
    sizes = group_sizes(planned, generator, bundle.fact_segmenter())
    likeliest = Counter(len(state) for found in generator.planner.plan(planned, 1) for state in found[0].plan.states)
    say(f"triples a group: people {dict(sizes)}, likeliest plans {dict(sorted(likeliest.items()))}")
    plans = [random_plan(record, sizes, rng) for record in planned]
    result: dict[str, object] = {
        "benchmark": "control",
        "corpus": options.corpus,
        "split": options.split,
        "seed": options.seed,
        "group_sizes": dict(sizes),
        "group_sizes_of_likeliest_plans": dict(likeliest),
        "records": len(planned),
    }
    ways = {"free": replace(generator.config, verify="off"), "default": generator.config}
    result["plans"] = found = {}
    for name, config in ways.items():
        written = [texts[0] for texts in generator.generate(planned, plans, config=config)]
        assert [generation.plan for generation in written] == plans
        found[name] = followed(planned, written)
        say(f"{name}: {found[name]}")
    result["levels"] = levels(generator, options.corpus, records[: options.limit or None])
    if ten := of_ten_triples(records, 50):
        result["ten_triples"] = {name: stress(generator, ten, config) for name, config in ways.items()}
    print(json.dumps(rounded(result)))


def rounded(value: object) -> object:
    if isinstance(value, dict):
        return {key: rounded(inner) for key, inner in value.items()}
    return round(value, 3) if isinstance(value, float) else value


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
