"""What a caller sends, as dictionaries: the same names as in the HTTP API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NotRequired, TypedDict


class Create(TypedDict):
    """A record to be created. `id` is a raw id from 1 to 65535 that names it inside the command."""

    create: str
    id: int
    parent: NotRequired[int]
    fields: NotRequired[Mapping[str, Any]]


class Update(TypedDict):
    """A record to be updated: fields that are not named keep their values, `None` removes one."""

    update: int
    fields: Mapping[str, Any]


Change = Create | Update
"""One change of a command."""


class Signal(TypedDict):
    """A signal that is sent with a start."""

    name: str
    input: NotRequired[Any]


class RetryPolicy(TypedDict, total=False):
    """How a workflow that fails is retried as a whole. Durations are text: `200ms`, `30s`, `15m`, `12h`, `7d`."""

    initial_interval: str
    backoff_coefficient: float
    maximum_interval: str
    maximum_attempts: int
    non_retryable_error_types: list[str]


class StartOptions(TypedDict, total=False):
    """Options of a start. Durations are text: `200ms`, `30s`, `15m`, `12h`, `7d`."""

    input: Any
    execution_timeout: str
    run_timeout: str
    retry_policy: RetryPolicy
    memo: Mapping[str, Any]
    start_delay: str
    id_reuse_policy: Literal[
        "allow_duplicate", "allow_duplicate_failed_only", "reject_duplicate", "terminate_if_running"
    ]
    signal: Signal
