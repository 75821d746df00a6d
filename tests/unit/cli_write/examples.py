"""Records and helpers for tests of `generate`, `plan`, `align` and `inspect`.

No test writes to a real device, since a bug could replace it by a file.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

REPO = Path(__file__).parents[3]
ENVIRONMENT = os.environ | {"PYTHONPATH": f"{REPO}{os.pathsep}{REPO / 'platform'}", "OMP_NUM_THREADS": "1"}
COMMAND = [sys.executable, "-m", "agggen_platform.cli.main"]


def restaurant(number: int, name: str, **values: str) -> dict[str, Any]:
    statements = " and ".join(f"{key} {value}" for key, value in values.items())
    triples = [[name, key, value] for key, value in values.items()]
    return {"id": str(number), "triples": triples, "references": [f"{name} has {statements}."]}


RESTAURANTS = [
    restaurant(1, "Aromi", food="English", near="Crown Hall"),
    restaurant(2, "Café Zoë", eatType="pub", food="日本", near="Blue Door"),
    restaurant(3, "Mill", area="riverside"),
    restaurant(4, "Żubr", eatType="café", food="Polish", near="Mill", area="city"),
    restaurant(5, "Blue Door", food="Thai", area="city"),
]
TWO_PARTS = {"id": "7", "triples": [["Aromi", "food"]]}


def json_lines(path: Path, values: list[Any]) -> Path:
    path.write_text("".join(json.dumps(value, ensure_ascii=False) + "\n" for value in values), encoding="utf-8")
    return path


def parsed(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]
