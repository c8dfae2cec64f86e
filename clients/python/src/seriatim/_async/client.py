"""The client."""

from __future__ import annotations

from collections.abc import AsyncIterator
from types import TracebackType
from typing import Unpack

import httpx

from ..answers import BlocksState, SeriesState, StartedWorkflow, WorkflowSummary
from ..requests import StartOptions
from ..retry import Retry
from .application import AsyncApplication
from .blocks import AsyncBlocks
from .call import AsyncCalls
from .series import AsyncSeries
from .workflow import AsyncWorkflow


class AsyncClient:
    """A client of one server. It sends nothing before the first call, and callers may share it.

    >>> async with AsyncClient(url) as client:
    ...     taken = await client.series("acme.first").next()
    >>> taken.number
    1
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:7400",
        *,
        token: str | None = None,
        retry: Retry = Retry(),  # noqa: B008 - it cannot be changed
        timeout: float = 40.0,
        silence_max: float = 60.0,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """A client of the server at an address.

        `token` is a bearer token; it is sent to this address and nowhere else. `timeout` is the time limit of one
        attempt in seconds, longer than any request takes in the server. A follower connects again if the server sends
        nothing for `silence_max` seconds. A `transport` of httpx replaces its own, for example to trust other
        certificates.
        """
        self._calls = AsyncCalls(
            url, token=token, retry=retry, timeout=timeout, silence_max=silence_max, transport=transport
        )

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends its connections."""
        await self._calls.close()

    def series(self, name: str) -> AsyncSeries:
        """A series: gap-free numbers by name."""
        return AsyncSeries(self._calls, name)

    def list_series(self) -> AsyncIterator[SeriesState]:
        """All series, ascending by name."""
        return self._calls.pages(SeriesState, "series", "/v1/series")

    def blocks(self, name: str) -> AsyncBlocks:
        """A block sequence: ids that may have gaps."""
        return AsyncBlocks(self._calls, name)

    def list_blocks(self) -> AsyncIterator[BlocksState]:
        """All block sequences, ascending by name."""
        return self._calls.pages(BlocksState, "blocks", "/v1/blocks")

    def application(self, name: str) -> AsyncApplication:
        """An application."""
        return AsyncApplication(self._calls, name)

    def workflow(self, id: str) -> AsyncWorkflow:
        """A workflow, by its id."""
        return AsyncWorkflow(self._calls, id)

    async def start_workflow(
        self, type: str, *, key: str | None = None, **options: Unpack[StartOptions]
    ) -> AsyncWorkflow:
        """Starts a workflow with an id that the server makes.

        >>> greeting = await client.start_workflow("greet", input="Ada")
        >>> await greeting.result()
        'Hello, Ada!'
        """
        body = {"type": type, **options}
        started = await self._calls.post(StartedWorkflow, "/v1/workflows", body, key=key)
        return AsyncWorkflow(self._calls, started.id)

    def list_workflows(self, status: str | None = None) -> AsyncIterator[WorkflowSummary]:
        """All workflows, each with its newest run, in the order of their first starts. `stuck` is a status too."""
        return self._calls.pages(WorkflowSummary, "workflows", "/v1/workflows", {"status": status})
