"""Checks bundles for the registry: complete, without other files, loadable, able to generate text."""

from __future__ import annotations

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

    Files that do not belong to a bundle are refused without reading them. Weights are read as safetensors, never as a
    pickle, so a bundle cannot run code.

    Raises:
        BundleError: the bundle is missing, incomplete or changed, has another fingerprint than `expected`, or contains
            files that do not belong to a bundle.
        StorageError: the store refused access or did not answer.
    """
    folder = Folder(address)
    _check_names(folder)
    path, actual = fetch(address, expected)
    if folder.local is None:
        _check_stored(folder, path)
    load = load_critic if (path / CRITIC_FILES[0]).is_file() else load_bundle
    return load(path), actual


def fetch(address: str, expected: str | None) -> tuple[Path, str]:
    """The local path of the verified bundle at `address`, and its fingerprint; for errors see `admit`."""
    path = get_bundle(address)
    actual = fingerprint(path)
    if expected is not None and actual != expected:
        raise BundleError(f"{address} is not the expected bundle: its fingerprint is {actual}, not {expected}")
    return path, actual


def _check_names(folder: Folder) -> None:
    names = folder.names()
    if not names:
        raise BundleError(f"there is no bundle at {folder}; `agggen train` writes one and prints its path")
    own = files_of(dict.fromkeys(names))
    if foreign := sorted(set(names) - {*own, MANIFEST}):
        raise BundleError(
            f"{folder.at(foreign[0])} is not part of a bundle ({', '.join(own)}, {MANIFEST}); it is refused"
        )


def _check_stored(folder: Folder, path: Path) -> None:
    """Compares the files in the store with the cached copy at `path`, which may be older."""
    if folder.read(MANIFEST) != (path / MANIFEST).read_bytes():
        raise BundleError(f"{folder.at(MANIFEST)} changed while it was read; try again")
    for name, expected in json.loads((path / MANIFEST).read_text(encoding="utf-8")).items():
        if not matches(folder, name, expected["bytes"], expected["sha256"]):
            raise BundleError(f"{folder.at(name)} is not what its manifest says (size or SHA-256 differ)")


def smoke(bundle: Bundle | Critic, device: str = "cpu") -> list[str]:
    """Smoke test: generates texts for two records on `device` (or has the critic judge a text); returns the faults.

    The records are a chemical element, and one with the bundle's own predicates. Texts are also generated with
    ``verify=off``, because ``verify=strict`` replaces missing output by template clauses.
    """
    if isinstance(bundle, Critic):
        return _fault_of_critic(bundle)
    generator = bundle.generator(device)
    configs = {config.verify: config for config in (generator.config, replace(generator.config, verify="off"))}
    faults = []
    for record in _smoke_records(bundle):
        per_config = (_fault(generator, record, config) for config in configs.values())
        faults += list(islice(filter(None, per_config), 1))  # the first fault of each record
    return faults


def _fault(generator: Generator, record: Record, config: InferenceConfig) -> str | None:
    where = f"generation for record {record.id!r}"
    try:
        (written,) = generator.generate([record], config=config)[0]
        resolve_plan(record, written.plan)
    except Exception as error:  # every error is a fault
        return f"{where} failed: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    if not written.text.strip():
        return f"{where} gave an empty text"
    return None if math.isfinite(written.score) else f"{where} gave a text whose score is {written.score}"


def _fault_of_critic(critic: Critic) -> list[str]:
    record = next(iter(elements_records("dev")))
    (judgement,) = critic.judge([record], [record.references[0].text])
    scores = judgement.coverage, judgement.correctness
    return [] if all(0 <= score <= 1 for score in scores) else [f"judging a text gave the scores {scores}"]


def _smoke_records(bundle: Bundle) -> list[Record]:
    element = next(record for record in elements_records("dev") if len(record.triples) == 3)
    known = islice((name for name in bundle.encoder.predicates if not name.startswith("[")), 3)
    own = Record("smoke", tuple(Triple("Oda Lind", name, f"value {n}") for n, name in enumerate(known, start=1)))
    return [element, own] if own.triples else [element]
