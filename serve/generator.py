"""The generator replica: generates and ranks texts for plans, aligns and checks texts; on a CPU or a GPU."""

import logging
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from agggen.checks import check_all
from agggen.errors import AggGenError, PlanError, RecordError
from agggen.facts import FactSegmenter
from agggen.facts.config import segmenter
from agggen.generation.planner import check_size
from agggen.generation.results import AlignedText, Candidates, Generation
from agggen.records import Record
from agggen.verification.check import Checker
from agggen.verification.results import TextCheck
from agggen_platform.registry.admission import smoke_test
from agggen_platform.serving.config import ServeConfig
from agggen_platform.storage.critics import open_critic
from serve.batching import Replica, Traits
from serve.engine import CheckResult, Failure, Job, ReplicaAnswers, Text
from serve.planner import refusal

_log = logging.getLogger("agggen.serve")


_ALIGN_BATCH = 16  # texts aligned together, as in `Generator.align`
_CHARACTERS_PER_TOKEN = 4


@dataclass(frozen=True, slots=True)
class _WriteItem:
    job: Job
    candidates: Candidates | None  # plans to follow; None: this replica plans the job
    verify_seconds: list[float] = field(default_factory=list)  # seconds of the strict check per record of its batch


@dataclass(frozen=True, slots=True)
class _CheckItem:
    text: Text


Item = _WriteItem | Text | _CheckItem  # `Text`: to align
Answer = list[Generation] | AlignedText | CheckResult


class _TimedChecker(Checker):
    """Sums the seconds of its checks; most of them are called by the beam search."""

    seconds = 0.0

    def check(self, *arguments: Any, **options: Any) -> TextCheck:
        begin = time.perf_counter()
        checked = super().check(*arguments, **options)
        self.seconds += time.perf_counter() - begin
        return checked


class GeneratorReplica(Replica[Item, Answer]):
    """Writes, aligns and checks the texts of many requests in batches."""

    def __init__(self, config: ServeConfig) -> None:
        super().__init__(config, config.generator)
        self._generator = self._bundle.generator(self._device)
        if config.tracing.experiment is not None:
            self._generator.checker = _TimedChecker(self._generator.checker.lexicon)
        self._critic = None if config.critic is None else open_critic(config.critic)[0]
        self._segmenter: FactSegmenter | None = None
        self._limits = config.limits
        # The decoder runs once per part of an alignment, so an abandoned batch stops before its next part.
        self._bundle.model.decoder.register_forward_pre_hook(lambda *_: self._batcher.raise_if_abandoned())

    async def write(
        self, planned: Sequence[tuple[Job, Candidates]], seconds: float, fingerprint: str
    ) -> ReplicaAnswers[list[Generation]]:
        """The n best texts of each job, best first.

        If the candidates are of another bundle (`fingerprint`), as during an update, this replica plans the jobs
        itself.
        """
        same_bundle = fingerprint == self._fingerprint
        items = [_WriteItem(job, candidates if same_bundle else None) for job, candidates in planned]
        answers = await self._answers(items, seconds)
        return replace(answers, verify_seconds=sum(share for item in items for share in item.verify_seconds))

    async def align(self, texts: Sequence[Text], seconds: float) -> ReplicaAnswers[AlignedText]:
        return await self._answers(texts, seconds)

    async def check(self, texts: Sequence[Text], seconds: float) -> ReplicaAnswers[CheckResult]:
        return await self._answers([_CheckItem(text) for text in texts], seconds)

    def _test(self) -> list[str]:
        return smoke_test(self._bundle, device=self._device)

    def _traits(self, item: Item) -> Traits:
        """Limits a batch of generation to the rows of one beam search."""
        if isinstance(item, _CheckItem):
            return Traits("check", length=len(item.text.text), share=1 / _ALIGN_BATCH)
        record = item.record if isinstance(item, Text) else item.job.record
        characters = sum(len(triple.subject) + len(triple.predicate) + len(triple.object) for triple in record.triples)
        if isinstance(item, Text):
            positions = self._count_states(record) * len(item.text) / _CHARACTERS_PER_TOKEN
            share = max(1 / _ALIGN_BATCH, positions / self._limits.align_positions)
            return Traits("align", length=characters + len(item.text), share=min(1.0, share))
        config = item.job.settings(self._generator.config)
        if item.job.alone:
            return Traits("write", config.beam, alone=True)
        plans = len(item.candidates.plans) if item.candidates else config.plans
        return Traits("write", config.beam, characters, plans * config.beam.beam / config.rows)

    def _work(self, work: str, items: Sequence[Any]) -> Sequence[Answer | Failure]:
        methods: dict[str, Any] = {"write": self._write, "align": self._align, "check": self._check}
        return methods[work](items)

    def _write(self, items: Sequence[_WriteItem]) -> list[list[Generation] | Failure]:
        plans = [item.candidates or self._plan(item.job) for item in items]
        jobs = [item.job for item, plan in zip(items, plans, strict=True) if isinstance(plan, Candidates)]
        candidates = [plan for plan in plans if isinstance(plan, Candidates)]
        configs = [job.settings(self._generator.config) for job in jobs]
        checker, counts = self._generator.checker, [job.n_best for job in jobs]
        seconds_before = getattr(checker, "seconds", 0.0)
        texts = iter(self._generator.write([job.record for job in jobs], candidates, counts, configs))
        for item in items:
            item.verify_seconds.append((getattr(checker, "seconds", 0.0) - seconds_before) / len(items))
        return [plan if isinstance(plan, Failure) else next(texts) for plan in plans]

    def _plan(self, job: Job) -> Candidates | Failure:
        planner = self._generator.planner
        if failure := refusal(job, planner):
            return failure
        try:
            (candidates,) = planner.candidates([job.record], [job.plan], job.complete, job.settings(planner.config))
        except PlanError as error:
            return Failure("plan", str(error), "plan")
        return candidates

    def _check(self, items: Sequence[_CheckItem]) -> list[CheckResult]:
        checker = self._generator.checker
        records, texts = [item.text.record for item in items], [item.text.text for item in items]
        if self._critic is None:
            return [(checker.check(record, text), {}) for record, text in zip(records, texts, strict=True)]
        checked = check_all(records, texts, checker, self._critic)
        return [(text.result, text.as_dict()) for text in checked]

    def _align(self, texts: Sequence[Text]) -> list[AlignedText | Failure]:
        facts = [self._facts(text) for text in texts]
        records = [text.record for text, pieces in zip(texts, facts, strict=True) if not isinstance(pieces, Failure)]
        aligned = iter(self._generator.align(records, [pieces for pieces in facts if not isinstance(pieces, Failure)]))
        return [pieces if isinstance(pieces, Failure) else next(aligned) for pieces in facts]

    def _facts(self, text: Text) -> Sequence[str] | Failure:
        """The text's facts, or a Failure if the text cannot be aligned."""
        try:
            check_size(text.record)
        except RecordError as error:
            return Failure("record", str(error), "triples")
        if text.facts is not None and "".join(text.facts) != text.text:
            return Failure("text", "the facts do not concatenate to the text", "facts")
        facts = text.facts if text.facts is not None else self._segment(text.text)
        if isinstance(facts, Failure):
            return facts
        if len(facts) > self._limits.text_facts:
            return Failure("text", f"the text has {len(facts)} facts; at most {self._limits.text_facts}", "text")
        try:
            example = self._generator.encoder.example(text.record, facts)
        except RecordError as error:
            return Failure("text", str(error), "text")
        tokens, states, limit = example.n_target, self._count_states(text.record), self._limits.align_positions
        if (positions := tokens * states) > limit:
            cost = f"{tokens:,} tokens times {states:,} sets of triples are {positions:,} positions; at most {limit:,}"
            return Failure("text", f"{cost}: send fewer triples or a shorter text", "text")
        return facts

    def _count_states(self, record: Record) -> int:
        """The number of sets of the record's triples that one fact may express."""
        largest = self._bundle.model.config.max_group_size
        return sum(math.comb(len(record.triples), size) for size in range(1, largest + 1))

    def _segment(self, text: str) -> Sequence[str] | Failure:
        """The text's facts, segmented as in training. AllenNLP archives are not run, since they may contain code."""
        config = self._bundle.segmenter
        try:
            if config.source != "allennlp":
                self._segmenter = self._segmenter or segmenter(config)
                return self._segmenter.segment([text])[0] or (text,)
        except (AggGenError, ImportError, OSError):
            _log.exception("the segmenter %s failed", config.source)
        detail = f"the endpoint cannot run this model's segmenter, {config.source}: send the text's `facts` too"
        return Failure("text", detail, "facts")
