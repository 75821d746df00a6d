"""Distillation: subsets of records, consensus texts of teachers, and training of the student."""

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import agggen
from agggen.bundle import SHIPPED, fingerprint, load_bundle
from agggen.errors import CorpusError
from agggen.generation.planner import MAX_TRIPLES
from agggen.generation.results import Generation, WrittenFact
from agggen.records import Fact, Plan, Record, Triple
from agggen.training.distillation import subsets_of, with_consensus
from agggen_platform.bulk.model import open_model
from agggen_platform.distillation import Distillation
from agggen_platform.storage.claim import claim
from agggen_platform.storage.folder import Folder
from tests.command import Run
from tests.unit.cli_write.examples import json_lines

TRIPLES = st.builds(Triple, st.sampled_from("ABC"), st.sampled_from(["p", "q", "r"]), st.sampled_from("ABCDE"))
RECORDS = st.lists(
    st.lists(TRIPLES, min_size=1, max_size=5, unique=True).map(lambda triples: Record("r", tuple(triples))), max_size=4
)


def connected(triples: tuple[Triple, ...]) -> bool:
    """Whether the triples are connected: in every bipartition, the parts share a name."""
    names = [{triple.subject, triple.object} for triple in triples]
    for size in range(1, len(triples)):
        for chosen in itertools.combinations(range(len(triples)), size):
            one = set().union(*(names[i] for i in chosen))
            other = set().union(*(names[i] for i in range(len(triples)) if i not in chosen))
            if not one & other:
                return False
    return True


@settings(deadline=None)
@given(RECORDS, RECORDS, st.integers(0, 12), st.integers(0, 3))
def test_subsets_are_new_connected_subsets(records: list[Record], known: list[Record], count: int, seed: int) -> None:
    subsets = subsets_of(records, count, seed, known)
    assert subsets == subsets_of(records, count, seed, known)
    sets = [frozenset(subset.triples) for subset in subsets]
    assert len(subsets) <= count and len({subset.id for subset in subsets}) == len(set(sets)) == len(subsets)
    assert not {*sets} & {frozenset(record.triples) for record in (*records, *known)}
    for subset, triples in zip(subsets, sets, strict=True):
        assert len(triples) >= 2 and connected(subset.triples)
        assert any(triples < frozenset(record.triples) for record in records)


def test_the_requested_number_of_subsets_is_drawn() -> None:
    record = Record("r", tuple(Triple("A", f"p{number}", "B") for number in range(5)))
    assert len(subsets_of([record], 20)) == 20, "of 2 ** 5 - 1 - 5 - 1 = 25"
    assert subsets_of([record], 5, seed=1) != subsets_of([record], 5, seed=2)
    assert subsets_of([Record("r", record.triples[:2])], 5) == [] == subsets_of([record], 0)


def text(words: str, score: float = -1.0, *faults: str, **more: Any) -> Generation:
    facts = (WrittenFact(0, 4, ("food",), ()), WrittenFact(4, len(words), ("area",), ()))
    plan = Plan.parse("[food] [area]")
    return replace(Generation("a", words, plan, None, "exact", score, score, facts, faults), **more)


RECORD = Record("a", (Triple("A", "food", "Thai"), Triple("A", "area", "city")), category="pubs")


def accept(record: Record, text: Generation) -> bool:
    return True


def test_the_reference_is_the_consensus_of_accepted_texts() -> None:
    texts = [text("A is a pub."), text("A is a pub by the Cam."), text("A place by the Cam is A.")]
    chosen = with_consensus(RECORD, texts, accept)
    assert chosen is not None and (chosen.id, chosen.triples, chosen.category) == ("a", RECORD.triples, "pubs")
    (reference,) = chosen.references
    assert reference.text == texts[1].text and reference.plan == texts[1].plan
    assert reference.facts == (Fact("A is", ("food",)), Fact(" a pub by the Cam.", ("area",)))
    faulty = [texts[0], replace(texts[1], faults=("Cam is not in the record",)), texts[2]]
    assert with_consensus(RECORD, faulty, accept) != chosen
    second_choice = with_consensus(RECORD, texts, lambda record, text: text.text != reference.text)
    assert second_choice is not None and second_choice.references[0].text in (texts[0].text, texts[2].text)
    improbable = [texts[0], replace(texts[1], score=-9.0), replace(texts[2], score=-9.0)]
    repeated = with_consensus(RECORD, improbable, accept)
    assert repeated is not None and repeated.references[0].text == texts[0].text


def test_a_record_without_an_accepted_text_has_no_reference() -> None:
    missing = (WrittenFact(0, 11, ("food", "area"), ("area",)),)
    for faulty in (text("A is a pub.", -1.0, "fault"), text("A is a pub.", facts=missing)):
        assert with_consensus(RECORD, [faulty], accept) is None
    assert with_consensus(RECORD, [text("A is a pub.")], lambda record, text: False) is None
    assert with_consensus(RECORD, [], accept) is None


def test_the_constrained_search_accepts_its_own_texts_only() -> None:
    generator = load_bundle(SHIPPED["elements"]).generator()
    records = agggen.load_dataset("elements").dev[:24]
    written = [texts[0] for texts in generator.generate(records)]
    pairs = zip(records, written, strict=True)
    own = [(record, text) for record, text in pairs if not any(fact.fallback for fact in text.facts)]
    assert len(own) > 12 and all(generator.accepts(record, text) for record, text in own)
    for record, text in own[:6]:
        value = record.triples[0].object
        changed = replace(text, text=text.text.replace(value, value[::-1]))
        assert len(set(value)) == 1 or not generator.accepts(record, changed)
        with_unknown = replace(record, triples=(*record.triples, Triple(record.triples[0].subject, "never-seen", "7")))
        assert not generator.accepts(with_unknown, text)
        assert not generator.accepts(record, replace(text, faults=("a fault",)))


@pytest.fixture
def records(tmp_path: Path) -> Path:
    data = agggen.load_dataset("elements")
    large = Record("large", tuple(Triple("Gold", f"use-{number}", "jewellery") for number in range(MAX_TRIPLES + 1)))
    splits = [data.train[0], large, *data.train[1:8]], data.dev[:3]
    for split, members in zip(("train", "dev"), splits, strict=True):
        json_lines(tmp_path / f"few.{split}.jsonl", [record.as_dict() for record in members])
    return tmp_path / "few.{train,dev}.jsonl"


@pytest.mark.slow
def test_a_student_learns_from_texts_that_pass_the_check(records: Path, run: Run) -> None:
    arguments = ("distill", "elements", records, "--subsets", 4, "--actors", 0, "training.threads=1")
    code, out, err = run(*arguments, "training.joint.epochs=1")
    assert code == 0 and "9 training records, 4 subsets, 3 dev records" in err
    student, teacher = agggen.load_model(out.strip()), load_bundle(SHIPPED["elements"])
    assert student.path.parent.name.startswith("distill-few")
    assert student.bundle.sources["start"] == fingerprint(SHIPPED["elements"])
    assert student.predicates == teacher.encoder.predicates[1:] and student.bundle.inference == teacher.inference
    assert student.bundle.encoder.vocabulary.words == teacher.encoder.vocabulary.words
    assert student.bundle.lexicon == teacher.lexicon, "the lexicon must be that of the human texts"
    (folder,) = Path("runs").glob("texts-*")
    written, data = agggen.load_dataset(folder), agggen.load_dataset("elements")
    assert 8 <= len(written.train) <= 12 and written.dev
    assert {record.id for record in data.train[:8]} <= {record.id for record in written.train}
    for record in (*written.train, *written.dev):
        (reference,) = record.references
        assert not teacher.generator().checker.check(record, reference.text).faults
        assert reference.facts and "".join(fact.text for fact in reference.facts) == reference.text
    texts = {file: file.stat().st_mtime_ns for file in folder.glob("teacher-*/texts/*")}
    code, repeated, err = run(*arguments, "training.joint.epochs=1")
    assert (code, repeated) == (0, out) and "This run is finished" in err
    for file in (*folder.glob("*.parquet"), folder / "rejects.jsonl"):
        file.unlink()  # as after a kill
    code, repeated, _ = run(*arguments, "training.joint.epochs=1")
    assert (code, repeated) == (0, out)
    assert texts and texts == {file: file.stat().st_mtime_ns for file in folder.glob("teacher-*/texts/*")}


def test_the_folder_of_texts_depends_on_all_that_affects_them() -> None:
    data = agggen.load_dataset("elements")
    teacher = open_model("elements")
    other = replace(teacher, fingerprint="0" * 64)
    distillation = Distillation([teacher, other], data, 10)
    assert distillation.name == Distillation([other, teacher], data, 10).name
    fewer = agggen.Dataset(data.name, {"train": data.train[1:], "dev": data.dev})
    teachers = [teacher, other]
    changes = ([teacher], data, 10), (teachers, data, 11), (teachers, data, 10, 2), (teachers, fewer, 10)
    assert all(Distillation(*arguments).name != distillation.name for arguments in changes)
    without_texts = {split: [replace(r, references=()) for r in data.split(split)] for split in ("train", "dev")}
    assert Distillation([teacher, other, teacher], agggen.Dataset("x", without_texts), 10).name == distillation.name
    with pytest.raises(CorpusError, match="dev has no records"):
        Distillation([teacher], agggen.Dataset("x", {"train": data.train, "dev": []}), 10)


def test_teachers_without_an_accepted_text_are_refused(run: Run) -> None:
    for split in ("train", "dev"):
        triples = [["Aspirin", "treats", "pain"], ["Aspirin", "sold as", "tablets"]]
        json_lines(Path(f"strange.{split}.jsonl"), [{"id": split, "triples": triples}])
    code, out, err = run("distill", "elements", "strange.{train,dev}.jsonl", "--actors", 0)
    assert (code, out) == (2, "") and "the check accepts" in err


@pytest.mark.parametrize("setting", ["training.joint.epoch=1", "text.min_count=9", "model.width=8"])
def test_a_wrong_setting_is_refused_before_texts_are_written(setting: str, records: Path, run: Run) -> None:
    code, _, err = run("distill", "elements", records, "--actors", 0, setting)
    assert code == 2 and setting.partition("=")[0] in err and not Path("runs").exists()


def test_a_concurrent_call_is_refused(records: Path, run: Run) -> None:
    distillation = Distillation([open_model("elements")], agggen.load_dataset(records), 2)
    folder = Path("runs") / distillation.name
    folder.mkdir(parents=True)
    with claim(Folder(str(folder))):
        code, _, err = run("distill", "elements", records, "--actors", 0, "--subsets", 2)
    assert code == 6 and str(folder.resolve()) in err and not (folder / "inputs.jsonl").exists()
