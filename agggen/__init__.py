"""agggen: data-to-text generation from triples through explicit plans (AggGen, ACL 2021).

    data = agggen.load_dataset("elements")          # or a file, a folder, a DataFrame, a list of records
    model = agggen.train(data, preset="small", output="runs/elements")
    model.generate(data.test[0], plan=None).text
    agggen.evaluate(model, data.test)

The names in `__all__` are stable; the modules of this package may change without notice.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agggen.api import Model as Model
    from agggen.api import adapt as adapt
    from agggen.api import evaluate as evaluate
    from agggen.api import load_model as load_model
    from agggen.api import score as score
    from agggen.api import train as train
    from agggen.checks import check as check
    from agggen.datasets import Dataset as Dataset
    from agggen.datasets import load_dataset as load_dataset
    from agggen.datasets import load_records as load_records
    from agggen.records import Plan as Plan
    from agggen.records import Record as Record
    from agggen.records import Triple as Triple

    __version__: str

_MODULES = {
    **dict.fromkeys(("Record", "Triple", "Plan"), "agggen.records"),
    **dict.fromkeys(("Dataset", "load_dataset", "load_records"), "agggen.datasets"),
    **dict.fromkeys(("Model", "adapt", "evaluate", "load_model", "score", "train"), "agggen.api"),
    "check": "agggen.checks",
}
__all__ = ["__version__", *_MODULES]


def __getattr__(name: str) -> Any:
    """Imports the module of a public name when the name is first used, so that `import agggen` is fast."""
    if name == "__version__":
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version("agggen")
        except PackageNotFoundError:
            return "0+unknown"
    if name not in _MODULES:
        raise AttributeError(f"module 'agggen' has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
