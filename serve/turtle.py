"""Turtle: the triples of each subject form a record, in the order of the text.

The record's id is the subject's IRI (a relative one as it is written). In its triples stand local names: of an IRI what
follows the last ``#``, ``/`` or ``:``, percent-decoded, with blanks for underscores in subjects and objects; of a
literal its text, whatever its datatype or language. Blank nodes and collections have no name: a record that has one as
subject or object is a problem.

Nothing is fetched. Literals are not interpreted: rdflib would parse those of XML datatypes, entities and all.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from rdflib import BNode, Graph, Literal, URIRef
from rdflib.plugins.parsers.notation3 import BadSyntax, RDFSink, SinkParser

from serve.errors import Problem

_BASE = "http://localhost/"  # of relative IRIs


class _Sink(RDFSink):
    """Keeps the triples in their order; refuses more than `most`."""

    def __init__(self, most: int) -> None:
        super().__init__(Graph())
        self.most = most
        self.found: dict[tuple[Any, Any, Any], None] = {}

    def newLiteral(self, s: str, dt: object = None, lang: object = None) -> Literal:
        return Literal(s)

    def makeStatement(self, quadruple: Any, why: object = None) -> None:
        _, predicate, subject, value = (URIRef(part[1]) if isinstance(part, tuple) else part for part in quadruple)
        self.found[subject, predicate, value] = None
        if len(self.found) > self.most:
            raise Problem("too-large", f"the body holds more than {self.most} triples")


def read_turtle(text: str, most: int) -> list[Mapping[str, Any] | Problem]:
    """The records of a text in Turtle as JSON objects, or the problem of one, in the order of their subjects.

    Raises:
        Problem: the text is no Turtle (names the line), or holds more than `most` triples.
    """
    logging.getLogger("rdflib.term").setLevel(logging.ERROR)  # its warnings quote what clients send
    sink = _Sink(most)
    parser = SinkParser(sink, baseURI=_BASE, turtle=True)
    try:
        parser.loadBuf(text)
    except BadSyntax as error:
        line = error.lines + 1
        raise Problem("malformed", f"line {line} of the Turtle: {error._why}") from None
    except RecursionError:
        raise Problem("malformed", "the Turtle is nested too deeply") from None
    except Problem:
        raise
    except Exception as error:  # rdflib raises whatever its parts raise on text that is no Turtle
        raise Problem("malformed", f"line {parser.lines + 1} of the Turtle: {type(error).__name__}") from None
    subjects: dict[Any, list[tuple[Any, Any]]] = {}
    for subject, predicate, value in sink.found:
        subjects.setdefault(subject, []).append((predicate, value))
    return [_record(subject, said) for subject, said in subjects.items()]


def _record(subject: Any, said: list[tuple[Any, Any]]) -> Mapping[str, Any] | Problem:
    if not isinstance(subject, URIRef):
        return Problem("record", "a subject must be an IRI: blank nodes and literals have no name", field="id")
    triples = []
    for number, (predicate, value) in enumerate(said):
        if isinstance(value, BNode):
            detail = (
                f"the object of {_local(predicate)!r} is a blank node or collection; only IRIs and literals can be said"
            )
            return Problem("record", detail, record=_id(subject), field=f"triples.{number}.object")
        triples.append([_words(subject), _local(predicate), _text(value)])
    return {"id": _id(subject), "triples": triples}


def _id(iri: Any) -> str:
    return str(iri).removeprefix(_BASE) or str(iri)


def _text(value: Any) -> str:
    if isinstance(value, URIRef):
        return _words(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _words(iri: Any) -> str:
    return _local(iri).replace("_", " ")


def _local(iri: Any) -> str:
    """``http://e.org/x#City_centre`` -> ``City_centre``; the whole IRI where nothing follows its last separator."""
    text = str(iri)
    cut = max(text.rfind(separator) for separator in "#/:") + 1
    return unquote(text[cut:]) or text
