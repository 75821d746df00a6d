"""`agggen prepare`, `train`, `evaluate` and `generate` on a user's files."""

import json
from pathlib import Path

import pytest

from agggen import load_dataset, load_model
from tests.command import Run, check_refused, check_succeeds
from tests.unit.cli_write.examples import parsed

NAMES = ("Aromi", "Zizzi", "Mill", "Blue Door", "Żubr", "Cotto", "Strada", "Oda", "Nils", "Ida", "Per", "Liv")
TINY = (
    *("model.width=8", "model.heads=2", "model.layers=1", "model.feed_forward=8", "model.predicate_dim=4"),
    *("training.threads=1", "training.baseline.epochs=1", "training.joint.epochs=1", "facts.source=sentences"),
    *("inference.plans=1", "inference.beam.beam=1", "tracking.uri=nonsense://x", "tracking.samples=0"),
)


@pytest.fixture(autouse=True)
def films(run: Run) -> None:
    rows = "".join(f"{n},{name},{1950 + n},{name} is of {1950 + n}.,http://x\n" for n, name in enumerate(NAMES))
    Path("films.csv").write_bytes(f"key,film,Made In,plot,url\n{rows}".encode() + b"99,Caf\xe9,1999,bad,\n")


COLUMNS = ("--id", "key", "--subject", "film", "--text", "plot", "--ignore", "url", "--rename", "Made In=year")


def test_prepare_reports_on_the_data_and_writes_a_corpus(run: Run) -> None:
    out, err = check_succeeds(run("prepare", "films.csv", "--out", "films", *COLUMNS))
    assert out.startswith("split\trecords\ttexts\ttriples\ntrain\t10\t10\t10\ndev\t1\t1\t1\ntest\t1\t1\t1\n")
    assert "year\t10\t10\t0%" in out
    assert "- rows that could not be read: 1, such as films.csv:14: record '99': not UTF-8: byte 0xe9" in out
    assert "- predicates with fewer than 20 training texts: 1, such as year (10)" in out
    assert "Training with the preset tiny takes about 0 to 1 minutes of a CPU core" in err
    assert "train with: agggen train films" in err
    data = load_dataset("films")
    assert {str(triple.predicate) for record in data.train for triple in record.triples} == {"year"}
    (reject,) = parsed(Path("films/rejects.jsonl").read_text(encoding="utf-8"))
    assert (reject["line"], reject["id"]) == (14, "99")


def test_a_model_is_trained_evaluated_and_used_on_a_file(run: Run) -> None:
    command = ("train", "films.csv", *COLUMNS, *TINY)
    code, out, err = run(*command)
    assert code == 2 and "films.csv: 1 of 13 records were rejected (7.7%, at most 5.0%" in err
    code, out, err = run(*command, "max_reject_share=0.1")
    assert code == 0 and out.startswith(str(Path("runs/films-").absolute())), err
    rejects = Path(out.strip()).with_name("rejects.jsonl")
    assert f"1 invalid records of films.csv are left out; see {rejects}" in err
    (reject,) = parsed(rejects.read_text(encoding="utf-8"))
    assert (reject["file"], reject["line"], reject["id"]) == ("films.csv", 14, "99")
    model = load_model(out.strip())
    assert model.predicates == ("year",)
    code, repeated, err = run(*command, "max_reject_share=0.1")
    assert (code, repeated) == (0, out) and "This run is finished" in err
    bundle = out.strip()
    shown = ("evaluate", bundle, "--corpus", "films.csv", *COLUMNS, "--metrics", "bleu", "-o")
    code, scores, err = run(*shown, "of-dev")
    assert code == 0 and "plain/bleu" in scores, err
    assert "1 records of films.csv cannot be read; the first: films.csv:14: record '99': not UTF-8" in err
    assert len(parsed(Path("of-dev/records.jsonl").read_text(encoding="utf-8"))) == 1
    code, _, err = run(*shown, "of-all", "--split", "all")
    assert code == 0 and len(parsed(Path("of-all/records.jsonl").read_text(encoding="utf-8"))) == 12, err
    for seed in range(1, 6):
        assert run(*shown, f"of-{seed}", "--division-seed", str(seed))[0] == 0
    dev_ids = {parsed(Path(f"of-{seed}/records.jsonl").read_text(encoding="utf-8"))[0]["id"] for seed in range(1, 6)}
    assert len(dev_ids) > 1, "another seed must divide the data differently"
    for name, key in (("generate", "plan"), ("plan", "plans"), ("align", "facts")):
        code, _, err = run(name, bundle, "-i", "films.csv", *COLUMNS, "-o", f"{name}.jsonl")
        lines = parsed(Path(f"{name}.jsonl").read_text(encoding="utf-8"))
        assert code == 0 and [line["id"] for line in lines] == [str(n) for n in range(12)], err
        assert "year" in json.dumps(lines[0][key]) and "url" not in json.dumps(lines[0][key])
    Path("triples.jsonl").write_text('{"triples": [["Alien", "year", "1979"]]}', encoding="utf-8")
    for arguments, message in (
        (("plan", bundle, "-i", "films.csv", "--subject", "movie"), "films.csv has no column 'movie'; it has"),
        (("plan", bundle, "-i", "triples.jsonl", "--subject", "film"), "options that name columns need a table"),
        (("evaluate", bundle, "--corpus", "films.csv", "--subject", "movie"), "films.csv has no column 'movie'"),
    ):
        check_refused(run(*arguments), 2, message)
    Path("new.csv").write_text("name,year\nAlien,1979\n", encoding="utf-8")
    Path("new.jsonl").write_text('{"name": "Heat", "year": 1995}\n', encoding="utf-8")
    for place, name, year in ((Path(bundle).parent, "new.csv", "1979"), (model.path, "new.jsonl", "1995")):
        code, out, err = run("generate", place, "-i", name)
        assert code == 0 and json.loads(out)["plan"] == "[year]" and year in json.loads(out)["text"], err


def test_a_prepared_folder_is_trained_on_and_the_preset_can_be_chosen(run: Run) -> None:
    assert run("prepare", "films.csv", "-o", "films", *COLUMNS)[0] == 0
    code, out, _ = run("train", "films", "--print-config", *TINY)
    assert code == 0 and json.loads(out)["training"]["baseline"]["batch_positions"] == 512, "not the preset tiny"
    code, out, _ = run("train", "films", "--preset", "small", "--print-config", *TINY)
    assert code == 0 and json.loads(out)["training"]["baseline"]["batch_positions"] == 2048
    code, out, _ = run("train", "elements", "--preset", "small", "--print-config")
    assert code == 0 and json.loads(out)["text"]["min_count"] == 2, "read as the preset of the same name"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("prepare", "films.csv", "-o", "x", "--rename", "year"), "--rename takes COLUMN=PREDICATE"),
        (("prepare", "none.csv", "-o", "x"), "cannot read none.csv: no such file"),
        (("train", "elements", "--text", "plot"), "options that name columns need data, and elements is read as"),
        (("train", "none.csv"), "cannot read none.csv: no such file"),
    ],
)
def test_invalid_calls_print_one_error_line(run: Run, arguments: tuple[str, ...], message: str) -> None:
    check_refused(run(*arguments), 2, message)
    assert not Path("x").exists() and not Path("runs").exists()
