"""Where the time of generation and of joint training goes on one thread, beside the floor that arithmetic sets.

    AGGGEN_DATA_HOME=... python tests/benchmarks/where_time_goes.py BUNDLE [--records 100]

*Generation*: WebNLG development records under the bundle's own settings. *Joint training*: updates at the paper's sizes
on a share of the training texts, as in `joint_training.py`.

Of each: processor time by kind of work (torch's profiler; what is outside its operations is Python's), the floating
point operations of matrix products (torch's counter), the rate of a plain matrix product of the output layer's size in
the same process, and what speed that rate would allow if nothing else took time. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable

import torch
from joint_training import batches_of, cpu_seconds, examples_of, new_model
from torch.nn import functional as F
from torch.profiler import ProfilerActivity, profile
from torch.utils.flop_counter import FlopCounterMode

from agggen.bundle import load_bundle
from agggen_platform.local import records_of

KINDS = {
    "matrix products": ("addmm", "mm"),
    "attention": ("bmm", "baddbmm", "softmax", "scaled_dot_product", "_softmax_backward"),
    "vocabulary": ("log_softmax", "topk", "amax", "logsumexp", "nll_loss", "cross_entropy"),
    "moving": ("copy_", "cat", "index", "gather", "scatter", "pad", "fill_", "masked", "where", "embedding", "zero_"),
}
"""By what the names of torch's operations begin with, after underscores; the first that fits. The rest is small."""


def kind_of(operation: str) -> str:
    name = operation.removeprefix("aten::").lstrip("_")
    fitting = (kind for kind, names in KINDS.items() for each in names if name.startswith(each))
    return next(fitting, "the rest of torch")


def measured(work: Callable[[], object], items: int) -> dict[str, float]:
    """Speed, operations and shares of time of `work` on so many records or texts; run four times."""
    work()  # the first pays for tables and kernels
    began = time.process_time()
    work()
    seconds = time.process_time() - began
    with FlopCounterMode(display=False) as counter:
        work()
    began = time.perf_counter()  # as the profiler counts
    with profile(activities=[ProfilerActivity.CPU]) as profiled:
        work()
    total = 1e6 * (time.perf_counter() - began)
    spent = dict.fromkeys([*KINDS, "the rest of torch"], 0.0)
    for event in profiled.key_averages():
        spent[kind_of(event.key)] += event.self_cpu_time_total
    shares = {kind: 100 * microseconds / total for kind, microseconds in spent.items()}
    gflop = counter.get_total_flops() / 1e9
    return {
        "per_cpu_second": items / seconds,
        "gflop_each": gflop / items,
        "floor_per_cpu_second": items / (gflop / product_rate()),
        **{f"percent {kind}": share for kind, share in shares.items()},
        "percent Python and the profiler": 100 - sum(shares.values()),
    }


def product_rate(rows: int = 320, times: int = 50) -> float:
    """GFLOP a CPU-second of the output layer's product with so many rows; the best of five."""
    x, weight = torch.randn(rows, 256), torch.randn(4096, 256)
    best = float("inf")
    for _ in range(5):
        began = time.process_time()
        for _ in range(times):
            F.linear(x, weight)
        best = min(best, time.process_time() - began)
    return 2 * rows * 256 * 4096 * times / best / 1e9


def main() -> None:
    parser = argparse.ArgumentParser(description="shares of time, and floors")
    parser.add_argument("bundle")
    parser.add_argument("--records", type=int, default=100, help="evenly spread over the development set")
    options = parser.parse_args()
    if not os.environ.get("AGGGEN_DATA_HOME"):
        sys.exit("AGGGEN_DATA_HOME is not set: this benchmark needs WebNLG 2017 (agggen corpora fetch webnlg)")
    torch.set_num_threads(1)
    generator = load_bundle(options.bundle).generator()
    dev = records_of("webnlg", "dev")
    records = dev[:: max(len(dev) // options.records, 1)][: options.records]
    generator.generate(records[:2])
    result = {"generation": measured(lambda: generator.generate(records), len(records))}

    examples, encoder = examples_of(0.1)
    model, optimizer = new_model(encoder)
    batches = batches_of(examples, positions=4096, updates=12)
    cpu_seconds(model, optimizer, batches[:1])  # the first call pays for lattices and kernels
    texts = sum(map(len, batches))
    result["joint training"] = measured(lambda: cpu_seconds(model, optimizer, batches), texts)
    for name, found in result.items():
        print(name, *(f"{key}: {value:.3g}" for key, value in found.items()), sep="\n    ", file=sys.stderr)
    rounded = {name: {key: round(value, 2) for key, value in found.items()} for name, found in result.items()}
    print(json.dumps({"benchmark": "where_time_goes", "torch": torch.__version__, "threads": 1, **rounded}))


if __name__ == "__main__":
    main()
