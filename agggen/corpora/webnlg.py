"""WebNLG 2017 and the enriched WebNLG 1.6: XML benchmark files to records.

The triples are those of ``modifiedtripleset``, raw: underscores and quotes stay (text normalisation comes later).
1.6 adds to each text the human order and sentence split (``sortedtripleset``), which becomes the reference's plan:
one state a sentence. Where the annotation does not name every triple exactly once there is no plan.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from agggen.corpora.lines import open_source
from agggen.corpora.rejects import Reject
from agggen.errors import AggGenError, CorpusError
from agggen.records import Plan, Record, Reference, Triple

SEEN_CATEGORIES = frozenset(
    {
        "Airport",
        "Astronaut",
        "Building",
        "City",
        "ComicsCharacter",
        "Food",
        "Monument",
        "SportsTeam",
        "University",
        "WrittenWork",
    }
)
"""The ten categories of the training set; test texts of other categories are "unseen"."""

_CHUNK = 1 << 16


def read_webnlg(path: Path | str, split: str) -> Iterator[Record | Reject]:
    """Reads one benchmark file, or all ``*.xml`` below a folder (by size, then name).

    Ids are ``webnlg-SPLIT-SIZE-CATEGORY-EID``, the same in 2017 and 1.6; a rejected text has the id of its entry with
    the text's ``lid`` appended.

    Raises:
        CorpusError: no file, XML that does not parse (names the line), or a document type declaration.
    """
    path = Path(path)
    files = sorted(path.rglob("*.xml"), key=lambda file: (file.parent.name, file.name)) if path.is_dir() else [path]
    if not files:
        raise CorpusError(f"the folder {path} holds no .xml file of WebNLG")
    seen: set[str] = set()
    for file in files:
        root, lines = _parse(file)
        if root.tag != "benchmark":
            raise CorpusError(f"{file}: the root element is <{root.tag}>, not <benchmark> as in WebNLG")
        for entry in root.iter("entry"):
            yield from _entry(entry, lines[entry], str(file), split, seen)


def _parse(file: Path) -> tuple[Element, dict[Element, int]]:
    """The root element, and the line at which each entry starts (ElementTree alone does not keep lines)."""
    builder = TreeBuilder()
    lines: dict[Element, int] = {}
    parser = expat.ParserCreate(encoding="UTF-8")
    parser.buffer_text = True

    def start(tag: str, attributes: dict[str, str]) -> None:
        element = builder.start(tag, attributes)
        if tag == "entry":
            lines[element] = parser.CurrentLineNumber

    def refuse(*_: object) -> None:
        # Entities of a document type can expand to gigabytes or name local files; WebNLG needs neither.
        raise CorpusError(f"{file}, line {parser.CurrentLineNumber}: a DOCTYPE is refused; remove the declaration")

    parser.StartElementHandler = start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.data
    parser.StartDoctypeDeclHandler = refuse
    with open_source(file) as (stream, name):
        try:
            while chunk := stream.read(_CHUNK):
                parser.Parse(chunk, False)
            parser.Parse(b"", True)
        except expat.ExpatError as error:
            what = expat.ErrorString(error.code)
            hint = "the file is empty" if stream.tell() == 0 else f"not well-formed XML ({what})"
            raise CorpusError(f"{name}, line {error.lineno}, column {error.offset + 1}: {hint}") from error
    return builder.close(), lines


def _entry(entry: Element, line: int, file: str, split: str, seen: set[str]) -> Iterator[Record | Reject]:
    category = entry.get("category")
    identifier = f"webnlg-{split}-{entry.get('size')}-{category}-{entry.get('eid')}"
    if identifier in seen:
        yield Reject(file, line, identifier, "a second entry has this size, category and eid")
        return
    seen.add(identifier)
    texts = [element.text or "" for element in entry.iterfind("modifiedtripleset/mtriple")]
    try:
        triples = tuple(_triple(text) for text in texts)
        references: list[Reference] = []
        for lex in entry.iterfind("lex"):
            enriched = lex.find("text")
            text = ((lex.text if enriched is None else enriched.text) or "").strip()
            if not text:
                yield Reject(file, line, f"{identifier}-{lex.get('lid')}", "the text is empty")
                continue
            plan = None if enriched is None else _plan(lex, texts, triples)
            references.append(Reference(text, plan=plan))
        yield Record(identifier, triples, tuple(references), category)
    except AggGenError as error:
        yield Reject(file, line, identifier, str(error))


def _triple(text: str) -> Triple:
    return Triple.of(text.split(" | "))


def _plan(lex: Element, texts: list[str], triples: tuple[Triple, ...]) -> Plan | None:
    """The sentences of ``sortedtripleset`` as states, or None where they do not name every triple exactly once."""
    # A repeated predicate is told apart by the whole triple; white space differs between the two places.
    names: dict[str, list[str]] = defaultdict(list)
    predicates = Record("plan", triples).predicates
    for text, predicate in zip(texts, predicates, strict=True):
        names[" ".join(text.split())].append(predicate)
    states: list[tuple[str, ...]] = []
    for sentence in lex.iterfind("sortedtripleset/sentence"):
        state: list[str] = []
        for element in sentence.iterfind("striple"):
            left = names.get(" ".join((element.text or "").split()))
            if not left:
                return None
            state.append(left.pop(0))
        if state:
            states.append(tuple(state))
    return Plan(tuple(states)) if sum(map(len, states)) == len(triples) else None
