"""The Parquet form of a corpus: lossless, atomic; damaged, modified and foreign files are refused."""

from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agggen.corpora.prepared import describe, read_records, schema, write_records
from agggen.errors import CorpusError, RecordError
from agggen.records import Fact, Plan, Record, Reference, Triple

TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=8).filter(lambda text: text.strip())


@st.composite
def references(draw: st.DrawFn, predicates: tuple[str, ...]) -> Reference:
    pieces = draw(st.lists(TEXT, min_size=1, max_size=3))
    predicate_lists = st.none() | st.lists(st.sampled_from(predicates), max_size=3).map(tuple)
    facts = draw(st.none() | st.tuples(*(st.builds(Fact, st.just(piece), predicate_lists) for piece in pieces)))
    order = tuple(draw(st.permutations(predicates)))
    boundary = draw(st.integers(0, len(order) - 1))
    plan = draw(st.sampled_from([None, Plan(tuple(filter(None, (order[:boundary], order[boundary:]))))]))
    return Reference("".join(pieces), facts, plan)


@st.composite
def records(draw: st.DrawFn) -> Record:
    triples = tuple(draw(st.lists(st.builds(Triple, TEXT, TEXT, TEXT), min_size=1, max_size=4)))
    without_texts = Record("x", triples)
    texts = tuple(draw(st.lists(references(without_texts.predicates), max_size=3)))
    return Record(draw(TEXT), triples, texts, draw(st.none() | st.text(st.characters(exclude_categories=["Cs"]))))


@settings(max_examples=60)
@given(st.lists(records(), max_size=5))
def test_the_round_trip_is_lossless(originals: list[Record]) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "train.parquet"
        assert write_records(path, iter(originals), "mine", "train") == len(originals)
        assert read_records(path) == originals


TEXTS = (Reference("a b", (Fact("a "), Fact("b", ())), Plan.parse('["p q"]')),)
RECORDS = [Record(f"r{number}", (Triple("s", "p q", str(number)),), TEXTS) for number in range(2500)]


def test_the_file_has_the_documented_schema_and_metadata(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    write_records(path, RECORDS, "mine", "dev")
    assert read_records(path) == RECORDS  # more than one batch
    assert pq.read_schema(path).equals(schema())
    facts = [{"text": "a ", "predicates": None}, {"text": "b", "predicates": []}]
    assert pq.read_table(path).to_pylist()[1] == {
        "id": "r1",
        "corpus": "mine",
        "split": "dev",
        "category": None,
        "triples": [{"subject": "s", "predicate": "p q", "object": "1"}],
        "references": [{"text": "a b", "facts": facts, "plan": '["p q"]'}],
    }
    expected = describe(path)
    assert (expected["format"], expected["corpus"], expected["split"]) == ("1", "mine", "dev")


def modify(path: Path) -> None:
    table = pq.read_table(path)
    changed = table.set_column(0, table.schema.field("id"), pa.array(["changed", *table["id"].to_pylist()[1:]]))
    pq.write_table(changed.replace_schema_metadata(pq.read_metadata(path).metadata), path)


def damage(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[50:450] = bytes(byte ^ 0xFF for byte in data[50:450])
    path.write_bytes(data)


def write_foreign(**metadata: str) -> Any:
    table = pa.table({"a": [1]}).replace_schema_metadata({f"agggen.{name}": value for name, value in metadata.items()})
    return partial(pq.write_table, table)


METADATA = {"fingerprint": "0", "corpus": "c", "split": "s"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (modify, "was modified after preparation"),
        (damage, "prepare the corpus again"),
        (write_foreign(), "not a prepared corpus"),
        (write_foreign(format="9", **METADATA), "has format 9, not 1"),
        (write_foreign(format="1", **METADATA), "does not have the columns"),
        (lambda path: path.write_text("id,text"), "is not a Parquet file"),
        (Path.unlink, "does not exist; make it with: agggen prepare"),
    ],
)
def test_a_damaged_or_foreign_file_is_refused(tmp_path: Path, change: Any, message: str) -> None:
    path = tmp_path / "x.parquet"
    write_records(path, RECORDS, "mine", "dev")
    change(path)
    with pytest.raises(CorpusError, match=message):
        read_records(path)


def test_a_failed_write_leaves_the_existing_file(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    write_records(path, RECORDS[:1], "mine", "dev")
    with pytest.raises(RecordError, match=r"record 'bad' contains '\\ud800'"):
        write_records(path, [*RECORDS, Record("bad", (Triple("a\ud800", "b", "c"),))], "mine", "dev")
    assert read_records(path) == RECORDS[:1]
    assert [file.name for file in tmp_path.iterdir()] == ["x.parquet"]


def test_the_fingerprint_of_known_records_is_stable(tmp_path: Path) -> None:
    """A changed fingerprint would turn every existing job and run into a new one."""
    triples = (Triple("Café", "food", "English"), Triple("Café", "food", '"x"'))
    cut = Reference("Á b.", (Fact("Á ", ("food",)), Fact("b.")), Plan((("food", "food_2"),)))
    records = [Record("1", triples, (Reference("a"), cut), "C"), Record("2", triples[:1])]
    write_records(tmp_path / "x", records, "c", "s")
    assert describe(tmp_path / "x")["fingerprint"] == "5aa00203630d90d1e9659ed9f35b40582c4ffca7ff501909d305d4d34a5c0bce"
