from __future__ import annotations

import os
import socket
import time

import httpx
import pytest
from script import QUICK, Script, problem, taken

from seriatim import (
    Client,
    ConflictError,
    InDoubtError,
    InternalError,
    InvalidError,
    Retry,
    SeriatimError,
    UnavailableError,
)

REFUSED = httpx.ConnectError("connection refused")
BROKEN = httpx.RemoteProtocolError("server disconnected")


def test_a_change_is_repeated_with_the_same_key_until_it_is_answered() -> None:
    script = Script(
        problem("busy", 503, retryable=True, retry_after="1"),
        problem("unavailable", 503, retryable=True),
        problem("in_doubt", 503, retryable=True),
        REFUSED,
        BROKEN,
        httpx.ReadTimeout("no answer"),
        httpx.Response(502, text="<html>bad gateway</html>"),
        taken(),
    )
    assert script.client().series("s").next().number == 7
    assert (len(script.requests), len(script.keys())) == (8, 1)


def test_each_call_has_a_key_of_its_own() -> None:
    script = Script(taken(1), taken(2))
    client = script.client()
    client.series("s").next()
    client.series("s").next()
    assert len(script.keys()) == 2


@pytest.mark.parametrize(
    "reaction",
    [
        problem("unavailable", 503),
        problem("fenced", 503),
        problem("conflict", 409),
        problem("internal", 500),
        problem("a_newer_code", 418),
        httpx.Response(307, headers={"location": "http://elsewhere"}),
        httpx.Response(200, text="hello"),
        httpx.Response(200, json={"series": "s"}),
    ],
)
def test_what_a_retry_does_not_help_is_an_error_at_once(reaction: httpx.Response) -> None:
    script = Script(reaction)
    with pytest.raises(SeriatimError) as raised:
        script.client().series("s").next()
    assert not raised.value.retryable
    assert len(script.requests) == 1


def test_the_number_of_attempts_is_bounded() -> None:
    script = Script(*[REFUSED] * 4)
    with pytest.raises(UnavailableError) as raised:
        script.client(Retry(attempts=4, wait_first=0.001)).series("s").next()
    assert (len(script.requests), raised.value.status, raised.value.retryable) == (4, None, True)


def test_all_attempts_together_have_a_time_limit() -> None:
    with socket.socket() as reserved:  # bound and not listening: connections are refused
        reserved.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{reserved.getsockname()[1]}"
        started = time.monotonic()
        with Client(url, retry=Retry(attempts=1000, time_limit=0.5)) as client, pytest.raises(UnavailableError):
            client.series("s").next()
        assert 0.1 < time.monotonic() - started < 20


def test_a_server_that_never_answers_uses_up_the_time_limit_and_no_more() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        started = time.monotonic()
        with Client(url, retry=Retry(time_limit=0.5)) as client:
            with pytest.raises(InDoubtError):
                client.series("s").next()
            with pytest.raises(UnavailableError):
                client.series("s").show()
        assert time.monotonic() - started < 20


def test_a_lost_answer_is_in_doubt_only_for_a_change() -> None:
    with pytest.raises(InDoubtError, match="may have been carried out"):
        Script(BROKEN).client(Retry(attempts=1)).series("s").next()
    with pytest.raises(UnavailableError):
        Script(BROKEN).client(Retry(attempts=1)).series("s").show()


def test_a_call_stays_in_doubt_if_an_earlier_attempt_may_have_been_carried_out() -> None:
    for last in (REFUSED, problem("busy", 503, retryable=True), problem("fenced", 503), problem("forbidden", 403)):
        with pytest.raises(InDoubtError, match="an earlier attempt"):
            Script(BROKEN, REFUSED, last).client(Retry(attempts=3, wait_first=0.001)).series("s").next()


def test_a_decision_of_the_server_ends_the_doubt() -> None:
    with pytest.raises(ConflictError):
        Script(BROKEN, REFUSED, problem("conflict", 409)).client().series("s").next()
    with pytest.raises(UnavailableError):
        Script(REFUSED, REFUSED).client(Retry(attempts=2, wait_first=0.001)).series("s").next()


def test_waits_double_up_to_a_bound_and_follow_the_hint() -> None:
    retry = Retry(wait_first=1, wait_max=5)
    for attempt, hint, middle in [(1, None, 1), (2, None, 2), (3, None, 4), (9, None, 5), (1, 3, 3), (1, 99, 5)]:
        waits = [retry.wait(attempt, hint) for _ in range(100)]
        assert 0.75 * middle <= min(waits) < max(waits) <= 1.25 * middle


def test_the_wait_that_the_server_asks_for_is_kept() -> None:
    script = Script(problem("busy", 503, retryable=True, retry_after="1"), taken())
    started = time.monotonic()
    script.client(Retry(wait_first=0.001, wait_max=0.4)).series("s").next()
    assert time.monotonic() - started >= 0.3


def test_a_certificate_that_is_not_trusted_is_an_error_at_once() -> None:
    import ssl

    error = httpx.ConnectError("certificate verify failed")
    error.__cause__ = ssl.SSLCertVerificationError("self-signed")
    script = Script(error)
    with pytest.raises(UnavailableError) as raised:
        script.client().series("s").next()
    assert not raised.value.retryable


def test_a_query_is_sent_without_a_key_and_an_update_with_one() -> None:
    script = Script(httpx.Response(200, json={"result": 1}), httpx.Response(200, json={"result": 2}))
    workflow = script.client().workflow("w")
    assert (workflow.query("status"), workflow.update("change")) == (1, 2)
    assert ["idempotency-key" in request.headers for request in script.requests] == [False, True]


def test_pages_of_a_view_follow_each_other() -> None:
    page = {"rows": [{"key": ["a", 1], "row": {"n": 1}}], "next": ["a", 1]}
    last = {"rows": [{"key": ["a", 2], "row": None}], "next": None}
    script = Script(httpx.Response(200, json=page), httpx.Response(200, json=last))
    rows = script.client().application("shop").workspace(7).view("by name", ["a"])
    assert [row.key for row in rows] == [["a", 1], ["a", 2]]
    assert (
        script.requests[1].url.raw_path
        == b"/v1/apps/shop/workspaces/7/views/by%20name?prefix=%5B%22a%22%5D&after=%5B%22a%22%2C1%5D"
    )


def test_a_token_is_sent_and_an_address_may_have_a_path() -> None:
    script = Script(taken())
    client = Client("http://proxy/numbers/", token="secret", transport=httpx.MockTransport(script))
    client.series("s").next()
    assert script.requests[0].headers["authorization"] == "Bearer secret"
    assert script.requests[0].url.path == "/numbers/v1/series/s/next"


@pytest.mark.parametrize("url", ["", "localhost:7400", "ftp://localhost", "http://", "http:// a"])
def test_a_wrong_address_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="address"):
        Client(url)


@pytest.mark.parametrize("token", ["", "a b", "ä", "a\nb"])
def test_a_wrong_token_is_refused(token: str) -> None:
    with pytest.raises(ValueError, match="token") as raised:
        Client(token=token)
    assert token == "" or token not in str(raised.value)


def test_a_client_does_not_work_after_a_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    block = httpx.Response(200, json={"first": 1, "count": 10})
    script = Script(block)
    client = script.client()
    lease = client.blocks("b").lease(10, prefetch=False)
    assert lease.next() == 1
    monkeypatch.setattr(os, "getpid", lambda: -1)
    for call in (lease.next, client.series("s").next):
        with pytest.raises(RuntimeError, match="fork"):
            call()


def test_an_answer_that_is_no_stream_is_an_error() -> None:
    script = Script(httpx.Response(200, json={"events": [], "next": 1}))
    with pytest.raises(InternalError):
        next(script.client(QUICK).application("shop").workspace(1).follow())


def test_an_input_that_is_not_json_is_refused() -> None:
    with pytest.raises((TypeError, InvalidError)):
        Script().client().workflow("w").signal("s", object())
