"""The critic: predicts which triples of a record a text expresses, and which words of the text are hallucinated.

Its network is a Transformer over triples and text, with word similarities as an attention bias, since words unseen in
training must also attend to their mentions in the text. Each head adds to its attention logits a weighted sum of five
features of a word pair: cosine similarity of character n-grams; equality; equality of the words and of adjacent words;
same triple; one word in a triple and the other in the text.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import torch
import torch.nn.functional as F
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from agggen.errors import BundleError
from agggen.files import save_tensors
from agggen.records import Record, Triple
from agggen.verification.critic.tokens import (
    BUCKETS,
    LONGEST_TEXT,
    LONGEST_VALUE,
    PUNCTUATION,
    Inputs,
    Role,
    approximate_length,
    collate,
    text_words,
)
from agggen.verification.normal import Span
from agggen.verification.results import check_paired

FORMAT = "agggen-critic-2"
SHIPPED = Path(__file__).with_name("model")  # the critic that is part of agggen
Verdict = Literal["said", "part", "contradicted", "missing"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
"""The classes of triples: expressed correctly; in part; with a wrong value, predicate or subject; not at all."""
_BATCH = 64
_SIMILARITY_DIM, _PAIR_FEATURES = 64, 5


class CriticError(BundleError):
    """A critic cannot be loaded."""


@dataclass(frozen=True)
class NetworkConfig:
    """Sizes of the network, and its dropout."""

    width: int = 128
    layers: int = 4
    heads: int = 4
    feed_forward: int = 384
    dropout: float = 0.1


class CriticNetwork(nn.Module):
    """Classifies the triples and the words of the text of each sequence."""

    projection: Tensor
    """(BUCKETS, 64) fixed random vectors of n-grams; the sum over a word's n-grams represents the word."""

    def __init__(self, vocabulary_size: int, config: NetworkConfig) -> None:
        super().__init__()
        width = config.width
        self.config = config
        self.word = nn.Embedding(vocabulary_size + 1, width)
        self.gram = nn.EmbeddingBag(BUCKETS, width, mode="mean")
        self.role = nn.Embedding(len(Role), width)
        self.text_position = nn.Embedding(LONGEST_TEXT + 1, width)
        self.value_position = nn.Embedding(LONGEST_VALUE, width)
        self.match = nn.Linear(3, width)
        for embedding in (self.word, self.gram, self.role, self.text_position, self.value_position):
            nn.init.normal_(embedding.weight, std=0.3)
        self.layers = nn.ModuleList(_Layer(config) for _ in range(config.layers))
        self.norm = nn.LayerNorm(width)
        self.verdicts = nn.Linear(width, len(VERDICTS))
        self.invented = nn.Linear(width, 1)
        random = torch.Generator().manual_seed(7)
        self.register_buffer("projection", torch.randn(BUCKETS, _SIMILARITY_DIM, generator=random), persistent=False)

    def forward(self, inputs: Inputs) -> tuple[Tensor, Tensor]:
        """Logits of `VERDICTS` (B, L, 4) at the marks of triples, and (B, L) that words of the text are invented."""
        shape = inputs.words.shape
        in_text = inputs.roles == Role.TEXT
        pairs, support = self._pairs(inputs, in_text)
        positions = torch.where(
            in_text[..., None],
            self.text_position(inputs.positions),
            self.value_position(inputs.positions.clamp(max=LONGEST_VALUE - 1)),
        )
        hidden = self.word(inputs.words) + 2 * self.gram(inputs.grams, inputs.offsets).view(*shape, -1)
        hidden = hidden + self.role(inputs.roles) + positions + self.match(support)
        hidden = F.dropout(hidden, self.config.dropout, self.training)
        mask = inputs.padding[:, None, None, :].float() * -1e4
        for layer in self.layers:
            hidden = layer(hidden, pairs, mask)
        hidden = self.norm(hidden)
        return self.verdicts(hidden), self.invented(hidden)[..., 0]

    def _pairs(self, inputs: Inputs, in_text: Tensor) -> tuple[Tensor, Tensor]:
        """Features (B, L, L, 5) of word pairs, and (B, L, 3) the maxima over the other words of the first three."""
        vectors = F.embedding_bag(inputs.grams, self.projection, inputs.offsets, mode="sum").view(*in_text.shape, -1)
        vectors = F.normalize(vectors, dim=-1) * inputs.content[..., None]
        across = (in_text[:, :, None] != in_text[:, None, :]).float()
        similar = vectors @ vectors.transpose(1, 2) * across
        equal = (similar > 0.99).float()
        neighbour = torch.zeros_like(equal)
        neighbour[:, 1:, 1:] += equal[:, :-1, :-1]
        neighbour[:, :-1, :-1] += equal[:, 1:, 1:]
        neighbour = neighbour * equal
        same_triple = (
            (inputs.triples[:, :, None] == inputs.triples[:, None, :]) & (inputs.triples[:, :, None] >= 0)
        ).float()
        support = torch.stack([feature.amax(-1) for feature in (similar, equal, neighbour)], -1)
        return torch.stack([similar, equal, neighbour, same_triple, across], -1), support * inputs.content[..., None]


class _Layer(nn.Module):
    """Self-attention with pair features, then a feed-forward network, each after layer normalisation."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        width = config.width
        self.heads, self.dropout = config.heads, config.dropout
        self.attention_norm, self.feed_forward_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.projections, self.output = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.expand, self.contract = nn.Linear(width, config.feed_forward), nn.Linear(config.feed_forward, width)
        self.pair_weights = nn.Parameter(torch.randn(config.heads, _PAIR_FEATURES) * 0.5)

    def forward(self, hidden: Tensor, pairs: Tensor, mask: Tensor) -> Tensor:
        batch, length, width = hidden.shape
        projected = self.projections(self.attention_norm(hidden)).view(batch, length, 3, self.heads, -1)
        query, key, value = projected.permute(2, 0, 3, 1, 4)
        bias = (pairs @ self.pair_weights.T).permute(0, 3, 1, 2) + mask
        dropout = self.dropout if self.training else 0.0
        attended = F.scaled_dot_product_attention(query, key, value, attn_mask=bias, dropout_p=dropout)
        attended = self.output(attended.transpose(1, 2).reshape(batch, length, width))
        hidden = hidden + F.dropout(attended, dropout)
        expanded = F.gelu(self.expand(self.feed_forward_norm(hidden)))
        return hidden + F.dropout(self.contract(expanded), dropout)


@dataclass(frozen=True, slots=True)
class TripleVerdict:
    """How a text expresses one triple."""

    triple: Triple
    verdict: Verdict  # the most probable one
    said: float  # the probability that the text expresses the triple completely and correctly


@dataclass(frozen=True, slots=True)
class Judgement:
    """The critic's verdicts and scores (in [0, 1]) of one text."""

    verdicts: tuple[TripleVerdict, ...]
    invented: tuple[Span, ...]  # the characters ``[start, end)`` of hallucinated words, which no triple supports
    coverage: float  # the fraction of the record that the text expresses
    correctness: float  # the degree to which the record supports the text; 1 if nothing is hallucinated or contradicted


class Critic:
    """A network with its vocabulary; see `train_critic` and `load_critic`. Not thread-safe."""

    def __init__(self, network: CriticNetwork, vocabulary: Sequence[str], sources: dict[str, Any]) -> None:
        self.network, self.vocabulary, self.sources = network, tuple(vocabulary), sources
        self.ids = {word: index for index, word in enumerate(self.vocabulary, start=1)}
        self.temperature = 1.0  # divides the logits of the verdicts
        self.metrics: dict[str, float] = {}  # on dev texts with synthetic errors

    @torch.no_grad()
    def judge(self, records: Sequence[Record], texts: Sequence[str]) -> list[Judgement]:
        """The judgement of each text. Results do not depend on batch composition, up to floating-point rounding."""
        check_paired(records, texts)
        self.network.eval()
        items = [  # triples, words of the text, character spans of these words
            ([astuple(triple) for triple in record.triples], *text_words(text))
            for record, text in zip(records, texts, strict=True)
        ]
        judgements: dict[int, Judgement] = {}
        order = sorted(range(len(items)), key=lambda index: approximate_length(*items[index][:2]))
        for batch in (order[start : start + _BATCH] for start in range(0, len(order), _BATCH)):
            inputs = collate([items[index][:2] for index in batch], self.ids)
            verdict_logits, invented_logits = self.network(inputs)
            verdicts, invented = (verdict_logits / self.temperature).softmax(-1), invented_logits.sigmoid()
            for row, index in enumerate(batch):
                marks, words = inputs.marks(row), inputs.text(row)
                outputs = verdicts[row, marks], invented[row, words]
                judgements[index] = _judgement(records[index].triples, *outputs, *items[index][1:])
        return [judgements[index] for index in range(len(items))]

    def save(self, folder: Path | str) -> None:
        """Writes ``critic.json`` and ``weights.safetensors`` (16-bit floats) to a folder."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        weights = {name: tensor.half().contiguous() for name, tensor in self.network.state_dict().items()}
        save_tensors(folder / "weights.safetensors", weights)
        description = {
            "format": FORMAT,
            "network": asdict(self.network.config),
            "temperature": self.temperature,
            "sources": self.sources,
            "metrics": self.metrics,
            "vocabulary": list(self.vocabulary),
        }
        text = json.dumps(description, ensure_ascii=False, indent=1)
        (folder / "critic.json").write_text(text + "\n", encoding="utf-8")


def _judgement(
    triples: Sequence[Triple], verdicts: Tensor, invented: Tensor, words: list[str], spans: list[Span]
) -> Judgement:
    """The judgement of one text from probabilities: `verdicts` (triples, 4) and `invented` (words,)."""
    said, part, contradicted, _ = verdicts.unbind(-1)
    content = torch.tensor([word not in PUNCTUATION for word in words[: len(invented)]], dtype=torch.bool)
    hallucinated = invented[content]
    return Judgement(
        verdicts=tuple(
            TripleVerdict(triple, VERDICTS[int(row.argmax())], float(row[0]))
            for triple, row in zip(triples, verdicts, strict=True)
        ),
        invented=tuple(
            span
            for span, word, probability in zip(spans, words, invented.tolist(), strict=False)
            if probability > 0.5 and word not in PUNCTUATION
        ),
        coverage=float((said + part / 2 + contradicted / 4).mean()),
        correctness=float((1 - contradicted).mean() * torch.exp(-hallucinated.sum() / 8)),
    )


def load_critic(folder: Path | str = SHIPPED) -> Critic:
    """Loads the critic in `folder`; raises `CriticError` if it contains none, or one in another format."""
    folder = Path(folder)
    try:
        description = json.loads((folder / "critic.json").read_text(encoding="utf-8"))
        if description["format"] != FORMAT:
            raise ValueError(f"it has the format {description['format']!r}, this version reads {FORMAT!r}")
        network = CriticNetwork(len(description["vocabulary"]), NetworkConfig(**description["network"]))
        weights = load_file(str(folder / "weights.safetensors"))
        network.load_state_dict({name: tensor.float() for name, tensor in weights.items()})
        critic = Critic(network, description["vocabulary"], description["sources"])
        critic.temperature, critic.metrics = description["temperature"], description["metrics"]
        return critic
    except OSError as error:
        raise CriticError(f"no critic in {folder}: {error.strerror or error}") from error
    except KeyError as error:
        raise CriticError(f"{folder} is not a critic: critic.json lacks {error}") from error
    except (TypeError, ValueError, RuntimeError, SafetensorError) as error:
        raise CriticError(f"{folder} is not a critic: {error}") from error
