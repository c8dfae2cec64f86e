"""Client of Seriatim: gap-free numbers, ids in blocks, applications and durable workflows.

>>> from seriatim import Client
>>> with Client(url) as client:
...     client.series("acme.hello").next().number
1

`Client` is for threads, `AsyncClient` for asyncio; both have the same methods.
"""

from ._async.application import AsyncApplication, AsyncPartition
from ._async.blocks import AsyncBlocks
from ._async.client import AsyncClient
from ._async.follower import AsyncFollower
from ._async.lease import AsyncBlockLease
from ._async.series import AsyncSeries
from ._async.workflow import AsyncWorkflow
from ._async.workspace import AsyncWorkspace
from ._sync.application import Application, Partition
from ._sync.blocks import Blocks
from ._sync.client import Client
from ._sync.follower import Follower
from ._sync.lease import BlockLease
from ._sync.series import Series
from ._sync.workflow import Workflow
from ._sync.workspace import Workspace
from .answers import (
    Allocated,
    Answer,
    Audit,
    BlocksState,
    Delivery,
    Event,
    EventChange,
    Issued,
    Record,
    Row,
    SequenceState,
    SeriesAudit,
    SeriesState,
    StartedWorkflow,
    Taken,
    VoidAnswer,
    WorkflowHistory,
    WorkflowState,
    WorkflowSummary,
    WorkspaceDescriptor,
)
from .errors import (
    BusyError,
    ConflictError,
    CorruptError,
    ExhaustedError,
    FencedError,
    ForbiddenError,
    InDoubtError,
    InternalError,
    InvalidError,
    NotFoundError,
    SeriatimError,
    TooLargeError,
    UnauthorizedError,
    UnavailableError,
    WorkflowEndedError,
)
from .requests import Change, Create, StartOptions, Update
from .retry import Retry

__version__ = "0.1.0"

__all__ = [
    "Allocated",
    "Answer",
    "Application",
    "AsyncApplication",
    "AsyncBlockLease",
    "AsyncBlocks",
    "AsyncClient",
    "AsyncFollower",
    "AsyncPartition",
    "AsyncSeries",
    "AsyncWorkflow",
    "AsyncWorkspace",
    "Audit",
    "BlockLease",
    "Blocks",
    "BlocksState",
    "BusyError",
    "Change",
    "Client",
    "ConflictError",
    "CorruptError",
    "Create",
    "Delivery",
    "Event",
    "EventChange",
    "ExhaustedError",
    "FencedError",
    "Follower",
    "ForbiddenError",
    "InDoubtError",
    "InternalError",
    "InvalidError",
    "Issued",
    "NotFoundError",
    "Partition",
    "Record",
    "Retry",
    "Row",
    "SequenceState",
    "SeriatimError",
    "Series",
    "SeriesAudit",
    "SeriesState",
    "StartOptions",
    "StartedWorkflow",
    "Taken",
    "TooLargeError",
    "UnauthorizedError",
    "UnavailableError",
    "Update",
    "VoidAnswer",
    "Workflow",
    "WorkflowEndedError",
    "WorkflowHistory",
    "WorkflowState",
    "WorkflowSummary",
    "Workspace",
    "WorkspaceDescriptor",
]
