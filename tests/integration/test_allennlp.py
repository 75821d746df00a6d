"""The frame source with archives that AllenNLP trains here, compared with AllenNLP's own predictor.

Needs the environment that `make srl` creates (AGGGEN_SRL_ENV or the default folder); skipped without it.
"""

import io
import json
import os
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agggen.config import load_config
from agggen.corpora.prepared import read_records, write_records
from agggen.facts.config import AllenNLPConfig
from agggen.facts.framed import FrameSegmenter
from agggen.facts.frames import Tokens
from agggen.records import Record, Reference, Triple
from agggen.run import RunConfig, prepare
from agggen_platform.cli.main import main
from agggen_platform.segmentation.config import SegmentConfig
from agggen_platform.segmentation.job import segment
from agggen_platform.srl.environment import AllenNLPError, Environment, find_environment, worker_environment
from agggen_platform.srl.source import AllenNLPFrames
from agggen_platform.srl.worker import hash_of
from tests.integration.allennlp_archives import SENTENCES
from tests.unit.facts.role_notation import joined, parse_allennlp, sentence, tags_of
from tests.unit.srl.fakes import Verbs, words

pytestmark = pytest.mark.slow

TRAINER = Path(__file__).with_name("allennlp_archives.py")
TEXT = "Ada wrote the first program. The engineer, who built the engine, lives in Turin."
KINDS = {"bert": "srl_bert", "lstm": "srl"}
KNOWN_VERBS = Verbs(*{text[tags.index("B-V")] for text, tags in map(tags_of, SENTENCES)})


@pytest.fixture(scope="module")
def environment() -> Environment:
    try:
        return find_environment()
    except AllenNLPError as error:
        if os.environ.get("AGGGEN_SRL_ENV"):
            pytest.fail(f"AGGGEN_SRL_ENV: {error}")
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def trained(environment: Environment, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the output of `allennlp_archives.py`, which takes about ten CPU seconds."""
    folder = tmp_path_factory.mktemp("allennlp")
    env = worker_environment(folder, online=False) | {"OMP_NUM_THREADS": "1"}
    command = [environment.python, "-I", TRAINER, folder]
    completed = subprocess.run(command, capture_output=True, text=True, env=env, timeout=900)
    assert completed.returncode == 0, completed.stderr[-3000:]
    return folder


@pytest.fixture(scope="module", params=KINDS)
def source(request: pytest.FixtureRequest, trained: Path) -> Iterator[AllenNLPFrames]:
    config = AllenNLPConfig(str(trained / f"{request.param}.tar.gz"), threads=1, batch_size=256)
    with closing(AllenNLPFrames(config, KNOWN_VERBS)) as source:
        yield source


def kind(source: AllenNLPFrames) -> str:
    return Path(source.config.archive).name.partition(".")[0]


def training_sentences() -> list[Tokens]:
    return [joined(tags_of(description)[0]) for description in SENTENCES]


def test_the_model_reproduces_its_training_frames(source: AllenNLPFrames) -> None:
    """The model must reproduce most of its ten training sentences; with shifted words or predicates it could not."""
    correct = 0
    for description, frames in zip(SENTENCES, source.frames(training_sentences()), strict=True):
        (gold,) = sentence(" ".join(tags_of(description)[0]), description).frames
        correct += gold in frames
    assert correct >= 8
    assert source.worker["model"] == KINDS[kind(source)]
    assert source.worker["sha256"] == hash_of(source.config.archive)


def test_frames_are_those_of_allennlps_own_predictor(source: AllenNLPFrames, trained: Path) -> None:
    config = AllenNLPConfig(source.config.archive, threads=1, spacy=str(trained / "en_verbs"))
    items = [json.loads(line) for line in (trained / f"{kind(source)}.jsonl").read_text().splitlines()]
    expected = [parse_allennlp(item) for item in items]
    assert sum(len(sentence.frames) for sentence in expected) >= 4
    with closing(AllenNLPFrames(config)) as with_spacy:
        frames = with_spacy.frames([sentence.tokens for sentence in expected])
        assert frames == [sentence.frames for sentence in expected]


def test_a_sentence_too_long_for_bert_affects_no_other(source: AllenNLPFrames) -> None:
    short, long = words("Ada wrote the first program ."), words("Ada wrote " + "the program " * 40)
    before = source.frames([short])
    if kind(source) == "bert":
        with pytest.raises(AllenNLPError, match="the sentence has 84 word pieces, but the model's maximum is 48"):
            source.frames([short, long])
    else:
        assert source.frames([long]) != [()]
    assert source.frames([short]) == before != [()]


# --- the BERT model that an archive names ------------------------------------------------------------------------


def renamed(archive: Path, bert: str, out: Path) -> Path:
    """A copy of the archive with another name of its BERT model, as in published archives."""
    with tarfile.open(archive) as old, tarfile.open(out, "w:gz") as new:
        for member in old:
            stream = old.extractfile(member)
            content = stream.read() if stream else b""
            if member.name == "config.json":
                config: dict[str, Any] = json.loads(content)
                config["dataset_reader"]["bert_model_name"] = config["model"]["bert_model"] = bert
                content = json.dumps(config).encode()
                member.size = len(content)
            new.addfile(member, io.BytesIO(content) if stream else None)
    return out


def test_a_folder_replaces_a_missing_bert_model(trained: Path, tmp_path: Path) -> None:
    """The model name in the archive, not the folder's, decides whether words are lower-cased."""
    archive = renamed(trained / "bert.tar.gz", "tiny-bert-uncased", tmp_path / "renamed.tar.gz")
    sentences = training_sentences()
    with (
        closing(AllenNLPFrames(AllenNLPConfig(str(archive), threads=1), KNOWN_VERBS)) as source,
        pytest.raises(AllenNLPError, match="the archive needs the BERT model 'tiny-bert-uncased'"),
    ):
        source.frames(sentences)
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    for name in ("config.json", "vocab.txt"):  # the weights are in the archive
        (folder / name).write_bytes((trained / "tiny-uncased" / name).read_bytes())
    with (
        closing(AllenNLPFrames(AllenNLPConfig(str(archive), threads=1, bert=str(folder)), KNOWN_VERBS)) as moved,
        closing(AllenNLPFrames(AllenNLPConfig(str(trained / "bert.tar.gz"), threads=1), KNOWN_VERBS)) as source,
    ):
        assert moved.frames(sentences) == source.frames(sentences)
        assert moved.worker["lowercase"] is source.worker["lowercase"] is True


# --- in jobs -----------------------------------------------------------------------------------------------------


def test_an_archive_is_used_by_name(trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By segmentation, which rejects a sentence too long for the model, by training, and by `agggen facts`."""
    texts = [TEXT, "The engineer sold his engine in 1842.", "Ada wrote " + "the program " * 40]
    triples = (Triple("Ada", "wrote", "program"),)
    records = [Record(str(number), triples, (Reference(text),)) for number, text in enumerate(texts)]
    write_records(tmp_path / "dev.parquet", records, "x", "dev")
    archive = trained / "bert.tar.gz"
    settings = ["facts.source=allennlp", f"facts.allennlp.archive={archive}", "facts.allennlp.threads=1"]
    job_settings = ["actors=0", "cache=off", "max_reject_share=0.5"]
    config = load_config(SegmentConfig, None, settings + job_settings)
    report = segment(str(tmp_path / "dev.parquet"), str(tmp_path / "out"), config)
    facts = [
        tuple(fact.text for fact in reference.facts or ())
        for record in read_records(tmp_path / "out" / "dev")
        for reference in record.references
    ]
    with closing(AllenNLPFrames(AllenNLPConfig(str(archive), threads=1))) as source:
        assert facts == FrameSegmenter(source).segment(texts[:2])
    assert report.splits["dev"].rejects == 1
    (rejects,) = (tmp_path / "out" / "rejects").iterdir()
    assert "84 word pieces, but the model's maximum is 48" in rejects.read_text()

    run = load_config(RunConfig, None, settings)
    data = prepare(run, records[:2], records[1:2])
    assert [len(example.facts) for example in data.train] == [len(text_facts) for text_facts in facts]
    assert data.segmenter == json.loads((tmp_path / "out" / "manifest.json").read_text())["segmenter"]

    with pytest.raises(SystemExit) as ended:
        main(["facts", "inspect", TEXT, *settings])
    assert ended.value.code == 0
    assert f"1. {facts[0][0].strip()}\n" in capsys.readouterr().out
