"""Reads the XML benchmark files of WebNLG: 2017, the enriched 1.6, 2.1 and 3.0.

The triples are those of ``modifiedtripleset``, with underscores and quotes unchanged. Version 1.6 lists the triples of
each sentence of a text, in text order (``sortedtripleset``); they become the reference's plan, with one group per
sentence. The plan is None if the annotation does not contain each triple exactly once.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from agggen.corpora.lines import open_source
from agggen.corpora.rejects import Reject
from agggen.errors import AggGenError, CorpusError
from agggen.records import Plan, Record, Reference, Triple

SEEN_CATEGORIES = frozenset(
    (
        *("Airport", "Astronaut", "Building", "City", "ComicsCharacter", "Food", "Monument", "SportsTeam"),
        *("University", "WrittenWork"),
    )
)
"""The ten categories of the training set; test records of other categories are "unseen"."""


def read_webnlg(path: Path, split: str) -> Iterator[Record | Reject]:
    """Reads one benchmark file, or all ``*.xml`` files below a folder (by size, then name).

    Ids are ``webnlg-SPLIT-SIZE-CATEGORY-EID``, the same in 2017 and 1.6. Version 2.1 uses some ids for several entries;
    the second entry gets the suffix ``-2``, the third ``-3``. The id of a rejected text is the id of its entry with
    the text's ``lid`` appended.
    """
    files = sorted(path.rglob("*.xml"), key=lambda file: (file.parent.name, file.name)) if path.is_dir() else [path]
    if not files:
        raise CorpusError(f"the folder {path} contains no .xml file of WebNLG")
    id_counts: Counter[str] = Counter()
    for file in files:
        root, lines = _parse_with_lines(file)
        if root.tag != "benchmark":
            raise CorpusError(f"{file}: the root element is <{root.tag}>, not <benchmark> as in WebNLG")
        for entry in root.iter("entry"):
            yield from _read_entry(entry, lines[entry], str(file), split, id_counts)


def _parse_with_lines(file: Path) -> tuple[Element, dict[Element, int]]:
    """The root element, and the line number of each entry, which ElementTree does not provide."""
    builder = TreeBuilder()
    lines: dict[Element, int] = {}
    parser = expat.ParserCreate(encoding="UTF-8")
    parser.buffer_text = True

    def start_element(tag: str, attributes: dict[str, str]) -> None:
        element = builder.start(tag, attributes)
        if tag == "entry":
            lines[element] = parser.CurrentLineNumber

    def reject_doctype(*_: object) -> None:
        # Entities of a document type may expand to gigabytes or refer to local files; WebNLG has none.
        raise CorpusError(f"{file}, line {parser.CurrentLineNumber}: DOCTYPE is not allowed; remove the declaration")

    parser.StartElementHandler = start_element
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.data
    parser.StartDoctypeDeclHandler = reject_doctype
    with open_source(file) as (stream, name):
        try:
            parser.ParseFile(stream)
        except expat.ExpatError as error:
            message = expat.ErrorString(error.code)
            problem = "the file is empty" if stream.tell() == 0 else f"not well-formed XML ({message})"
            raise CorpusError(f"{name}, line {error.lineno}, column {error.offset + 1}: {problem}") from error
    return builder.close(), lines


def _read_entry(entry: Element, line: int, file: str, split: str, id_counts: Counter[str]) -> Iterator[Record | Reject]:
    category = entry.get("category")
    identifier = f"webnlg-{split}-{entry.get('size')}-{category}-{entry.get('eid')}"
    id_counts[identifier] += 1
    if (number := id_counts[identifier]) > 1:
        identifier += f"-{number}"
    triple_texts = [element.text or "" for element in entry.iterfind("modifiedtripleset/mtriple")]
    try:
        triples = tuple(Triple.of(text.split(" | ")) for text in triple_texts)
        references: list[Reference] = []
        for lex in entry.iterfind("lex"):
            enriched_text = lex.find("text")
            text = ((lex.text if enriched_text is None else enriched_text.text) or "").strip()
            if not text:
                yield Reject(file, line, f"{identifier}-{lex.get('lid')}", "the text is empty")
                continue
            plan = None if enriched_text is None else _plan_of(lex, triple_texts, triples)
            references.append(Reference(text, plan=plan))
        yield Record(identifier, triples, tuple(references), category)
    except AggGenError as error:
        yield Reject(file, line, identifier, str(error))


def _plan_of(lex: Element, triple_texts: list[str], triples: tuple[Triple, ...]) -> Plan | None:
    """The sentences of ``sortedtripleset`` as groups; None if they do not contain each triple exactly once."""
    # Triples are compared as a whole, since predicates may repeat, and with normalised whitespace.
    predicates_of: dict[str, list[str]] = defaultdict(list)
    predicates = Record("plan", triples).predicates
    for text, predicate in zip(triple_texts, predicates, strict=True):
        predicates_of[" ".join(text.split())].append(predicate)
    groups: list[tuple[str, ...]] = []
    for sentence in lex.iterfind("sortedtripleset/sentence"):
        group: list[str] = []
        for element in sentence.iterfind("striple"):
            candidates = predicates_of.get(" ".join((element.text or "").split()))
            if not candidates:
                return None
            group.append(candidates.pop(0))
        if group:
            groups.append(tuple(group))
    return Plan(tuple(groups)) if sum(map(len, groups)) == len(triples) else None
