"""Brute-force reference implementations of the model in float64, without code of `agggen.model`'s recursions.

They evaluate the formulas of METHOD 2 (agggen/README.md) and of the paper's section 3.2 one state sequence at a time.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor

from agggen.model.batch import CLS, END, FACT, LAST, SEP, UNK, Example, collate
from agggen.model.hmm import Potentials, log_likelihood, posterior, viterbi
from agggen.model.joint import JointModel, ModelConfig
from agggen.model.lattice import IMPOSSIBLE, Lattice
from agggen.model.transformer import DecoderLayer
from agggen.model.transitions import Transitions

OTHER_WORDS = -1
"""Key of `next_token` for all words that can be neither generated nor copied."""

State = tuple[int, ...]
Path = tuple[State, ...]
Weight = Callable[[State | None, State], float]
"""The log-weight of a state given the previous one (None: start)."""


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
    """The indices of the bits that are set in `mask`."""
    return frozenset(index for index in range(mask.bit_length()) if mask >> index & 1)


def log_sum(values: Iterable[float]) -> float:
    return torch.tensor([*values], dtype=torch.float64).logsumexp(0).item()


# --- the HMM: enumeration of all paths ---


def all_paths(emission: Sequence[Mapping[State, float]], weight: Weight) -> list[tuple[float, Path]]:
    """(log-weight, path) of every state sequence, best first. `emission`: log-score of each state, per fact."""
    paths: list[tuple[float, Path]] = [(0.0, ())]
    for scores in emission:
        paths = [
            (total + weight(path[-1] if path else None, state) + score, (*path, state))
            for total, path in paths
            for state, score in scores.items()
        ]
    return sorted(paths, key=lambda item: -item[0])


def paths_of(potentials: Potentials, lattice: Lattice, row: int) -> list[tuple[float, Path]]:
    start, out = potentials.start[row].tolist(), potentials.out[row].tolist()
    emission = [
        {state: score for state, score in zip(lattice.states, scores, strict=True) if score > IMPOSSIBLE / 2}
        for scores in potentials.node[row, : int(potentials.lengths[row])].tolist()
    ]
    return all_paths(emission, lambda before, z: start[z[0]] if before is None else out[before[-1]][z[0]])


def marginals(paths: Sequence[tuple[float, Path]], fact: int) -> dict[State, float]:
    """The marginal p(z_fact | y, x) of each state."""
    totals: dict[State, list[float]] = {}
    for total, path in paths:
        totals.setdefault(path[fact], []).append(total)
    normaliser = log_sum(total for total, _ in paths)
    return {state: math.exp(log_sum(values) - normaliser) for state, values in totals.items()}


def check_inference(potentials: Potentials, lattice: Lattice, paths: Sequence[Sequence[tuple[float, Path]]]) -> None:
    """Compares likelihood, posterior and best path with the enumerated paths of each row."""
    likelihoods, posteriors = log_likelihood(potentials, lattice).tolist(), posterior(potentials, lattice)
    totals, best = viterbi(potentials, lattice)
    for row, (row_paths, length) in enumerate(zip(paths, potentials.lengths.tolist(), strict=True)):
        assert likelihoods[row] == pytest.approx(log_sum(total for total, _ in row_paths), abs=1e-9)
        for t, actual in enumerate(posteriors[row].tolist()):
            expected = marginals(row_paths, t) if t < length else {}
            assert actual == pytest.approx([expected.get(state, 0.0) for state in lattice.states], abs=1e-9)
        (total, path), states = row_paths[0], best[row].tolist()
        assert totals[row].item() == pytest.approx(total, abs=1e-9)
        assert tuple(lattice.states[s] for s in states[:length]) == path and {*states[length:]} <= {-1}


# --- transitions: the formulas for single states ---


class TransitionFormulas:
    """Transition probabilities of one record; `ids` are the rows of its predicates in the embedding tables."""

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
        """p_out over all predicates of the record, given the last predicate of the previous state (None: start)."""
        return self._softmax(self.a_out[-1 if before is None else self.ids[before]], self.b_out, range(len(self.ids)))

    def p_in(self, before: int | None, among: Iterable[int]) -> dict[int, float]:
        """p_in over the predicates `among`, given the previous predicate (None: start)."""
        return self._softmax(self.a_in[-1 if before is None else self.ids[before]], self.b_in, among)

    def p_stop(self, state: State) -> float:
        """The probability that a state ends after its last predicate; 1 if it has the maximum size."""
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


def violated(group: frozenset[int], required: frozenset[int], forbidden: frozenset[int]) -> int:
    """The number of hard-alignment constraints of a fact that a set violates."""
    return len(required - group) + len(forbidden & group)


def fitting_sets(
    n_predicates: int,
    max_group_size: int,
    max_size: int,
    required: frozenset[int],
    forbidden: frozenset[int],
    max_violations: int = 0,
) -> set[frozenset[int]]:
    """The sets of one fact that violate at most `max_violations` constraints (METHOD 4 in agggen/README.md)."""
    all_sets = distinct_sets(n_predicates, max_group_size)
    small = {group for group in all_sets if len(group) <= max_size}
    fitting = {group for group in small if violated(group, required, forbidden) <= max_violations}
    return fitting or small or all_sets


# --- emissions: single rows, token by token ---


def tiny_model(seed: int = 0, max_group_size: int = 3, **settings: Any) -> JointModel:
    """A float64 JointModel without zero parameters: 24 words, of which the first 20 are output words; 8 predicates."""
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
    """Triples with 1 or 2 tokens per part, some out of vocabulary (ids from 24 on), and a text.

    The text consists of output words (7 to 19), source words, which only some sets can generate, and UNK.
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


class TokenwiseEmission:
    """log p(y_t | set, x, y_1..t-1) of one example, token by token."""

    def __init__(self, model: JointModel, example: Example) -> None:
        self.model, self.example = model, example
        self.memory = model.encode(collate([example]))
        self.marks = [FACT] * (len(example.facts) - 1) + [LAST]

    def _mask(self, group: Iterable[int]) -> Tensor:
        members = set(group)
        return torch.tensor([t in members for t in self.example.triple])

    def hidden(self, before: Sequence[int], inputs: Sequence[int], group: Iterable[int]) -> Tensor:
        """Hidden states (n, D) of `inputs` after `before`, which sees all triples if the history is shared; without
        caches.
        """
        model, decoder = self.model, self.model.decoder
        if model.config.history == "masked":
            tokens = [*before, *inputs]
            x = model.embed_target(torch.tensor([tokens]), torch.arange(len(tokens)), len(tokens))
            return decoder(x, self.memory.cross, self._mask(group)[None, None, None])[0, len(before) :]
        all_triples = self._mask(range(len(self.example.predicates)))[None, None, None]
        group_triples = self._mask(group)[None, None, None]
        embedded = [
            model.embed_target(torch.tensor([[token]]), torch.tensor([position]), position + 1)
            for position, token in enumerate([*before, *inputs])
        ]
        layer_inputs: list[list[Tensor]] = [[] for _ in decoder.layers]  # so far, (1, 1, D) each
        hidden = []
        for position, x in enumerate(embedded):
            visible = all_triples if position < len(before) else group_triples
            for number, layer in enumerate(decoder.layers):
                assert isinstance(layer, DecoderLayer)
                past = layer.self_keys_values(torch.cat(layer_inputs[number], 1)) if layer_inputs[number] else None
                layer_inputs[number].append(x)
                causal_mask = torch.ones(1, 1, 1, position + 1, dtype=torch.bool)
                x, _ = layer(x, past, causal_mask, self.memory.cross[number], visible)
            hidden.append(decoder.norm(x)[0, 0])
        return torch.stack(hidden[len(before) :])

    def __call__(self, fact: int, group: frozenset[int], ends: bool = True) -> float:
        """The log-probability of a fact's tokens and, if it `ends`, its end mark."""
        before: list[int] = []
        for mark, tokens in zip(self.marks[:fact], self.example.facts[:fact], strict=True):
            before += [mark, *tokens]
        inputs = [self.marks[fact], *self.example.facts[fact]]
        hidden = self.hidden(before, inputs, group)
        total = 0.0
        targets = [*self.example.facts[fact], END][: None if ends else -1]
        for position, (state, token) in enumerate(zip(hidden, targets, strict=False)):
            p = self.next_token(state, inputs[: position + 1], group)
            total += math.log(p.get(token, p[OTHER_WORDS]))
        return total

    def next_token(self, hidden: Tensor, inputs: Sequence[int], group: frozenset[int]) -> dict[int, float]:
        """The probability of each next token after the fact's `inputs`, for the set `group` and the decoder's last
        state `hidden` (D,), which coverage adjusts by the number of values that are missing in `inputs`.

        The copy gate mixes the softmax over output words with attention over the group's source tokens, in which words
        that follow the last input have a bonus. `OTHER_WORDS` has the probability of UNK.
        """
        model, example, keys = self.model, self.example, self.memory.copy_keys[0]
        if model.coverage:
            missing = 0.0
            for index in group:
                tokens = zip(example.source, example.triple, example.role, strict=True)
                value = [word for word, triple, role in tokens if (triple, role) == (index, 3)]
                missing += sum(word not in inputs for word in value) / max(len(value), 1)
            hidden = hidden + missing / (1 + missing) * model.coverage.change(hidden)
        logits = (model.embedding.weight[: model.n_output] @ hidden + model.output_bias).tolist()
        total = log_sum(logits)
        gate = 1 / (1 + math.exp(-float(model.copy_gate(hidden)))) if model.config.copy else 1.0
        probabilities = {word: gate * math.exp(logit - total) for word, logit in enumerate(logits)}
        probabilities[OTHER_WORDS] = probabilities[UNK]
        if not model.config.copy:
            return probabilities
        query = model.copy_query(hidden)
        scores = {
            m: float(query @ keys[m]) / math.sqrt(model.config.width)
            for m, t in enumerate(example.triple)
            if t in group
        }
        if model.config.copy_next:
            for m in scores:
                if example.source[m - 1] == inputs[-1] and example.source[m] not in (CLS, SEP):
                    scores[m] += float(model.copy_next(hidden))
        total = log_sum(scores.values())
        for m, score in scores.items():
            word = example.source[m]
            probabilities[word] = probabilities.get(word, 0.0) + (1 - gate) * math.exp(score - total)
        return probabilities
