"""From raw records to answers: each is checked on its own, the engine works on the good ones, answers come in order.

An answer is the JSON object of a record, or its Problem. A record has one answer, whatever happened to the others.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect
from starlette.types import Receive

from agggen.errors import PlanError, RecordError
from agggen.generation.generator import AlignedText, Generation, PlannedRecord
from agggen.records import Plan, Record, Triple
from agggen_platform.serving.config import LimitsConfig
from serve.engine import Engine, Failure, Found, Job, ModelCard, Text
from serve.errors import Problem, problem_of
from serve.options import inference
from serve.reading import check_unicode
from serve.schemas import (
    AlignRecord,
    GenerateRecord,
    PlanOptions,
    RealiseOptions,
    RealiseRecord,
    RecordIn,
    TripleObject,
    checked,
)

GRACE_SECONDS = 1.0
"""An engine drops what is late by itself and answers the rest; one that has not after this much more is given up."""
CARD_SECONDS = 5.0
"""For so long what the engine says of itself is taken as true."""

Answer = dict[str, Any] | Problem
_Found = TypeVar("_Found")
_Work = TypeVar("_Work")

_log = logging.getLogger("agggen.serve")


@dataclass(slots=True)
class Entry:
    """A raw record at its place in the request."""

    index: int
    raw: Any

    @property
    def id(self) -> str:
        """The id under which it is answered: its own, else its index."""
        given = self.raw.get("id") if isinstance(self.raw, Mapping) else None
        if isinstance(self.raw, Problem):
            given = self.raw.record
        if isinstance(given, str) and given.strip():
            return given.strip()
        return str(given) if isinstance(given, int) and not isinstance(given, bool) else str(self.index)


class Answering:
    """Answers records with an engine, within limits."""

    def __init__(self, engine: Engine, limits: LimitsConfig) -> None:
        self.engine, self.limits = engine, limits
        self._card: tuple[float, ModelCard] | None = None

    async def card(self) -> ModelCard:
        """What is served; raises EngineError while nothing is ready."""
        now = time.monotonic()
        if self._card is None or now - self._card[0] > CARD_SECONDS:
            self._card = (now, await self.engine.card())
        return self._card[1]

    async def texts(
        self,
        entries: Sequence[Entry],
        options: RealiseOptions,
        seconds: float,
        model: type[GenerateRecord | RealiseRecord],
    ) -> list[Answer]:
        """The n best texts of each record; `options` are checked."""
        refuse = options.verify == "refuse"
        n_best, settings = 0 if refuse else options.n_best, partial(inference, options)

        def job(entry: Entry) -> Job:
            asked = checked(model, entry.raw, code="record")
            plan = None if asked.plan is None else _plan(asked.plan)
            return Job(self._record(entry, asked), plan, options.complete, n_best, settings)

        def answer(job: Job, found: list[Generation]) -> dict[str, Any]:
            if refuse:
                found = [text for text in found if text.fulfilled][: options.n_best]
            if not found:
                raise Problem(
                    "unfulfilled", "no text that the search wrote mentions the values of all triples where planned"
                )
            return {"texts": [_text(generation) for generation in found]}

        return await self._answers(entries, job, lambda jobs, left: self.engine.generate(jobs, left), answer, seconds)

    async def plans(self, entries: Sequence[Entry], options: PlanOptions, seconds: float) -> list[Answer]:
        """The k best plans of each record; `options` are checked."""
        settings = partial(inference, options)

        def job(entry: Entry) -> Job:
            return Job(self._record(entry, checked(RecordIn, entry.raw, code="record")), settings=settings)

        def answer(job: Job, found: list[PlannedRecord]) -> dict[str, Any]:
            return {"plans": [_planned(plan) for plan in found]}

        return await self._answers(
            entries, job, lambda jobs, left: self.engine.plan(jobs, options.k, left), answer, seconds
        )

    async def alignments(self, entries: Sequence[Entry], seconds: float) -> list[Answer]:
        """The facts of each text with the triples behind them."""

        def text(entry: Entry) -> Text:
            asked = checked(AlignRecord, entry.raw, code="record")
            if len(asked.text) > self.limits.text_chars:
                raise Problem(
                    "text", f"the text has {len(asked.text)} characters; at most {self.limits.text_chars}", field="text"
                )
            if not asked.text.strip():
                raise Problem("text", "the text is blank", field="text")
            if asked.facts is not None and "".join(asked.facts) != asked.text:
                raise Problem("text", "the facts do not concatenate to the text", field="facts")
            return Text(self._record(entry, asked), asked.text, None if asked.facts is None else tuple(asked.facts))

        def answer(text: Text, found: AlignedText) -> dict[str, Any]:
            return _aligned(text.record, found)

        return await self._answers(entries, text, self.engine.align, answer, seconds)

    def _record(self, entry: Entry, asked: RecordIn) -> Record:
        """The record within the limits; raises Problem with the field."""
        if len(asked.triples) > self.limits.triples:
            detail = (
                f"the record has {len(asked.triples)} triples; at most {self.limits.triples}: split it into several"
            )
            raise Problem("record", detail, field="triples")
        if asked.id is not None and len(str(asked.id)) > self.limits.text_chars:
            raise Problem("record", f"the id is longer than {self.limits.text_chars} characters", field="id")
        triples, characters = [], 0
        for number, triple in enumerate(asked.triples):
            parts: Sequence[str] = (
                (triple.subject, triple.predicate, triple.object) if isinstance(triple, TripleObject) else triple
            )
            for name, part in zip(("subject", "predicate", "object"), parts, strict=True):
                if len(part) > self.limits.text_chars:
                    detail = f"the {name} has {len(part)} characters; at most {self.limits.text_chars}"
                    raise Problem("record", detail, field=f"triples.{number}.{name}")
            characters += sum(map(len, parts))
            try:
                triples.append(Triple(*parts))
            except RecordError as error:
                raise Problem("record", str(error), field=f"triples.{number}") from None
        if characters > self.limits.record_chars:
            detail = f"the triples have {characters} characters; at most {self.limits.record_chars}"
            raise Problem("record", detail, field="triples")
        try:
            return Record(entry.id, tuple(triples))
        except RecordError as error:
            raise Problem("record", str(error), field="id") from None

    async def _answers(
        self,
        entries: Sequence[Entry],
        prepare: Callable[[Entry], _Work],
        ask: Callable[[list[_Work], float], Awaitable[Sequence[Found[Any] | Failure]]],
        tell: Callable[[_Work, Any], dict[str, Any]],
        seconds: float,
    ) -> list[Answer]:
        """One answer an entry. Raises EngineError if the engine cannot answer at all."""
        answers: dict[int, Answer] = {}
        work: list[_Work] = []
        good: list[Entry] = []
        for entry in entries:
            try:
                if isinstance(entry.raw, Problem):
                    raise entry.raw
                check_unicode(entry.raw)
                work.append(prepare(entry))
                good.append(entry)
            except Problem as problem:
                answers[entry.index] = placed(problem, entry)
        found = await self._within(ask(work, seconds), len(work), seconds) if work else []
        for entry, one, result in zip(good, work, found, strict=True):
            try:
                if isinstance(result, Failure):
                    raise problem_of(result)
                said = {"index": entry.index, "id": entry.id, "status": "ok", "model": result.model}
                answers[entry.index] = said | tell(one, result.value)
            except Problem as problem:
                answers[entry.index] = placed(problem, entry)
        return [answers[entry.index] for entry in entries]

    async def _within(
        self, results: Awaitable[Sequence[_Found]], count: int, seconds: float
    ) -> Sequence[_Found | Failure]:
        try:
            async with asyncio.timeout(seconds + GRACE_SECONDS):
                return await results
        except TimeoutError:
            return [Failure("deadline", f"not done within {seconds:g} seconds")] * count


async def while_connected(receive: Receive, work: Awaitable[_Found]) -> _Found:
    """The result of `work`, which is cancelled when the client goes away.

    Raises:
        ClientDisconnect: it went away.
    """
    task = asyncio.ensure_future(work)
    watch = asyncio.ensure_future(until_disconnected(receive))
    try:
        await asyncio.wait({task, watch}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise ClientDisconnect
    finally:
        task.cancel()
        watch.cancel()
        await asyncio.gather(task, watch, return_exceptions=True)


async def until_disconnected(receive: Receive) -> None:
    """Returns when the client has gone away; the rest of a body is thrown away."""
    while (await receive())["type"] != "http.disconnect":
        pass


def refuse_repeated(entries: Sequence[Entry], seen: dict[str, int]) -> None:
    """Puts a Problem in the place of a record whose own id an earlier one has; `seen` gets the new ids."""
    for entry in entries:
        if not isinstance(entry.raw, Mapping) or entry.raw.get("id") is None:
            continue
        first = seen.setdefault(entry.id, entry.index)
        if first != entry.index:
            detail = f"record {first} of this request has the same id {entry.id!r:.80}"
            entry.raw = Problem("record", detail, record=entry.id, field="id")


def body_of(answer: Answer, request_id: str | None = None) -> dict[str, Any]:
    """The JSON object of an answer."""
    if isinstance(answer, Problem):
        identifier = answer.record if answer.record is not None else str(answer.index)
        return {"index": answer.index, "id": identifier, "status": "error", "error": answer.as_dict(request_id)}
    return answer


def outcome(answer: Answer) -> str:
    """What became of a record: ``ok``, or the code of its problem."""
    return answer.kind.code if isinstance(answer, Problem) else "ok"


def placed(problem: Problem, entry: Entry) -> Problem:
    """The problem of this entry's record."""
    problem.record, problem.index = printable_id(entry.id), entry.index
    return problem


def printable_id(text: str) -> str:
    """An id for an answer: without halves of surrogate pairs, which no answer can hold."""
    return text.encode("utf-8", "backslashreplace").decode()[:200]


def _plan(text: str) -> Plan:
    try:
        return Plan.parse(text)
    except PlanError as error:
        raise Problem("plan", str(error), field="plan") from None


def _text(generation: Generation) -> dict[str, Any]:
    data = generation.as_dict()
    del data["id"]
    return data


def _planned(planned: PlannedRecord) -> dict[str, Any]:
    log_probability = planned.log_probability
    if log_probability is not None and not math.isfinite(log_probability):
        log_probability = None
    probability = None if log_probability is None else math.exp(log_probability)
    return {"plan": str(planned.plan), "log_probability": log_probability, "probability": probability}


def _aligned(record: Record, found: AlignedText) -> dict[str, Any]:
    triples = dict(zip(record.predicates, record.triples, strict=True))
    facts = [
        {
            "text": text,
            "predicates": list(state),
            "triples": [[triples[name].subject, triples[name].predicate, triples[name].object] for name in state],
            "posterior": posterior,
        }
        for text, state, posterior in zip(found.facts, found.states, found.posteriors, strict=True)
    ]
    return {"facts": facts, "log_likelihood": found.log_likelihood}
