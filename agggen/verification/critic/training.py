"""Trains a critic on examples with synthetic errors (`corruption`), by cross-entropy on both outputs."""

import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from agggen.errors import CorpusError, TrainingError
from agggen.records import Record
from agggen.verification.critic.corruption import Corruptor
from agggen.verification.critic.critic import VERDICTS, Critic, CriticNetwork, NetworkConfig
from agggen.verification.critic.examples import UNKNOWN, Example, to_example
from agggen.verification.critic.tokens import Inputs, approximate_length, collate, predicate_words

_BATCHES_PER_DRAW = 8  # number of batches whose examples are drawn together and sorted by length
_UNKNOWN_WORD_SHARE = 0.15  # share of word ids set to 0 in training, so that the network uses character n-grams


@dataclass(frozen=True)
class CriticTraining:
    """Settings of the training."""

    steps: int = 6000
    batch: int = 48  # texts per step
    learning_rate: float = 1e-3
    warmup: int = 500
    seed: int = 1
    vocabulary: int = 6000  # maximum number of words with ids: the most frequent, with at least 5 occurrences
    dev_texts: int = 1500  # number of examples for calibration and metrics, drawn from the dev texts


def examples_of(records: Iterable[Record]) -> list[Example]:
    """The references of records, as correct examples."""
    return [
        example
        for record in records
        for reference in record.references
        if (example := to_example(map(astuple, record.triples), reference.text))
    ]


def train_critic(
    train: Sequence[Example],
    dev: Sequence[Example],
    config: CriticTraining | None = None,
    network: NetworkConfig | None = None,
    sources: Mapping[str, Any] | None = None,
    progress: Callable[[int, float], None] = lambda step, loss: None,
) -> Critic:
    """Trains a critic on correct or labelled examples, and calibrates and measures it on other, correct examples.

    `sources` describe the training data; `progress` is called every 100 steps with the mean loss since the last call.
    Raises CorpusError without texts, and TrainingError if the loss is not finite.
    """
    config, network = config or CriticTraining(), network or NetworkConfig()
    for examples, purpose in ((train, "training"), (dev, "calibration")):
        if not examples:
            raise CorpusError(f"no texts for the {purpose} of the critic")
    torch.manual_seed(config.seed)
    generator = random.Random(config.seed)
    vocabulary = _vocabulary(train, config.vocabulary)
    model = CriticNetwork(len(vocabulary), network)
    corruptor = Corruptor(train, config.seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=config.learning_rate, betas=(0.9, 0.98), weight_decay=0.01)
    ids = {word: index for index, word in enumerate(vocabulary, start=1)}
    batches: list[list[Example]] = []
    total = 0.0
    for step in range(1, config.steps + 1):
        if not batches:
            drawn = [corruptor.draw() for _ in range(config.batch * _BATCHES_PER_DRAW)]
            drawn.sort(key=lambda example: approximate_length(example.triples, example.words))
            batches = [drawn[start : start + config.batch] for start in range(0, len(drawn), config.batch)]
            generator.shuffle(batches)
        batch = batches.pop()
        for group in optimizer.param_groups:
            group["lr"] = config.learning_rate * min(step / config.warmup, 1, 1.02 - step / config.steps)
        inputs = _inputs(batch, ids)
        inputs.words.masked_fill_(torch.rand(inputs.words.shape) < _UNKNOWN_WORD_SHARE, 0)
        (verdict_logits, invented_logits), (verdicts, invented) = model(inputs), _targets(inputs, batch)
        in_text = invented != UNKNOWN
        loss = F.cross_entropy(verdict_logits.flatten(0, 1), verdicts.flatten(), ignore_index=UNKNOWN)
        loss += 2 * F.binary_cross_entropy_with_logits(invented_logits[in_text], invented[in_text].float())
        if not torch.isfinite(loss):
            raise TrainingError(f"the critic's loss is {loss.item()} at step {step}; try a lower learning rate")
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        total += loss.item()
        if step % 100 == 0:
            progress(step, total / 100)
            total = 0.0
    critic = Critic(model, vocabulary, dict(sources or {}))
    dev_corruptor = Corruptor(dev, config.seed + 1)
    _calibrate(critic, [dev_corruptor.draw() for _ in range(config.dev_texts)], config.batch)
    return critic


def _vocabulary(examples: Sequence[Example], size: int) -> list[str]:
    counts = Counter(word for example in examples for word in example.words)
    for example in examples:
        for _, predicate, _ in example.triples:
            counts.update(predicate_words(predicate))
    ordered = sorted(counts, key=lambda word: (-counts[word], word))[:size]
    return [word for word in ordered if counts[word] >= 5 and word[0] not in "#@~"]


def _inputs(batch: Sequence[Example], ids: Mapping[str, int]) -> Inputs:
    return collate([(example.triples, example.words) for example in batch], ids)


def _targets(inputs: Inputs, batch: Sequence[Example]) -> tuple[Tensor, Tensor]:
    """The labels of verdicts and of invented words, each (B, L); `UNKNOWN` at other positions."""
    verdicts, invented = (torch.full(inputs.words.shape, UNKNOWN) for _ in range(2))
    for row, example in enumerate(batch):
        verdicts[row, inputs.marks(row)] = torch.tensor(example.labels)
        words = inputs.text(row)
        invented[row, words] = torch.tensor(example.invented[: len(words)])
    return verdicts, invented


@torch.no_grad()
def _calibrate(critic: Critic, examples: Sequence[Example], size: int) -> None:
    """Sets the temperature that fits the first half of the labels best, and the critic's metrics on the second half."""
    critic.network.eval()
    labelled: tuple[list[Tensor], ...] = ([], [], [], [])  # logits and labels of verdicts, of invented words
    for start in range(0, len(examples), size):
        batch = examples[start : start + size]
        inputs = _inputs(batch, critic.ids)
        for index, (outputs, targets) in enumerate(zip(critic.network(inputs), _targets(inputs, batch), strict=True)):
            is_labelled = targets != UNKNOWN
            labelled[2 * index].append(outputs[is_labelled])
            labelled[2 * index + 1].append(targets[is_labelled])
    verdicts, labels, invented, invented_labels = map(torch.cat, labelled)
    half = len(labels) // 2
    temperatures = torch.linspace(0.5, 3.0, 51)
    losses = [F.cross_entropy(verdicts[:half] / temperature, labels[:half]) for temperature in temperatures]
    critic.temperature = float(temperatures[int(torch.stack(losses).argmin())])
    probabilities = (verdicts[half:] / critic.temperature).softmax(-1)
    predictions, true_labels = probabilities.argmax(-1), labels[half:]
    said, n_labels = probabilities[:, 0], len(true_labels)
    excess, bins = said - (true_labels == 0).float(), (said * 10).long().clamp(max=9)
    n_correct = ((invented > 0) & (invented_labels == 1)).sum().item()
    critic.metrics = {
        "triples": n_labels,
        "accuracy": (predictions == true_labels).float().mean().item(),
        **{
            f"recall_{name}": (predictions[true_labels == index] == index).float().mean().item()
            for index, name in enumerate(VERDICTS)
            if (true_labels == index).any()
        },
        "calibration_error": sum(abs(excess[bins == number].sum().item()) for number in range(10)) / n_labels,
        "invented_precision": n_correct / max(1, int((invented > 0).sum())),
        "invented_recall": n_correct / max(1, int((invented_labels == 1).sum())),
    }
