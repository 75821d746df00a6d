"""Creates a training corpus from texts of trained models by bulk generation (`agggen.training.distillation`).

    OUT/inputs.jsonl                    the records: training records, subsets of their triples, development records
    OUT/teacher-FINGERPRINT/            the output of bulk generation by each teacher model
    OUT/train.parquet, dev.parquet      the corpus: the records with an accepted text
    OUT/rejects.jsonl                   empty; written last, so it marks the corpus complete

The same call resumes an interrupted one from the last complete shard, and returns an existing complete corpus.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from heapq import merge
from itertools import groupby, islice
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from agggen.config import config_hash
from agggen.datasets import Dataset, fingerprint_of, load_dataset
from agggen.errors import CorpusError
from agggen.records import Record
from agggen.training.distillation import subsets_of, with_consensus
from agggen_platform.bulk.job import Progress, generate
from agggen_platform.bulk.model import Model, bulk_config, load_generator
from agggen_platform.bulk.rows import generation_of
from agggen_platform.storage.claim import claim
from agggen_platform.storage.folder import Folder

_SETTINGS = ("inference.verify=off", "inference.plans=3", "n_best=8", "unique=false", "max_reject_share=1")


class Distillation:
    """The teacher models and the records for which they generate texts. The order of `teachers` has no effect.

    The reference texts of `data` are not used. `subsets`: maximum number of records to add, each with a subset of a
    training record's triples.
    """

    def __init__(self, teachers: Sequence[Model], data: Dataset, subsets: int, seed: int = 1) -> None:
        by_fingerprint = {teacher.fingerprint: teacher for teacher in teachers}
        self.teachers = [by_fingerprint[fingerprint] for fingerprint in sorted(by_fingerprint)]
        splits = (data.train, data.dev)
        self.train, self.dev = ([replace(record, references=()) for record in records] for records in splits)
        for split, records in (("train", self.train), ("dev", self.dev)):
            if not records:
                raise CorpusError(f"{data.name}: {split} has no records; distillation needs train and dev")
        self.subsets, self.seed = subsets, seed

    @property
    def name(self) -> str:
        """``texts-HASH``, where HASH covers everything that affects the texts."""
        return "texts-" + config_hash(
            {
                "teachers": [teacher.fingerprint for teacher in self.teachers],
                "records": [fingerprint_of(self.train), fingerprint_of(self.dev)],
                "subsets": [self.subsets, self.seed],
                "settings": _SETTINGS,
            }
        )

    def write(
        self,
        out: Path,
        actors: int | None = None,
        progress: Callable[[Progress], None] = lambda _: None,
        say: Callable[[str], None] = lambda _: None,
    ) -> Dataset:
        """Writes the texts and the corpus into the folder `out`, and returns the corpus.

        `actors`: see `ShardedConfig`. Raises CorpusError if no record of a split has an accepted text, ClaimedError if
        another process is writing to `out`.
        """
        out.mkdir(parents=True, exist_ok=True)
        with claim(Folder(str(out))):
            if (out / "rejects.jsonl").is_file():
                return load_dataset(str(out))
            subsets = subsets_of(self.train, self.subsets, self.seed, self.dev)
            splits = {"train": [*self.train, *subsets], "dev": self.dev}
            say(f"{len(self.train):,} training records, {len(subsets):,} subsets, {len(self.dev):,} dev records")
            records = [record for split in splits.values() for record in split]
            inputs = out / "inputs.jsonl"
            lines = (json.dumps(record.as_dict(), ensure_ascii=False) + "\n" for record in records)
            inputs.write_text("".join(lines), encoding="utf-8")
            files: list[Path] = []
            for teacher in self.teachers:
                say(f"Texts of {teacher.address}")
                folder = out / f"teacher-{teacher.fingerprint[:12]}"
                config = bulk_config(teacher, [*_SETTINGS, *([] if actors is None else [f"actors={actors}"])])
                generate(teacher, str(inputs), str(folder), config, progress=progress, single_file=True)
                files.append(folder / "texts.parquet")
            distilled_records = self._with_consensus(records, files)
            corpus: dict[str, list[Record]] = {}
            for split, members in splits.items():
                corpus[split] = [record for record in islice(distilled_records, len(members)) if record is not None]
                say(f"{split}: {len(corpus[split]):,} of {len(members):,} records have an accepted text")
                if not corpus[split]:
                    raise CorpusError(f"the check accepts no generated text of {split}; use other teacher models")
            dataset = Dataset(str(out), corpus)
            dataset.save(out)
            return dataset

    def _with_consensus(self, records: Sequence[Record], files: Sequence[Path]) -> Iterator[Record | None]:
        """Each record with its consensus text as reference, or None if no text is accepted; reads the texts lazily."""
        teacher = self.teachers[0]
        accepts = load_generator(teacher.address, teacher.fingerprint, "cpu").accepts
        rows = merge(*map(_rows, files), key=lambda row: row["row"])
        texts_by_record = groupby(rows, key=lambda row: row["row"])
        end = len(records), iter(())
        number, texts = next(texts_by_record, end)
        for index, record in enumerate(records):
            if number == index:
                yield with_consensus(record, [generation_of(row["id"], row) for row in texts], accepts)
                number, texts = next(texts_by_record, end)
            else:
                yield None  # bulk generation rejected the record: too many triples


def _rows(file: Path) -> Iterator[dict[str, Any]]:
    """The rows of a Parquet file of generated texts (`text_schema`), in the order of the records."""
    for batch in pq.ParquetFile(file).iter_batches(1024):
        yield from batch.to_pylist()
