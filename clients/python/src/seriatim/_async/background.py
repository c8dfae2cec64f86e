"""Work that runs while the caller continues. Written for tasks here, and for threads in `_sync`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Background(Generic[T]):
    """One call in a task of its own."""

    def __init__(self, call: Callable[[], Awaitable[T]]) -> None:
        self._task = asyncio.ensure_future(call())
        # An error that no one asks for is not a warning.
        self._task.add_done_callback(lambda task: task.cancelled() or task.exception())

    async def result(self) -> T:
        """Waits for it. A caller that is cancelled does not cancel the work."""
        return await asyncio.shield(self._task)
