"""Texts of trained models as a training corpus, by bulk generation (`agggen.training.distillation`).

    OUT/inputs.jsonl                    the records: training records, parts of them, development records
    OUT/teacher-FINGERPRINT/            the texts of each model, as of `agggen bulk`
    OUT/train.parquet, dev.parquet      the corpus: the records with a text without faults

After an interruption the same call continues: complete shards of bulk generation are kept. A finished corpus is
returned.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from agggen.config import config_hash
from agggen.datasets import Dataset, load_dataset
from agggen.errors import CorpusError
from agggen.generation.results import Generation, WrittenFact
from agggen.records import Plan, Record
from agggen.training.distillation import parts_of, with_consensus
from agggen_platform.bulk.job import Progress, generate
from agggen_platform.bulk.model import Model, bulk_config, load_generator

_TEXTS = 8
"""Texts per record and model."""
_SETTINGS = ("inference.verify=off", "inference.plans=3", f"n_best={_TEXTS}", "unique=false", "max_reject_share=0.05")


@dataclass(frozen=True)
class Distillation:
    """Which models write texts for which records.

    Args:
        data: the corpus; its texts are not used.
        parts: the largest number of parts of training records, added to them.
    """

    teachers: Sequence[Model]
    data: Dataset
    parts: int
    seed: int = 1

    @property
    def name(self) -> str:
        """``texts-`` and a hash of everything that affects the texts; the order of the models does not."""
        teachers = sorted(teacher.fingerprint for teacher in self.teachers)
        decisive = {"teachers": teachers, "parts": self.parts, "seed": self.seed, "settings": _SETTINGS}
        return f"texts-{config_hash(decisive | self.data.fingerprints)}"

    def write(
        self,
        out: Path,
        actors: int | None = None,
        progress: Callable[[Progress], None] = lambda _: None,
        say: Callable[[str], None] = lambda sentence: None,
    ) -> Dataset:
        """Writes the texts and the corpus into the folder `out`, and returns the corpus.

        Args:
            actors: see `agggen_platform.sharded.config.ShardedConfig`.
            progress: called after every shard of bulk generation.
            say: receives messages.

        Raises:
            CorpusError: no record of a split has a text without faults.
            ClaimedError, JobError: see `agggen_platform.bulk.job.generate`.
        """
        if (out / "rejects.jsonl").is_file():  # written last
            return load_dataset(str(out))
        parts = parts_of(self.data.train, self.parts, self.seed, self.data.dev)
        splits = {"train": [*self.data.train, *parts], "dev": self.data.dev}
        say(f"{len(self.data.train):,} training records, {len(parts):,} parts of them, {len(self.data.dev):,} of dev")
        records = [replace(record, references=()) for split in splits.values() for record in split]
        out.mkdir(parents=True, exist_ok=True)
        inputs = out / "inputs.jsonl"
        lines = [json.dumps(record.as_dict(), ensure_ascii=False) + "\n" for record in records]
        inputs.write_text("".join(lines), encoding="utf-8")
        texts = defaultdict[int, list[Generation]](list)
        for teacher in sorted(self.teachers, key=lambda teacher: teacher.fingerprint):
            say(f"Texts of {teacher.address}")
            folder = out / f"teacher-{teacher.fingerprint[:12]}"
            config = bulk_config(teacher, [*_SETTINGS, *([] if actors is None else [f"actors={actors}"])])
            generate(teacher, str(inputs), str(folder), config, progress=progress, single_file=True)
            for row in pq.read_table(folder / "texts.parquet").to_pylist():
                texts[row["row"]].append(_generation(row))
        accepts = load_generator(self.teachers[0].address, self.teachers[0].fingerprint, "cpu").accepts
        rows = iter(range(len(records)))
        corpus: dict[str, list[Record]] = {}
        for split, members in splits.items():
            written = [with_consensus(replace(record, references=()), texts[next(rows)], accepts) for record in members]
            corpus[split] = [record for record in written if record is not None]
            say(f"{split}: {len(corpus[split]):,} of {len(members):,} records have a text without faults")
            if not corpus[split]:
                raise CorpusError(f"no text of {split} passes the check; these models cannot teach this corpus")
        dataset = Dataset(str(out), corpus)
        dataset.save(out)
        return dataset


def _generation(row: dict[str, Any]) -> Generation:
    """A text of bulk generation; the keys are those of `agggen_platform.bulk.rows.text_schema`."""
    facts = [fact | {name: tuple(fact[name]) for name in ("predicates", "missing")} for fact in row["facts"]]
    return Generation(
        row["id"],
        row["text"],
        Plan.parse(row["plan"]),
        row["plan_log_probability"],
        row["plan_search"],
        row["text_log_probability"],
        row["score"],
        tuple(WrittenFact(**fact) for fact in facts),
        tuple(row["faults"]),
        tuple(row["unknown_predicates"]),
    )
