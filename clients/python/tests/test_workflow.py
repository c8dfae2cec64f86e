from __future__ import annotations

import pytest
from server import Server

from seriatim import Client, ConflictError, InvalidError, NotFoundError, Retry, WorkflowEndedError


def test_a_workflow_is_started_and_waited_for(client: Client) -> None:
    greeting = client.workflow("greet one")
    started = greeting.start("greet", input="Ada", memo={"for": "test"}, key="greet-one")
    assert (started.id, started.started, started.repeated) == ("greet one", True, False)
    assert greeting.start("greet", input="Ada", memo={"for": "test"}, key="greet-one").repeated
    assert greeting.wait(30).result == "Hello, Ada!"
    state = greeting.show()
    assert (state.status, state.type, state.memo, state.run_id) == (
        "completed",
        "greet",
        {"for": "test"},
        started.run_id,
    )
    assert [run.run for run in greeting.runs()] == [1]
    history = greeting.history()
    assert "greeting" in [entry.name for entry in history.entries]
    assert history.steps
    assert "greet one" in [found.id for found in client.list_workflows("completed")]


def test_an_order_takes_messages(client: Client) -> None:
    order = client.workflow("order-messages")
    order.start("order", input={"item": "tea", "patience_ms": 600_000}, run_timeout="1h")
    with pytest.raises(ConflictError):
        order.start("order")
    assert order.wait(0).status == "running"
    assert order.update("change_item", "coffee", key="u") == order.update("change_item", "coffee", key="u") == "tea"
    assert order.query("status") in ("charging", "awaiting_approval")
    assert not order.signal("approve", {"by": "Ada"}, key="s").repeated
    result = order.result()
    assert (result["item"], result["approved_by"]) == ("coffee", "signal")


def test_waiting_for_a_run_may_take_longer_than_the_time_limit_of_a_call(server: Server) -> None:
    with Client(server.url, retry=Retry(time_limit=1), timeout=1) as client:
        order = client.start_workflow("order", input={"patience_ms": 2500})
        assert order.wait(0.1).status == "running"
        assert order.result()["approved_by"] == "timer"


def test_a_run_that_is_stopped_has_no_result(client: Client) -> None:
    for stop, status in [("cancel", "cancelled"), ("terminate", "terminated")]:
        order = client.start_workflow("order", input={"patience_ms": 600_000})
        getattr(order, stop)("no longer needed")
        with pytest.raises(WorkflowEndedError) as raised:
            order.result()
        assert (raised.value.id, raised.value.end, raised.value.code) == (order.id, status, "ended")
        with pytest.raises(ConflictError):
            order.signal("approve")


def test_a_run_that_fails_says_why(client: Client) -> None:
    with pytest.raises(WorkflowEndedError, match="failed"):
        client.start_workflow("order", input={"amount": 0}).result()


def test_wrong_requests_are_refused(client: Client) -> None:
    with pytest.raises(NotFoundError):
        client.workflow("no-such-workflow").show()
    with pytest.raises(InvalidError, match="run_timeout"):
        client.start_workflow("greet", run_timeout="soon")
    with pytest.raises(InvalidError):
        client.workflow("..").show()
