"""Blocks of ids that are leased from the server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from ..answers import Allocated
from ..errors import SeriatimError
from .background import Background
from .call import AsyncCalls


class AsyncBlockLease:
    """Gives out the ids of blocks that the server has allocated to this lease. Callers may share it.

    Any number of leases, in any number of processes, never give out the same id. The ids of one lease rise. What a
    lease holds when it is dropped is wasted: the server takes nothing back. With `prefetch` the next block is
    allocated when half of the current one is used, so that callers rarely wait.
    """

    def __init__(
        self, calls: AsyncCalls, allocate: Callable[[int], Awaitable[Allocated]], count: int, prefetch: bool
    ) -> None:
        if count < 1:
            raise ValueError(f"a lease needs a count of at least 1, not {count}")
        self._calls = calls
        self._allocate = allocate
        self._count = count
        self._prefetch = prefetch
        # Held while a block is allocated: waiting callers then share that block.
        self._lock = asyncio.Lock()
        self._next = 0
        self._end = 0
        self._ahead: Background[Allocated] | None = None

    @property
    def remaining(self) -> int:
        """How many ids of the current block are left."""
        return self._end - self._next

    async def next(self) -> int:
        """The next id: from memory, or from a new block."""
        self._calls.check_process()
        async with self._lock:
            if self._next == self._end:
                block = await self._block()
                self._next, self._end = block.first, block.first + block.count
            id = self._next
            self._next += 1
            if self._prefetch and self._ahead is None and self.remaining <= self._count // 2:
                self._ahead = Background(self._fetch)
            return id

    async def _fetch(self) -> Allocated:
        return await self._allocate(self._count)

    async def _block(self) -> Allocated:
        if self._ahead is not None:
            ahead = self._ahead
            try:
                block = await ahead.result()
            except SeriatimError:
                self._ahead = None  # the server may answer by now
            else:
                self._ahead = None
                return block
        return await self._fetch()
