"""When a call is repeated, and after which wait."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

from tenacity import RetryCallState, retry_if_exception, stop_after_attempt, stop_before_delay

from .errors import SeriatimError

if TYPE_CHECKING:
    from tenacity.retry import retry_base
    from tenacity.stop import stop_base
    from tenacity.wait import WaitBaseT


class _Rules(TypedDict):
    retry: retry_base
    stop: stop_base
    wait: WaitBaseT
    reraise: bool


@dataclass(frozen=True, kw_only=True)
class Retry:
    """Bounds of the retries of one call.

    `busy`, `unavailable`, `in_doubt` and broken connections are retried, a change with the same idempotency key.
    `Retry(attempts=1)` retries nothing.
    """

    attempts: int = 12
    """The largest number of attempts."""
    time_limit: float = 60.0
    """All attempts and waits of a call together, in seconds."""
    wait_first: float = 0.05
    """The wait before the first retry in seconds; it doubles with each retry."""
    wait_max: float = 5.0
    """The longest wait, also if the server asks for a longer one."""

    def wait(self, attempt: int, hint: float | None = None) -> float:
        """How long to wait after an attempt, counted from 1: the hint or the doubled wait, plus or minus a quarter."""
        doubled = self.wait_first * 2.0 ** min(attempt - 1, 30)
        return min(hint if hint is not None else doubled, self.wait_max) * random.uniform(0.75, 1.25)

    def rules(self, extra: float = 0.0) -> _Rules:
        """The same for tenacity, with more time."""
        return {
            "retry": retry_if_exception(_is_retryable),
            "stop": stop_after_attempt(self.attempts) | stop_before_delay(self.time_limit + extra),
            "wait": self._wait,
            "reraise": True,
        }

    def _wait(self, state: RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome else None
        hint = error.retry_after if isinstance(error, SeriatimError) else None
        return self.wait(state.attempt_number, hint)


def _is_retryable(error: BaseException) -> bool:
    return isinstance(error, SeriatimError) and error.retryable
