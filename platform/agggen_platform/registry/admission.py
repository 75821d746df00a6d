"""Checks bundles for the registry: they must be complete, without other files, loadable, and able to generate text."""

import json
import math
from dataclasses import replace
from itertools import islice
from pathlib import Path

from agggen.bundle import CRITIC_FILES, Bundle, files_of, fingerprint, load_bundle
from agggen.corpora.elements import elements_records
from agggen.errors import BundleError
from agggen.generation.generator import Generator, InferenceConfig
from agggen.planning import resolve_plan
from agggen.records import Record, Triple
from agggen.verification.critic.critic import Critic, load_critic
from agggen_platform.storage.bundles import MANIFEST, get_bundle
from agggen_platform.storage.folder import Folder
from agggen_platform.storage.verified import matches


def admit(address: str, expected: str | None = None) -> tuple[Bundle | Critic, str]:
    """Checks and loads the untrusted bundle at `address`, a folder or ``s3://...``; also returns its fingerprint.

    Files that do not belong to a bundle are refused without reading them, and weights are read as safetensors, so that
    no code can be run. Raises BundleError if the bundle is missing, incomplete or changed, if its fingerprint is not
    `expected`, or if its folder contains other files.
    """
    folder = Folder(address)
    _check_names(folder)
    path, actual = fetch(address, expected)
    if folder.local is None:
        _check_stored(folder, path)
    load = load_critic if (path / CRITIC_FILES[0]).is_file() else load_bundle
    return load(path), actual


def fetch(address: str, expected: str | None) -> tuple[Path, str]:
    """The local path of the verified bundle at `address`, and its fingerprint; raises as `admit` does."""
    path = get_bundle(address)
    actual = fingerprint(path)
    if expected not in (None, actual):
        raise BundleError(f"{address} is not the expected bundle: its fingerprint is {actual}, not {expected}")
    return path, actual


def _check_names(folder: Folder) -> None:
    names = folder.names()
    if not names:
        raise BundleError(f"no bundle at {folder}; `agggen train` writes one and prints its path")
    allowed = (*files_of(dict.fromkeys(names)), MANIFEST)
    if foreign_names := sorted(set(names) - {*allowed}):
        raise BundleError(f"{folder.at(foreign_names[0])} is not part of a bundle ({', '.join(allowed)}); remove it")


def _check_stored(folder: Folder, path: Path) -> None:
    """Compares the store's files with the manifest of the cached copy at `path`, which may be older."""
    if folder.read(MANIFEST) != (path / MANIFEST).read_bytes():
        raise BundleError(f"{folder.at(MANIFEST)} changed while it was read; try again")
    for name, expected in json.loads((path / MANIFEST).read_text(encoding="utf-8")).items():
        if not matches(folder, name, expected["bytes"], expected["sha256"]):
            raise BundleError(f"{folder.at(name)} differs from the manifest in its size or SHA-256")


def smoke_test(bundle: Bundle | Critic, device: str = "cpu") -> list[str]:
    """Generates texts for two records on `device`, or has the critic judge a text; returns messages about faults.

    Texts are also generated with ``verify=off``, because ``verify=strict`` replaces missing output by template clauses.
    """
    if isinstance(bundle, Critic):
        record = next(iter(elements_records("dev")))
        (judgement,) = bundle.judge([record], [record.references[0].text])
        scores = judgement.coverage, judgement.correctness
        return [] if all(0 <= score <= 1 for score in scores) else [f"judging a text gave the scores {scores}"]
    generator = bundle.generator(device)
    configs = {config.verify: config for config in (generator.config, replace(generator.config, verify="off"))}
    faults = []
    for record in _smoke_records(bundle):
        config_faults = (_fault(generator, record, config) for config in configs.values())
        faults += list(islice(filter(None, config_faults), 1))  # the first fault of each record
    return faults


def _fault(generator: Generator, record: Record, config: InferenceConfig) -> str | None:
    subject = f"generation for record {record.id!r}"
    try:
        (generation,) = generator.generate([record], config=config)[0]
        resolve_plan(record, generation.plan)
    except Exception as error:  # any error is a fault
        return f"{subject} failed: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    if not generation.text.strip():
        return f"{subject} gave an empty text"
    return None if math.isfinite(generation.score) else f"{subject} gave a text with the score {generation.score}"


def _smoke_records(bundle: Bundle) -> list[Record]:
    element = next(record for record in elements_records("dev") if len(record.triples) == 3)
    predicates = islice((name for name in bundle.encoder.predicates if not name.startswith("[")), 3)
    triples = tuple(Triple("Oda Lind", name, f"value {n}") for n, name in enumerate(predicates, start=1))
    return [element, Record("smoke", triples)] if triples else [element]
