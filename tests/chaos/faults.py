"""Every fault that agggen makes a promise about, in one table, and which tests claim to show each.

A test claims a fault by its name, ``@pytest.mark.fault("training: a worker is killed")``, wherever it lies below
``tests/``. Claims are read from the source, so a fault that nobody tests any more is found without running a test.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

TESTS = Path(__file__).parents[1]

_TABLE: dict[str, dict[str, str]] = {
    "segmentation": {
        "an actor is killed": "another takes its place; every row comes out once",
        "the driver is killed": "the same command goes on from what is done; every row comes out once",
        "two copies are started": "the second ends with exit code 6, and takes over when the first is dead",
        "a row kills every worker": "the job ends and names the rows; what is done is kept",
        "a text breaks the segmenter": "it is one reject with its reason; the job goes on",
        "the input changes while it is read": "nothing is published",
        "a finished file is damaged": "what is damaged is done again, the rest is not",
        "AllenNLP's process is killed or hangs": "it is replaced; at most the sentence that kills it has no frames",
        "the cache is damaged or has no room": "texts are cut as if there were none",
        "the disk is full": "an error that names it; nothing is published; with room again the same call goes on",
        "S3 answers 500 or 503, or breaks off": "it is tried again; the output is that of an undisturbed job",
        "S3 refuses (403)": "an error at once; nothing is published; the same call goes on when it may",
        "S3 keeps half of a file": "it is found out; nothing is published; the same call ends in the same files",
    },
    "storage": {
        "S3 answers 500 or 503, or resets the connection": "tried again with growing pauses, within bounds",
        "S3 refuses the credentials (403)": "an error at the first answer that says what to set",
        "the bucket is missing": "an error at once that names the bucket",
        "nothing listens at the store's address": "an error within seconds that names the address",
        "S3 falls silent": "the wait is bounded, and ends in an error",
        "a download breaks off": "it goes on where it broke; two versions are never mixed",
        "an upload in parts fails": "it is taken back; what was there before stays",
        "a local disk is full": "an error with the bytes needed and free; no file is half there",
        "a process that saves checkpoints is killed": "what it said it saved, or something newer, is whole",
        "half of a checkpoint arrives": "it is found out before the mark moves, and never chosen",
        "a checkpoint is damaged": "it is named, and the one before it is taken",
        "a store fails while a checkpoint is looked for": "an error; never a reason to begin anew",
        "the store of a claim is out for a while": "the claim outlasts it, unless another took it meanwhile",
        "the clock jumps": "claims stand, runs are logged whole and in order",
    },
    "bundles": {
        "S3 answers 500 or 503, or breaks off": "it is tried again; the bundle is whole",
        "S3 refuses (403)": "an error at once; no half copy is kept",
        "S3 gives half of a file as if it were all": "it is refused by its hash; no half copy is kept",
        "a file in the store was changed": "it is refused by its hash",
        "the copy on this machine is damaged": "it is fetched again",
        "there is no room for the copy": "an error that says what to set; no half copy; with room again it is fetched",
    },
    "training": {
        "a worker is killed": "training goes on from the last checkpoint, to the same weights",
        "the driver is killed": "the same command goes on from the last checkpoint, to the same weights",
        "SIGINT or SIGTERM": "the update is finished and saved; the same command goes on, to the same weights",
        "the cluster has no room": "refused at once, or Ctrl-C ends the wait and gives back what was asked for",
        "workers fail again and again": "the job ends and says why, however many restarts are allowed",
        "two copies are started": "the second is refused",
        "a checkpoint is damaged": "it is named, and the one before it is taken",
        "the upload of the bundle is cut off": "the same command repeats the upload and trains nothing",
        "the disk is full": "an error that names it; the last checkpoint stays; with room again, the same weights",
        "S3 answers 500 or 503, or breaks off": "it is tried again; the same weights",
        "S3 refuses (403)": "an error; the last checkpoint stays; the same call goes on, to the same weights",
        "S3 keeps half of a checkpoint": "an error; it is never chosen; the same call goes on, to the same weights",
    },
    "sweep": {
        "the driver is killed": "the same command ends with the trials of a sweep that nobody disturbed",
        "SIGTERM": "it ends with 143, its trials with it; the same command goes on",
        "a trial fails": "it is recorded with its reason, and the sweep goes on",
        "the study's journal is cut off in a line": "the line does not count, and the study goes on",
        "a trial is stopped early": "its workers and placement groups are given back",
        "two copies are started": "the second ends with exit code 6",
    },
    "tracking": {
        "MLflow is frozen for a third of a run": "no call waits; the curves are complete in the end",
        "MLflow is killed": "no call waits; what it missed is sent later, once",
        "MLflow answers 5xx, or not at all": "no call waits; the end of the run waits no longer than configured",
        "MLflow's store takes no files": "metrics do not wait for them; files are sent later",
        "the run is killed": "it continues under its name; each point is in MLflow once",
        "two processes make one store": "both runs are whole",
        "the run log's disk is full": "no call raises or waits; it is said; with room again events are logged",
    },
    "registry": {
        "two promotions at once": "none is lost: one wins, or says that it was overtaken",
        "a promotion is killed": "what it announced stops nobody for long",
        "the server is gone or silent": "an error within seconds",
    },
    "serving": {
        "a generator is killed": "no answer is lost: calls are made again",
        "a planner is killed": "no answer is lost: calls are made again",
        "the memory of answers is killed": "no request fails",
        "the controller is killed": "no request fails",
        "an ingress is killed": "requests inside fail so that they may be sent again; each is answered then",
        "the proxy is killed": "requests fail to connect; each is answered when sent again",
        "replicas of a stream are killed": "the client resumes it; each record has one answer, in order",
        "an alias is moved under load": "no request fails; each text is of one bundle",
        "the new bundle is broken": "no request fails; what was served is served",
        "a new replica cannot load its bundle": "no request fails; what was served is served",
        "the load goes up and down a step": "replicas come and go; no request fails",
        "clients are slow or vanish": "they hold nobody else; their places are given back",
    },
    "bulk": {
        "the driver and an actor are killed": "the same bytes as undisturbed; at most a shard a worker is done again",
        "the driver is killed between data and commit": "nothing half published; the same bytes as undisturbed",
        "two copies are started": "one works, the other ends with exit code 6; one clean output",
        "a row kills every worker": "the job ends and names the rows; what is done is kept",
        "a record breaks the generator": "it is one reject with its reason; the job goes on",
        "the input changes while it is read": "nothing is published",
        "a finished shard is damaged": "it is done again, the others are not",
        "a worker outlives its job": "it spoils nothing: the job sees what is not its own",
        "the claim is lost during the upload": "no manifest is published",
        "the disk is full": "an error that names it; nothing is published; with room again the same bytes",
        "S3 answers 500 or 503, or breaks off": "it is tried again; the same bytes",
        "S3 refuses (403)": "an error at once; nothing is published; the same call goes on, to the same bytes",
        "S3 keeps half of a file": "it is found out; nothing is published; the same call writes the same bytes",
    },
    "soak": {
        "replicas and workers are killed under mixed load": "no answer wrong or lost; memory bounded; nothing leaks",
    },
}


@dataclass(frozen=True)
class Fault:
    """A row of the table."""

    area: str
    what: str
    promise: str

    @property
    def name(self) -> str:
        """What tests claim it by."""
        return f"{self.area}: {self.what}"


FAULTS = {
    fault.name: fault
    for fault in (Fault(area, what, promise) for area, rows in _TABLE.items() for what, promise in rows.items())
}


def claims(folder: Path = TESTS) -> dict[str, list[str]]:
    """The tests below `folder` that claim each fault, as ``path::test``; a claim outside of a test counts for its file.

    Raises:
        ValueError: a claim is not written out as a string.
    """
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(folder.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if "mark.fault(" not in text:
            continue
        for statement in ast.parse(text).body:
            name = f"::{statement.name}" if isinstance(statement, ast.FunctionDef) else ""
            for call in ast.walk(statement):
                if isinstance(call, ast.Call) and ast.unparse(call.func) == "pytest.mark.fault":
                    for argument in call.args:
                        if not (isinstance(argument, ast.Constant) and isinstance(argument.value, str)):
                            raise ValueError(f"{path}:{call.lineno}: a fault is named by a plain string")
                        found[argument.value].append(f"{path.relative_to(folder).as_posix()}{name}")
    return dict(found)


def problems(claimed: dict[str, list[str]]) -> list[str]:
    """What does not fit between the table and the tests, a sentence each."""
    untested = [f"no test claims the fault {name!r}" for name in FAULTS if name not in claimed]
    unknown = [
        f"{', '.join(tests)}: no fault is called {name!r}" for name, tests in claimed.items() if name not in FAULTS
    ]
    return untested + unknown
