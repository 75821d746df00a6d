"""Frames from an AllenNLP archive for semantic role labelling: the BERT model (``srl_bert``) or the BiLSTM (``srl``).

An archive (``model.tar.gz`` or its unpacked folder) contains pickles: loading it executes its author's code. AllenNLP
runs as a worker process in a separate environment (``environment.py``). The verbs to label are found by another frame
source (default: the tagger that ships with agggen) or, as in AllenNLP's predictor, by a spaCy model if configured.
"""

import hashlib
import json
import threading
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from agggen.errors import AggGenError
from agggen.facts.config import AllenNLPConfig
from agggen.facts.frames import Frame, FrameSource, Tokens, frame_of_tags
from agggen_platform.srl.environment import AllenNLPError, Environment, JsonLinesProcess, WorkerDied, find_environment
from agggen_platform.srl.worker import hash_of

VERSION = "1"  # part of the fingerprint; incremented when a code change alters the model's inputs

_Result = tuple[Frame, ...] | AllenNLPError


class AllenNLPFrames:
    """A frame source that runs an AllenNLP archive in a worker process, started at the first request.

    If the worker dies or hangs, it is restarted, and the sentences of the batch are retried one by one. After more than
    `restarts` consecutive crashes, all requests fail. Thread-safe.
    """

    name = "allennlp"

    def __init__(self, config: AllenNLPConfig, predicates: FrameSource | None = None) -> None:
        """`predicates`: finds the verbs; None: the spaCy model of `config`, else the tagger that ships with agggen."""
        self.config = config
        self._predicate_source = predicates
        self._process: JsonLinesProcess | None = None
        self._lock = threading.Lock()
        self._deaths = 0
        self._failure: str | None = None  # why all requests fail
        self.worker: dict[str, Any] = {}
        """Versions, model, device and word-piece limit, as reported by the running worker."""

    def close(self) -> None:
        """Stops the worker; the next call of `frames` starts a new one."""
        with self._lock:
            self._stop_worker()

    @cached_property
    def archive_sha256(self) -> str:
        """The digest of the archive (see ``worker.hash_of``); AllenNLPError if it differs from the configured one."""
        path, expected = self.config.absolute.archive, self.config.sha256
        actual = _hash(path)
        if expected not in (None, actual):
            raise AllenNLPError(f"{path} has the sha256 {actual}, not the configured {expected}; it was not loaded")
        return actual

    @cached_property
    def environment(self) -> Environment:
        return find_environment(self.config.environment)

    @cached_property
    def predicates(self) -> FrameSource | None:
        """The frame source that finds the verbs; None if a spaCy model does."""
        if self.config.spacy is not None or self._predicate_source is not None:
            return self._predicate_source
        from agggen.facts.tagger.store import EmbeddedFrames

        return EmbeddedFrames()

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the archive, source of predicates, BERT vocabulary and package versions; starts no worker."""
        config = self.config.absolute
        predicates = self.predicates.fingerprint if self.predicates else f"spacy-{_hash(str(config.spacy))}"
        bert_hashes = config.bert and [_hash(f"{config.bert}/{name}") for name in ("config.json", "vocab.txt")]
        versions = self.environment.versions
        inputs = [VERSION, config.sha256 or self.archive_sha256, predicates, bert_hashes, versions]
        return f"{self.name}-{hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()[:16]}"

    def frames(self, sentences: Sequence[Tokens]) -> list[tuple[Frame, ...]]:
        """The frames of each sentence, in the order of their predicates.

        Raises AllenNLPError if the environment or archive cannot be used, the worker crashed too often, or a sentence
        cannot be tagged, for example because it is too long for the model.
        """
        # Positions of the predicates in each sentence; None: the worker finds them; []: the sentence has none.
        positions: Sequence[list[int] | None] = [None] * len(sentences)
        if self.predicates is not None:
            frames_per_sentence = self.predicates.frames(sentences)
            positions = [sorted({frame.predicate for frame in frames}) for frames in frames_per_sentence]
        results: list[_Result] = [()] * len(sentences)
        to_label = [number for number, sentence in enumerate(sentences) if positions[number] != [] and sentence.words]
        to_label.sort(key=lambda number: len(sentences[number].words))  # to batch sentences of similar length
        with self._lock:
            for start in range(0, len(to_label), self.config.batch_size):
                numbers = to_label[start : start + self.config.batch_size]
                batch = [{"words": sentences[number].words, "predicates": positions[number]} for number in numbers]
                for number, result in zip(numbers, self._tag(batch), strict=True):
                    results[number] = result
        all_frames = []
        for result in results:
            if isinstance(result, AllenNLPError):
                raise result
            all_frames.append(result)
        return all_frames

    def _tag(self, batch: list[dict[str, Any]], is_retry: bool = False) -> list[_Result]:
        """The result of each sentence of a batch; after a crash of the worker, retries the sentences one by one."""
        try:
            return [_frames(sentence, result) for sentence, result in zip(batch, self._ask(batch), strict=True)]
        except WorkerDied as death:
            self._process = None
            self._deaths += 1
            if self._deaths > self.config.restarts:
                raise self._fail(f"the AllenNLP worker died {self._deaths} times in a row: {death}") from death
            if is_retry:
                return [_no_frames(batch[0], f"the AllenNLP worker died twice on this sentence: {death}")]
        # A sentence that kills the worker fails alone, because each success resets the number of deaths.
        return [result for sentence in batch for result in self._tag([sentence], is_retry=True)]

    def _ask(self, batch: list[dict[str, Any]]) -> list[Any]:
        """The worker's result for each sentence of a batch."""
        answer = self._running_worker().request({"op": "tag", "sentences": batch}, self.config.timeout)
        results = answer.get("results")
        if not isinstance(results, list) or len(results) != len(batch):
            self._stop_worker()
            raise AllenNLPError(f"the AllenNLP worker failed: {answer.get('failed', 'its answer is invalid')}")
        self._deaths = 0
        return results

    def _running_worker(self) -> JsonLinesProcess:
        if self._process is not None and self._process.is_alive:
            return self._process
        if self._failure is not None:
            raise AllenNLPError(self._failure)
        self._stop_worker()
        environment = self.environment  # before `archive_sha256`, which reads the whole archive
        config, sha256 = self.config.absolute, self.archive_sha256
        process = environment.start_worker(config.online)
        request: dict[str, Any] = {"op": "start", "archive": config.archive, "sha256": sha256}
        request |= {name: getattr(config, name) for name in ("device", "threads", "bert", "spacy")}
        try:
            answer = process.request(request, config.timeout)
        except WorkerDied as death:
            raise self._fail(f"the AllenNLP worker did not start: {death}") from death
        if "failed" in answer:
            process.close()
            raise self._fail(f"AllenNLP cannot load the archive: {answer['failed']}")
        self._process, self.worker = process, answer["ready"]
        return process

    def _fail(self, reason: str) -> AllenNLPError:
        """Makes all later requests fail with this reason; returns the error for this request."""
        self._failure = reason
        return AllenNLPError(reason)

    def _stop_worker(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.close()


def _frames(sentence: dict[str, Any], result: Any) -> _Result:
    if "error" in result:
        return _no_frames(sentence, str(result["error"]))
    try:
        frames = [frame_of_tags(frame["tags"]) for frame in result["frames"]]
    except AggGenError as error:
        return _no_frames(sentence, f"the model's tags are not a valid frame: {error}")
    return tuple(frame for frame in frames if frame is not None)


def _no_frames(sentence: dict[str, Any], reason: str) -> AllenNLPError:
    return AllenNLPError(f"no frames for the sentence {' '.join(sentence['words'])!r:.80}: {reason}")


def _hash(path: str) -> str:
    """The SHA-256 of a file or folder; raises AllenNLPError if it does not exist."""
    if not Path(path).exists():
        raise AllenNLPError(f"{path} does not exist")
    return hash_of(path)
