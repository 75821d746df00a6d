"""A trained tagger, its folder, and frames by the shipped tagger, at several hundred sentences per second.

    tagger.json            sizes, roles, tables of word features, training settings, scores
    weights.safetensors    the parameters, as 16-bit floats
    manifest.json          SHA-256 of these two files

Loading fails if a file does not match its hash in the manifest.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from agggen.errors import BundleError
from agggen.facts.frames import Frame, Tokens, frame_of_tags
from agggen.facts.tagger.decode import Tags, best_frames, tags_of
from agggen.facts.tagger.model import TaggerModel, batch_by_length
from agggen.files import read_json, sha256_of

FILES = ("tagger.json", "weights.safetensors")
BATCH_WORDS = 2048  # padding included
TAGGER_FOLDER = Path(__file__).parents[1] / "tagger_model"  # trained on PropBank EWT, see its README; CC BY-SA 4.0


@dataclass(frozen=True)
class RoleTagger:
    """A trained tagger of predicates and their roles."""

    model: TaggerModel
    role_names: tuple[str, ...]

    def tag(self, sentences: Sequence[Sequence[str]]) -> list[tuple[Tags, ...]]:
        """The frames of each sentence (a sequence of words), in the order of their predicates."""
        frames: list[tuple[Tags, ...]] = [()] * len(sentences)
        for batch in batch_by_length(list(map(len, sentences)), BATCH_WORDS):
            tags_of_batch = self._tag_batch([sentences[index] for index in batch])
            for index, sentence_frames in zip(batch, tags_of_batch, strict=True):
                frames[index] = sentence_frames
        return frames

    @torch.inference_mode()
    def _tag_batch(self, sentences: Sequence[Sequence[str]]) -> list[tuple[Tags, ...]]:
        features, lengths = self.model.collate(sentences)
        states, predicates = self.model.encode(features, lengths)
        is_word = torch.arange(features.shape[1]) < lengths.unsqueeze(1)
        sentence, predicate = torch.nonzero((predicates > 0) & is_word, as_tuple=True)
        frames: list[list[Tags]] = [[] for _ in sentences]
        if len(sentence):
            scores = self.model.roles(states, lengths, sentence, predicate)
            tag_names = tags_of(self.role_names)
            paths = best_frames(scores.numpy(), predicate.numpy(), lengths[sentence].numpy(), self.role_names)
            for row, path in zip(sentence.tolist(), paths, strict=True):
                frames[row].append(tuple(tag_names[number] for number in path))
        return [tuple(sentence_frames) for sentence_frames in frames]


def tagger_fingerprint(path: Path | str) -> str:
    """SHA-256 of the manifest, which identifies the tagger; BundleError if a file is missing or was modified."""
    path = Path(path)
    for name in ("manifest.json", *FILES):
        if not (path / name).is_file():
            raise BundleError(f"the role tagger {path} is incomplete: {name} is missing")
    manifest = read_json(path / "manifest.json")
    for name in FILES:
        if manifest.get(name) != sha256_of(path / name):
            raise BundleError(f"{path / name} does not match its hash in manifest.json: one of the two was modified")
    return sha256_of(path / "manifest.json")


def load_tagger(path: Path | str) -> RoleTagger:
    """Reads a tagger; BundleError if its files are missing, modified or inconsistent."""
    path = Path(path)
    tagger_fingerprint(path)
    description = read_json(path / "tagger.json")
    try:
        roles, sizes = tuple(description["roles"]), description["model"]
        layer_sizes = sizes["hidden"], sizes["role"], sizes["role_hidden"]
        model = TaggerModel(description["features"], sizes["features"], *layer_sizes, len(tags_of(roles)))
        weights = load_file(path / "weights.safetensors")
        model.load_state_dict({name: value.float() for name, value in weights.items()})
        return RoleTagger(model.eval(), roles)
    except (KeyError, TypeError, RuntimeError, SafetensorError) as error:
        raise BundleError(f"the files of the role tagger {path} are inconsistent: {error}") from error


_cached_tagger = cache(load_tagger)


class EmbeddedFrames:
    """A frame source with the shipped tagger, which is loaded on first use, once per process."""

    name = "embedded"

    @cached_property
    def fingerprint(self) -> str:
        return f"{self.name}-{tagger_fingerprint(TAGGER_FOLDER)[:16]}"

    def frames(self, sentences: Sequence[Tokens]) -> list[tuple[Frame, ...]]:
        """The frames of each sentence, in the order of their predicates; faster with many sentences per call."""
        tags_of_sentences = _cached_tagger(TAGGER_FOLDER).tag([sentence.words for sentence in sentences])
        return [tuple(filter(None, map(frame_of_tags, tags_of_frames))) for tags_of_frames in tags_of_sentences]
