"""What the server answers. Fields that a newer server adds are ignored."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from msgspec import Struct, field


class Taken(Struct, frozen=True, kw_only=True):
    """Numbers of a series that were taken."""

    series: str
    number: int
    """The first of them."""
    count: int
    """How many consecutive numbers."""
    text: str
    """The first of them, in the format of the series."""
    repeated: bool
    """Whether they were taken earlier, under the same key."""


class SeriesState(Struct, frozen=True, kw_only=True):
    """The state of a series."""

    series: str
    first: int
    format: str
    next: int | None = None
    """The number that will be taken next; `None` if no number is left."""
    remaining: int
    voids: int
    raises: int


class Voided(Struct, frozen=True, kw_only=True):
    """A number that was marked as void."""

    number: int
    reason: str
    at: datetime


class VoidAnswer(Struct, frozen=True, kw_only=True):
    """The answer to marking a number as void."""

    series: str
    number: int
    void: bool
    reason: str


class Issued(Struct, frozen=True, kw_only=True):
    """How a number of a series was taken."""

    series: str
    number: int
    first: int
    """The first of those that were taken together."""
    count: int
    """How many were taken together."""
    at: datetime
    workspace_offset: int
    partition_offset: int
    idempotency_key: str | None = None
    note: str | None = None
    void: Voided | None = None


class Run(Struct, frozen=True, kw_only=True):
    """Consecutive numbers."""

    first: int
    last: int


class Raise(Struct, frozen=True, kw_only=True):
    """A gap that an event explains."""

    workspace_offset: int
    at: datetime
    from_: int = field(name="from")
    """The number that would have been next."""
    to: int
    """The number that was next instead."""


class Broken(Struct, frozen=True, kw_only=True):
    """An event that breaks the chain."""

    workspace_offset: int
    problem: str


class Audit(Struct, frozen=True, kw_only=True):
    """Whether a sequence is complete."""

    first: int | None = None
    last: int | None = None
    count: int
    gaps: list[Run]
    """Numbers that were not drawn, and no event explains why."""
    duplicates: list[Run]
    raises: list[Raise]
    broken: list[Broken]
    events: int
    complete: bool
    """Whether there is no gap, no duplicate and no broken event."""
    digest: str


class SeriesAudit(Audit, frozen=True, kw_only=True):
    """Whether a series is complete."""

    voids: list[Voided]
    """Numbers that were marked as void: at most the first thousand."""


class Allocated(Struct, frozen=True, kw_only=True):
    """Ids of a block sequence that were allocated."""

    first: int
    count: int


class BlocksState(Struct, frozen=True, kw_only=True):
    """The state of a block sequence."""

    name: str
    first: int
    block_size: int
    next: int
    reserved: int
    wasted: int


class Answer(Struct, frozen=True, kw_only=True):
    """What a command did."""

    partition: int
    partition_offset: int
    workspace_offset: int
    ids: dict[int, int]
    """The real id of each raw id."""
    numbers: dict[int, dict[str, int]]
    """Per raw id, the fields that were drawn from a sequence."""
    result: Any = None
    repeated: bool
    """Whether the command was done earlier, under the same key."""


class EventChange(Struct, frozen=True, kw_only=True):
    """A record that an event created or updated."""

    create: str | None = None
    update: int | None = None
    id: int | None = None
    parent: int | None = None
    fields: dict[str, Any]


class Event(Struct, frozen=True, kw_only=True):
    """An event of a log."""

    partition: int
    partition_offset: int
    workspace: int
    workspace_offset: int
    at: datetime
    command: str
    args: Any = None
    changes: list[EventChange]
    unlogged_args: str | None = None
    result: Any = None
    idempotency_key: str | None = None


class Record(Struct, frozen=True, kw_only=True):
    """A record of a workspace."""

    id: int
    type: str | None = None
    """Its document; `None` if the definition does not contain it."""
    fields: dict[str, Any]
    parent: int | None = None
    workspace_offset: int | None = None


class Row(Struct, frozen=True, kw_only=True):
    """A row of a view."""

    key: list[Any]
    row: Any


class SequenceState(Struct, frozen=True, kw_only=True):
    """A sequence of a workspace."""

    name: str
    next: int | None = None
    first: int
    last: int
    remaining: int


class WorkspaceDescriptor(Struct, frozen=True, kw_only=True):
    """Id, kind and name of a workspace."""

    id: int
    kind: str
    name: str | None = None


class StartedWorkflow(Struct, frozen=True, kw_only=True):
    """A run that was started."""

    id: str
    run_id: str
    started: bool = True
    """Whether this request started the run. If not, the run was open and received the request's signal."""
    repeated: bool = False


class Delivery(Struct, frozen=True, kw_only=True):
    """A signal, a cancellation or another request that a run received."""

    id: str
    run_id: str
    repeated: bool


class WorkflowSummary(Struct, frozen=True, kw_only=True):
    """A summary of a run."""

    id: str
    run_id: str
    run: int
    type: str
    status: str
    """`running`, `completed`, `failed`, `cancelled`, `terminated`, `timed_out` or `continued_as_new`."""
    started: datetime
    ended: datetime | None = None


class PendingOperation(Struct, frozen=True, kw_only=True):
    """An operation of a run that has no answer yet."""

    kind: str
    number: int
    path: str
    name: str
    since: datetime
    due: datetime | None = None
    attempt: int | None = None
    last_failure: Any = None
    target: str | None = None


class BlockedBranch(Struct, frozen=True, kw_only=True):
    """A branch of a run's code that waits."""

    branch: str
    waits: list[Any]


class WorkflowState(WorkflowSummary, frozen=True, kw_only=True):
    """The state of a workflow's newest run."""

    input: Any = None
    memo: dict[str, Any] = {}
    result: Any = None
    failure: Any = None
    stuck: str | None = None
    """Why its code cannot continue."""
    pending: list[PendingOperation]
    blocked: list[BlockedBranch]
    warnings: list[str] = []


class HistoryEntry(Struct, frozen=True, kw_only=True):
    """A command of a run with its answer, or a job that the run received."""

    what: str
    kind: str | None = None
    number: int | None = None
    path: str | None = None
    name: str
    event: int
    at: datetime
    details: Any
    answered_at: datetime | None = None
    answer_event: int | None = None
    answer: Any = None


class WorkflowHistory(WorkflowSummary, frozen=True, kw_only=True):
    """A page of a run's history."""

    entries: list[HistoryEntry]
    steps: list[Any]
    """What `seriatim replay` reads."""
    next: int | None = None
    """The `after` of the next page; `None` on the last page."""
