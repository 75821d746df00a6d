"""The candidates for the next word, compared with the enumerated distribution."""

import math
from dataclasses import replace

import pytest
import torch

from agggen.model.batch import CLS, END, FACT, LAST, PAD, SEP, UNK, collate
from agggen.model.lattice import IMPOSSIBLE
from tests.unit.model.enumeration import OTHER_WORDS, TokenwiseEmission, random_example, tiny_model


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


@pytest.mark.parametrize("copy", [True, False])
@pytest.mark.parametrize("k", [1, 3, 99])
@pytest.mark.parametrize("blocked", [[], [9], [9, 11, 25, 40]])
def test_candidates_are_the_most_probable_words_and_all_source_words(copy: bool, k: int, blocked: list[int]) -> None:
    model, group = tiny_model(copy=copy), frozenset({0, 2})
    example = random_example(1, 3, [2, 4, 1])
    example = replace(example, source=(*example.source[:-1], example.source[1]))  # a word that occurs twice
    hidden = torch.randn(1, 2, model.config.width, dtype=torch.float64)
    inputs = torch.tensor([[LAST, example.source[1]]])
    visible = torch.tensor([[t in group for t in example.triple]])
    banned = torch.tensor([[[PAD] * len(blocked), blocked]]).long()  # no source words after the first
    with torch.no_grad():
        log_p, words, end = model.next_words(hidden, inputs, model.encode(collate([example])), visible, banned, k)
        for query, forbidden in enumerate(([], blocked)):
            expected = TokenwiseEmission(model, example).next_token(hidden[0, query], [int(inputs[0, query])], group)
            assert sum(p for word, p in expected.items() if word != OTHER_WORDS) == pytest.approx(1, abs=1e-12)
            assert end[0, query].item() == pytest.approx(math.log(expected.pop(END)), abs=1e-9)
            candidates = [
                (word, p)
                for word, p in zip(words[0, query].tolist(), log_p[0, query].tolist(), strict=True)
                if p > IMPOSSIBLE / 2
            ]
            assert len(dict(candidates)) == len(candidates), "a word is repeated"
            for word, p in candidates:
                assert p == pytest.approx(math.log(expected[word]), abs=1e-9)
            sayable = {w for w in expected if w not in (OTHER_WORDS, PAD, UNK, CLS, SEP, FACT, LAST, *forbidden)}
            of_source = sayable & set(example.source)
            others = sorted(sayable - of_source, key=lambda word: -expected[word])[:k]
            assert set(dict(candidates)) == of_source | set(others)
