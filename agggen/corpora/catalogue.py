"""The catalogue of corpora: descriptions, files (one folder per corpus below the data home) and readers."""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from agggen.corpora.annotated import read_annotated
from agggen.corpora.e2e import read_e2e
from agggen.corpora.elements import SPLITS, elements_records
from agggen.corpora.rejects import Reject, split_rejects
from agggen.corpora.rel2text import read_rel2text
from agggen.corpora.webnlg import SEEN_CATEGORIES, read_webnlg
from agggen.errors import CorpusError, hint
from agggen.records import Record

Items = Iterator[Record | Reject]


@dataclass(frozen=True, slots=True)
class Corpus:
    """A corpus of the catalogue; `folder` is below the data home, None for a corpus that agggen ships."""

    name: str
    title: str
    licence: str
    citation: str
    files: Mapping[str, str]  # the file or folder of each split, relative to `folder`
    reader: Callable[[Path, str], Items]  # reads a split from (path of the file or folder, name of the split)
    folder: str | None
    copied_from: str = ""  # from where users must copy a corpus without a licence; empty if agggen can download it

    @property
    def splits(self) -> tuple[str, ...]:
        return tuple(self.files)


def _read_webnlg(path: Path, split: str) -> Items:
    # The split test is the union of test-seen and test-unseen, with the same ids.
    seen = {"test-seen": True, "test-unseen": False}.get(split)  # None: all categories
    for item in read_webnlg(path, split.split("-")[0]):
        if isinstance(item, Reject) or seen is None or seen == (item.category in SEEN_CATEGORIES):
            yield item


def _read_webnlg_3(path: Path, split: str) -> Items:
    # The parts of the split test depend on the categories and subjects of the training data.
    base, _, part = split.partition("-")
    training = split_rejects(load("webnlg-3.0", "train"))[0] if part else []
    categories = {record.category for record in training}
    subjects = {triple.subject for record in training for triple in record.triples}
    for item in read_webnlg(path, base):
        item_part = part
        if isinstance(item, Record) and part:
            has_known_subjects = all(triple.subject in subjects for triple in item.triples)
            in_known_category = "seen" if has_known_subjects else "unseen-entities"
            item_part = in_known_category if item.category in categories else "unseen-categories"
        if item_part == part:
            yield item


_WEBNLG_TEST = "test/testdata_with_lex.xml"
_WEBNLG_3_TEST = "test/rdf-to-text-generation-test-data-with-refs-en.xml"
_WEBNLG_3_TEST_SPLITS = ("test", "test-seen", "test-unseen-entities", "test-unseen-categories")
_CORPORA = (
    Corpus(
        "elements",
        "Chemical elements; texts from a random grammar, with gold facts and plans",
        "Apache-2.0 (part of agggen)",
        "agggen",
        dict.fromkeys(SPLITS, ""),
        lambda _, split: elements_records(split),
        None,
    ),
    Corpus(
        "e2e",
        "E2E NLG, original: restaurant descriptions",
        "CC BY-SA 4.0",
        "Novikova, Dusek, Rieser (SIGDIAL 2017), The E2E Dataset",
        {"train": "trainset.csv", "dev": "devset.csv", "test": "testset_w_refs.csv"},
        read_e2e,
        "e2e",
    ),
    Corpus(
        "e2e-cleaned",
        "E2E NLG with corrected meaning representations",
        "CC BY-SA 4.0",
        "Dusek, Howcroft, Rieser (INLG 2019), Semantic Noise Matters",
        {"train": "train-fixed.no-ol.csv", "dev": "devel-fixed.no-ol.csv", "test": "test-fixed.csv"},
        partial(read_e2e, corpus="e2e-cleaned"),
        "e2e_cleaned",
    ),
    Corpus(
        "webnlg",
        "WebNLG challenge 2017: DBpedia triples in 15 categories",
        "CC BY-NC-SA 4.0 (non-commercial)",
        "Gardent, Shimorina, Narayan, Perez-Beltrachini (INLG 2017), The WebNLG Challenge",
        {"train": "train", "dev": "dev", "test": _WEBNLG_TEST, "test-seen": _WEBNLG_TEST, "test-unseen": _WEBNLG_TEST},
        _read_webnlg,
        "webnlg_2017",
    ),
    Corpus(
        "webnlg-1.6",
        "WebNLG 1.6, enriched: texts with plans, from the annotated triples of each sentence",
        "CC BY-NC-SA 4.0 (non-commercial)",
        "Castro Ferreira, Moussallem, Wubben, Krahmer (INLG 2018), Enriching the WebNLG corpus",
        {"train": "train", "dev": "dev"},
        _read_webnlg,
        "webnlg_enriched_1.6",
    ),
    Corpus(
        "webnlg-3.0",
        "WebNLG 3.0 English (the 2020 challenge): DBpedia triples in 16 categories",
        "CC BY-NC-SA 4.0 (non-commercial)",
        "Castro Ferreira et al. (INLG 2020), The 2020 Bilingual, Bi-Directional WebNLG+ Shared Task",
        {"train": "train", "dev": "dev"} | dict.fromkeys(_WEBNLG_3_TEST_SPLITS, _WEBNLG_3_TEST),
        _read_webnlg_3,
        "webnlg_3.0/en",
    ),
    Corpus(
        "webnlg-2.1-constrained",
        "WebNLG 2.1, split 'constrained', although nearly all triples of the test set are in the training data",
        "CC BY-NC-SA 4.0 (non-commercial)",
        "Shimorina, Gardent (INLG 2018), Handling Rare Items in Data-to-Text Generation",
        {"train": "train", "dev": "dev", "test": "test"},
        _read_webnlg,
        "webnlg_2.1_constrained",
    ),
    Corpus(
        "rel2text",
        "Rel2Text: single triples over 1,522 relations of Wikidata, DBpedia and YAGO",
        "Apache-2.0",
        "Kasner, Konstas, Dusek (EACL 2023), Mind the Labels",
        {"train": "train.json", "dev": "dev.json", "test": "test.json"},
        read_rel2text,
        "rel2text",
    ),
    Corpus(
        "webnlg-plans",
        "Human plans and alignments of 274 texts about 100 of WebNLG's seen test inputs; needs webnlg too",
        "none stated (its texts CC BY-NC-SA 4.0)",
        "Xu, Dusek, Rieser, Konstas (ACL 2021), AggGen",
        {"test": ""},
        lambda path, _: read_annotated(path, load("webnlg", "test-seen")),
        "agggen_release/human_annotations/evaluation",
        copied_from="the folder eva_webnlg/annotation_human of https://github.com/XinnuoXu/AggGen",
    ),
)


def list_corpora() -> tuple[Corpus, ...]:
    return _CORPORA


def get_corpus(name: str) -> Corpus:
    """The corpus with this name; raises CorpusError, which suggests the most similar name, if it is unknown."""
    names = [corpus.name for corpus in _CORPORA]
    if name in names:
        return _CORPORA[names.index(name)]
    raise CorpusError(f"no corpus {name!r}; {hint(name, names)}")


def data_home() -> Path:
    """The folder of the corpora: ``AGGGEN_DATA_HOME``, or ``~/.cache/agggen/data``."""
    return Path(os.environ.get("AGGGEN_DATA_HOME") or "~/.cache/agggen/data").expanduser()


def load(name: str, split: str) -> Items:
    """The records and rejects of a split, in file order.

    CorpusError is raised if the corpus or split is unknown or its files are missing (the message states how to get
    them) and, during iteration, if a file is invalid.
    """
    corpus = get_corpus(name)
    if split not in corpus.files:
        raise CorpusError(f"{name} has no split {split!r}; it has {', '.join(corpus.splits)}")
    if corpus.folder is None:
        return corpus.reader(Path(), split)
    path = data_home() / corpus.folder / corpus.files[split]
    if not path.exists():
        instruction = f"copy {corpus.copied_from} there" if corpus.copied_from else f"run `agggen corpora fetch {name}`"
        raise CorpusError(
            f"{name} {split} is not available: {path} is missing; {instruction}, or set "
            "AGGGEN_DATA_HOME to the folder that contains it"
        )
    return corpus.reader(path, split)
