"""Logs: of a workspace and of a partition."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec

from ..answers import Event
from .call import AsyncCalls
from .follower import AsyncFollower


class AsyncLog:
    """Events in order, numbered from 1."""

    def __init__(self, calls: AsyncCalls, base: str) -> None:
        self._calls = calls
        self._base = base

    async def events(self, start: int = 1) -> AsyncIterator[Event]:
        """The events from an offset to the end of the log.

        >>> store = await client.application("shop").create_workspace("store")
        >>> _ = await store.submit([{"create": "Customer", "id": 1, "fields": {"name": "Ada"}}])
        >>> [event.changes[0].create async for event in store.events()]
        ['Customer']
        """
        while True:
            page = await self._calls.get(dict[str, Any], f"{self._base}/events", {"from": start})
            events = msgspec.convert(page["events"], list[Event])
            for event in events:
                yield event
            if not events:
                return
            start = page["next"]

    def follow(self, start: int = 1) -> AsyncFollower:
        """Follows the log from an offset: first the events that exist, then each new one.

        >>> store = await client.application("shop").create_workspace("store")
        >>> _ = await store.submit([{"create": "Customer", "id": 1, "fields": {"name": "Ada"}}])
        >>> async with store.follow() as log:
        ...     event = await anext(log)
        >>> event.changes[0].fields["name"], log.offset
        ('Ada', 2)
        """
        return AsyncFollower(self._calls, f"{self._base}/events", start)
