"""Brute-force twins of the model: plain Python loops over all states and all state sequences, in float64.

The twins share no code with `agggen.model`'s recursions: they spell out the formulas of METHOD 2 and of the paper's
section 3.2, one state sequence at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor

from agggen.model.batch import CLS, END, FACT, LAST, SEP, UNK, Example, collate
from agggen.model.hmm import Potentials, k_best_paths, log_likelihood, posterior
from agggen.model.joint import JointModel, ModelConfig
from agggen.model.lattice import IMPOSSIBLE, Lattice
from agggen.model.transformer import DecoderLayer
from agggen.model.transitions import Transitions

UNSAYABLE = -1
"""Key of `next_token` for a word that is neither writable nor shown by the set."""

State = tuple[int, ...]
Path = tuple[State, ...]
Weight = Callable[[State | None, State], float]
"""log-weight of a state after the one before it (None: it is the first)."""


def ordered_states(n_predicates: int, max_size: int) -> list[State]:
    """All ordered tuples of 1..max_size distinct predicates."""
    states: list[State] = []
    longer: list[State] = [()]
    for _ in range(max_size):
        longer = [(*state, o) for state in longer for o in range(n_predicates) if o not in state]
        states += longer
    return states


def distinct_sets(n_predicates: int, max_size: int) -> set[frozenset[int]]:
    return {frozenset(state) for state in ordered_states(n_predicates, max_size)}


def members(mask: int) -> frozenset[int]:
    """The triples of a bit mask."""
    return frozenset(index for index in range(mask.bit_length()) if mask >> index & 1)


def log_sum(values: Iterable[float]) -> float:
    """log of the sum of exponentials; -inf of no values."""
    values = [value for value in values if value > -math.inf]
    if not values:
        return -math.inf
    top = max(values)
    return top + math.log(math.fsum(math.exp(value - top) for value in values))


# --- the HMM: every path, one by one ---


def all_paths(emission: Sequence[Mapping[State, float]], weight: Weight) -> list[tuple[float, Path]]:
    """Every state sequence with its total log-weight, best first; `emission` holds each fact's possible states."""
    paths: list[tuple[float, Path]] = [(0.0, ())]
    for scores in emission:
        paths = [
            (total + weight(path[-1] if path else None, state) + score, (*path, state))
            for total, path in paths
            for state, score in scores.items()
        ]
    return sorted(paths, key=lambda item: -item[0])


def paths_of(potentials: Potentials, lattice: Lattice, row: int) -> list[tuple[float, Path]]:
    """The paths of one row of HMM potentials."""
    start, out = potentials.start[row].tolist(), potentials.out[row].tolist()
    emission = [
        {state: score for state, score in zip(lattice.states, scores, strict=True) if score > IMPOSSIBLE / 2}
        for scores in potentials.node[row, : int(potentials.lengths[row])].tolist()
    ]
    return all_paths(emission, lambda before, z: start[z[0]] if before is None else out[before[-1]][z[0]])


def marginals(paths: Sequence[tuple[float, Path]], fact: int) -> dict[State, float]:
    """p(z_fact | y, x)."""
    totals: dict[State, list[float]] = {}
    for total, path in paths:
        totals.setdefault(path[fact], []).append(total)
    everything = log_sum(total for total, _ in paths)
    return {state: math.exp(log_sum(values) - everything) for state, values in totals.items()}


def check_inference(
    potentials: Potentials, lattice: Lattice, paths: Sequence[Sequence[tuple[float, Path]]], k: int
) -> None:
    """Compares likelihood, posterior and k best paths with the enumerated paths of each row."""
    likelihoods, posteriors = log_likelihood(potentials, lattice).tolist(), posterior(potentials, lattice)
    totals, chosen = k_best_paths(potentials, lattice, k)
    for row, (own, length) in enumerate(zip(paths, potentials.lengths.tolist(), strict=True)):
        assert likelihoods[row] == pytest.approx(log_sum(total for total, _ in own), abs=1e-9)
        for t, actual in enumerate(posteriors[row].tolist()):
            expected = marginals(own, t) if t < length else {}
            assert actual == pytest.approx([expected.get(state, 0.0) for state in lattice.states], abs=1e-9)
        for rank, (total, path) in enumerate(own[:k]):
            states = chosen[row, rank].tolist()
            assert totals[row, rank].item() == pytest.approx(total, abs=1e-9)
            assert tuple(lattice.states[s] for s in states[:length]) == path and {*states[length:]} <= {-1}
        assert (totals[row, len(own) :] <= IMPOSSIBLE / 2).all() and (chosen[row, len(own) :] == -1).all()


# --- transitions: the formulas, one state at a time ---


class TransitionTwin:
    """Probabilities of one record, `ids` being its predicates' rows in the embedding tables."""

    def __init__(self, transitions: Transitions, ids: Sequence[int]) -> None:
        tables = {name: value.tolist() for name, value in transitions.named_parameters()}
        self.variant, self.max_group_size, self.ids = transitions.variant, transitions.max_group_size, tuple(ids)
        self.a_in, self.b_in, self.a_out, self.b_out = (tables[name] for name in ("a_in", "b_in", "a_out", "b_out"))
        self.stop_table, self.stop_by_size = tables["stop"], tables["stop_by_size"]

    def _softmax(
        self, row: Sequence[float], columns: Sequence[Sequence[float]], among: Iterable[int]
    ) -> dict[int, float]:
        scores = {o: sum(a * b for a, b in zip(row, columns[self.ids[o]], strict=True)) for o in among}
        total = log_sum(scores.values())
        return {o: math.exp(score - total) for o, score in scores.items()}

    def p_out(self, before: int | None) -> dict[int, float]:
        """p_out(. | last predicate of the state before), over all predicates of the record; None is the start state."""
        return self._softmax(self.a_out[-1 if before is None else self.ids[before]], self.b_out, range(len(self.ids)))

    def p_in(self, before: int | None, among: Iterable[int]) -> dict[int, float]:
        """p_in(. | predicate before) over `among`; None is the start state."""
        return self._softmax(self.a_in[-1 if before is None else self.ids[before]], self.b_in, among)

    def p_stop(self, state: State) -> float:
        """The probability that a state ends here; a state that cannot grow ends."""
        if len(state) == min(self.max_group_size, len(self.ids)):
            return 1.0
        size = min(len(self.ids), len(self.stop_by_size) - 1)
        logit = self.stop_table[self.ids[state[-1]]][len(state) - 1] + self.stop_by_size[size][len(state) - 1]
        return 1 / (1 + math.exp(-logit))

    def p_rest(self, state: State) -> float:
        """Variant `normalised`: p(the state's other predicates, and its length | its first)."""
        probability = 1.0
        for length in range(1, len(state)):
            prefix = state[:length]
            left = [o for o in range(len(self.ids)) if o not in prefix]
            probability *= (1 - self.p_stop(prefix)) * self.p_in(prefix[-1], left)[state[length]]
        return probability * self.p_stop(state)

    def p_state(self, state: State) -> float:
        """Variant `paper`, T2: p(z) = prod over l of p_in(o^l | o^{l-1}), o^0 being the start state.

        p_in is T1 over the record's predicates but the one itself, since a state holds no predicate twice.
        """
        probability = self.p_in(None, range(len(self.ids)))[state[0]]
        for before, o in pairwise(state):
            probability *= self.p_in(before, [other for other in range(len(self.ids)) if other != before])[o]
        return probability

    def log_weight(self, before: State | None, state: State) -> float:
        """log p(z_t | z_{t-1}), or log p(z_1): T3 in `paper`."""
        if self.variant == "normalised":
            return math.log(self.p_out(None if before is None else before[-1])[state[0]] * self.p_rest(state))
        if before is None:
            return math.log(self.p_state(state))
        return math.log(self.p_state(before) * self.p_out(before[-1])[state[0]] * self.p_state(state))


# --- pruning ---


def broken(group: frozenset[int], required: frozenset[int], forbidden: frozenset[int]) -> int:
    """The number of alignments of a fact that a set breaks."""
    return len(required - group) + len(forbidden & group)


def kept_sets(
    n_predicates: int,
    max_group_size: int,
    max_size: int,
    required: frozenset[int],
    forbidden: frozenset[int],
    max_violations: int = 0,
) -> set[frozenset[int]]:
    """The sets of one fact that break at most `max_violations` alignments (METHOD 4)."""
    everything = distinct_sets(n_predicates, max_group_size)
    small = {group for group in everything if len(group) <= max_size}
    fitting = {group for group in small if broken(group, required, forbidden) <= max_violations}
    return fitting or small or everything


# --- the network: a row at a time, a token at a time ---


def tiny_model(seed: int = 0, max_group_size: int = 3, **settings: Any) -> JointModel:
    """A JointModel in float64 with no parameter left at zero: 24 words, the first 20 writable, 8 predicates."""
    settings.setdefault("copy_next", True)
    config = ModelConfig(
        width=8,
        heads=2,
        layers=2,
        feed_forward=12,
        dropout=0.0,
        predicate_dim=3,
        max_group_size=max_group_size,
        **settings,
    )
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        model = JointModel(config, n_words=24, n_output=20, n_predicates=8).double().eval()
        for parameter in model.parameters():
            parameter.add_(0.4 * torch.randn_like(parameter))
    return model


def random_example(seed: int, n_triples: int, fact_lengths: Sequence[int]) -> Example:
    """Triples of 1 or 2 tokens a part, some of them words of this record alone (ids from 24 on), and a text.

    The text draws from the writable words 7..19, the words of the source (only some sets can say those) and UNK.
    """
    generator = torch.Generator().manual_seed(seed)

    def draw(low: int, high: int) -> int:
        return int(torch.randint(low, high, (1,), generator=generator))

    source, triple, role = [CLS], [-1], [0]
    for index in range(n_triples):
        for part in (1, 2, 3):
            for _ in range(draw(1, 3)):
                source.append(draw(7, 30))
                triple.append(index)
                role.append(part)
        source.append(SEP)
        triple.append(index)
        role.append(0)
    words = [UNK, *range(7, 20), *(token for token in source if token >= 7)]
    facts = tuple(tuple(words[draw(0, len(words))] for _ in range(length)) for length in fact_lengths)
    predicates = tuple(draw(0, 8) for _ in range(n_triples))
    return Example(f"r{seed}", tuple(source), tuple(triple), tuple(role), predicates, facts)


def next_token_twin(
    model: JointModel, example: Example, hidden: Tensor, last: int, keys: Tensor, group: frozenset[int]
) -> dict[int, float]:
    """p(next token) after `last`, with `hidden` (D,), under the set `group`: of every token, generated or copied.

    A mixture, by the copy gate, of the softmax over writable words and of attention over the group's source tokens,
    where the words that follow `last` have a bonus.
    `UNSAYABLE` stands for all words that are neither writable nor in the group's triples: the same as writing UNK.
    """
    logits = (model.embedding.weight[: model.n_output] @ hidden + model.output_bias).tolist()
    total = log_sum(logits)
    gate = 1 / (1 + math.exp(-float(model.copy_gate(hidden)))) if model.config.copy else 1.0
    probabilities = {word: gate * math.exp(logit - total) for word, logit in enumerate(logits)}
    probabilities[UNSAYABLE] = probabilities[UNK]
    if not model.config.copy:
        return probabilities
    query = model.copy_query(hidden)
    scores = {
        m: float(query @ keys[m]) / math.sqrt(model.config.width) for m, t in enumerate(example.triple) if t in group
    }
    if model.config.copy_next:
        for m in scores:
            if example.source[m - 1] == last and example.source[m] not in (CLS, SEP):
                scores[m] += float(model.copy_next(hidden))
    total = log_sum(scores.values())
    for m, score in scores.items():
        word = example.source[m]
        probabilities[word] = probabilities.get(word, 0.0) + (1 - gate) * math.exp(score - total)
    return probabilities


class EmissionTwin:
    """log p(y_t | set, x, y_1..t-1) of one example, one token at a time."""

    def __init__(self, model: JointModel, example: Example) -> None:
        self.model, self.example = model, example
        self.memory = model.encode(collate([example]))
        self.marks = [FACT] * (len(example.facts) - 1) + [LAST]

    def _mask(self, group: Iterable[int]) -> Tensor:
        members = set(group)
        return torch.tensor([t in members for t in self.example.triple])

    def _whole(self, inputs: Sequence[int], group: Iterable[int]) -> Tensor:
        """Hidden states (n, D) of all inputs in one causal pass under one mask."""
        x = self.model.embed_target(torch.tensor([inputs]), torch.arange(len(inputs)), len(inputs))
        hidden, _ = self.model.decoder(x, self.memory.cross, self._mask(group)[None, None, None])
        return hidden[0]

    def _after_history(self, before: Sequence[int], inputs: Sequence[int], group: Iterable[int]) -> Tensor:
        """Hidden states (n, D) of `inputs`, which see `before` as encoded under the mask of all triples.

        Layer by layer and position by position: no cache is gathered, padded or masked.
        """
        model, decoder = self.model, self.model.decoder
        everything, own = (self._mask(g)[None, None, None] for g in (range(len(self.example.predicates)), group))
        embedded = [
            model.embed_target(torch.tensor([[token]]), torch.tensor([position]), position + 1)
            for position, token in enumerate([*before, *inputs])
        ]
        seen: list[list[Tensor]] = [[] for _ in decoder.layers]  # the inputs of each layer so far, (1, 1, D) each
        hidden = []
        for position, x in enumerate(embedded):
            visible = everything if position < len(before) else own
            for number, layer in enumerate(decoder.layers):
                assert isinstance(layer, DecoderLayer)
                past = layer.own_keys_values(torch.cat(seen[number], 1)) if seen[number] else None
                seen[number].append(x)
                looking_at_all = torch.ones(1, 1, 1, position + 1, dtype=torch.bool)
                x, _ = layer(x, past, looking_at_all, self.memory.cross[number], visible)
            hidden.append(decoder.norm(x)[0, 0])
        return torch.stack(hidden[len(before) :])

    def __call__(self, fact: int, group: frozenset[int]) -> float:
        """The log-probability of a fact's tokens and its end mark."""
        before: list[int] = []
        for mark, tokens in zip(self.marks[:fact], self.example.facts[:fact], strict=True):
            before += [mark, *tokens]
        inputs = [self.marks[fact], *self.example.facts[fact]]
        if self.model.config.history == "masked":
            hidden = self._whole([*before, *inputs], group)[len(before) :]
        else:
            hidden = self._after_history(before, inputs, group)
        total = 0.0
        for state, last, token in zip(hidden, inputs, [*self.example.facts[fact], END], strict=True):
            p = self.next_token(state, last, group)
            total += math.log(p.get(token, p[UNSAYABLE]))
        return total

    def next_token(self, hidden: Tensor, last: int, group: frozenset[int]) -> dict[int, float]:
        return next_token_twin(self.model, self.example, hidden, last, self.memory.copy_keys[0], group)
