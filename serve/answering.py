"""Validates raw records one by one, passes the valid ones to the engine, and returns the answers in request order."""

import asyncio
import json
import math
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect
from starlette.types import Receive

from agggen.corpora.tables import record_of_row
from agggen.errors import PlanError, RecordError
from agggen.generation.generator import AlignedText, Generation, PlannedRecord
from agggen.records import Plan, Record, Triple
from agggen_platform.serving.config import LimitsConfig
from serve import schemas
from serve.engine import CheckResult, Failure, Job, Result, Text
from serve.errors import Problem
from serve.handles import HandleEngine
from serve.observe import current_request
from serve.reading import check_unicode

CARD_CACHE_SECONDS = 5.0

Answer = dict[str, Any] | Problem  # the JSON object that the client gets for a record, or its problem
_RecordIn = TypeVar("_RecordIn", bound=schemas.RecordIn)
_Result = TypeVar("_Result")
_Item = TypeVar("_Item")


@dataclass(slots=True)
class RawRecord:
    """An unvalidated record, or the Problem of an unreadable one, with its position in the request."""

    index: int
    raw: Any

    @property
    def id(self) -> str:
        """The id in the answer: the record's own id, else its index."""
        value = self.raw.get("id") if isinstance(self.raw, Mapping) else None
        if isinstance(self.raw, Problem):
            value = self.raw.record
        text = str(value).strip() if isinstance(value, str | int) and not isinstance(value, bool) else ""
        return text or str(self.index)


class RecordService:
    """Validates records against the limits and answers them with one model's engine."""

    def __init__(self, engine: HandleEngine, limits: LimitsConfig) -> None:
        self.engine, self.limits = engine, limits
        self._card: tuple[float, dict[str, Any]] | None = None

    async def card(self) -> dict[str, Any]:
        """The served model; raises Problem while no planner is ready."""
        now = time.monotonic()
        if self._card is None or now - self._card[0] > CARD_CACHE_SECONDS:
            self._card = (now, await self.engine.card())
        return self._card[1]

    async def generate(
        self, entries: Sequence[RawRecord], options: schemas.GenerateOptions, seconds: float
    ) -> list[Answer]:
        """The n best texts of each record, following its own plan if it has one; `options` are within the limits."""
        settings = partial(schemas.inference, options)

        def job(entry: RawRecord) -> Job:
            data = self._validated(schemas.GenerateRecord, entry.raw)
            try:
                plan = None if data.plan is None else Plan.parse(data.plan)
            except PlanError as error:
                raise Problem("plan", str(error), field="plan") from None
            return Job(self._record(entry, data), plan, options.complete, options.n_best, options.alone, settings)

        return await self._answers(entries, job, self.engine.generate, _texts_json, seconds)

    async def plan(self, entries: Sequence[RawRecord], options: schemas.PlanOptions, seconds: float) -> list[Answer]:
        """The k best plans of each record; `options` are within the limits."""

        def job(entry: RawRecord) -> Job:
            record = self._record(entry, self._validated(schemas.RecordIn, entry.raw))
            return Job(record, settings=partial(schemas.inference, options))

        return await self._answers(entries, job, partial(self.engine.plan, k=options.k), _plans_json, seconds)

    async def align(self, entries: Sequence[RawRecord], options: schemas.NoOptions, seconds: float) -> list[Answer]:
        text = partial(self._text, schemas.AlignRecord)
        return await self._answers(entries, text, self.engine.align, _facts_json, seconds)

    async def check(self, entries: Sequence[RawRecord], options: schemas.NoOptions, seconds: float) -> list[Answer]:
        text = partial(self._text, schemas.CheckRecord)
        return await self._answers(entries, text, self.engine.check, _check_json, seconds)

    def _text(self, model: type[schemas.CheckRecord], entry: RawRecord) -> Text:
        """A validated record with its text; raises Problem, naming the field."""
        data = self._validated(model, entry.raw)
        if len(data.text) > self.limits.text_chars:
            detail = f"the text has {len(data.text)} characters; at most {self.limits.text_chars}"
            raise Problem("text", detail, field="text")
        facts = data.facts if isinstance(data, schemas.AlignRecord) else None
        return Text(self._record(entry, data), data.text, None if facts is None else tuple(facts))

    def _validated(self, model: type[_RecordIn], raw: Any) -> _RecordIn:
        """The validated record; raises Problem. Without `triples`, keys that `model` does not define are predicates."""
        if isinstance(raw, Mapping) and "triples" not in raw and raw.keys() - model.model_fields.keys():
            fields = {key: value for key, value in raw.items() if key in model.model_fields}
            row = {key: value for key, value in raw.items() if key not in fields}
            # Checked before `record_of_row`, which copies the key of a nested object to each of the object's values.
            if (size := len(json.dumps(row, ensure_ascii=False))) > (limit := 4 * self.limits.record_chars):
                raise Problem("record", f"the record has {size} characters; without `triples`, at most {limit}")
            try:
                triples = record_of_row(row, "1").triples
            except (RecordError, PlanError) as error:
                raise Problem("record", str(error)) from None
            raw = fields | {"triples": [_triple_json(triple) for triple in triples]}
        return schemas.validated(model, raw, code="record")

    def _record(self, entry: RawRecord, data: schemas.RecordIn) -> Record:
        """Converts a validated record; raises Problem, naming the field, if a triple is invalid or above a limit."""
        limits = self.limits
        if len(data.triples) > limits.triples:
            detail = f"the record has {len(data.triples)} triples; at most {limits.triples}: split it into several"
            raise Problem("record", detail, field="triples")
        if data.id is not None and len(str(data.id)) > limits.text_chars:
            raise Problem("record", f"the id is longer than {limits.text_chars} characters", field="id")
        triples = []
        for number, triple in enumerate(data.triples):
            try:
                triples.append(Triple.of(triple if isinstance(triple, list) else dict(triple)))
            except RecordError as error:
                raise Problem("record", str(error), field=f"triples.{number}") from None
        characters = sum(len(t.subject) + len(t.predicate) + len(t.object) for t in triples)
        if characters > limits.record_chars:
            detail = f"the triples have {characters} characters; at most {limits.record_chars}"
            raise Problem("record", detail, field="triples")
        try:
            return Record(entry.id, tuple(triples))
        except RecordError as error:
            raise Problem("record", str(error), field="id") from None

    async def _answers(
        self,
        entries: Sequence[RawRecord],
        prepare: Callable[[RawRecord], _Item],
        process: Callable[[list[_Item], float], Awaitable[Sequence[Result[Any] | Failure]]],
        to_json: Callable[[_Item, Any], dict[str, Any]],
        seconds: float,
    ) -> list[Answer]:
        """The answers in order: `prepare` validates a record (or raises Problem) and converts it for the engine,
        `process` calls the engine, and `to_json` converts a result to JSON members of its answer."""
        answers: dict[int, Answer] = {}
        items: list[_Item] = []
        valid: list[RawRecord] = []
        for entry in entries:
            try:
                if isinstance(entry.raw, Problem):
                    raise entry.raw
                check_unicode(entry.raw)
                items.append(prepare(entry))
                valid.append(entry)
            except Problem as problem:
                answers[entry.index] = with_location(problem, entry)
            except RecursionError:  # a body parsed in a thread may be nested more deeply than this stack allows
                answers[entry.index] = with_location(Problem("record", "the record is nested too deeply"), entry)
        results = await process(items, seconds) if items else []
        for entry, item, result in zip(valid, items, results, strict=True):
            if isinstance(result, Failure):
                answers[entry.index] = with_location(Problem(result.code, result.message, field=result.field), entry)
            else:
                common = {"index": entry.index, "id": entry.id, "status": "ok", "model": result.model}
                answers[entry.index] = common | to_json(item, result.value)
        return [answers[entry.index] for entry in entries]


async def while_connected(receive: Receive, work: Awaitable[_Result]) -> _Result:
    """The result of `work`; if the client disconnects, cancels it and raises ClientDisconnect."""

    async def until_disconnected() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    task = asyncio.ensure_future(work)
    watch = asyncio.ensure_future(until_disconnected())
    try:
        await asyncio.wait({task, watch}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise ClientDisconnect
    finally:
        task.cancel()
        watch.cancel()
        await asyncio.gather(task, watch, return_exceptions=True)


def reject_duplicates(entries: Sequence[RawRecord], seen: dict[str, int]) -> None:
    """Replaces a record by a Problem if an earlier record has the same id; adds new ids to `seen` (id to index)."""
    for entry in entries:
        if not isinstance(entry.raw, Mapping) or entry.raw.get("id") is None:
            continue
        first = seen.setdefault(entry.id, entry.index)
        if first != entry.index:
            detail = f"record {first} of this request has the same id {entry.id!r:.80}"
            entry.raw = Problem("record", detail, record=entry.id, field="id")


def answers_json(answers: Sequence[Answer]) -> list[dict[str, Any]]:
    """The JSON objects of the answers, whose outcomes (``ok``, or a problem's code) are counted for log and metrics."""
    info, objects = current_request(), []
    for answer in answers:
        if isinstance(answer, Problem):
            error = answer.as_dict(info.id)
            objects.append({"index": answer.index, "id": answer.record, "status": "error", "error": error})
            info.outcomes[answer.kind.code] += 1
        else:
            objects.append(answer)
            info.outcomes["ok"] += 1
    return objects


def with_location(problem: Problem, entry: RawRecord) -> Problem:
    """`problem`, with the id and index of the entry."""
    name = entry.id.encode("utf-8", "backslashreplace").decode()  # JSON in UTF-8 cannot hold lone surrogates
    problem.record, problem.index = name[:200], entry.index
    return problem


def _texts_json(_: Job, texts: list[Generation]) -> dict[str, Any]:
    return {"texts": [{name: value for name, value in text.as_dict().items() if name != "id"} for text in texts]}


def _plans_json(_: Job, plans: list[PlannedRecord]) -> dict[str, Any]:
    logs = [plan.log_probability for plan in plans]
    probabilities = [None if log is None else math.exp(log) for log in logs]
    return {"plans": [plan.as_dict() | {"probability": p} for plan, p in zip(plans, probabilities, strict=True)]}


def _facts_json(text: Text, aligned: AlignedText) -> dict[str, Any]:
    triples = dict(zip(text.record.predicates, text.record.triples, strict=True))
    facts = []
    for fact, state, posterior in zip(aligned.facts, aligned.states, aligned.posteriors, strict=True):
        fact_triples = [_triple_json(triples[name]) for name in state]
        facts.append({"text": fact, "predicates": list(state), "triples": fact_triples, "posterior": posterior})
    return {"facts": facts, "log_likelihood": aligned.log_likelihood}


def _check_json(text: Text, result: CheckResult) -> dict[str, Any]:
    (check, judged), values = result, []
    for predicate, value in zip(text.record.predicates, check.values, strict=True):
        span = {} if value.span is None else {"start": value.span[0], "end": value.span[1]}
        values.append({"predicate": predicate, "triple": _triple_json(value.triple), "how": value.kind, **span})
    critic: dict[str, Any] = {}
    if judged:
        critic = {name: judged[name] for name in ("scores", "risk", "triples")}
        critic["invented_spans"] = judged["invented"]
    return {
        "values": values,
        "unnamed": list(check.unnamed),
        "invented": [*check.invented, *check.unsupported],
        "repeated": list(check.repeated),
        "swapped": [list(pair) for pair in check.swapped],
        "misplaced": [_triple_json(triple) for triple in check.misplaced],
        "faults": list(check.faults),
        **critic,
    }


def _triple_json(triple: Triple) -> list[str]:
    return [triple.subject, triple.predicate, triple.object]
