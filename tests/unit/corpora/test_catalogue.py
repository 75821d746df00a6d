"""The catalogue: names, folders, counts of the real corpora; downloads: retries, verification, error messages."""

import hashlib
from pathlib import Path

import pytest

from agggen.corpora.catalogue import data_home as find_data_home
from agggen.corpora.catalogue import get_corpus, list_corpora, load
from agggen.corpora.elements import SPLITS, elements_records
from agggen.corpora.fetch import FetchReport, RemoteFile, fetch, fetch_files, read_manifest
from agggen.corpora.rejects import split_rejects
from agggen.datasets import fingerprint_of
from agggen.errors import CorpusError
from tests.file_server import CONTENT, FileServer
from tests.processes import free_ports


def test_an_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(CorpusError, match=r"no corpus 'webnlp'; did you mean webnlg\? There are elements, e2e"):
        load("webnlp", "train")
    with pytest.raises(CorpusError, match="e2e has no split 'valid'; it has train, dev, test"):
        load("e2e", "valid")


def test_errors_about_missing_files_say_how_to_obtain_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGGGEN_DATA_HOME", str(tmp_path))
    with pytest.raises(
        CorpusError, match=r"devset\.csv is missing; run `agggen corpora fetch e2e`, or set AGGGEN_DATA"
    ):
        load("e2e", "dev")
    with pytest.raises(CorpusError, match="evaluation is missing; copy the folder eva_webnlg/annotation_human of "):
        load("webnlg-plans", "test")
    (tmp_path / "agggen_release/human_annotations/evaluation").mkdir(parents=True)
    with pytest.raises(CorpusError, match=r"testdata_with_lex\.xml is missing; run `agggen corpora fetch webnlg`"):
        load("webnlg-plans", "test")


def test_the_data_home_is_the_variable_or_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGGGEN_DATA_HOME", "/data")
    assert find_data_home() == Path("/data")
    monkeypatch.delenv("AGGGEN_DATA_HOME")
    assert find_data_home() == Path.home() / ".cache/agggen/data"


# Records, references, rejects, references with a plan. References and rejects sum to the rows of the file.
@pytest.mark.parametrize(
    ("corpus", "split", "records", "references", "rejects", "plans"),
    [
        ("e2e", "train", 4862, 42061, 0, 0),
        ("e2e", "dev", 547, 4672, 0, 0),
        ("e2e", "test", 630, 4693, 0, 0),
        ("e2e-cleaned", "train", 12568, 33525, 0, 0),
        ("e2e-cleaned", "dev", 1484, 4299, 0, 0),
        ("e2e-cleaned", "test", 1847, 4693, 0, 0),
        ("webnlg", "train", 6940, 18102, 0, 0),
        ("webnlg", "dev", 872, 2268, 0, 0),
        ("webnlg", "test", 1862, 4928, 0, 0),
        ("webnlg", "test-seen", 971, 2495, 0, 0),
        ("webnlg", "test-unseen", 891, 2433, 0, 0),
        ("webnlg-1.6", "train", 6940, 18102, 0, 16932),
        ("webnlg-1.6", "dev", 872, 2262, 6, 2033),  # six texts are empty in 1.6
        ("webnlg-3.0", "train", 13211, 35426, 0, 0),
        ("webnlg-3.0", "dev", 1667, 4464, 0, 0),
        ("webnlg-2.1-constrained", "train", 12895, 34403, 0, 0),
        ("webnlg-2.1-constrained", "dev", 1594, 4226, 0, 0),
        ("webnlg-2.1-constrained", "test", 1606, 4244, 0, 0),
        ("rel2text", "train", 3150, 3155, 0, 0),
        ("rel2text", "dev", 326, 326, 0, 0),
        ("rel2text", "test", 616, 616, 0, 0),
        ("webnlg-plans", "test", 100, 274, 0, 274),
    ],
)
def test_counts_of_the_real_corpora(
    data_home: Path, corpus: str, split: str, records: int, references: int, rejects: int, plans: int
) -> None:
    read, rejected = split_rejects(load(corpus, split))
    texts = [(record, reference.plan) for record in read for reference in record.references]
    human = [sorted(plan.predicates) == sorted(record.predicates) for record, plan in texts if plan]
    assert (len(read), len(texts), len(rejected), len(human)) == (records, references, rejects, plans)
    assert all(human) and len({record.id for record in read}) == records


def test_the_records_of_elements_have_the_pinned_hash() -> None:
    records = [record for split in SPLITS for record in elements_records(split)]
    assert fingerprint_of(records) == "02560136e5d7c017223d84993a481dcb086c72291b56a2a0b9c8b932c90e3488"


def test_the_test_set_of_3_0_is_split_by_categories_and_subjects_of_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGGGEN_DATA_HOME", str(tmp_path))

    def benchmark(path: Path, *entries: tuple[str, str]) -> None:
        path.parent.mkdir(parents=True)
        items = "".join(
            f'<entry category="{category}" eid="Id{number}" size="1"><modifiedtripleset><mtriple>{triple}</mtriple>'
            f'</modifiedtripleset><lex lid="Id1">A text.</lex></entry>'
            for number, (category, triple) in enumerate(entries, start=1)
        )
        path.write_text(f"<benchmark><entries>{items}</entries></benchmark>", encoding="utf-8")

    folder = tmp_path / "webnlg_3.0/en"
    benchmark(folder / "train/1triples/City.xml", ("City", "Rome | mayor | Ann"), ("City", "Oslo | country | Norway"))
    entries = (("City", "Rome | area | 5"), ("City", "Norway | capital | Oslo"), ("Film", "Rome | director | Ben"))
    benchmark(folder / "test/rdf-to-text-generation-test-data-with-refs-en.xml", *entries)
    parts = {part: split_rejects(load("webnlg-3.0", part))[0] for part in get_corpus("webnlg-3.0").splits[2:]}
    assert {part: [record.id[-3:] for record in records] for part, records in parts.items()} == {
        "test": ["Id1", "Id2", "Id3"],
        "test-seen": ["Id1"],
        "test-unseen-entities": ["Id2"],
        "test-unseen-categories": ["Id3"],
    }
    assert parts["test-seen"][0].id == "webnlg-test-1-City-Id1"


HASH = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture(autouse=True)
def delays(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Skips the pauses between requests and records their seconds."""
    seconds: list[float] = []
    monkeypatch.setattr("time.sleep", seconds.append)
    return seconds


def fetch_file(files: FileServer, folder: Path, path: str = "a.csv", sha256: str | None = HASH) -> FetchReport:
    return fetch_files([RemoteFile(path, len(CONTENT) if sha256 else None, sha256, files.url(path))], folder)


def test_valid_files_are_not_downloaded_again(files: FileServer, tmp_path: Path) -> None:
    assert fetch_file(files, tmp_path) == FetchReport(tmp_path, 1, 0)
    assert fetch_file(files, tmp_path) == FetchReport(tmp_path, 0, 1)
    assert files.requests == 1
    (tmp_path / "a.csv").write_bytes(CONTENT[:-1] + b"x")
    assert fetch_file(files, tmp_path).n_downloaded == 1
    assert (tmp_path / "a.csv").read_bytes() == CONTENT
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]
    files.content = b"other"
    assert fetch_file(files, tmp_path, sha256=None).n_present == 1
    assert [fetch_file(files, tmp_path, "unverified", sha256=None).n_downloaded for _ in range(2)] == [1, 0]


def test_cut_connections_and_busy_servers_are_retried(files: FileServer, tmp_path: Path, delays: list[float]) -> None:
    files.cut_after, files.failures = [100_000], 2
    fetch_file(files, tmp_path)
    assert (files.requests, delays, (tmp_path / "a.csv").read_bytes()) == (4, [1, 2, 4], CONTENT)


def test_a_failed_download_states_the_reason_and_leaves_no_file(files: FileServer, tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"cannot download absent from .*: the server responded 404 Not Found"):
        fetch_file(files, tmp_path, "absent")
    assert files.requests == 1
    files.cut_after = [100_000] * 4
    with pytest.raises(CorpusError, match=r"the connection ended after 100,000 bytes\. .* the folder AGGGEN_DATA_HOME"):
        fetch_file(files, tmp_path)
    files.failures = 4
    with pytest.raises(CorpusError, match="the server responded 503"):
        fetch_file(files, tmp_path)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_text("")
    with pytest.raises(CorpusError, match=r"cannot write .*file/a\.csv"):
        fetch_file(files, tmp_path / "file")


@pytest.mark.parametrize("content", [CONTENT[:-1] + b"x", CONTENT + b"x" * 100_000, CONTENT[:1000]])
def test_a_file_with_the_wrong_hash_is_refused(files: FileServer, tmp_path: Path, content: bytes) -> None:
    files.content = content
    with pytest.raises(CorpusError, match=r"does not have the expected SHA-256 \(received .* bytes\)"):
        fetch_file(files, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_an_error_without_network_recommends_copying(tmp_path: Path) -> None:
    file = RemoteFile("a", 1, "0" * 64, f"http://127.0.0.1:{free_ports(1)[0]}/a")
    with pytest.raises(CorpusError, match=r"cannot download a from .*refused\. Without network, copy"):
        fetch_files([file], tmp_path)


def test_manifests_pin_every_file_by_commit_and_hash() -> None:
    for corpus in list_corpora():
        manifest = read_manifest(corpus.name)
        assert bool(manifest) == (corpus.folder is not None and not corpus.copied_from)
        assert len({file.path for file in manifest}) == len(manifest)
        assert [file.path.split("/")[0] for file in manifest if file.sha256 is None] in ([], ["test"])
        for file in manifest:
            assert file.sha256 is None or len(file.sha256) == 64
            assert file.url.startswith("https://")
            assert any(len(part) == 40 for part in file.url.split("/"))
        for path in corpus.files.values():
            assert not manifest or any(file.path == path or file.path.startswith(path + "/") for file in manifest)


def test_a_corpus_without_a_download_names_source_and_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGGGEN_DATA_HOME", str(tmp_path))
    with pytest.raises(CorpusError, match="cannot be downloaded, since its release states no licence") as error:
        fetch("webnlg-plans")
    assert f"to {tmp_path}/agggen_release/human_annotations/evaluation" in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_the_pinned_hashes_are_those_of_the_real_corpora(data_home: Path) -> None:
    for corpus in list_corpora():
        for file in read_manifest(corpus.name):
            if file.sha256 is not None:
                path = data_home / str(corpus.folder) / file.path
                assert hashlib.sha256(path.read_bytes()).hexdigest() == file.sha256
                assert path.stat().st_size == file.bytes
