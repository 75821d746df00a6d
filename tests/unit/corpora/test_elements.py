"""The included corpus: pinned records and splits."""

from __future__ import annotations

import hashlib
import json

import pytest

from agggen.corpora.elements import SPLITS, elements_records
from agggen.errors import CorpusError

SHA256 = "02560136e5d7c017223d84993a481dcb086c72291b56a2a0b9c8b932c90e3488"


def test_the_records_have_the_pinned_hash() -> None:
    digest = hashlib.sha256()
    for split in SPLITS:
        for record in elements_records(split):
            digest.update(json.dumps(record.as_dict(), ensure_ascii=False, sort_keys=True).encode())
    assert digest.hexdigest() == SHA256


def test_an_unknown_split_is_refused() -> None:
    with pytest.raises(CorpusError, match=r"no split 'dve'; its splits are train, dev, test"):
        elements_records("dve")
