"""Copies of bundles with changed inference settings, accepted wordings of values, or sentences for predicates."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from agggen.bundle import Bundle, fingerprint, load_bundle
from agggen.config import load_config, overrides_of
from agggen.corpora.catalogue import list_corpora, load
from agggen.corpora.rejects import split_rejects
from agggen.generation.config import InferenceConfig
from agggen.verification.lexicon import Lexicon, read_templates
from agggen.verification.templates import learn_phrases


def adjusted_bundle(
    folder: Path,
    settings: Sequence[str] = (),
    wordings: Mapping[str, tuple[str, ...]] | None = None,
    phrases: str | None = None,
) -> Bundle:
    """The bundle in `folder` with changes; its `sources` include the fingerprint of the original bundle.

    `wordings`: for each value, additional ones that the strict check accepts. `phrases`: sentences for predicates, a
    file (format: `read_templates`) or the name of a catalogue corpus whose texts each express one triple.
    """
    bundle = load_bundle(folder)
    config = load_config(InferenceConfig, None, [*overrides_of(bundle.inference), *settings])
    bundle.generator().planner.check_level(config.level)
    lexicon = bundle.lexicon.merged(Lexicon(variants=wordings or {}))
    if phrases is not None and _is_file(phrases):
        lexicon = replace(lexicon, templates={**lexicon.templates, **read_templates(Path(phrases))})
    elif phrases is not None:
        records, _ = split_rejects(load(phrases, "train"))
        lexicon = replace(lexicon, phrases={**lexicon.phrases, **learn_phrases(records)})
    sources = {**bundle.sources, "adjusted bundle": fingerprint(folder)}
    return replace(bundle, inference=config, sources=sources, lexicon=lexicon)


def _is_file(phrases: str) -> bool:
    """Whether `phrases` is a file path (existing or not); catalogue names may also contain a dot: webnlg-3.0."""
    path = Path(phrases)
    return path.is_file() or bool(path.suffix and phrases not in {corpus.name for corpus in list_corpora()})
