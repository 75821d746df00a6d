"""AllenNLP's frame source with a worker that crashes, hangs and returns invalid responses on demand."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from agggen.errors import ConfigError
from agggen.facts.config import AllenNLPConfig
from agggen.facts.frames import Frame, FrameSource, Phrase
from agggen_platform.srl.environment import AllenNLPError
from agggen_platform.srl.source import AllenNLPFrames
from agggen_platform.srl.worker import hash_of
from tests.unit.srl.fakes import Verbs, archive, fake_environment, install_packages, words
from tests.unit.srl.test_environment import is_gone


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    fake_environment(tmp_path / "env", monkeypatch)
    return tmp_path


Make = Callable[..., AllenNLPFrames]


@pytest.fixture
def make(folder: Path) -> Iterator[Make]:
    sources: list[AllenNLPFrames] = []

    def make(
        kind: str = "srl_bert", name: str = "good", predicates: FrameSource | None = None, **options: object
    ) -> AllenNLPFrames:
        path = archive(folder, kind, f"{name}.tar.gz")
        config = AllenNLPConfig(str(path), environment=str(folder / "env"), **options)  # type: ignore[arg-type]
        sources.append(AllenNLPFrames(config, predicates or Verbs("runs", "is")))
        return sources[-1]

    yield make
    for source in sources:
        source.close()


def recorded_numbers(source: AllenNLPFrames, name: str) -> list[int]:
    path = Path(str(source.config.environment)) / "fakes" / name
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def frame_at(word: int) -> tuple[Frame, ...]:
    return (Frame(word, (Phrase("V", word, word + 1),)),)


def test_frames_come_in_the_order_of_the_sentences(make: Make) -> None:
    texts = ["a very very long one runs", "b runs", "", "nothing here", "who runs is"]
    source = make()
    expected = [frame_at(5), frame_at(1), (), (), frame_at(1) + frame_at(2)]
    for _ in range(2):
        assert source.frames([words(text) for text in texts]) == expected
    assert len(recorded_numbers(source, "starts")) == 1


@pytest.mark.parametrize(
    ("text", "reason", "starts"),
    [
        ("x " * 20 + "runs", "the sentence has 21 word pieces, but the model's maximum is 20", 1),
        ("ODD runs", "the model's tags are not a valid frame: .*BIO tag", 1),
        ("KEY runs", "KeyError: 'KEY'", 1),
        ("DIE runs", "the AllenNLP worker died twice on this sentence: .* killed by SIGKILL", 3),
        ("HANG runs", "the AllenNLP worker died twice on this sentence: .* did not answer within 2 s", 3),
    ],
)
def test_a_sentence_that_cannot_be_tagged_is_named(make: Make, text: str, reason: str, starts: int) -> None:
    source = make(timeout=2)
    with pytest.raises(AllenNLPError, match=f"no frames for the sentence '{text[:8]}.*: {reason}"):
        source.frames([words("a runs"), words(text), words("b c runs")])
    assert source.frames([words("a runs"), words("b c runs")]) == [frame_at(1), frame_at(2)]
    *ended, _ = pids = recorded_numbers(source, "starts")
    assert len(pids) == starts  # the first start, and one after each crash
    assert all(is_gone(pid) for pid in ended)


def test_sentences_are_retried_after_a_worker_was_killed_once(make: Make) -> None:
    source = make()
    assert source.frames([words("ONCE runs"), words("a runs")]) == [frame_at(1), frame_at(1)]
    assert len(recorded_numbers(source, "starts")) == 2


def test_a_worker_that_dies_repeatedly_is_an_error(make: Make) -> None:
    source = make(restarts=2)
    with pytest.raises(AllenNLPError, match="died 3 times in a row: the worker was killed by SIGKILL"):
        source.frames([words("DIE runs")] * 5)
    with pytest.raises(AllenNLPError, match="died 3 times in a row"):
        source.frames([words("a runs")])
    assert len(recorded_numbers(source, "starts")) == 3


def test_batches_have_the_configured_size_and_a_failure_of_one_is_an_error(make: Make) -> None:
    source = make(batch_size=4)
    source.frames([words("a runs")] * 10 + [words("without a verb")])
    assert recorded_numbers(source, "batches") == [4, 4, 2]
    with pytest.raises(AllenNLPError, match="the AllenNLP worker failed: KeyError: 'tags'"):
        source.frames([words("FAIL runs")])
    assert source.frames([words("a runs")]) == [frame_at(1)]


@pytest.mark.parametrize(
    ("kind", "name", "message"),
    [
        ("coref", "good", "cannot load the archive: .* has the model type 'coref'"),
        ("srl", "crash", "did not start(?s:.*)no such module"),
    ],
)
def test_a_worker_that_cannot_start_is_not_restarted(make: Make, kind: str, name: str, message: str) -> None:
    source = make(kind, name)
    for _ in range(2):
        with pytest.raises(AllenNLPError, match=message):
            source.frames([words("a runs")])
    assert len(recorded_numbers(source, "starts")) == 1
    assert all(is_gone(pid) for pid in recorded_numbers(source, "starts"))


def test_calls_of_threads_are_serialised(make: Make) -> None:
    source = make(batch_size=2)
    result: list[list[tuple[Frame, ...]]] = []
    sentences = [words("a runs"), words("b c runs"), words("d e f runs")]
    threads = [threading.Thread(target=lambda: result.append(source.frames(sentences))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert result == [[frame_at(1), frame_at(2), frame_at(3)]] * 6
    assert len(recorded_numbers(source, "starts")) == 1


def test_the_fingerprint_covers_exactly_what_affects_the_frames(make: Make, folder: Path) -> None:
    source = make()
    same = [source.fingerprint, make(batch_size=1).fingerprint, make(timeout=5, threads=1).fingerprint]
    others = [make(name="other").fingerprint, make(predicates=Verbs("runs", "is", fingerprint="verbs-2")).fingerprint]
    (folder / "spacy").mkdir()
    others.append(AllenNLPFrames(replace(source.config, spacy=str(folder / "spacy"))).fingerprint)
    install_packages(folder / "env", ["allennlp"], "2.0")
    others.append(make().fingerprint)
    assert len(set(same)) == 1
    assert len({source.fingerprint, *others}) == 5
    assert recorded_numbers(source, "starts") == []


def test_an_archive_with_another_digest_is_refused(make: Make) -> None:
    source = make(sha256="0" * 64)
    problem = f"has the sha256 {hash_of(source.config.archive)}, not the configured 0000"
    with pytest.raises(AllenNLPError, match=problem):
        source.frames([words("a runs")])


@pytest.mark.parametrize(
    "options",
    [{"device": "gpu"}, {"device": "cuda:x"}, {"batch_size": 0}, {"timeout": 0}, {"restarts": -1}, {"threads": 0}],
)
def test_invalid_settings_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        AllenNLPConfig("a.tar.gz", **options)  # type: ignore[arg-type]
