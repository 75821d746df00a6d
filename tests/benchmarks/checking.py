"""Checked texts per CPU-second on one thread, by the strict check alone and with the critic.

    python tests/benchmarks/checking.py [--corpus elements] [--limit 1000]

The texts are development references of a corpus, each checked once. The last line is JSON.
"""

import argparse
import json
import time
from collections.abc import Callable

import torch

from agggen.checks import check_all, shipped_critic
from agggen.datasets import load_dataset
from agggen.verification.check import Checker


def rate(count: int, check: Callable[[], object]) -> float:
    """Texts per second of this process's CPU time."""
    begin = time.process_time()
    check()
    return count / (time.process_time() - begin)


def main() -> None:
    parser = argparse.ArgumentParser(description="the speed of checks")
    parser.add_argument("--corpus", default="elements")
    parser.add_argument("--limit", type=int, default=1000)
    options = parser.parse_args()
    torch.set_num_threads(1)
    pairs = [
        (record, reference.text)
        for record in load_dataset(options.corpus, splits=("dev",)).dev
        for reference in record.references
    ][: options.limit]
    records, texts = zip(*pairs, strict=True)
    checker, critic = Checker(), shipped_critic()
    strict_rate = rate(len(texts), lambda: [checker.check(record, text) for record, text in pairs])
    # The words of texts are cached, so the texts must differ: a space is appended.
    critic_rate = rate(len(texts), lambda: check_all(records, [f"{text} " for text in texts], critic=critic))
    print(json.dumps({"texts": len(texts), "by words": strict_rate, "with the critic": critic_rate}))


if __name__ == "__main__":
    main()
