"""AllenNLP's frame source against a worker without AllenNLP that dies, hangs and gives invalid answers on demand."""

import hashlib
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from agggen.errors import ConfigError
from agggen.facts.config import AllenNLPConfig
from agggen.facts.frames import Frame, FrameSource, Phrase, Words
from agggen_platform.srl import environment
from agggen_platform.srl.environment import NEEDED
from agggen_platform.srl.process import AllenNLPError
from agggen_platform.srl.source import AllenNLPFrames, NoFrames
from tests.unit.facts.role_notation import joined
from tests.unit.srl.test_process import is_gone

FAKE = Path(__file__).with_name("fake_worker.py")


class Verbs:
    """A frame source that finds the words "runs" and "is"."""

    name = "verbs"

    def __init__(self, fingerprint: str = "verbs-1") -> None:
        self.fingerprint = fingerprint

    def frames(self, sentences: Sequence[Words]) -> list[tuple[Frame, ...]]:
        return [
            tuple(Frame(i, (Phrase("V", i, i + 1),)) for i, word in enumerate(sentence.words) if word in ("runs", "is"))
            for sentence in sentences
        ]


def install_packages(folder: Path, names: Sequence[str] = NEEDED, version: str = "1.0") -> None:
    """Writes the metadata of installed packages."""
    for name in names:
        about = folder / "lib" / "python3.10" / "site-packages" / f"{name.replace('-', '_')}-1.0.dist-info"
        about.mkdir(parents=True, exist_ok=True)
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name.replace('-', '_')}\nVersion: {version}\n")


def fake_environment(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Looks like AllenNLP's environment, with the fake worker in place of the real one."""
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python").symlink_to(sys.executable)
    install_packages(folder)
    monkeypatch.setattr(environment, "WORKER", FAKE)
    return folder


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    fake_environment(tmp_path / "env", monkeypatch)
    return tmp_path


Make = Callable[..., AllenNLPFrames]


@pytest.fixture
def make(folder: Path) -> Iterator[Make]:
    sources: list[AllenNLPFrames] = []

    def make(archive: str = "good", predicates: FrameSource | None = None, **options: object) -> AllenNLPFrames:
        path = folder / f"{archive}.tar.gz"
        path.write_text(archive)
        config = AllenNLPConfig(str(path), environment=str(folder / "env"), **options)  # type: ignore[arg-type]
        sources.append(AllenNLPFrames(config, predicates or Verbs()))
        return sources[-1]

    yield make
    for source in sources:
        source.close()


def words(text: str) -> Words:
    return joined(text.split())


def noted(source: AllenNLPFrames, kind: str) -> list[int]:
    path = Path(f"{source.config.archive}.{kind}")
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def frame_at(word: int) -> tuple[Frame, ...]:
    return (Frame(word, (Phrase("V", word, word + 1),)),)


def test_frames_come_in_the_order_of_the_sentences(make: Make) -> None:
    texts = ["a very very long one runs", "b runs", "", "nothing here", "who runs is"]
    source = make()
    for _ in range(2):
        assert source.frames([words(text) for text in texts]) == [
            frame_at(5),
            frame_at(1),
            (),
            (),
            frame_at(1) + frame_at(2),
        ]
    assert len(noted(source, "starts")) == 1


def test_batches_are_as_large_as_asked(make: Make) -> None:
    source = make(batch_size=4)
    source.frames([words("a runs")] * 10 + [words("without a verb")])
    assert noted(source, "batches") == [4, 4, 2]


def test_a_sentence_without_frames_has_a_reason(make: Make) -> None:
    source = make()
    sentences = [words("a runs"), words("LONG runs"), words("ODD runs")]
    good, long, odd = source.answers(sentences)
    assert good == frame_at(1)
    assert long == NoFrames("the sentence has 600 word pieces, the model takes 512")
    assert isinstance(odd, NoFrames) and "BIO tag" in odd.reason
    with pytest.raises(AllenNLPError, match="sentence 'LONG runs': the sentence has 600 word pieces"):
        source.frames(sentences)
    assert len(noted(source, "starts")) == 1


def test_only_the_sentence_that_kills_the_worker_has_no_frames(make: Make) -> None:
    source = make()
    first, deadly, last = source.answers([words("a runs"), words("DIE runs"), words("b c runs")])
    assert (first, last) == (frame_at(1), frame_at(2))
    assert isinstance(deadly, NoFrames) and "killed by SIGKILL" in deadly.reason
    pids = noted(source, "starts")
    assert len(pids) == 3  # for the batch, and after each death
    assert all(is_gone(pid) for pid in pids[:2])


def test_a_worker_that_is_killed_once_loses_nothing(make: Make) -> None:
    source = make()
    assert source.frames([words("ONCE runs"), words("a runs")]) == [frame_at(1), frame_at(1)]
    assert len(noted(source, "starts")) == 2


def test_a_worker_that_dies_repeatedly_is_given_up(make: Make) -> None:
    source = make(restarts=2)
    with pytest.raises(AllenNLPError, match="died 3 times in a row: the worker was killed by SIGKILL"):
        source.frames([words("DIE runs")] * 5)
    with pytest.raises(AllenNLPError, match="died 3 times in a row"):
        source.frames([words("a runs")])
    assert len(noted(source, "starts")) == 3


def test_a_worker_that_hangs_is_replaced(make: Make) -> None:
    source = make(timeout=2)
    good, hanging = source.answers([words("a runs"), words("HANG runs")])
    assert good == frame_at(1)
    assert isinstance(hanging, NoFrames) and "did not answer within 2 s" in hanging.reason
    assert all(is_gone(pid) for pid in noted(source, "starts"))


def test_a_failure_of_the_worker_is_an_error(make: Make) -> None:
    source = make()
    with pytest.raises(AllenNLPError, match="the AllenNLP worker failed: cannot tag"):
        source.frames([words("FAIL runs")])
    assert source.frames([words("a runs")]) == [frame_at(1)]


@pytest.mark.parametrize(
    ("archive", "message"),
    [
        ("refuse", "cannot load the archive: the archive is invalid"),
        ("crash", "did not start(?s:.*)no such module"),
    ],
)
def test_a_worker_that_cannot_start_is_not_restarted(make: Make, archive: str, message: str) -> None:
    source = make(archive)
    for _ in range(2):
        with pytest.raises(AllenNLPError, match=message):
            source.frames([words("a runs")])
    assert len(noted(source, "starts")) == 1
    assert all(is_gone(pid) for pid in noted(source, "starts"))


def test_threads_take_turns(make: Make) -> None:
    source = make(batch_size=2)
    result: list[list[tuple[Frame, ...]]] = []
    sentences = [words("a runs"), words("b c runs"), words("d e f runs")]
    threads = [threading.Thread(target=lambda: result.append(source.frames(sentences))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert result == [[frame_at(1), frame_at(2), frame_at(3)]] * 6
    assert len(noted(source, "starts")) == 1


def test_the_fingerprint_covers_exactly_what_affects_the_frames(make: Make, folder: Path) -> None:
    source = make()
    same = [source.fingerprint, make(batch_size=1).fingerprint, make(timeout=5, threads=1).fingerprint]
    others = [make("other").fingerprint, make(predicates=Verbs("verbs-2")).fingerprint]
    (folder / "spacy").mkdir()
    spacy = AllenNLPFrames(
        AllenNLPConfig(source.config.archive, environment=str(folder / "env"), spacy=str(folder / "spacy"))
    )
    others.append(spacy.fingerprint)
    install_packages(folder / "env", ["allennlp"], "2.0")
    others.append(make().fingerprint)
    assert len(set(same)) == 1
    assert len({source.fingerprint, *others}) == 5
    assert noted(source, "starts") == []


def test_an_archive_with_another_digest_is_refused(make: Make) -> None:
    source = make(sha256="0" * 64)
    with pytest.raises(AllenNLPError, match=f"has the sha256 {hashlib.sha256(b'good').hexdigest()}, not 0000"):
        source.frames([words("a runs")])


@pytest.mark.parametrize(
    "options",
    [{"device": "gpu"}, {"device": "cuda:x"}, {"batch_size": 0}, {"timeout": 0}, {"restarts": -1}, {"threads": 0}],
)
def test_invalid_settings_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        AllenNLPConfig("a.tar.gz", **options)  # type: ignore[arg-type]
