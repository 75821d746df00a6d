"""A trained tagger and its folder.

    tagger.json            format, sizes, roles, tables of word features, how it was trained, scores
    weights.safetensors    the parameters, as 16-bit floats
    manifest.json          SHA-256 of both

A file that differs from the manifest is an error.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from agggen.errors import BundleError
from agggen.facts.tagger.decode import Role, best_frames, tags_of
from agggen.facts.tagger.features import Features, collate_words, groups
from agggen.facts.tagger.model import TaggerConfig, TaggerModel

FORMAT = 1
FILES = ("tagger.json", "weights.safetensors")
BATCH_WORDS = 2048
"""Words per batch, padding included."""


@dataclass(frozen=True)
class RoleTagger:
    """A trained tagger of predicates and their roles."""

    model: TaggerModel
    features: Features
    role_names: tuple[str, ...]

    def tag(self, sentences: Sequence[Sequence[str]]) -> list[tuple[Role, ...]]:
        """The frames of each sentence (its words), in the order of their predicates."""
        frames: list[tuple[Role, ...]] = [()] * len(sentences)
        filled = [index for index, words in enumerate(sentences) if words]
        for group in groups([len(sentences[index]) for index in filled], BATCH_WORDS):
            batch = [filled[position] for position in group]
            for index, roles in zip(batch, self._tag_batch([sentences[index] for index in batch]), strict=True):
                frames[index] = roles
        return frames

    @torch.inference_mode()
    def _tag_batch(self, sentences: Sequence[Sequence[str]]) -> list[tuple[Role, ...]]:
        words = collate_words(sentences, self.features)
        read = self.model.eval().read(words.features, words.lengths)
        inside = torch.arange(words.features.shape[1]) < words.lengths.unsqueeze(1)
        sentence, predicate = torch.nonzero((read.predicates > 0) & inside, as_tuple=True)
        frames: list[list[Role]] = [[] for _ in sentences]
        if len(sentence):
            scores = self.model.roles(read.states, words.lengths, sentence, predicate)
            lengths = words.lengths[sentence]
            names = tags_of(self.role_names)
            paths = best_frames(scores.numpy(), predicate.numpy(), lengths.numpy(), self.role_names)
            for row, place, path in zip(sentence.tolist(), predicate.tolist(), paths, strict=True):
                frames[row].append(Role(place, tuple(names[number] for number in path)))
        return [tuple(roles) for roles in frames]


def tagger_fingerprint(path: Path | str) -> str:
    """SHA-256 of the manifest, which identifies the tagger, after the check of its files.

    Raises:
        BundleError: a file is missing or was modified.
    """
    path = Path(path)
    manifest = _read_json(path / "manifest.json")
    if not isinstance(manifest, dict):
        raise BundleError(f"{path / 'manifest.json'} must be an object of file names and hashes")
    for name in FILES:
        if not (path / name).is_file():
            raise BundleError(f"the role tagger {path} is incomplete: {name} is missing")
        if manifest.get(name) != _sha256(path / name):
            raise BundleError(f"{path / name} is not what manifest.json says: one of them was changed; it is refused")
    return _sha256(path / "manifest.json")


def load_tagger(path: Path | str) -> RoleTagger:
    """Reads a tagger after the check of hashes.

    Raises:
        BundleError: a file is missing, was modified, does not fit the others, or has another format.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    path = Path(path)
    tagger_fingerprint(path)
    description = _read_json(path / "tagger.json")
    if description.get("format") != FORMAT:
        raise BundleError(f"{path} has tagger format {description.get('format')}; this version reads {FORMAT}")
    try:
        sizes = dict(description["model"])
        config = TaggerConfig(**(sizes | {"features": tuple(sizes["features"])}))
        features = Features(description["features"])
        roles = tuple(description["roles"])
        model = TaggerModel(config, features.sizes, len(tags_of(roles)))
        weights = load_file(path / "weights.safetensors")
        model.load_state_dict({name: value.float() for name, value in weights.items()})
        return RoleTagger(model.eval(), features, roles)
    except (KeyError, TypeError, RuntimeError, SafetensorError) as error:
        raise BundleError(f"the files of the role tagger {path} do not fit each other: {error}") from error


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BundleError(f"{path} cannot be read ({error.strerror}): the role tagger is incomplete") from error
    except (ValueError, RecursionError) as error:
        raise BundleError(f"{path} is not valid JSON: {error}") from error


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
