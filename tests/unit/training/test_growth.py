"""Adding words and predicates does not change a model's distributions (float64, up to rounding)."""

import copy
from pathlib import Path

import pytest
import torch
from torch import Tensor

from agggen.bundle import Bundle, load_bundle
from agggen.encoding import Encoder, training_examples
from agggen.generation.generator import Generator
from agggen.model.batch import UNK, collate
from agggen.model.joint import JointModel
from agggen.records import Record
from agggen.training.growth import grown
from tests.tiny_models import save_tiny_bundle


def record(name: str, text: str, **values: str) -> Record:
    return Record.of(
        {"id": name, "triples": [[name, key, value] for key, value in values.items()], "references": [text]}
    )


OLD = [
    record("Aromi", "Aromi serves Thai food in the city.", food="Thai", area="city"),
    record("Zizzi", "Zizzi serves English food, in the city. It is cheap.", food="English", area="city", price="cheap"),
]
NEW = [
    record("Mira", "Mira was born in Ulm and flew on Apollo.", birthPlace="Ulm", mission="Apollo"),
    Record.of({"id": "Ulm", "triples": [["Mira", "area", "a"], ["Mira", "area", "b"]], "references": ["Mira in Ulm."]}),
]
PROMOTED = [record("Mill", "The price of Mill is cheap.", price="cheap")]
"""`price` occurred only in records before, and occurs in these texts."""


@pytest.fixture
def bundle(tmp_path: Path) -> Bundle:
    loaded = load_bundle(save_tiny_bundle(tmp_path / "bundle", OLD))
    loaded.model.double()
    return loaded


def larger(bundle: Bundle, records: list[Record] = NEW) -> tuple[Encoder, JointModel]:
    encoder, weights = grown(bundle, records, min_count=1)
    words = encoder.vocabulary
    model = JointModel(bundle.model.config, len(words), words.n_output, len(encoder.predicates)).double().eval()
    model.load_state_dict(weights)
    return encoder, model


def test_known_words_and_predicates_keep_their_ids(bundle: Bundle) -> None:
    before = copy.deepcopy(bundle.model.state_dict())
    encoder, old = larger(bundle)[0], bundle.encoder
    n_output = old.vocabulary.n_output
    assert encoder.predicates == (*old.predicates, "area_2", "birthPlace", "mission")
    assert encoder.vocabulary.words[:n_output] == old.vocabulary.words[:n_output]
    assert {"Mira", "Apollo", "born"} <= {*encoder.vocabulary.words[n_output : encoder.vocabulary.n_output]}
    assert all(torch.equal(value, before[name]) for name, value in bundle.model.state_dict().items())


def test_plans_keep_their_probabilities(bundle: Bundle) -> None:
    """New predicates have the vectors of the unknown predicate, `area_2` those of `area`."""
    encoder, model = larger(bundle)
    assert bundle.generator().planner.plan(OLD, k=20) == Generator(model, encoder).planner.plan(OLD, k=20)
    assert bundle.encoder.unknown_predicates(NEW[0]) and not encoder.unknown_predicates(NEW[0])
    scores = []
    for net, own_encoder in ((bundle.model, bundle.encoder), (model, encoder)):
        batch = collate([own_encoder.source(record)[0] for record in (*OLD, *NEW)])
        scores.append(net.transition_scores(batch, net.lattice_of(batch)))
    assert all(torch.equal(before, after) for before, after in zip(*scores, strict=True))


def test_old_texts_keep_their_likelihood(bundle: Bundle) -> None:
    """New words reduce only the probability of [UNK]."""
    encoder, model = larger(bundle)
    likelihoods = []
    for net, own_encoder in ((bundle.model, bundle.encoder), (model, encoder)):
        examples = list(training_examples(OLD, own_encoder, "none"))
        assert UNK not in {word for example in examples for fact in example.facts for word in fact}
        likelihoods.append(net.log_likelihood(collate(examples)))
    torch.testing.assert_close(*likelihoods, rtol=0, atol=1e-12)


def probabilities(model: JointModel) -> Tensor:
    hidden = torch.randn(7, model.config.width, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    return torch.softmax(model.word_logits(hidden), -1)


def test_new_words_and_unk_share_the_former_probability_of_unk(bundle: Bundle) -> None:
    encoder, model = larger(bundle)
    n_output = bundle.encoder.vocabulary.n_output
    before, after = probabilities(bundle.model), probabilities(model)
    known = [index for index in range(n_output) if index != UNK]
    torch.testing.assert_close(after[:, known], before[:, known], rtol=0, atol=1e-12)
    shares = after[:, [UNK, *range(n_output, encoder.vocabulary.n_output)]]
    torch.testing.assert_close(shares, (before[:, [UNK]] / shares.shape[1]).expand_as(shares), rtol=0, atol=1e-12)


def test_a_source_word_that_becomes_an_output_word_changes_only_the_normalisation(bundle: Bundle) -> None:
    encoder, model = larger(bundle, PROMOTED)
    old, new = bundle.encoder.vocabulary, encoder.vocabulary
    assert old.n_output <= old.words.index("price") and new.words.index("price") < new.n_output
    known = [index for index in range(old.n_output) if index != UNK]
    before, after = probabilities(bundle.model)[:, known], probabilities(model)[:, known]
    torch.testing.assert_close(after / after.sum(1, True), before / before.sum(1, True), rtol=0, atol=1e-12)
