"""The client is a small thing: it loads neither torch nor Ray, and takes the options that the endpoint takes."""

from __future__ import annotations

import subprocess
import sys
from typing import get_type_hints

import pytest

from agggen_platform.client import answers
from serve import schemas

HEAVY = ("torch", "ray", "numpy", "pandas", "pyarrow", "mlflow", "fastapi", "pydantic")


def test_importing_it_loads_nothing_heavy() -> None:
    code = f"import sys, agggen_platform.client; print([name for name in {HEAVY} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


@pytest.mark.parametrize("name", ["RealiseOptions", "GenerateOptions", "PlanOptions"])
def test_its_options_are_the_endpoint_s(name: str) -> None:
    assert set(get_type_hints(getattr(answers, name))) == set(getattr(schemas, name).model_fields)
