"""Trains the tagger: roles and predicates, with parts of speech and syntax as side tasks.

The weights that count are a running average of the weights of all updates (Polyak averaging): with 12,000 sentences
it is worth more than choosing an epoch by the development set.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from agggen.errors import ConfigError, TrainingError
from agggen.facts.tagger.batches import Words, collate_words, groups
from agggen.facts.tagger.decode import Role, tags_of
from agggen.facts.tagger.features import TABLES, Features
from agggen.facts.tagger.model import TaggerConfig, TaggerModel
from agggen.facts.tagger.store import RoleTagger
from agggen_platform.srl.tagger.augment import Noise, change, names_of
from agggen_platform.srl.tagger.data import Sentence
from agggen_platform.srl.tagger.graft import donors, graft

IGNORED = -100
"""A target that does not count."""


class Targets(NamedTuple):
    """What a batch should be read as."""

    pos: Tensor  # (B, T)
    syntax: Tensor  # (B, T)
    predicates: Tensor  # (B, T): 0 or 1, IGNORED in the padding
    sentence: Tensor  # (F,)
    predicate: Tensor  # (F,)
    tags: Tensor  # (F, T)


class SideTasks(nn.Module):
    """What training also asks of the sentence layers: parts of speech and syntax. Not shipped."""

    def __init__(self, config: TaggerConfig, n_pos: int, n_syntax: int) -> None:
        super().__init__()
        self.pos = nn.Linear(2 * config.hidden, n_pos)
        self.syntax = nn.Linear(2 * config.hidden, n_syntax)


@dataclass(frozen=True)
class TrainConfig:
    """How to train.

    Raises:
        ConfigError: a number out of range.
    """

    epochs: int = 9
    seed: int = 1
    batch_words: int = 600  # with padding
    learning_rate: float = 2e-3
    warmup: float = 0.03  # share of the updates; then the rate falls linearly to a twentieth
    clip: float = 2.0  # largest norm of the gradient
    side: float = 0.3  # weight of each side task
    average: float = 0.998  # of the running average of the weights
    longest: int = 80  # words; longer sentences are left out
    rare: float = 0.25  # a word seen n times is hidden with probability rare / (rare + n)
    hide_edges: float = 0.05  # prefix or suffix of a word is hidden
    rarest_role: int = 20  # roles seen less often count as their plain form, or as none
    grafts: float = 0.5  # a sentence with a name is given another's clause (`graft`)
    noise: Noise = field(default_factory=Noise)
    model: TaggerConfig = field(default_factory=TaggerConfig)

    def __post_init__(self) -> None:
        for name, low, high in (("epochs", 1, 1000), ("batch_words", 1, 10**6), ("longest", 2, 10**6)):
            if not low <= getattr(self, name) <= high:
                raise ConfigError(f"{name} must be from {low} to {high:,}, not {getattr(self, name)}")
        for name in ("warmup", "average", "hide_edges"):
            if not 0 <= getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 0 and less than 1, not {getattr(self, name)}")
        if not self.learning_rate > 0 or not self.clip > 0:
            raise ConfigError("learning_rate and clip must be greater than 0")


Report = Callable[[int, dict[str, float], RoleTagger], None]
"""Told after each epoch: its number from 1, mean losses and seconds, and the tagger as it stands."""


def train_tagger(
    sentences: Sequence[Sentence],
    config: TrainConfig | None = None,
    report: Report | None = None,
) -> RoleTagger:
    """A tagger trained on `sentences`; on one machine and number of threads the same arguments give the same weights.

    Raises:
        TrainingError: there is no frame to train on, or a loss is not finite.
    """
    config = config or TrainConfig()
    sizes = config.model
    names = names_of(sentences)
    role_names = common_roles(sentences, config.rarest_role)
    sentences = [plain(s, role_names) for s in sentences if len(s.words) <= config.longest]
    if not any(sentence.roles for sentence in sentences):
        raise TrainingError(f"none of the {len(sentences)} sentences to train on has a frame")
    pool, known = donors(sentences), frozenset(role_names)
    torch.manual_seed(config.seed)
    rng = random.Random(config.seed)
    features, counts = Features.count(sentence.words for sentence in sentences)
    pos, syntax = _numbers(sentences, "pos"), _numbers(sentences, "syntax")
    tags = {tag: number for number, tag in enumerate(tags_of(role_names))}
    model = TaggerModel(sizes, features.sizes, len(tags))
    side = SideTasks(sizes, len(pos), len(syntax))
    averaged = TaggerModel(sizes, features.sizes, len(tags)).requires_grad_(False)
    settings = asdict(config) | {"sentences": len(sentences), "torch": torch.__version__}
    tagger = RoleTagger(averaged, features, role_names, training=settings)
    parameters = [*model.parameters(), *side.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=config.learning_rate)
    hiding = torch.tensor([config.rare / (config.rare + count) for count in counts])
    step = 0
    for epoch in range(1, config.epochs + 1):
        began, losses = time.perf_counter(), Counter[str]()
        model.train()
        changed = [
            graft(sentence, pool, known, rng) if rng.random() < config.grafts else sentence for sentence in sentences
        ]
        changed = [change(sentence, names, config.noise, rng) for sentence in changed]
        batches = shuffled_groups([len(sentence.words) for sentence in changed], config.batch_words, rng)
        for number, group in enumerate(batches):
            chosen = [changed[index] for index in group]
            words = collate_words([sentence.words for sentence in chosen], features)
            words = words._replace(features=_hide(words.features, hiding, config.hide_edges))
            parts = _losses(model, side, words, collate_targets(chosen, pos, syntax, tags))
            loss = parts["roles"] + parts["predicates"] + config.side * (parts["pos"] + parts["syntax"])
            if not torch.isfinite(loss):
                raise TrainingError(f"the loss of update {step + 1} is {loss.item()}; lower the learning rate")
            done = (epoch - 1 + number / len(batches)) / config.epochs
            optimizer.param_groups[0]["lr"] = config.learning_rate * _rate(done, config.warmup)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(parameters, config.clip)
            optimizer.step()
            step += 1
            _average(averaged, model, min(config.average, step / (step + 10)))
            losses.update({name: part.item() / len(batches) for name, part in parts.items()})
        if report is not None:
            report(epoch, dict(losses) | {"seconds": time.perf_counter() - began}, tagger)
    return tagger


def common_roles(sentences: Sequence[Sentence], rarest: int) -> tuple[str, ...]:
    """The roles (but V) that at least `rarest` frames hold, sorted."""
    counts = Counter(tag[2:] for s in sentences for role in s.roles for tag in role.tags if tag.startswith("B-"))
    return tuple(sorted(role for role, count in counts.items() if count >= rarest and role != "V"))


def plain(sentence: Sentence, role_names: Sequence[str]) -> Sentence:
    """`sentence` with the roles of ``role_names`` only: any other loses its R-, C- or -DSP, or if need be its tags."""
    known = {"V", *role_names}

    def renamed(tag: str) -> str:
        edge, _, role = tag.partition("-")
        for name in (role, role.removesuffix("-DSP"), role.removeprefix("R-").removeprefix("C-").removesuffix("-DSP")):
            if name in known and (name != "V" or name == role):
                return f"{edge}-{name}"
        return "O"

    return replace(
        sentence, roles=tuple(Role(role.predicate, tuple(map(renamed, role.tags))) for role in sentence.roles)
    )


def _numbers(sentences: Sequence[Sentence], column: str) -> dict[str, int]:
    labels: Iterator[str | None] = (label for sentence in sentences for label in getattr(sentence, column))
    counts = Counter(label for label in labels if label is not None)
    return {label: number for number, label in enumerate(sorted(x for x, count in counts.items() if count >= 5))}


def _hide(features: Tensor, hiding: Tensor, edges: float) -> Tensor:
    """`features` (B, T, E) with rare words, and now and then an edge of any word, made unknown."""
    hidden = torch.rand(features.shape) < edges
    hidden[..., 0] = torch.rand(features.shape[:2]) < hiding[features[..., 0]]
    hidden[..., TABLES.index("shape")] = False
    return features.masked_fill(hidden, 0)


def _losses(model: TaggerModel, side: SideTasks, words: Words, targets: Targets) -> dict[str, Tensor]:
    """Mean losses a word: of the sentences, and of the frames for roles."""
    read = model.read(words.features, words.lengths)
    inside = targets.predicates != IGNORED
    wanted = targets.predicates[inside].float()
    losses = {
        "predicates": functional.binary_cross_entropy_with_logits(read.predicates[inside], wanted),
        "pos": _cross_entropy(side.pos(read.first), targets.pos),
        "syntax": _cross_entropy(side.syntax(read.states), targets.syntax),
    }
    if not len(targets.sentence):
        return losses | {"roles": torch.zeros(())}
    tags = model.roles(read.states, words.lengths, targets.sentence, targets.predicate)
    return losses | {"roles": _cross_entropy(tags, targets.tags)}


def _cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Mean over the targets that count, 0 if none does; logits (..., K), targets (...)."""
    total = functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORED, reduction="sum")
    return total / (targets != IGNORED).sum().clamp(min=1)


def _rate(done: float, warmup: float) -> float:
    """The factor of the learning rate when the share `done` of training is behind us."""
    return min(1.0, (done + 1e-4) / max(warmup, 1e-4)) * max(0.05, 1 - max(0.0, done - warmup) / (1 - warmup))


@torch.no_grad()
def _average(averaged: nn.Module, model: nn.Module, keep: float) -> None:
    for mean, value in zip(averaged.parameters(), model.parameters(), strict=True):
        mean.lerp_(value, 1 - keep)


def shuffled_groups(lengths: Sequence[int], budget: int, rng: random.Random) -> list[list[int]]:
    """Groups for an epoch of training: alike in length but not always the same ones, in random order."""
    found = groups([2 * length + rng.randrange(5) for length in lengths], 2 * budget)
    rng.shuffle(found)
    return [sorted(group, key=lambda index: -lengths[index]) for group in found]


def collate_targets(
    sentences: Sequence[Sentence], pos: dict[str, int], syntax: dict[str, int], tags: dict[str, int]
) -> Targets:
    """Targets of a batch by the numbers of each label; a label without number is ignored, of tags it counts as O."""
    shape = (len(sentences), len(sentences[0].words))
    columns = {name: np.full(shape, IGNORED, dtype=np.int64) for name in ("pos", "syntax", "predicates")}
    frames: list[tuple[int, int, list[int]]] = []
    for row, sentence in enumerate(sentences):
        length = len(sentence.words)
        columns["pos"][row, :length] = [pos.get(label or "", IGNORED) for label in sentence.pos]
        columns["syntax"][row, :length] = [syntax.get(label or "", IGNORED) for label in sentence.syntax]
        columns["predicates"][row, :length] = sentence.predicates
        padding = [IGNORED] * (shape[1] - length)
        for role in sentence.roles:
            frames.append((row, role.predicate, [tags.get(tag, 0) for tag in role.tags] + padding))
    return Targets(
        **{name: torch.from_numpy(column) for name, column in columns.items()},
        sentence=torch.tensor([frame[0] for frame in frames], dtype=torch.long),
        predicate=torch.tensor([frame[1] for frame in frames], dtype=torch.long),
        tags=torch.tensor([frame[2] for frame in frames], dtype=torch.long).reshape(len(frames), shape[1]),
    )
