"""Joint training speed on WebNLG in texts per CPU-second on one thread: shared against masked history, and float32
against bfloat16 (`training.precision=bfloat16`).

    AGGGEN_DATA_HOME=... python tests/benchmarks/joint_training.py [--worst]

The model has the paper's sizes; the texts are a tenth of the training texts, segmented into clauses, with the release's
alignment constraints. An update includes collating, forward, backward, clipping and Adam. The variants alternate in
one process, on the same batches; each number is the best of three.

With `--worst`, one update on the training text with the highest cost without hard alignment, and the peak memory of the
process (interpreter, torch, corpus, model and optimiser). The last line is JSON.
"""

import argparse
import resource
import time
from typing import Literal, get_args

import torch
from measuring import print_result

from agggen.corpora.catalogue import load
from agggen.encoding import Constraints, Encoder, segmented, training_examples
from agggen.facts.config import segmenter
from agggen.model.batch import Example, collate
from agggen.model.joint import JointModel, ModelConfig
from agggen.records import Record
from agggen.text import Vocabulary
from agggen.training.batches import epoch_batches, joint_costs, sort_keys

History = Literal["shared", "masked"]
POSITIONS = 4096  # decoded positions per batch, as in the preset


def examples_of(share: float, constraints: Constraints = "release") -> tuple[list[Example], Encoder]:
    """A `share` of the training records with all their texts, and an encoder built from all training records."""
    train = [record for record in load("webnlg", "train") if isinstance(record, Record)]
    vocabulary = Vocabulary.build(train)
    encoder = Encoder(vocabulary, Encoder.predicate_table(train), ModelConfig().max_group_size)
    sample = segmented(train[:: max(round(1 / share), 1)], segmenter("clauses"), [])
    return list(training_examples(sample, encoder, constraints)), encoder


def cpu_seconds(
    model: JointModel, optimizer: torch.optim.Optimizer, batches: list[list[Example]], bfloat16: bool = False
) -> float:
    """The CPU time of one update per batch."""
    started_at = time.process_time()
    for batch in batches:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bfloat16):
            total = -model.log_likelihood(collate(batch)).sum()
        (total / sum(example.n_target for example in batch)).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return time.process_time() - started_at


def new_model(encoder: Encoder, history: History = "shared") -> tuple[JointModel, torch.optim.Optimizer]:
    """A new model of the paper's sizes and its optimiser."""
    torch.manual_seed(0)
    words = encoder.vocabulary
    model = JointModel(ModelConfig(history=history), len(words), words.n_output, len(encoder.predicates)).train()
    return model, torch.optim.Adam(model.parameters(), lr=1e-5)


def measure_worst_record() -> None:
    """Measures one update on the text with the largest lattice."""
    examples, encoder = examples_of(1.0, "none")
    costs = joint_costs(examples, ModelConfig().max_group_size)
    cost, worst = max(zip(costs, examples, strict=True), key=lambda pair: pair[0])
    model, optimizer = new_model(encoder)
    seconds = cpu_seconds(model, optimizer, [[worst]])
    print_result(
        "joint_training_worst_record",
        record=worst.id,
        decoded_positions=cost,
        peak_mib=round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        cpu_seconds=round(seconds, 2),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="joint training speed on WebNLG")
    parser.add_argument("--worst", action="store_true", help="only the memory of the text with the highest cost")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.worst:
        measure_worst_record()
        return
    examples, encoder = examples_of(0.1)
    costs = joint_costs(examples, ModelConfig().max_group_size)
    batch_indices = epoch_batches(sort_keys(examples), costs, POSITIONS, 512, seed=0, epoch=0)[:12]
    batches = [[examples[index] for index in batch] for batch in batch_indices]
    texts = sum(map(len, batches))
    variants = {history: (*new_model(encoder, history), False) for history in get_args(History)}
    variants["bfloat16"] = (*new_model(encoder), True)  # with shared history
    for model, optimizer, bfloat16 in variants.values():
        cpu_seconds(model, optimizer, batches[:1], bfloat16)  # the first call builds lattices and kernels
    best: dict[str, float] = {}
    for _ in range(3):
        for name, (model, optimizer, bfloat16) in variants.items():
            seconds = cpu_seconds(model, optimizer, batches, bfloat16)
            best[name] = min(seconds, best.get(name, seconds))
            print(f"{name:8s} {texts / seconds:6.2f} texts per CPU-second", flush=True)
    print_result(
        "joint_training",
        texts_per_second={name: round(texts / seconds, 2) for name, seconds in best.items()},
        texts=texts,
        updates=len(batches),
    )


if __name__ == "__main__":
    main()
