"""The client is a small thing: it loads neither torch nor Ray, and says the same as the endpoint's own schemas."""

from __future__ import annotations

import subprocess
import sys
from typing import NotRequired, get_origin, get_type_hints

import pytest
from pydantic import BaseModel

from agggen_platform.client import answers
from serve import schemas

HEAVY = ("torch", "ray", "numpy", "pandas", "pyarrow", "mlflow", "fastapi", "pydantic")


def test_importing_it_loads_nothing_heavy() -> None:
    code = f"import sys, agggen_platform.client; print([name for name in {HEAVY} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


SAME = [
    (answers.RealiseOptions, schemas.RealiseOptions),
    (answers.GenerateOptions, schemas.GenerateOptions),
    (answers.PlanOptions, schemas.PlanOptions),
    (answers.ProblemDict, schemas.ProblemBody),
    (answers.FactDict, schemas.FactOut),
    (answers.TextDict, schemas.TextOut),
    (answers.PlanDict, schemas.PlanOut),
    (answers.AlignedFactDict, schemas.AlignedFactOut),
    (answers.ErrorAnswer, schemas.ErrorAnswer),
    (answers.TextsAnswer, schemas.TextsAnswer),
    (answers.PlansAnswer, schemas.PlansAnswer),
    (answers.AlignedAnswer, schemas.AlignedAnswer),
    (answers.ModelDict, schemas.ModelResponse),
]


@pytest.mark.parametrize(("ours", "theirs"), SAME, ids=lambda kind: kind.__name__)
def test_its_types_are_the_endpoint_s(ours: type, theirs: type[BaseModel]) -> None:
    assert set(get_type_hints(ours)) == set(theirs.model_fields)
    hints = get_type_hints(ours, include_extras=True)
    for name, field in theirs.model_fields.items():
        may_lack = not ours.__total__ or get_origin(hints[name]) is NotRequired  # type: ignore[attr-defined]
        assert may_lack == (not field.is_required()), name
