"""Byte-pair merges against a plain re-implementation, and spelling words apart and together."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agggen.text import tokenise
from agggen.text.subword import Merge, join, learn_merges, restore, segment, symbols

TOKENS = st.text(st.sampled_from("abc￭@'12(é"), max_size=30).flatmap(
    lambda text: st.just([token.text for token in tokenise(text, normalise=True)])
)


def learn_slowly(counts: dict[str, int], merges: int, min_count: int) -> list[Merge]:
    """Counts every pair anew for each merge."""
    words = {token: symbols(token) for token in counts}
    learned: list[Merge] = []
    for _ in range(merges):
        pairs: Counter[Merge] = Counter()
        for token, word in words.items():
            for pair in pairwise(word):
                pairs[pair] += counts[token]
        if not pairs:
            break
        best = max(pairs, key=lambda pair: (pairs[pair], pair))
        if pairs[best] < min_count:
            break
        learned.append(best)
        for word in words.values():
            index = 0
            while index + 1 < len(word):
                if (word[index], word[index + 1]) == best:
                    word[index : index + 2] = [join(*best)]
                index += 1
    return learned


@pytest.mark.parametrize(
    ("token", "pieces"),
    [
        ("a", ["a"]),
        ("￭,￭", ["￭,￭"]),
        ("ab", ["a@@", "b"]),
        ("￭kg", ["￭k@@", "g"]),
        ("￭'s￭", ["￭'@@", "s￭"]),
        ("aa￭", ["a@@", "a￭"]),
    ],
)
def test_symbols(token: str, pieces: list[str]) -> None:
    assert symbols(token) == pieces
    assert restore(pieces) == [token]


@given(
    st.dictionaries(st.text("abc", min_size=1, max_size=8), st.integers(1, 9), max_size=8),
    st.integers(0, 12),
    st.integers(1, 4),
)
def test_incremental_counts_learn_what_full_counts_learn(counts: dict[str, int], merges: int, min_count: int) -> None:
    assert learn_merges(counts, merges, min_count) == learn_slowly(counts, merges, min_count)


@given(st.lists(TOKENS, max_size=4), TOKENS, st.integers(0, 30))
def test_pieces_restore_the_tokens(corpus: list[list[str]], tokens: list[str], merges: int) -> None:
    counts = Counter(token for text in corpus for token in text)
    ranks = {merge: rank for rank, merge in enumerate(learn_merges(counts, merges, 1))}
    assert restore(piece for token in tokens for piece in segment(token, ranks)) == tokens


def test_the_most_frequent_pair_is_merged_first_and_ties_fall_by_spelling() -> None:
    assert learn_merges({"abc": 5, "xbc": 3, "q": 9}, 2) == [("b@@", "c"), ("a@@", "bc")]
    assert learn_merges({"ab": 2, "cd": 2}, 1) == [("c@@", "d")]


def test_merges_apply_in_the_order_they_were_learned() -> None:
    assert segment("abab", {("a@@", "b"): 0, ("a@@", "b@@"): 1, ("b@@", "a@@"): 2}) == ["ab@@", "ab"]
    assert segment("abab", {("b@@", "a@@"): 0, ("a@@", "b"): 1}) == ["a@@", "ba@@", "b"]


@pytest.mark.parametrize(
    ("pieces", "tokens"),
    [(["a@@", "￭,", "b"], ["a", "￭,", "b"]), (["b", "a@@"], ["b", "a"]), (["a@@", "b", "c"], ["ab", "c"]), ([], [])],
)
def test_words_left_unfinished_end_where_they_were_left(pieces: list[str], tokens: list[str]) -> None:
    assert restore(pieces) == tokens
