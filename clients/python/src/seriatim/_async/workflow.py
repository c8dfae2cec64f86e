"""Workflows: durable runs of code on the server."""

from __future__ import annotations

import math
import time
from collections.abc import AsyncIterator
from typing import Any, Unpack

from ..answers import Delivery, StartedWorkflow, WorkflowHistory, WorkflowState, WorkflowSummary
from ..errors import WorkflowEndedError
from ..requests import StartOptions
from .call import AsyncCalls, route

WAIT_SECONDS = 20
"""How long one request waits for the end of a run: less than the server allows."""


class AsyncWorkflow:
    """A workflow, by its id.

    >>> order = client.workflow("order-7")
    >>> started = await order.start("order", input={"item": "tea"}, run_timeout="1h", key="order-7")
    >>> await order.update("change_item", "coffee")
    'tea'
    >>> _ = await order.signal("approve", {"by": "Ada"})
    >>> (await order.result())["item"]
    'coffee'
    """

    def __init__(self, calls: AsyncCalls, id: str) -> None:
        self._calls = calls
        self.id = id

    def _route(self, *parts: str) -> str:
        return route("workflows", self.id, *parts)

    async def start(self, type: str, *, key: str | None = None, **options: Unpack[StartOptions]) -> StartedWorkflow:
        """Starts it: durable when this returns. While a run with the id is open, it is a `ConflictError`.

        The options are `input`, `execution_timeout`, `run_timeout`, `retry_policy`, `memo`, `start_delay`,
        `id_reuse_policy` and `signal`, as the HTTP API describes them.
        """
        body = {"type": type, "id": self.id, **options}
        return await self._calls.post(StartedWorkflow, "/v1/workflows", body, key=key)

    async def show(self) -> WorkflowState:
        """The state of its newest run."""
        return await self._calls.get(WorkflowState, self._route())

    async def wait(self, time_limit: float | None = None) -> WorkflowState:
        """Waits until its newest run has ended, and returns the state: also that of a run that has not ended within
        `time_limit` seconds.

        >>> greeting = client.workflow("greeting-1")
        >>> _ = await greeting.start("greet", input="Ada")
        >>> state = await greeting.wait(30)
        >>> state.status, state.result
        ('completed', 'Hello, Ada!')
        """
        end = None if time_limit is None else time.monotonic() + time_limit
        while True:
            left = WAIT_SECONDS if end is None else end - time.monotonic()
            wait = max(0, min(WAIT_SECONDS, math.ceil(left)))
            state = await self._calls.get(WorkflowState, self._route(), {"wait": wait}, extra=wait)
            if state.status != "running" or wait == 0:
                return state

    async def result(self) -> Any:
        """Waits without a time limit, and returns what it returned. A run that ended without a result is a
        `WorkflowEndedError`."""
        state = await self.wait()
        if state.status != "completed":
            raise WorkflowEndedError(self.id, state.status, state.failure)
        return state.result

    async def signal(self, name: str, input: Any = None, *, key: str | None = None) -> Delivery:
        """Sends a signal to the open run: durable when this returns."""
        return await self._calls.post(Delivery, self._route("signals", name), _input(input), key=key)

    async def query(self, name: str, input: Any = None) -> Any:
        """Asks its code, which changes nothing."""
        answer = await self._calls.ask(dict[str, Any], self._route("queries", name), _input(input))
        return answer["result"]

    async def update(self, name: str, input: Any = None, *, key: str | None = None) -> Any:
        """Changes the run, and returns what its code answers."""
        answer = await self._calls.post(dict[str, Any], self._route("updates", name), _input(input), key=key)
        return answer["result"]

    async def cancel(self, reason: str = "", *, key: str | None = None) -> Delivery:
        """Asks the open run to stop."""
        return await self._calls.post(Delivery, self._route("cancel"), {"reason": reason}, key=key)

    async def terminate(self, reason: str = "", *, key: str | None = None) -> Delivery:
        """Ends the open run without running its code again."""
        return await self._calls.post(Delivery, self._route("terminate"), {"reason": reason}, key=key)

    async def retry(self) -> Delivery:
        """Tries a stuck run again."""
        return await self._calls.ask(Delivery, self._route("retry"), None)

    def runs(self) -> AsyncIterator[WorkflowSummary]:
        """Its runs, the newest first."""
        path = self._route("runs")
        return self._calls.pages(WorkflowSummary, "runs", path, cursor="before")

    async def history(self, run: int | None = None, *, after: int | None = None) -> WorkflowHistory:
        """A page of the history of a run, by default of the newest: the events after `after`, the `next` of the
        previous page."""
        return await self._calls.get(WorkflowHistory, self._route("history"), {"run": run, "after": after})


def _input(input: Any) -> dict[str, Any]:
    return {} if input is None else {"input": input}
