"""Byte-pair merges over tokens (Sennrich et al., ACL 2016): learning and applying them.

A token's symbols are its characters; a joiner belongs to the first or last of them. Every symbol but a token's last
carries the marker ``@@``. No other token can end in it, since the tokeniser makes ``@`` a piece on its own.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from itertools import pairwise

from agggen.text.tokenise import JOINER

MARKER = "@@"
Merge = tuple[str, str]


def symbols(token: str) -> list[str]:
    """The smallest pieces of a token: ``￭kg`` -> ``￭k@@ g``."""
    body = token.strip(JOINER)
    if len(body) < 2:
        return [token]
    first, last = token.index(body[0]), token.rindex(body[-1])
    return [f"{token[: first + 1]}{MARKER}", *(f"{char}{MARKER}" for char in body[1:-1]), token[last:]]


def join(left: str, right: str) -> str:
    """The piece that two neighbouring pieces make."""
    return left.removesuffix(MARKER) + right


def learn_merges(counts: Mapping[str, int], merges: int, min_count: int = 2) -> list[Merge]:
    """The `merges` most frequent merges, in order, of tokens with their counts; fewer if pairs get rarer than
    `min_count`. Equal counts are settled by the pair's spelling, so the result is the same on every run."""
    words = [symbols(token) for token in counts]
    weights = list(counts.values())
    pair_counts: Counter[Merge] = Counter()
    homes: defaultdict[Merge, set[int]] = defaultdict(set)
    for index, word in enumerate(words):
        for pair in pairwise(word):
            pair_counts[pair] += weights[index]
            homes[pair].add(index)

    learned: list[Merge] = []
    while len(learned) < merges and pair_counts:
        best = max(pair_counts, key=lambda pair: (pair_counts[pair], pair))
        if pair_counts[best] < min_count:
            break
        learned.append(best)
        # Only the words that hold the pair change, so only their pairs are counted anew.
        for index in sorted(homes[best]):
            for pair in pairwise(words[index]):
                pair_counts[pair] -= weights[index]
                if pair_counts[pair] <= 0:
                    del pair_counts[pair]
                homes[pair].discard(index)
            words[index] = _merge(words[index], best)
            for pair in pairwise(words[index]):
                pair_counts[pair] += weights[index]
                homes[pair].add(index)
    return learned


def segment(token: str, ranks: Mapping[Merge, int]) -> list[str]:
    """The pieces of a token after all merges that apply, earliest learned first; `ranks` is each merge's number."""
    word = symbols(token)
    while len(word) > 1:
        best = min(pairwise(word), key=lambda pair: ranks.get(pair, len(ranks)))
        if best not in ranks:
            break
        word = _merge(word, best)
    return word


def restore(pieces: Iterable[str]) -> list[str]:
    """Tokens from pieces. A word that is left unfinished, as a model may write it, ends where it was left."""
    tokens: list[str] = []
    open_word = ""
    for piece in pieces:
        if open_word and piece.startswith(JOINER):
            tokens.append(open_word)
            open_word = ""
        open_word += piece.removesuffix(MARKER)
        if not piece.endswith(MARKER):
            tokens.append(open_word)
            open_word = ""
    return [*tokens, open_word] if open_word else tokens


def _merge(word: list[str], pair: Merge) -> list[str]:
    merged: list[str] = []
    index = 0
    while index < len(word):
        if index + 1 < len(word) and (word[index], word[index + 1]) == pair:
            merged.append(join(*pair))
            index += 2
        else:
            merged.append(word[index])
            index += 1
    return merged
