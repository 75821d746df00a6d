"""Which bundles the registry takes: whole where they lie, nothing but a bundle, loadable, and able to write."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from agggen.bundle import FILES, Bundle, fingerprint, load_bundle
from agggen.corpora.elements import elements_records
from agggen.errors import BundleError
from agggen.planning import resolve_plan
from agggen.records import Record, Triple
from agggen_platform.storage.bundles import get_bundle
from agggen_platform.storage.folder import Folder
from agggen_platform.storage.verified import holds

_MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Admitted:
    """A bundle that passed: loaded, with its place on this machine and its fingerprint."""

    bundle: Bundle
    path: Path
    fingerprint: str


def admit(address: str, expected: str | None = None) -> Admitted:
    """Reads the bundle at `address`, a folder or ``s3://...``, as strictly as one reads a stranger's.

    A file that is no part of a bundle is refused unread. So is a pickle under the name of the weights, by safetensors'
    own reader: nothing that lies there is ever run.

    Args:
        expected: the fingerprint that it must have.

    Raises:
        BundleError: it is not there, incomplete, changed, another one, or holds what does not belong to a bundle.
        StorageError: the store refused or did not answer.
    """
    folder = Folder(address)
    _check_names(folder)
    path = get_bundle(address)
    found = fingerprint(path)
    if expected is not None and found != expected:
        raise BundleError(
            f"{address} is another bundle than was registered: its fingerprint is {found}, not {expected}"
        )
    if folder.local is None:
        _check_stored(folder, path)
    return Admitted(load_bundle(path), path, found)


def _check_names(folder: Folder) -> None:
    names = folder.names()
    if not names:
        raise BundleError(f"there is no bundle at {folder}; `agggen train` writes one and prints its place")
    if strange := sorted(set(names) - {*FILES, _MANIFEST}):
        raise BundleError(
            f"{folder.at(strange[0])} is no part of a bundle ({', '.join(FILES)}, {_MANIFEST}); it is refused"
        )


def _check_stored(folder: Folder, path: Path) -> None:
    """The copy at `path` may be of an earlier day: what others will read is looked at too."""
    if folder.read(_MANIFEST) != (path / _MANIFEST).read_bytes():
        raise BundleError(f"{folder.at(_MANIFEST)} changed while it was read; try again")
    for name, said in json.loads((path / _MANIFEST).read_text(encoding="utf-8")).items():
        if not holds(folder, name, said["bytes"], said["sha256"]):
            raise BundleError(f"{folder.at(name)} is not what its manifest says (size or SHA-256 differ)")


def smoke(bundle: Bundle, records: Sequence[Record] = (), device: str = "cpu") -> list[str]:
    """What goes wrong when the bundle writes about `records` on `device`.

    By default it writes about a chemical element, and about values of its own predicates.
    """
    faults = []
    generator = bundle.generator(device)
    for record in records or _smoke_records(bundle):
        where = f"writing about record {record.id!r}"
        try:
            (written,) = generator.generate([record])[0]
            resolve_plan(record, written.plan)
        except Exception as error:  # whatever a broken model breaks, it is a reason against it
            faults.append(f"{where} failed: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")
            continue
        if not written.text.strip():
            faults.append(f"{where} gave an empty text")
        if not math.isfinite(written.score):
            faults.append(f"{where} gave a text whose score is {written.score}")
    return faults


def _smoke_records(bundle: Bundle) -> list[Record]:
    element = next(record for record in elements_records("dev") if len(record.triples) == 3)
    known = islice((name for name in bundle.encoder.predicates if not name.startswith("[")), 3)
    own = Record("smoke", tuple(Triple("Oda Lind", name, f"value {n}") for n, name in enumerate(known, start=1)))
    return [element, own] if own.triples else [element]
