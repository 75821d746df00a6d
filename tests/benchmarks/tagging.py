"""Sentences a second of the shipped role tagger on one thread.

    python tests/benchmarks/tagging.py [--sentences 2000] [--repeats 5]

Sentences are drawn from the fixed text below, 4 to 40 words long (about 19 on average, 4 verbs). Each number is the
median over repeats; `batched_per_cpu_second` is what a core of its own would give. `one_by_one` tags a tenth of them in
calls of a single sentence. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from statistics import median

import torch

from agggen.facts.embedded import EmbeddedFrames
from agggen_platform.srl.tagger.evaluate import joined_words

CLAUSES = (
    "Alan Bean , who was born in Wheeler , Texas",
    "was selected by NASA in 1963 and has retired",
    "The Waterman is a family friendly pub near the river",
    "which serves Italian food for less than 20 pounds",
    "the airport is operated by the city and lies 610 metres above sea level",
    "Bionico is a dessert that comes from Guadalajara",
    "its leader is called Jacob Bundsgaard",
)


def draw(rng: random.Random, length: int) -> list[str]:
    words: list[str] = []
    while len(words) < length:
        words += rng.choice(CLAUSES).split()
    return [*words[: length - 1], "."]


def main() -> None:
    parser = argparse.ArgumentParser(description="sentences a second of the shipped role tagger")
    parser.add_argument("--sentences", type=int, default=2000)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    rng = random.Random(0)
    sentences = [joined_words(draw(rng, rng.choice(range(4, 35)))) for _ in range(options.sentences)]
    source = EmbeddedFrames()
    began = time.perf_counter()
    source.frames(sentences[:1])
    loading = time.perf_counter() - began
    batched, single, processor = [], [], []
    some = sentences[: max(1, len(sentences) // 10)]
    for _ in range(options.repeats):
        began, used = time.perf_counter(), time.process_time()
        found = source.frames(sentences)
        batched.append(len(sentences) / (time.perf_counter() - began))
        processor.append(len(sentences) / (time.process_time() - used))
        began = time.perf_counter()
        for sentence in some:
            source.frames([sentence])
        single.append(len(some) / (time.perf_counter() - began))
    result = {
        "benchmark": "tagging",
        "unit": "sentences/s",
        "batched": round(median(batched)),
        "batched_per_cpu_second": round(median(processor)),
        "one_by_one": round(median(single)),
        "load_s": round(loading, 2),
        "sentences": len(sentences),
        "words": sum(len(sentence.words) for sentence in sentences),
        "frames": sum(map(len, found)),
        "torch": torch.__version__,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
