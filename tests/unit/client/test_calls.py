"""Single requests: content, retries and errors; import of the client."""

import json
import logging
import subprocess
import sys
import time
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agggen_platform.client import AnswerError, Client, DeadlineError, EndpointError, FailedError, RefusedError, Retry
from agggen_platform.client.transport import retry_after
from tests.unit.client.conftest import (
    QUICK,
    RECORD,
    URL,
    Script,
    answer_all,
    client_of,
    error,
    problem,
    records_in,
    text,
)

CALLS = {"generate": {"n_best": 2, "verify": "off"}, "plan": {"k": 3}, "align": {}, "check": {}}


@pytest.mark.parametrize(("name", "options"), CALLS.items())
def test_a_call_sends_records_and_options(name: str, options: dict[str, Any]) -> None:
    script = Script(answer_all)
    answers = getattr(client_of(script), name)(iter([RECORD]), **options)
    (request,) = script.requests
    expected = ("POST", f"{URL}v1/{name}", "application/json")
    assert (request.method, str(request.url), request.headers["content-type"]) == expected
    assert json.loads(request.content) == {"records": [RECORD], "options": options}
    assert answers == [text(0, "a")]


TRANSIENT = [
    *(httpx.ConnectError("connection refused"), httpx.ReadError("reset"), httpx.RemoteProtocolError("cut off")),
    httpx.ReadTimeout("slow"),
    *(problem(status, code, retryable=True) for status, code in ((429, "busy"), (503, "lost"), (504, "deadline"))),
    *(httpx.Response(status, text="Bad Gateway") for status in (408, 502, 503)),
    httpx.Response(500, text="Internal Server Error"),  # as from Serve's proxy without an application
]


@pytest.mark.parametrize("failure", TRANSIENT, ids=lambda failure: repr(failure)[:40])
def test_transient_failures_are_retried(waits: list[float], failure: httpx.Response | Exception) -> None:
    script = Script(failure, failure, answer_all)
    assert client_of(script).generate([RECORD]) == [text(0, "a")]
    assert len({request.content for request in script.requests}) == 1
    assert len(waits) == 2


PERMANENT = [
    (problem(422, "record", record="a", index=0, field="triples.0.object"), RefusedError, "field triples.0.object"),
    (problem(401, "unauthorized"), RefusedError, "it is unauthorized"),
    (problem(413, "too-large"), RefusedError, "413"),
    (problem(500, "internal"), FailedError, "it is internal"),
    (httpx.Response(404, text="nothing"), RefusedError, "status 404 without a problem document"),
    (httpx.Response(302, headers={"location": "/login"}), AnswerError, "status 302"),
    (httpx.Response(200, text="<html>hello"), AnswerError, "not '<html>hello'"),
    *(
        (httpx.Response(200, json={"answers": answers}), AnswerError, "expected 1 answers in the order of the records")
        for answers in (None, [], [{"index": 0}], [{"index": 0, "status": "error"}], [{"index": 1, "status": "ok"}])
    ),
]


@pytest.mark.parametrize(("failure", "error_type", "message"), PERMANENT, ids=lambda value: repr(value)[:40])
def test_permanent_failures_are_not_retried(
    waits: list[float], failure: httpx.Response | Exception, error_type: type[EndpointError], message: str
) -> None:
    script = Script(failure)
    with pytest.raises(error_type, match=f"POST {URL}v1/generate") as caught:
        client_of(script).generate([RECORD])
    assert message in str(caught.value)
    assert len(script.requests) == 1
    assert not waits


def test_an_error_has_the_members_of_the_problem() -> None:
    errors = [{"type": "urn:agggen:problem:plan", "detail": "no", "status": 422, "record": "b", "retryable": False}]
    failure = problem(422, "plan", record="a", index=3, field="plan", errors=errors)
    with pytest.raises(RefusedError) as caught:
        client_of(Script(failure)).generate([RECORD])
    error = caught.value
    assert (error.status, error.record, error.request_id, error.exit_code) == (422, "a", "r-1", 2)
    assert error.problem is not None and error.problem["errors"] == errors


def test_the_client_waits_for_retry_after_unless_the_deadline_is_earlier(waits: list[float]) -> None:
    busy = problem(429, "busy", retryable=True, headers={"retry-after": "7"})
    client_of(Script(busy, answer_all)).generate([RECORD])
    (wait,) = waits
    assert 7 <= wait <= 7 + QUICK.first_wait
    with pytest.raises(DeadlineError, match="it is busy") as caught:
        client_of(Script(busy), deadline=5).generate([RECORD])
    assert caught.value.status == 429
    assert len(waits) == 1


@pytest.mark.parametrize(("seconds", "retry"), [(0.06, Retry(attempts=1)), (0.03, None)])
def test_the_deadline_includes_all_attempts_and_waits(seconds: float, retry: Retry | None) -> None:
    def late(request: httpx.Request) -> httpx.Response:
        time.sleep(seconds)
        raise httpx.ReadTimeout("slow")

    script = Script(late)
    with pytest.raises(DeadlineError, match=r"no answer within 0\.05 s"):
        client_of(script, deadline=0.05, retry=retry).generate([RECORD])
    assert len(script.requests) == 1


@pytest.mark.parametrize("deadline", [0, -1, float("nan"), float("inf")])
def test_a_deadline_is_a_positive_number(deadline: float) -> None:
    with pytest.raises(ValueError, match="deadline"):
        Client(URL, deadline=deadline)


def test_the_timeout_of_an_attempt_ends_with_the_deadline_of_the_call() -> None:
    script = Script(answer_all)
    client_of(script, timeout=50, deadline=8).generate([RECORD])
    client_of(script, timeout=5, deadline=8).generate([RECORD])
    first, second = (request.extensions["timeout"]["read"] for request in script.requests)
    assert 0 < first <= 8
    assert second == 5
    assert script.header("x-deadline-seconds")[1] == "4.500"  # the client's timeout is later


THREE = [{"id": "a", "triples": []}, {"triples": []}, {"id": "c", "triples": []}]
LOST = [text(0, "a"), error(1, "1", "lost", True), error(2, "c", "plan", False)]


@pytest.mark.parametrize("alone", [False, True])
def test_lost_records_are_retried(waits: list[float], alone: bool) -> None:
    """Regression: with option `alone`, which repeats the whole batch, the first record's text hid other errors."""
    script = Script(httpx.Response(200, json={"answers": LOST}), answer_all)
    answers = client_of(script).generate(THREE, n_best=2, alone=alone)
    retried = [text(1, "1"), text(2, "c")] if alone else [text(0, "0") | {"index": 1, "id": "1"}, LOST[2]]
    assert answers == [text(0, "a"), *retried]
    assert records_in(script.requests[1]) == (THREE if alone else [{"triples": []}])
    assert json.loads(script.requests[1].content)["options"] == {"n_best": 2, "alone": alone}
    assert len(waits) == 1


@pytest.mark.parametrize("alone", [False, True])
def test_records_that_stay_lost_keep_their_error(waits: list[float], alone: bool) -> None:
    """Regression: with option `alone`, repeated texts of other records reset the number of attempts."""
    partly = httpx.Response(200, json={"answers": LOST})
    alone_again = [*[partly] * 20, lambda request: pytest.fail("the request is repeated without limit")]
    script = Script(partly, *(alone_again if alone else [problem(503, "lost", retryable=True)]))
    assert client_of(script).generate(THREE, alone=alone) == LOST
    assert len(script.requests) == QUICK.attempts


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"triples": [["a", "b", float("nan")]]}, "cannot be written as JSON"),
        ({"id": "\ud800", "triples": []}, "cannot be written as JSON"),
        ("text", "record 0 must be an object"),
    ],
)
def test_records_that_json_cannot_represent_are_not_sent(record: Any, message: str) -> None:
    script = Script(answer_all)
    with pytest.raises(RefusedError, match=message):
        client_of(script).generate([record])
    assert not script.requests


KEY = "agk_secret-of-ours"


def test_the_key_is_sent_and_never_shown(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script(problem(500, "internal"))
    for variable, argument in ((KEY, None), ("", KEY), (KEY, "")):
        monkeypatch.setenv("AGGGEN_API_KEY", variable)
        client = client_of(script, api_key=argument)
        with caplog.at_level(logging.DEBUG), pytest.raises(FailedError) as caught:
            client.generate([RECORD])
        assert KEY not in caplog.text + str(caught.value) + repr(caught.value) + repr(client) + repr(vars(client))
    assert script.header("authorization") == [f"Bearer {KEY}", f"Bearer {KEY}", None]


@pytest.mark.parametrize(
    ("url", "key"),
    [
        *((url, None) for url in ("", "localhost:8000", "ftp://x", "http://", "http://u:p@h", "http://h/?a=1")),
        *((URL, key) for key in ("a b", "new\nline", "kéy")),
    ],
)
def test_invalid_addresses_and_keys_are_refused(url: str, key: str | None) -> None:
    with pytest.raises(RefusedError) as caught:
        Client(url, key)
    assert key is None or key not in str(caught.value)


HEAVY = ("torch", "ray", "numpy", "pandas", "pyarrow", "mlflow", "fastapi", "pydantic")


def test_importing_the_client_loads_no_heavy_package() -> None:
    code = f"import sys, agggen_platform.client; print([name for name in {HEAVY} if name in sys.modules])"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert process.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("header", "seconds"),
    [(None, None), ("3", 3.0), (" 120 ", 120.0), ("soon", None), ("-1", None), ("1.5", None), ("9" * 400, 999999999.0)],
)
def test_retry_after_is_a_number_of_seconds(header: str | None, seconds: float | None) -> None:
    assert retry_after(header) == seconds


@given(st.integers(1, 10_000), st.none() | st.floats(0, 1000), st.floats(0, 1))
def test_waits_grow_to_a_bound_and_respect_retry_after(attempt: int, minimum: float | None, draw: float) -> None:
    retry = Retry(first_wait=0.25, longest_wait=10)
    wait = retry.wait(attempt, minimum, draw)
    assert wait >= (minimum or 0)
    assert 0.125 <= wait <= max(10, (minimum or 0) + 0.25)
    assert retry.wait(attempt + 1, minimum, draw) >= wait
