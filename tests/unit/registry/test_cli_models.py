"""`agggen models`, and model addresses in other commands."""

import json
from pathlib import Path

import pytest

from agggen.bundle import CRITIC_FILES, fingerprint, write_manifest
from agggen.checks import shipped_critic
from agggen_platform.mlflow_client import mlflow_client
from agggen_platform.registry.store import registry_uri
from agggen_platform.serving.config import ServeConfig
from agggen_platform.serving.target import find_target
from tests.command import Run, check_refused
from tests.unit.registry.examples import RECORDS, save_model, write_report

pytestmark = pytest.mark.usefixtures("store")


def test_register_record_promote_and_roll_back(run: Run, trained: list[Path], tmp_path: Path) -> None:
    reports = [write_report(tmp_path / f"report-{n}", bundle, 50.0 + n) for n, bundle in enumerate(trained)]
    code, out, err = run("models", "register", trained[0])
    assert (code, out) == (0, "models:/agggen/1\n")
    assert run("models", "record", "agggen/1", reports[0])[0] == 0
    assert "agggen models promote agggen/1" in err
    assert run("models", "promote", "agggen@candidate")[:2] == (0, "models:/agggen@champion is version 1\n")

    assert run("models", "register", trained[1])[1] == "models:/agggen/2\n"
    code, out, err = run("models", "promote", "models:/agggen/2")
    assert (code, out) == (9, "")
    assert err.startswith("error: agggen/2 as champion is refused:\n  - metric gate: no common evaluation")
    assert run("models", "record", "agggen/2", reports[1])[1] == "2 scores on toy dev (12 records, protocol plain)\n"
    code, out, err = run("models", "promote", "agggen/2", "--metric", "plain/ter")
    assert (code, out) == (0, "models:/agggen@champion is version 2 (before: 1)\n")
    assert err.startswith("plain/ter 40.00 against 40.00 of version 1")

    assert run("models", "rollback", "agggen")[1] == "models:/agggen@champion is version 1 (before: 2)\n"
    assert run("models", "rollback", "agggen")[0] == 8


def test_list_and_show(run: Run, three: list[Path], tmp_path: Path) -> None:
    run("models", "promote", "agggen/2")
    code, out, err = run("models", "promote", "agggen/1", "--force")
    assert (code, out) == (0, "models:/agggen@champion is version 1 (before: 2)\n")
    assert err.startswith("METRIC GATE OVERRULED: plain/bleu 50.00 against 51.00")
    mlflow_client(registry_uri()).create_registered_model("another team's model")  # not by agggen
    code, out, _ = run("models", "list")
    rows = [line.split("\t") for line in out.splitlines()]
    assert code == 0
    assert rows[0] == ["version", "aliases", "bundle", "run", "registered", "address"]
    assert [(row[0], row[1], row[3], row[5]) for row in rows[1:]] == [
        ("agggen/1", "champion", "run-0", str(three[0])),
        ("agggen/2", "-", "run-1", str(three[1])),
        ("agggen/3", "candidate", "run-2", str(three[2])),
    ]
    assert run("models", "list", "agggen")[1] == out
    copied = save_model(tmp_path / "toy-9" / "bundle", 9)
    run("models", "register", copied, "--name", "copied", "--to", tmp_path / "store")
    assert run("models", "list", "copied")[1].splitlines()[1].split("\t")[3] == "toy-9"
    code, out, _ = run("models", "show", "agggen@champion")
    table = dict(line.split("\t") for line in out.splitlines())
    assert code == 0
    assert (table["version"], table["address"]) == ("agggen/1", str(three[0]))
    assert table["bundle.fingerprint"] == fingerprint(three[0])
    assert (table["joint.dev_loss"], table["data.toy/train"]) == ("2.2500", "ab12")
    assert table["plain/bleu on toy dev (12 records, protocol plain)"] == "50.0000"
    assert any("2 -> 1 (metric gate overruled): plain/bleu 50.00 against 51.00" in value for value in table.values())


@pytest.mark.parametrize("command", ["generate", "plan", "align", "inspect"])
def test_commands_take_a_model_address(run: Run, three: list[Path], tmp_path: Path, command: str) -> None:
    (tmp_path / "r.jsonl").write_text(json.dumps(RECORDS[0].as_dict()) + "\n")
    options = () if command == "inspect" else ("-i", "r.jsonl")
    by_address = run(command, "models:/agggen@candidate", *options)
    assert by_address[0] == 0, by_address[2]
    assert by_address == run(command, three[2], *options)
    assert by_address != run(command, "models:/agggen/1", *options)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("generate", "models:/agggen@champion"), 8, "has no alias 'champion'; it has candidate (version 3)"),
        (("evaluate", "models:/agggen/9", "--corpus", "elements"), 8, "has no version 9; it has 1, 2, 3"),
        (("inspect", "models:/agggen"), 8, "is not a version of a model"),
        (("models", "show", "aggen/1"), 8, "did you mean agggen?"),
        (("models", "record", "agggen/1", "nowhere"), 2, "nowhere has no report of `agggen evaluate`"),
        (("models", "record", "agggen/1", "runs:/0123"), 8, "cannot be used: Run with id=0123 not found"),
        (("models", "register", "nowhere"), 3, "no bundle at"),
        (("models", "register", "s3:///x"), 2, "names no bucket"),
        (("models", "register", "BUNDLE", "--to", "s3://"), 2, "names no bucket"),  # regression: local folder "s3:"
        (("models", "list", "--registry", "http://127.0.0.1:9"), 8, "it does not answer"),
    ],
)
def test_an_error_is_one_line(run: Run, three: list[Path], arguments: tuple[str, ...], code: int, message: str) -> None:
    words = [three[0] if word == "BUNDLE" else word for word in arguments]
    check_refused(run(*words), code, message)


@pytest.fixture
def critic(tmp_path: Path) -> Path:
    """The shipped critic in a folder with a manifest, as written by `agggen train-critic`."""
    shipped_critic().save(tmp_path / "own-critic")
    write_manifest(tmp_path / "own-critic", CRITIC_FILES)
    return tmp_path / "own-critic"


def test_a_critic_is_registered_promoted_and_used(run: Run, critic: Path, tmp_path: Path) -> None:
    assert run("models", "register", critic, "--name", "critic", "--to", tmp_path / "store")[1] == "models:/critic/1\n"
    code, out, err = run("models", "promote", "critic@candidate")
    assert (code, out) == (0, "models:/critic@champion is version 1\n"), err
    shown = run("models", "show", "critic@champion")[1]
    assert "metric" not in shown and "bundle.run" not in shown
    assert "calibration_error\t0.0678" in shown and 'data.corpora\t["rel2text"' in shown
    texts = tmp_path / "texts.jsonl"
    texts.write_text('{"triples": [["Silicon", "symbol", "Si"]], "text": "The symbol of silicon is Si."}\n')
    included, registered = (
        run("check", texts, "--critic", name, "--json", "-")[1] for name in ("included", "models:/critic@champion")
    )
    assert included == registered and json.loads(included)["risk"] < 0.5
    target = find_target(ServeConfig("elements", critic="models:/critic@champion"))
    assert target.critic == str(next((tmp_path / "store").glob("*/bundle")))


def test_a_critic_cannot_be_evaluated_and_a_changed_one_is_refused(run: Run, critic: Path, tmp_path: Path) -> None:
    evaluated = run("evaluate", critic, "--corpus", "elements", "-o", tmp_path / "report")
    check_refused(evaluated, 3, "is a critic, not a model that generates texts")
    register = ("models", "register", critic, "--name", "critic")
    (critic / "notes.txt").write_text("x")
    check_refused(run(*register), 3, "notes.txt is not part of a bundle (critic.json, weights.safetensors")
    (critic / "notes.txt").unlink()
    with (critic / "critic.json").open("a") as file:
        file.write(" ")
    check_refused(run(*register), 3, "critic.json does not match")
