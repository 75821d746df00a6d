"""Segmenters by configuration, and the segmenter of new texts."""

from pathlib import Path
from typing import Any

import pytest

from agggen.config import load_config
from agggen.errors import ConfigError
from agggen.facts.config import AllenNLPConfig, SegmenterConfig, segmenter
from agggen.run import FactsConfig, RunConfig
from agggen_platform.segmentation.config import SegmentConfig


def test_the_embedded_tagger_is_the_default() -> None:
    assert RunConfig().facts.source == SegmentConfig().facts.source == SegmenterConfig().source == "embedded"
    assert segmenter(SegmenterConfig()).fingerprint == segmenter("embedded").fingerprint


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("clause", "unknown fact segmenter 'clause'; there are embedded, allennlp, clauses"),
        ("allennlp", "needs an archive: set facts.allennlp.archive=model.tar.gz"),
    ],
)
def test_an_invalid_source_is_refused(source: Any, message: str) -> None:
    for make in (SegmenterConfig, FactsConfig, lambda source: segmenter(source)):
        with pytest.raises(ConfigError, match=message):
            make(source=source)


def test_allennlp_needs_the_platform(monkeypatch: pytest.MonkeyPatch) -> None:
    config = SegmenterConfig(source="allennlp", allennlp=AllenNLPConfig("a.tar.gz"))
    assert segmenter(config).name == "allennlp"
    monkeypatch.setattr("agggen.facts.config._ALLENNLP_FRAMES", "absent_platform.source:AllenNLPFrames")
    with pytest.raises(ConfigError, match="needs the package agggen_platform: No module named 'absent_platform'"):
        segmenter(config)


def test_an_archive_address_is_refused_without_quoting_its_secrets() -> None:
    with pytest.raises(ConfigError, match="must be a local path, not a URL") as refused:
        AllenNLPConfig("https://ann:secret@example.org/a.tar.gz?token=secret")
    assert "secret" not in str(refused.value)


def test_new_texts_are_segmented_by_the_same_source_or_the_embedded_tagger() -> None:
    assert FactsConfig(source="clauses").for_new_texts.source == "clauses"
    config = load_config(RunConfig, None, ["facts.source=corpus", "facts.level=paper"]).facts
    assert config.segmenter is None
    assert config.for_new_texts == SegmenterConfig(source="embedded", level="paper")
    allennlp = AllenNLPConfig("a.tar.gz", threads=1)
    with_archive = FactsConfig(source="allennlp", allennlp=allennlp)
    assert with_archive.for_new_texts == with_archive.segmenter == SegmenterConfig(source="allennlp", allennlp=allennlp)


def test_paths_become_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    allennlp = AllenNLPConfig("a.tar.gz", bert="bert", environment="/srl")
    here = SegmenterConfig(allennlp=allennlp).absolute
    assert here.allennlp == AllenNLPConfig(str(tmp_path / "a.tar.gz"), bert=str(tmp_path / "bert"), environment="/srl")
