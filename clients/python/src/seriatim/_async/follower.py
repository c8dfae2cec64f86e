"""Following a log."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import TracebackType

import httpx
import msgspec
from httpx_sse import EventSource, ServerSentEvent, SSEError

from ..answers import Event
from ..errors import InternalError
from .call import AsyncCalls


class AsyncFollower:
    """An endless iterator over the events of a log.

    When the connection breaks or is silent for too long, or the server restarts, the follower connects again and
    continues after the last event that it returned: events come in order, each once. If the server does not answer
    within the bounds of the client's retries, or refuses, the iteration raises an error; a new iteration of the same
    follower continues from the same offset.
    """

    def __init__(self, calls: AsyncCalls, path: str, start: int) -> None:
        self._calls = calls
        self._path = path
        self._response: httpx.Response | None = None
        self._messages: AsyncIterator[ServerSentEvent] | None = None
        # Connections without an event since the last event.
        self._empty_connections = 0
        self.offset = start
        """The offset of the next event: another follower can start from it."""

    async def __aenter__(self) -> AsyncFollower:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends the connection. Iterating again opens a new one."""
        response, self._response, self._messages = self._response, None, None
        if response is not None:
            await response.aclose()

    def __aiter__(self) -> AsyncFollower:
        return self

    async def __anext__(self) -> Event:
        while True:
            messages = self._messages or await self._connect()
            try:
                message = await anext(messages)
            except SSEError as error:
                await self.close()
                raise InternalError(f"{self._path} is not answered by a stream of events: {error}") from error
            except (StopAsyncIteration, httpx.TransportError):
                await self.close()
                continue
            if message.event == "end":
                await self.close()
            elif (event := await self._read(message)) is not None:
                return event

    async def _connect(self) -> AsyncIterator[ServerSentEvent]:
        if self._empty_connections > 0:  # longer each time, in case the server ends every stream immediately
            await asyncio.sleep(self._calls.retry.wait(self._empty_connections))
        headers, query = {"accept": "text/event-stream"}, {"from": self.offset}
        self._response = await self._calls.stream(self._path, headers, query)
        self._messages = EventSource(self._response).aiter_sse()
        self._empty_connections += 1
        return self._messages

    async def _read(self, message: ServerSentEvent) -> Event | None:
        try:
            offset, event = int(message.id), msgspec.json.decode(message.data, type=Event)
        except (ValueError, msgspec.MsgspecError) as error:
            await self.close()
            raise InternalError(f"a message of {self._path} is not an event: {error}") from error
        if offset < self.offset:
            return None
        self.offset, self._empty_connections = offset + 1, 0
        return event
