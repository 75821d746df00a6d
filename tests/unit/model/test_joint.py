"""The joint model in float64 against enumeration: emissions per token, likelihood over all state sequences."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from agggen.model.batch import LAST, Example, allowed_sets, collate
from agggen.model.hmm import log_likelihood
from agggen.model.joint import JointModel
from agggen.model.lattice import IMPOSSIBLE
from tests.unit.model.enumeration import (
    State,
    TokenwiseEmission,
    TransitionFormulas,
    all_paths,
    check_inference,
    fitting_sets,
    members,
    ordered_states,
    random_example,
    tiny_model,
    violated,
)

HISTORIES = ("shared", "masked")
histories = pytest.mark.parametrize("history", HISTORIES)
copying = pytest.mark.parametrize("copy", [True, False])

BATCH = [random_example(1, 3, [2, 4, 1]), random_example(2, 1, [3]), random_example(3, 2, [1, 3, 2, 2])]
"""Examples of different sizes; the last one has more facts than triples."""


def emissions(model: JointModel, examples: list[Example]) -> list[list[dict[frozenset[int], float]]]:
    """The log-probability of each allowed set, per example and fact."""
    batch = collate(examples)
    states = model.lattice_of(batch)
    allowed = allowed_sets(batch, states)
    with torch.no_grad():
        scores = model.emissions(batch, allowed, states)
    assert (scores[~allowed] == IMPOSSIBLE).all()
    assert (scores[allowed] > IMPOSSIBLE / 2).all()
    sets = [frozenset(row.nonzero().flatten().tolist()) for row in states.set_members]
    return [
        [
            {sets[c]: scores[row, t, c].item() for c in allowed[row, t].nonzero().flatten().tolist()}
            for t in range(len(example.facts))
        ]
        for row, example in enumerate(examples)
    ]


def likelihood(model: JointModel, examples: list[Example]) -> list[float]:
    with torch.no_grad():
        return model.log_likelihood(collate(examples)).tolist()


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


# --- emissions ---


@histories
@copying
@pytest.mark.parametrize(("copy_next", "coverage"), [(True, False), (False, True), (True, True)])
def test_emissions_equal_scores_token_by_token(history: str, copy: bool, copy_next: bool, coverage: bool) -> None:
    model = tiny_model(history=history, copy=copy, copy_next=copy_next, coverage=coverage)
    for example, facts in zip(BATCH, emissions(model, BATCH), strict=True):
        with torch.no_grad():
            emission = TokenwiseEmission(model, example)
            for fact, scores in enumerate(facts):
                assert len(scores) == 2 ** len(example.predicates) - 1
                for group, score in scores.items():
                    assert score == pytest.approx(emission(fact, group), abs=1e-9), (example.id, fact, group)


def test_label_smoothing_adds_the_mean_over_output_words() -> None:
    model = tiny_model(copy=False)
    memory, hidden = model.encode(collate([BATCH[1]])), torch.randn(1, 1, model.config.width, dtype=torch.float64)
    visible, scored, last = memory.triple == 0, torch.ones(1, 1, dtype=torch.bool), torch.tensor([[LAST]])

    def score(word: int, smoothing: float = 0.0) -> float:
        return model.token_log_probs(hidden, last, torch.tensor([[word]]), scored, memory, visible, smoothing).item()

    mean = sum(score(word) for word in range(model.n_output)) / model.n_output
    assert score(9, 0.1) == pytest.approx(0.9 * score(9) + 0.1 * mean, abs=1e-12)


@histories
@copying
def test_the_plain_transformer_scores_a_text_as_one_fact_of_all_triples(history: str, copy: bool) -> None:
    model = tiny_model(history=history, copy=copy, coverage=True)
    with torch.no_grad():
        texts = model.text_log_probs(collate(BATCH, single_fact=True)).tolist()
    for example, text in zip(BATCH, texts, strict=True):
        one_fact = replace(example, facts=(tuple(token for fact in example.facts for token in fact),))
        all_triples = frozenset(range(len(example.predicates)))
        assert emissions(model, [one_fact])[0][0][all_triples] == pytest.approx(text, abs=1e-9)


@pytest.mark.parametrize("limit", ["_MAX_POSITIONS", "_MAX_HISTORY"])
def test_scores_do_not_depend_on_the_chunks(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_model()
    expected = likelihood(model, BATCH)
    monkeypatch.setattr(f"agggen.model.joint.{limit}", 1)
    assert likelihood(model, BATCH) == pytest.approx(expected, abs=1e-9)


# --- the joint likelihood ---


@histories
def test_recomputed_activations_give_the_same_gradients(history: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A text larger than a chunk recomputes its activations, with the same dropout."""
    example = random_example(5, 4, [3, 2, 4])
    model = tiny_model(history=history).train()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.3
    calls: list[int] = []
    score = JointModel._score_rows

    def counted(self: JointModel, *arguments: Any) -> Tensor:
        calls.append(len(arguments[3]))
        return score(self, *arguments)

    def gradients(chunk: int) -> tuple[int, list[Tensor]]:
        """The number of scored rows and the gradients for chunks of `chunk` positions."""
        calls.clear()
        monkeypatch.setattr("agggen.model.joint._MAX_POSITIONS", chunk)
        model.zero_grad(set_to_none=True)
        torch.manual_seed(5)
        model.log_likelihood(collate([example])).sum().backward()
        return sum(calls), [p.grad.clone() for p in model.parameters() if p.grad is not None]

    once, _ = gradients(10**6)
    with monkeypatch.context() as patch:  # the same chunks without recomputation, so that dropout is the same
        patch.setattr("agggen.model.joint.checkpoint", lambda function, *inputs, **_: function(*inputs))
        kept_count, kept = gradients(40)
    twice, spared = gradients(40)
    assert (kept_count, twice) == (once, 2 * once)
    assert all(torch.equal(one, other) for one, other in zip(kept, spared, strict=True))


def enumerate_paths(
    model: JointModel, example: Example, penalty: float | None = None
) -> list[tuple[float, tuple[State, ...]]]:
    """Every plan of the text, with log p(y, z | x) minus the penalties of violated constraints."""
    size, most = len(example.predicates), model.config.max_group_size
    observed = []
    with torch.no_grad():
        emission = TokenwiseEmission(model, example)
        for t in range(len(example.facts)):
            masks = example.required, example.forbidden
            required, forbidden = (members(mask[t] if mask else 0) for mask in masks)
            kept = fitting_sets(size, most, example.max_size, required, forbidden, 0 if penalty is None else 1)
            by_set = {
                group: emission(t, group) - (penalty or 0) * violated(group, required, forbidden) for group in kept
            }
            observed.append({z: by_set[frozenset(z)] for z in ordered_states(size, most) if frozenset(z) in kept})
        return all_paths(observed, TransitionFormulas(model.transitions, example.predicates).log_weight)


@histories
def test_the_omission_loss_is_the_unlikelihood_of_ends_that_omit_triples(history: str) -> None:
    """The facts of the first text have one set that they omit triples of, {0, 1}; those of the second have none."""
    first, second = random_example(4, 2, [2, 1]), random_example(5, 2, [2])
    examples = [replace(first, required=(1, 2), forbidden=(2, 1)), replace(second, required=(1,), forbidden=(0,))]
    model, expected = tiny_model(history=history, coverage=True), 0.0
    with torch.no_grad():
        batch, emission = collate(examples), TokenwiseEmission(model, examples[0])
        for fact in range(2):
            end = emission(fact, frozenset({0, 1})) - emission(fact, frozenset({0, 1}), ends=False)
            expected -= math.log(1 - math.exp(end))
        assert model.omission_loss(batch, model.encode(batch)).item() == pytest.approx(expected, abs=1e-9)
        without = -model.log_likelihood(batch).sum().item()
        assert model.joint_loss(batch, omission_weight=2.0).item() == pytest.approx(without + 2 * expected, abs=1e-9)
        assert model.joint_loss(batch).item() == pytest.approx(without, abs=1e-9)
        no_omissions = collate(examples[1:])
        assert model.omission_loss(no_omissions, model.encode(no_omissions)).item() == 0


PRUNED = [
    replace(random_example(4, 3, [2, 1, 2]), required=(1, 0, 2), forbidden=(2, 3, 5), max_size=2),
    replace(random_example(5, 2, [2, 2]), required=(0, 3), forbidden=(1, 3)),
    random_example(6, 1, [1, 2]),
]
UNPRUNED = [replace(example, required=(), forbidden=(), max_size=99) for example in PRUNED]


@pytest.mark.parametrize(
    "settings",
    [
        *({"transition": name, "history": history} for name in ("normalised", "paper") for history in HISTORIES),
        *({"max_group_size": size} for size in (1, 2)),
    ],
)
@pytest.mark.parametrize(("examples", "penalty"), [(PRUNED, None), (PRUNED, 0.7), (UNPRUNED, None)])
def test_likelihood_posterior_and_best_path_equal_enumeration(
    settings: dict[str, Any], examples: list[Example], penalty: float | None
) -> None:
    model, batch = tiny_model(**settings), collate(examples)
    with torch.no_grad():
        potentials, states = model.potentials(batch, penalty)
        assert torch.equal(model.log_likelihood(batch, penalty), log_likelihood(potentials, states))
    check_inference(potentials, states, [enumerate_paths(model, example, penalty) for example in examples])


@histories
def test_a_text_longer_than_the_position_table(history: str) -> None:
    """More than 512 positions: the table of sinusoids is extended."""
    model, example = tiny_model(history=history), random_example(8, 2, [300, 300])
    long_first = likelihood(model, [example])[0]
    assert math.isfinite(long_first)
    assert likelihood(model, [BATCH[0]])[0] == pytest.approx(likelihood(tiny_model(history=history), [BATCH[0]])[0])
    assert likelihood(model, [example])[0] == pytest.approx(long_first, abs=1e-9)


@pytest.mark.parametrize("transition", ["normalised", "paper"])
@histories
def test_gradients_equal_finite_differences(transition: str, history: str) -> None:
    model, batch = tiny_model(transition=transition, history=history, predicate_dropout=0.0), collate(PRUNED)
    model.log_likelihood(batch).sum().backward()
    generator = torch.Generator().manual_seed(0)
    slopes = 0
    for name, parameter in model.named_parameters():
        if transition == "paper" and name.startswith("transitions.stop"):
            assert parameter.grad is None
            continue
        assert parameter.grad is not None, name
        assert torch.isfinite(parameter.grad).all(), name
        flat, gradient = parameter.data.view(-1), parameter.grad.view(-1)
        steepest = int(gradient.abs().argmax())
        for place in {steepest, int(torch.randint(len(flat), (1,), generator=generator))}:
            before = flat[place].item()
            flat[place] = before + 1e-5
            up = sum(likelihood(model, PRUNED))
            flat[place] = before - 1e-5
            down = sum(likelihood(model, PRUNED))
            flat[place] = before
            slope = (up - down) / 2e-5
            assert gradient[place].item() == pytest.approx(slope, abs=2e-6, rel=1e-6), (name, place)
        slopes += abs(gradient[steepest].item()) > 1e-4
    assert slopes > 40  # nearly all parameters have a gradient


def test_predicate_dropout_acts_in_training_only() -> None:
    model = tiny_model(predicate_dropout=1 - 1e-9)  # 1 is the excluded upper bound
    batch = collate([BATCH[0]])
    states = model.lattice_of(batch)
    unknown = replace(BATCH[0], predicates=(0, 0, 0))
    hidden = model.train().transition_scores(batch, states)
    expected = model.eval().transition_scores(collate([unknown]), states)
    torch.testing.assert_close(hidden.within, expected.within)
    assert not torch.allclose(model.transition_scores(batch, states).within, expected.within)


def test_lower_precisions_return_finite_float32_scores_close_to_float64() -> None:
    model = tiny_model().float()
    for examples in (PRUNED, UNPRUNED):
        assert likelihood(model, examples) == pytest.approx(likelihood(tiny_model(), examples), abs=1e-3)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        scores = model.log_likelihood(collate(PRUNED))
    assert scores.dtype == torch.float32
    assert scores.tolist() == pytest.approx(likelihood(tiny_model(), PRUNED), rel=0.05)
    scores.sum().backward()
    assert all(p.grad is None or torch.isfinite(p.grad).all() for p in model.parameters())


# --- words outside the vocabulary ---


def after_copying(word: int, **settings: Any) -> Tensor:
    """Log-probabilities of texts that start with the copied `word` of a name of two unknown words, 24 and 25."""
    model = tiny_model(**settings)
    example = Example("name", (2, 24, 25, 3), (-1, 0, 0, 0), (0, 3, 3, 0), (1,), ((word, 8),))
    with torch.no_grad():
        return model.text_log_probs(collate([replace(example, facts=((word, other),)) for other in (8, 24, 25)], True))


@pytest.mark.parametrize(
    ("unseen_words", "copy_next", "alike"), [(0, False, True), (4, False, False), (0, True, False)]
)
def test_the_copied_word_decides_the_next_word(unseen_words: int, copy_next: bool, alike: bool) -> None:
    """If unknown words were indistinguishable, a name of several unknown words could not be copied."""
    settings = {"unseen_words": unseen_words, "copy_next": copy_next}
    first, second = after_copying(24, **settings), after_copying(25, **settings)
    assert torch.allclose(first - first[0], second - second[0]) == alike


def test_memory_does_not_grow_with_the_square_of_the_number_of_facts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The history must not be copied for every fact and set at the same time."""
    chunks, score = list[Tensor](), JointModel._score_rows

    def recorded(self: JointModel, *arguments: Any) -> Tensor:
        chunks.append(arguments[3])
        return score(self, *arguments)

    monkeypatch.setattr(JointModel, "_score_rows", recorded)
    batch = collate([random_example(3, 2, [1] * 900)])
    with torch.no_grad():
        tiny_model().potentials(batch)
    assert sum(map(len, chunks)) == 900 * 3
    assert all(len(rows) * batch.fact_start[0, rows[:, 1]].max() <= 1 << 16 for rows in chunks)
