"""Help, messages, exit codes and progress of the command; `agggen corpora` and `facts inspect`."""

from pathlib import Path
from unittest.mock import patch

import pytest

from agggen.corpora.prepared import read_records
from agggen.errors import AggGenError, BundleError
from agggen.facts.clauses import ClauseSegmenter
from agggen_platform.cli import console
from agggen_platform.cli.facts import bracketed
from agggen_platform.cli.main import main
from agggen_platform.cli.shards import shard_progress
from agggen_platform.sharded.driver import Progress
from tests.command import Run, check_succeeds
from tests.unit.facts.role_notation import sentence


@pytest.fixture
def toy_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data home with a small E2E file: two records and an invalid row."""
    folder = tmp_path / "home" / "e2e"
    folder.mkdir(parents=True)
    rows = ['"name[Blue Door], food[Thai]",Blue Door is Thai.', '"name[Mill], area[city]",Mill is central.', '"?",Bad.']
    (folder / "devset.csv").write_text("\n".join(["mr,ref", *rows]) + "\n", encoding="utf-8")
    monkeypatch.setenv("AGGGEN_DATA_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def test_list_shows_which_corpora_are_present(toy_home: Path, run: Run) -> None:
    out, err = check_succeeds(run("corpora", "list"))
    table = [line.split("\t") for line in out.splitlines()]
    assert table[0][:4] == ["name", "present", "splits", "licence"]
    here = {row[0]: row[1] for row in table[1:]}
    assert (here["elements"], here["e2e"], here["webnlg"]) == ("shipped", "yes", "no")
    assert str(toy_home) in err


def test_a_corpus_of_the_catalogue_is_written_as_parquet(toy_home: Path, tmp_path: Path, run: Run) -> None:
    code, out, err = run("prepare", "e2e", "--split", "dev", "--out", str(tmp_path / "out"))
    assert (code, out.splitlines()) == (0, ["split\trecords\ttexts\ttriples", "dev\t2\t2\t2"])
    assert err == f"Written to {tmp_path / 'out'}\n"
    assert len(read_records(tmp_path / "out" / "dev.parquet")) == 2
    assert len((tmp_path / "out" / "rejects.jsonl").read_text().splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("prepare", "e2f", "--out", "x"), "error: no corpus 'e2f'; did you mean e2e?"),
        (("prepare", "e2e", "--out", "x"), "run `agggen corpora fetch e2e`"),
        (("prepare", "e2e", "--out", "x", "--split", "tset"), "error: e2e has no split 'tset'; it has train, dev"),
        (("prepare", "e2e"), "Missing option '--out'"),
        (("corpora", "fetsch"), "No such command 'fetsch'"),
        (("facts", "inspect"), "either texts in quotes, or --corpus"),
        (("facts", "inspect", "A text.", "--corpus", "elements"), "either texts in quotes, or --corpus"),
        (("facts", "inspect", "A text.", "--record", "x"), "--record needs --corpus"),
        (("facts", "inspect", "--corpus", "elements", "--record", "x"), "elements dev has no record 'x'"),
        (("facts", "inspect", "A text.", "--facts", "nope"), "'facts.source' must be 'embedded', 'allennlp'"),
        (("facts", "inspect", "A text.", "facts.level=half"), "'facts.level' must be 'paper'"),
        (("facts", "inspect", "A text.", "--facts", "allennlp"), "needs an archive"),
    ],
)
def test_an_invalid_call_is_one_message_and_exit_code_2(
    toy_home: Path, run: Run, arguments: tuple[str, ...], message: str
) -> None:
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    *_, last = err.splitlines()
    assert last.lower().startswith("error: ") and message in last


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (AggGenError("the plan [a b] is\nno plan"), 2, "error: the plan [a b] is\nno plan\n"),
        (BundleError("changed"), 3, "error: changed\n"),
        (PermissionError(13, "Permission denied", "/x y"), 5, "error: Permission denied: /x y\n"),
        (OSError(28, "No space left on device"), 5, f"error: No space left on device: {__file__}, line "),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_an_error_has_its_exit_code_and_no_traceback(run: Run, error: BaseException, code: int, message: str) -> None:
    def refuse(*_: object) -> None:
        raise error

    with patch.object(console, "print_table", refuse):
        actual, out, err = run("corpora", "list")
    assert (actual, out, err[: len(message) or None]) == (code, "", message)


def test_debug_shows_the_traceback(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("AGGGEN_DEBUG", "1")
    with pytest.raises(SystemExit):
        main(["prepare", "e2f", "--out", "x"])
    first, *_, last = capsys.readouterr().err.splitlines()
    assert first.startswith("Traceback") and last.startswith("error: no corpus 'e2f'")


def test_a_download_prints_its_start_and_end(capsys: pytest.CaptureFixture[str]) -> None:
    advance = console.byte_progress()
    for done in range(0, 5001, 10):
        advance("trainset.csv [x]", done, 5000)
    advance("unknown length", 10, None)
    lines = ["trainset.csv [x]: 0 of 5,000 bytes", "trainset.csv [x]: 5,000 of 5,000 bytes", "unknown length: 10 bytes"]
    assert capsys.readouterr().err.splitlines() == lines


def test_help_keeps_brackets_and_lists_the_commands_for_beginners_first(run: Run) -> None:
    for arguments in ((), ("--help",)):
        _, out, err = run(*arguments)
        assert "[eatType] [near customerRating]" in out + err
        first, _, others = (out + err).partition("Commands to begin with:")[2].partition("More commands:")
        names = [line.split()[0] for line in first.split("\n") if line]
        assert names == ["demo", "studio", "prepare", "train", "generate", "evaluate"]
        assert "..." not in first, "a description is truncated"
        assert "  doctor" in others and "  models" in others and "  train " not in others


def test_progress_of_shards_has_share_speed_and_time_left(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    with shard_progress(lambda _: "7 records/s", lambda _: "9 texts") as show:
        for shards, now in ((20, 4.0), (30, 11.0), (31, 12.0), (40, 22.0)):  # noqa: B007
            show(Progress(shards, 1000, 10, None, seconds=10.0 * (shards - 10)))
    assert capsys.readouterr().err.splitlines() == [
        "3%  30 of 1,000 shards  9 texts  7 records/s  2:41:40 left",
        "4%  40 of 1,000 shards  9 texts  7 records/s  2:40:00 left",
    ]


def test_output_of_ray_goes_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    with shard_progress(lambda _: "", lambda _: ""):
        print("(raylet) A worker died")
    print("records")
    assert capsys.readouterr() == ("records\n", "(raylet) A worker died\n")


# --- agggen facts inspect --------------------------------------------------------------------------------------------


def test_facts_of_a_text(run: Run) -> None:
    text = "Bolt, who was drawn by Gary Cohn, is a comic character."
    out, err = check_succeeds(run("facts", "inspect", text, "--facts", "clauses"))
    (facts,) = ClauseSegmenter().segment([text])
    assert len(facts) > 1
    assert out.splitlines() == [text, *(f"  {n}. {fact.strip()}" for n, fact in enumerate(facts, start=1))]
    assert "no trees" in err


def test_the_shipped_tagger_is_the_default_and_levels_differ(run: Run) -> None:
    text = "The Fig serves fish and was built in 1990 by Ann Roe, who is a chef."
    options = ((), ("--facts", "embedded"), ("facts.level=full",), ("facts.level=paper",))
    outputs = [run("facts", "inspect", text, *arguments) for arguments in options]
    assert {code for code, *_ in outputs} == {0}
    default, embedded, full, paper = (shown for _, shown, _ in outputs)
    assert "(V serves)" in default and "3. who is a chef." in default
    assert default == embedded == full != paper


def test_facts_of_a_corpus_with_their_triples(run: Run) -> None:
    words = ("--corpus", "elements", "--record", "elements-dev-Ne-01", "--limit", "2", "--facts", "clauses")
    shown, _ = check_succeeds(run("facts", "inspect", *words))
    assert shown.count("elements-dev-Ne-01: ") == 2
    assert "[discoveryPlace" in shown


def test_a_frame_in_an_argument_keeps_its_position() -> None:
    text = "Ann ( 30 ) lives in Oslo , which lies in Norway ."
    nested = sentence(
        text,
        "[ARG0: Ann ( 30 )] [V: lives] [ARGM-LOC: in Oslo , which lies in Norway] .",
        "Ann ( 30 ) lives in [ARG1: Oslo] , [R-ARG1: which] [V: lies] [ARGM-LOC: in Norway] .",
    )
    inner = "(lies (ARG1 Oslo) , (R-ARG1 which) (V lies) (ARGM-LOC in Norway))"
    assert bracketed(nested) == f"(S (lives (ARG0 Ann -LRB- 30 -RRB-) (V lives) (ARGM-LOC in {inner})) .)"
    assert bracketed(sentence("No verb .")) == "(S No verb .)"
