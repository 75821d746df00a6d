"""The critic: predicts which triples of a record a text expresses, and which words of the text are hallucinated."""

import json
from collections.abc import Sequence
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from agggen.errors import BundleError
from agggen.files import save_tensors
from agggen.records import Record, Triple
from agggen.verification.critic.network import VERDICTS, CriticNetwork, NetworkConfig
from agggen.verification.critic.tokens import PUNCTUATION, approximate_length, collate, text_words
from agggen.verification.normal import Span
from agggen.verification.results import check_paired

FORMAT = "agggen-critic-2"
SHIPPED = Path(__file__).with_name("model")  # the critic that is part of agggen
_BATCH = 64

Verdict = Literal["said", "part", "contradicted", "missing"]


class CriticError(BundleError):
    """A critic cannot be loaded."""


@dataclass(frozen=True, slots=True)
class TripleVerdict:
    """How a text expresses one triple."""

    triple: Triple
    verdict: Verdict
    """The most probable of `VERDICTS`."""
    said: float
    """The probability that the text expresses the triple completely and correctly."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """The critic's verdicts and scores (in [0, 1]) of one text."""

    verdicts: tuple[TripleVerdict, ...]
    invented: tuple[Span, ...]
    """Characters ``[start, end)`` of hallucinated words, which no triple supports."""
    coverage: float
    """The fraction of the record that the text expresses."""
    correctness: float
    """The degree to which the record supports the text; 1 if nothing is hallucinated or contradicted."""


class Critic:
    """A network with its vocabulary; see `train_critic` and `load_critic`. Not thread-safe."""

    def __init__(self, network: CriticNetwork, vocabulary: Sequence[str], sources: dict[str, Any]) -> None:
        self.network, self.vocabulary, self.sources = network, tuple(vocabulary), sources
        self.ids = {word: index for index, word in enumerate(self.vocabulary, start=1)}
        self.temperature = 1.0  # divides the logits of the verdicts
        self.metrics: dict[str, float] = {}  # on dev texts with synthetic errors
        self.reliability: list[tuple[float, float, int]] = []  # of the probability of ``said``: `training.reliability`

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
            logits = self.network(inputs)
            verdicts, invented = (logits.verdicts / self.temperature).softmax(-1), logits.invented.sigmoid()
            for row, index in enumerate(batch):
                marks, words = inputs.marks(row), inputs.text(row)
                judgements[index] = _judgement(
                    records[index].triples, verdicts[row, marks], invented[row, words], *items[index][1:]
                )
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
            "reliability": self.reliability,
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
            TripleVerdict(triple, VERDICTS[int(row.argmax())], float(row[0]))  # type: ignore[arg-type]
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
    """Loads the critic in `folder`.

    Raises:
        CriticError: the folder contains no critic, or one in another format.
    """
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
        critic.reliability = [tuple(row) for row in description["reliability"]]
    except OSError as error:
        raise CriticError(f"no critic in {folder}: {error.strerror or error}") from error
    except KeyError as error:
        raise CriticError(f"{folder} is not a critic: critic.json lacks {error}") from error
    except (TypeError, ValueError, RuntimeError, SafetensorError) as error:
        raise CriticError(f"{folder} is not a critic: {error}") from error
    return critic
