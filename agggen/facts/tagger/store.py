"""A tagger that is ready to use, and its folder on disk.

    tagger.json            format, sizes, roles, tables of word features, how it was trained, scores
    weights.safetensors    the parameters, as 16-bit floats
    manifest.json          SHA-256 of both

A file that differs from the manifest is refused.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from agggen.errors import BundleError
from agggen.facts.tagger.batches import collate_words, groups
from agggen.facts.tagger.decode import Role, best_frames, tags_of
from agggen.facts.tagger.features import Features
from agggen.facts.tagger.model import TaggerConfig, TaggerModel
from agggen.tensors import save_tensors

FORMAT = 1
FILES = ("tagger.json", "weights.safetensors")
BATCH_WORDS = 2048
"""Words of a batch, padding counted."""


@dataclass(frozen=True)
class RoleTagger:
    """A trained tagger of predicates and their roles."""

    model: TaggerModel
    features: Features
    role_names: tuple[str, ...]
    metrics: Mapping[str, float] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)

    def tag(self, sentences: Sequence[Sequence[str]]) -> list[tuple[Role, ...]]:
        """The frames of each sentence, given as its words, in the order of their predicates."""
        lengths = [len(words) for words in sentences]
        found: list[tuple[Role, ...]] = [()] * len(sentences)
        filled = [index for index, length in enumerate(lengths) if length]
        for group in groups([lengths[index] for index in filled], BATCH_WORDS):
            chosen = [filled[position] for position in group]
            for index, roles in zip(chosen, self._tag_batch([sentences[index] for index in chosen]), strict=True):
                found[index] = roles
        return found

    @torch.inference_mode()
    def _tag_batch(self, sentences: Sequence[Sequence[str]]) -> list[tuple[Role, ...]]:
        words = collate_words(sentences, self.features)
        read = self.model.eval().read(words.features, words.lengths)
        inside = torch.arange(words.features.shape[1]) < words.lengths.unsqueeze(1)
        sentence, predicate = torch.nonzero((read.predicates > 0) & inside, as_tuple=True)
        found: list[list[Role]] = [[] for _ in sentences]
        if len(sentence):
            scores = self.model.roles(read.states, words.lengths, sentence, predicate)
            lengths = words.lengths[sentence]
            names = tags_of(self.role_names)
            paths = best_frames(scores.numpy(), predicate.numpy(), lengths.numpy(), self.role_names)
            for row, place, path in zip(sentence.tolist(), predicate.tolist(), paths, strict=True):
                found[row].append(Role(place, tuple(names[number] for number in path)))
        return [tuple(roles) for roles in found]


def save_tagger(path: Path | str, tagger: RoleTagger) -> str:
    """Writes the tagger's files into the folder `path` (made if need be; other files there stay); its fingerprint."""
    path = Path(path)
    path.mkdir(parents=True, exist_ok=True)
    weights = {name: value.detach().half().contiguous() for name, value in tagger.model.state_dict().items()}
    save_tensors(path / "weights.safetensors", weights)
    (path / "weights.safetensors").chmod(0o644)  # safetensors lets nobody else read it
    described = {
        "format": FORMAT,
        "model": asdict(tagger.model.config),
        "roles": list(tagger.role_names),
        "training": dict(tagger.training),
        "metrics": dict(tagger.metrics),
        "features": tagger.features.to_json(),
    }
    _write_json(path / "tagger.json", described)
    _write_json(path / "manifest.json", {name: _sha256(path / name) for name in FILES})
    return _sha256(path / "manifest.json")


def tagger_fingerprint(path: Path | str) -> str:
    """SHA-256 of the manifest, after the check that all files are as it says: it names the tagger's exact content.

    Raises:
        BundleError: a file is missing or was changed.
    """
    path = Path(path)
    manifest = _read_json(path / "manifest.json")
    if not isinstance(manifest, dict):
        raise BundleError(f"{path / 'manifest.json'} must hold an object of file names and hashes")
    for name in FILES:
        if not (path / name).is_file():
            raise BundleError(f"the role tagger {path} is incomplete: {name} is missing")
        if manifest.get(name) != _sha256(path / name):
            raise BundleError(f"{path / name} is not what manifest.json says: one of them was changed; it is refused")
    return _sha256(path / "manifest.json")


def load_tagger(path: Path | str) -> RoleTagger:
    """Reads a tagger's folder after checking its hashes.

    Raises:
        BundleError: a file is missing, was changed, does not fit the others, or is of another format.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    path = Path(path)
    tagger_fingerprint(path)
    described = _read_json(path / "tagger.json")
    if described.get("format") != FORMAT:
        raise BundleError(f"{path} has tagger format {described.get('format')}; this version reads {FORMAT}")
    try:
        sizes = dict(described["model"])
        config = TaggerConfig(**(sizes | {"features": tuple(sizes["features"])}))
        features = Features(described["features"])
        roles = tuple(described["roles"])
        model = TaggerModel(config, features.sizes, len(tags_of(roles)))
        weights = load_file(path / "weights.safetensors")
        model.load_state_dict({name: value.float() for name, value in weights.items()})
        return RoleTagger(model.eval(), features, roles, described["metrics"], described["training"])
    except (KeyError, TypeError, RuntimeError, SafetensorError) as error:
        raise BundleError(f"the files of the role tagger {path} do not fit each other: {error}") from error


def _write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, sort_keys=True) + "\n", encoding="utf-8")


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BundleError(f"{path} cannot be read ({error.strerror}): the role tagger is incomplete") from error
    except (ValueError, RecursionError) as error:
        raise BundleError(f"{path} is not valid JSON: {error}") from error


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
