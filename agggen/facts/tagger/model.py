"""The network: two bidirectional LSTM layers per sentence, then a smaller one per predicate.

The features of a word are its lower-cased form, prefix, suffixes and shape, so that unseen words have features too.
Each feature has a table of the values in the training text; other values have the id 0.

Shapes: B sentences, T words, F frames (predicates of all sentences), E features per word, H hidden units, K role tags.
Rows are padded at the end. Padding does not affect words, since it is last in both directions: the backward LSTM reads
each row reversed within its length.
"""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import groupby

import numpy as np
import torch
from torch import Tensor, nn

TABLES = ("word", "prefix", "suffix2", "suffix3", "shape")
_DIGITS = re.compile(r"\d+")
MAX_DISTANCE = 12  # distances to the predicate are clipped to this many words


@lru_cache(maxsize=1 << 16)
def feature_values(word: str) -> tuple[str, ...]:
    """The feature values of a word, one per table of `TABLES`."""
    lower = _DIGITS.sub("0", unicodedata.normalize("NFC", word).lower())
    return lower, lower[:3], lower[-2:], lower[-3:], word_shape(word)


def word_shape(word: str) -> str:
    """The shape of a word, such as "Xx-X0": runs of capitals, small letters, digits as X, x, 0; up to 6 characters."""
    kinds = (("x" if c.islower() else "X") if c.isalpha() else "0" if c.isdigit() else c for c in word[:24])
    return "".join(kind for kind, _ in groupby(kinds))[:6]


def batch_by_length(lengths: Sequence[int], max_words: int) -> list[list[int]]:
    """Batches of the indices of non-empty sentences, longest first.

    A batch has at most `max_words` words, padding included, or is a single longer sentence.
    """
    order = sorted((index for index, length in enumerate(lengths) if length), key=lambda index: -lengths[index])
    batches: list[list[int]] = []
    width = 0
    for index in order:
        if batches and (len(batches[-1]) + 1) * width <= max_words:
            batches[-1].append(index)
        else:
            batches.append([index])
            width = lengths[index]
    return batches


class TaggerModel(nn.Module):
    """Scores of predicates in sentences and of role tags in frames.

    `tables` has the known values of each feature of `TABLES`; `widths` are the sizes of their embeddings, `role` is the
    size of the representation of a word and a predicate. The sentence layers have `hidden`, the frame layer has
    `role_hidden` units per direction.
    """

    def __init__(
        self,
        tables: Mapping[str, Sequence[str]],
        widths: Sequence[int],
        hidden: int,
        role: int,
        role_hidden: int,
        n_tags: int,
    ) -> None:
        super().__init__()
        self._id_of = [{value: i for i, value in enumerate(tables[name], start=1)} for name in TABLES]
        self.embeddings = nn.ModuleList(
            nn.Embedding(len(id_of) + 1, width) for id_of, width in zip(self._id_of, widths, strict=True)
        )
        self.first = BiLSTM(sum(widths), hidden)
        self.second = BiLSTM(2 * hidden, hidden)
        self.predicate = nn.Linear(2 * hidden, 1)
        self.word_side = nn.Linear(2 * hidden, role)
        self.predicate_side = nn.Linear(2 * hidden, role)
        self.product_side = nn.Linear(2 * hidden, role, bias=False)
        self.distance = nn.Embedding(2 * MAX_DISTANCE + 1, role)
        self.frame = BiLSTM(role, role_hidden)
        self.tag = nn.Linear(2 * role_hidden + role, n_tags)

    def collate(self, sentences: Sequence[Sequence[str]]) -> tuple[Tensor, Tensor]:
        """Feature ids (B, T, E) and lengths (B,) of non-empty sentences, which must be sorted by descending length."""
        lengths = [len(words) for words in sentences]
        ids = np.zeros((len(sentences), lengths[0], len(TABLES)), dtype=np.int64)
        for row, words in enumerate(sentences):
            for column, id_of in enumerate(self._id_of):
                ids[row, : len(words), column] = [id_of.get(feature_values(word)[column], 0) for word in words]
        return torch.from_numpy(ids), torch.tensor(lengths)

    def encode(self, features: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """States (B, T, 2H) and predicate logits (B, T) of sentences with feature ids (B, T, E) and lengths (B,)."""
        columns = [embedding(features[..., i]) for i, embedding in enumerate(self.embeddings)]
        reversal = _reversal(lengths, features.shape[1])
        states = self.second(self.first(torch.cat(columns, -1), reversal), reversal)
        return states, self.predicate(states).squeeze(-1)

    def roles(self, states: Tensor, lengths: Tensor, sentence: Tensor, predicate: Tensor) -> Tensor:
        """Tag logits (F, T, K) of frames; `sentence` and `predicate` (F,) index each frame's sentence and predicate."""
        words = self.word_side(states)[sentence]  # (F, T, role)
        predicates = self.predicate_side(states[sentence, predicate]).unsqueeze(1)  # (F, 1, role)
        products = self.product_side(states)[sentence] * predicates  # a low-rank bilinear term
        positions = torch.arange(states.shape[1], device=states.device)
        distance = (positions.unsqueeze(0) - predicate.unsqueeze(1)).clamp(-MAX_DISTANCE, MAX_DISTANCE) + MAX_DISTANCE
        relations = torch.relu(words + predicates + products + self.distance(distance))
        contexts = self.frame(relations, _reversal(lengths[sentence], states.shape[1]))
        return self.tag(torch.cat((contexts, relations), -1))


class BiLSTM(nn.Module):
    """A bidirectional LSTM over padded rows."""

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.forwards = nn.LSTM(inputs, hidden)
        self.backwards = nn.LSTM(inputs, hidden)

    def forward(self, inputs: Tensor, reversal: Tensor) -> Tensor:
        """(B, T, inputs) to (B, T, 2 hidden); `reversal` is the result (B * T,) of `_reversal`."""
        forward = self.forwards(inputs.transpose(0, 1))[0].transpose(0, 1)
        backward = self.backwards(_reorder(inputs, reversal).transpose(0, 1))[0].transpose(0, 1)
        return torch.cat((forward, _reorder(backward, reversal)), -1)


def _reversal(lengths: Tensor, width: int) -> Tensor:
    """Indices (B * `width`,) into flattened rows that reverse each row within its length."""
    positions = torch.arange(width, device=lengths.device).unsqueeze(0)
    lengths = lengths.unsqueeze(1)
    sources = torch.where(positions < lengths, lengths - 1 - positions, positions)
    return (sources + width * torch.arange(len(lengths), device=lengths.device).unsqueeze(1)).flatten()


def _reorder(rows: Tensor, order: Tensor) -> Tensor:
    return rows.flatten(0, 1).index_select(0, order).view(rows.shape)
