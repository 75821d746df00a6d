"""Settings derived from the data: preset, corpus, and source of facts."""

import json
from collections.abc import Sequence
from typing import TypeVar

from agggen.config import load_config
from agggen.datasets import Dataset
from agggen.run import RunConfig

AUTO = "auto"
_PRESET_LIMITS = (("tiny", 500), ("small", 10_000))  # preset, number of training texts from which it is too small
# (lower, upper) estimates for one CPU core, measured by tests/benchmarks/presets.py on two corpora.
_MINUTES_PER_1000_TEXTS = {"tiny": (2.0, 4.0), "small": (1.3, 1.6), "medium": (2.0, 2.5)}
C = TypeVar("C", bound=RunConfig)


def preset_for(data: Dataset) -> str:
    """The preset for data of this size: ``tiny``, ``small`` or ``medium``."""
    n_texts = sum(len(record.references) for record in data.train)
    return next((name for name, limit in _PRESET_LIMITS if n_texts < limit), "medium")


def minutes_for(data: Dataset) -> tuple[float, float]:
    """Lower and upper estimate of the training time in minutes on one CPU core, with the preset of `preset_for`."""
    n_texts = sum(len(record.references) for record in data.train)
    lower, upper = _MINUTES_PER_1000_TEXTS[preset_for(data)]
    return lower * n_texts / 1000, upper * n_texts / 1000


def config_for(cls: type[C], data: Dataset, preset: str = AUTO, overrides: Sequence[str] = ()) -> C:
    """The configuration of a run on `data` (`load_config`); the preset ``auto`` means `preset_for`.

    With the presets ``tiny``, ``small`` and ``medium``, the facts in the data are used if all texts have facts.
    """
    preset_name = preset_for(data) if preset == AUTO else preset
    settings = corpus_overrides(data, *((data,) if preset_name in _MINUTES_PER_1000_TEXTS else ()))
    return load_config(cls, preset_name, [*settings, *overrides])


def corpus_overrides(data: Dataset, *datasets: Dataset) -> list[str]:
    """Overrides that set the corpus to `data`, and ``facts.source=corpus`` if all texts of `datasets` have facts."""
    settings = [f"corpus.name={json.dumps(data.name)}", "corpus.train=train", "corpus.dev=dev"]
    records = [record for dataset in datasets for split in (dataset.train, dataset.dev) for record in split]
    references = [reference for record in records for reference in record.references]
    have_facts = bool(references) and all(reference.facts is not None for reference in references)
    return [*settings, *(["facts.source=corpus"] if have_facts else [])]
