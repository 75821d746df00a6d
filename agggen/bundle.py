"""A bundle, the stored form of a model: a folder of weights, vocabulary, configuration and a manifest of hashes.

    bundle.json            format, configuration, metrics, fingerprints of the sources
    weights.safetensors    the model's parameters
    vocabulary.json        words
    predicates.json        the predicate table
    lexicon.json           wordings learned from the training texts
    manifest.json          size and SHA-256 of each file

Loading an untrusted bundle cannot run code, since it contains no pickles. A bundle may name an AllenNLP archive, which
can run code and is only loaded with explicit permission. A file that does not match the manifest is an error.
"""

import copy
import json
import math
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file

from agggen.encoding import Encoder
from agggen.errors import BundleError, ConfigError
from agggen.facts import FactSegmenter
from agggen.facts.config import AllenNLPConfig, SegmenterConfig, segmenter
from agggen.files import read_json, save_tensors, sha256_of
from agggen.generation.config import BeamConfig
from agggen.generation.generator import Generator, InferenceConfig
from agggen.model.joint import JointModel, ModelConfig
from agggen.text import Vocabulary
from agggen.verification.lexicon import Lexicon

FORMAT = 3
# The folders of the bundles that agggen ships, by name; the names are valid addresses. `make bundle` trains them.
SHIPPED = {"elements": Path(__file__).parent / "bundles" / "elements"}
T = TypeVar("T")
_REQUIRED_KEYS = {"model", "inference", "facts", "segmenter", "max_group_size", "config", "metrics", "sources"}
_LEXICON = "lexicon.json"
FILES = ("bundle.json", "weights.safetensors", "vocabulary.json", "predicates.json", _LEXICON)
CRITIC_FILES = ("critic.json", "weights.safetensors")  # a critic is stored and registered like a bundle


@dataclass(frozen=True)
class Bundle:
    """A model with its encoder, settings and provenance."""

    model: JointModel
    encoder: Encoder
    inference: InferenceConfig
    config: Mapping[str, Any] = field(default_factory=dict)  # the resolved configuration of the training run
    metrics: Mapping[str, float] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)  # fingerprints: corpus splits, segmenter, vocabulary
    facts: str = "embedded"  # the source of the training facts
    segmenter: SegmenterConfig = field(default_factory=SegmenterConfig)  # for texts without facts
    lexicon: Lexicon = field(default_factory=Lexicon)  # learned from the training texts

    def generator(self, device: str = "cpu") -> Generator:
        """A generator with the bundle's inference settings, and its model or, on another device, a copy of it."""
        model, torch_device = self.model, device_of(device)
        if torch_device != next(model.parameters()).device:
            model = copy.deepcopy(model).to(torch_device)
        return Generator(model, self.encoder, self.inference, self.lexicon)

    def fact_segmenter(self, run_archives: bool = False) -> FactSegmenter:
        """The segmenter for texts without facts; ConfigError if it is an AllenNLP archive and not `run_archives`."""
        if self.segmenter.source == "allennlp" and not run_archives:
            archive = self.segmenter.allennlp.archive if self.segmenter.allennlp else "none"
            raise ConfigError(
                f"this bundle segments texts with the AllenNLP archive {archive}; loading it runs its author's code, "
                "so allow it only if you trust the author: --run-archives or run_archives=True"
            )
        return segmenter(self.segmenter)


def device_of(name: str, setting: str = "device") -> torch.device:
    """The device ``cpu``, ``cuda``, ``cuda:1``, ..., or ``auto``: a GPU if available; ConfigError if unavailable."""
    chosen = ("cuda" if torch.cuda.is_available() else "cpu") if name == "auto" else name
    try:
        return torch.empty(0, device=chosen).device
    except (RuntimeError, AssertionError) as error:
        raise ConfigError(f"{setting} {name!r} is not usable here: {error}") from error


def save_bundle(path: Path | str, bundle: Bundle) -> str:
    """Writes the bundle to the new folder `path` atomically, and returns its fingerprint; BundleError if it exists."""
    path = Path(path)
    if path.exists():
        raise BundleError(f"{path} exists already; a bundle is never overwritten: choose another folder or remove it")
    path.parent.mkdir(parents=True, exist_ok=True)
    description = {
        "format": FORMAT,
        "model": asdict(bundle.model.config),
        "inference": asdict(bundle.inference),
        "facts": bundle.facts,
        "segmenter": asdict(bundle.segmenter),
        "max_group_size": bundle.encoder.max_group_size,
        "config": dict(bundle.config),
        "metrics": dict(bundle.metrics),
        "sources": dict(bundle.sources),
    }
    staging = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
    try:
        weights = {name: tensor.detach().cpu().contiguous() for name, tensor in bundle.model.state_dict().items()}
        save_tensors(staging / "weights.safetensors", weights)
        _write_json(staging / "bundle.json", description)
        _write_json(staging / "vocabulary.json", bundle.encoder.vocabulary.to_json())
        _write_json(staging / "predicates.json", list(bundle.encoder.predicates))
        _write_json(staging / _LEXICON, bundle.lexicon.as_dict())
        write_manifest(staging, FILES)
        staging.chmod(0o755)
        os.rename(staging, path)
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        raise
    return fingerprint(path)


def write_manifest(path: Path, names: Sequence[str]) -> None:
    """Writes ``manifest.json`` with the size and SHA-256 of the files `names` in the folder."""
    _write_json(path / "manifest.json", {name: _manifest_entry(path / name) for name in names})


def files_of(manifest: object) -> tuple[str, ...]:
    """The files that a folder with this manifest must have: `CRITIC_FILES` for a critic, else `FILES`."""
    return CRITIC_FILES if isinstance(manifest, Mapping) and CRITIC_FILES[0] in manifest else FILES


def fingerprint(path: Path | str) -> str:
    """SHA-256 of the bundle's manifest, which identifies its content."""
    return sha256_of(Path(path) / "manifest.json")


def resolve_shipped(address: str) -> str:
    """The folder of the shipped bundle with the name `address`; any other address is returned unchanged.

    A local folder with this name that contains a bundle or a run takes precedence.
    """
    is_folder = (Path(address) / "manifest.json").is_file() or (Path(address) / "bundle" / "manifest.json").is_file()
    return address if address not in SHIPPED or is_folder else str(SHIPPED[address])


def check_bundle(path: Path | str) -> None:
    """Raises BundleError, naming the first file that is missing or does not match the manifest."""
    path = Path(path)
    if not path.is_dir():
        raise BundleError(f"no bundle at {path}; `agggen train` writes one and prints its path")
    if not (path / "manifest.json").is_file():
        raise BundleError(f"{path} is not a bundle: it has no manifest.json")
    manifest = read_json(path / "manifest.json")
    if not isinstance(manifest, dict) or _as_json(manifest).encode() != (path / "manifest.json").read_bytes():
        raise BundleError(f"{path / 'manifest.json'} was changed after the bundle was saved")
    names = files_of(manifest)
    if unknown := sorted(set(manifest) - set(names)):
        raise BundleError(f"{path / 'manifest.json'} was changed: {unknown[0]!r} is not a file of a bundle")
    for name in names:
        file = path / name
        if not file.is_file():
            raise BundleError(f"the bundle {path} is incomplete: {name} is missing")
        if manifest.get(name) != _manifest_entry(file):
            problem = f"{file} does not match {path / 'manifest.json'} (size or SHA-256 differ)"
            raise BundleError(f"{problem}: one of the two was changed after the bundle was saved")


def describe_bundle(path: Path | str) -> dict[str, Any]:
    """The content of bundle.json, after `check_bundle`; BundleError for a critic and for another format version."""
    check_bundle(path)
    if not (Path(path) / "bundle.json").is_file():
        raise BundleError(f"{path} is a critic, not a model that generates texts; give a bundle of `agggen train`")
    description = read_json(Path(path) / "bundle.json")
    version = description.get("format") if isinstance(description, dict) else None
    if version != FORMAT:
        raise BundleError(f"{path} has bundle format {version}; this version reads {FORMAT}")
    return dict(description)


def load_bundle(path: Path | str) -> Bundle:
    """Reads a bundle after `check_bundle`; BundleError if its files are inconsistent with each other."""
    path = Path(path)
    description = describe_bundle(path)
    if missing := sorted(_REQUIRED_KEYS - set(description)):
        raise BundleError(f"{path}/bundle.json lacks {missing[0]!r}")
    vocabulary = Vocabulary.from_json(read_json(path / "vocabulary.json"))
    encoder = Encoder(vocabulary, tuple(read_json(path / "predicates.json")), description["max_group_size"])
    config = _from_json(ModelConfig, description["model"], path)
    inference = dict(description["inference"])
    inference["beam"] = _from_json(BeamConfig, inference["beam"], path)
    segmenter_values = dict(description["segmenter"])
    segmenter_values.pop("precomputed", None)  # a removed setting, null in the shipped bundle
    if segmenter_values["allennlp"] is not None:
        segmenter_values["allennlp"] = _from_json(AllenNLPConfig, segmenter_values["allennlp"], path)
    _check_sizes(config, path)
    with torch.random.fork_rng(devices=[]):  # loading must not change the caller's random state
        model = JointModel(config, len(vocabulary), vocabulary.n_output, len(encoder.predicates))
    try:
        model.load_state_dict(load_file(path / "weights.safetensors"))
    except (RuntimeError, SafetensorError) as error:
        raise BundleError(f"{path}/weights.safetensors does not fit the bundle's configuration: {error}") from error
    return Bundle(
        model.eval(),
        encoder,
        _from_json(InferenceConfig, inference, path),
        description["config"],
        description["metrics"],
        description["sources"],
        description["facts"],
        _from_json(SegmenterConfig, segmenter_values, path),
        Lexicon.read(path / _LEXICON),
    )


def _from_json(section: type[T], values: Mapping[str, Any], path: Path) -> T:
    """The dataclass `section` with `values` from the bundle at `path`; raises BundleError for an unknown key."""
    known_keys = {f.name for f in fields(section)}  # type: ignore[arg-type]
    if unknown := sorted(set(values) - known_keys):
        problem = f"which is not a key of this version's {section.__name__}"
        raise BundleError(f"{path}/bundle.json has {unknown[0]!r}, {problem}")
    return section(**values)


def _check_sizes(config: ModelConfig, path: Path) -> None:
    """Raises BundleError, before a model is allocated, if the file has fewer weights than its configuration needs."""
    try:
        with safe_open(path / "weights.safetensors", framework="pt") as file:
            n_stored = sum(math.prod(file.get_slice(name).get_shape()) for name in file.keys())  # noqa: SIM118 (not a dict)
    except SafetensorError as error:
        raise BundleError(f"{path}/weights.safetensors cannot be read: {error}") from error
    per_layer = config.width * (config.width + config.feed_forward)
    n_required = config.layers * per_layer + config.predicate_dim + config.max_group_size
    if n_required > n_stored:
        raise BundleError(
            f"{path}/weights.safetensors does not fit the bundle's configuration: it has {n_stored:,} numbers; a "
            f"model of these sizes has at least {n_required:,}"
        )


def _as_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1, sort_keys=True) + "\n"


def _write_json(path: Path, value: object) -> None:
    path.write_text(_as_json(value), encoding="utf-8")


def _manifest_entry(path: Path) -> dict[str, object]:
    return {"bytes": path.stat().st_size, "sha256": sha256_of(path)}
