"""Work that runs while the caller continues. Written for threads here, and for tasks in `_async`."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from typing import Generic, TypeVar

T = TypeVar("T")


class Background(Generic[T]):
    """One call in a thread of its own, which does not keep the process alive."""

    def __init__(self, call: Callable[[], T]) -> None:
        self._future: Future[T] = Future()
        Thread(target=self._run, args=[call], name="seriatim-background", daemon=True).start()

    def _run(self, call: Callable[[], T]) -> None:
        try:
            self._future.set_result(call())
        except BaseException as error:
            self._future.set_exception(error)

    def result(self) -> T:
        """Waits for it."""
        return self._future.result()
