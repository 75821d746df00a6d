"""Tiny bundles and evaluation reports for tests of the registry."""

import json
from pathlib import Path
from typing import Any

from agggen.bundle import Bundle, fingerprint, load_bundle, save_bundle, write_manifest
from agggen.config import flatten
from agggen.records import Record, Reference, Triple
from tests.tiny_models import tiny_bundle

RECORDS = [
    Record("a", (Triple("Oda", "birthPlace", "Bergen"), Triple("Oda", "age", "41")), (Reference("Oda, of Bergen."),)),
    Record("b", (Triple("Nils", "birthPlace", "Ålesund"),), (Reference("Nils is from Ålesund, they say."),)),
]
SIGNATURE = "nrefs:3|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0"


def empty_registry(folder: Path) -> Path:
    """The file of an empty registry in `folder`, to be copied; the first call takes seconds to create it."""
    from agggen_platform.registry.store import connect

    path = folder / "empty-registry.db"
    if not path.exists():
        connect(f"sqlite:///{path}", create=True)
    return path


def small_model(seed: int) -> Bundle:
    parts = {"config": {"training": {"seed": seed}}, "metrics": {"joint.dev_loss": 1.25 + seed}}
    return tiny_bundle(RECORDS, seed, **parts, sources={"toy/train": "ab12"})


def save_model(path: Path, seed: int) -> Path:
    save_bundle(path, small_model(seed))
    return path


def fix_manifest(bundle: Path, name: str) -> None:
    """Enters the present content of a file into the manifest, as an attacker could."""
    listed = json.loads((bundle / "manifest.json").read_text())
    write_manifest(bundle, sorted({*listed, name}))


def write_report(folder: Path, bundle: Path, bleu: float | None = 50.0, **changes: Any) -> Path:
    """Writes the parts of a report of `agggen evaluate` that the registry reads.

    `changes`: of the identity (``corpus``, ``split``, ``records``, ``protocol``), of ``signature``, ``ter``, or of an
    inference setting (``inference_planner``).
    """
    inference = flatten(load_bundle(bundle).inference) | {
        name.removeprefix("inference_"): changes.pop(name) for name in list(changes) if name.startswith("inference_")
    }
    signature, ter = changes.pop("signature", SIGNATURE), changes.pop("ter", 40.0)
    identity = {"bundle": fingerprint(bundle), "corpus": "toy", "split": "dev", "records": "0f0f", "protocol": "plain"}
    measures = [
        {"name": "bleu", "value": bleu, "interval_95": None, "signature": signature},
        {"name": "ter", "value": ter, "interval_95": None, "signature": "ter|" + signature},
        {"name": "meteor", "value": None, "not_computed": "no Java"},
    ]
    report = {
        "format": 1,
        "identity": identity | changes,
        "partial": None,
        "run": {"records": 12} | {f"inference {name}": value for name, value in inference.items()},
        "scores": {"plain": {"title": "", "note": "", "measures": measures}},
    }
    folder.mkdir(parents=True)
    (folder / "report.json").write_text(json.dumps(report), encoding="utf-8")
    return folder
