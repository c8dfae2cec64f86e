"""Block sequences: unique rising ids that may have gaps."""

from __future__ import annotations

from ..answers import Allocated, BlocksState
from .call import AsyncCalls, route
from .lease import AsyncBlockLease


class AsyncBlocks:
    """A block sequence. It is created before its first use.

    >>> orders = client.blocks("orders")
    >>> (await orders.create(first=1000)).next
    1000
    >>> (await orders.allocate(5)).count
    5
    """

    def __init__(self, calls: AsyncCalls, name: str) -> None:
        self._calls = calls
        self.name = name

    async def create(self, *, first: int = 1, block_size: int = 4096) -> BlocksState:
        """Creates it. The same settings again change nothing; others are a `ConflictError`."""
        body = {"first": first, "block_size": block_size}
        return await self._calls.put(BlocksState, route("blocks", self.name), body)

    async def show(self) -> BlocksState:
        """Its state."""
        return await self._calls.get(BlocksState, route("blocks", self.name))

    async def allocate(self, count: int, *, key: str | None = None) -> Allocated:
        """Allocates consecutive ids, at most 2^32. The same `key` gives the same ids again."""
        return await self._calls.post(Allocated, route("blocks", self.name, "allocate"), {"count": count}, key=key)

    def lease(self, count: int = 1000, *, prefetch: bool = True) -> AsyncBlockLease:
        """Ids from memory: one request for each `count` of them.

        >>> invoices = client.blocks("leased")
        >>> _ = await invoices.create()
        >>> ids = invoices.lease(100)
        >>> first = await ids.next()
        >>> await ids.next() - first
        1
        """
        return AsyncBlockLease(self._calls, self.allocate, count, prefetch)
