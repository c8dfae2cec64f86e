//! The requests and answers of the HTTP API, as types that the server and the client share.
//!
//! This crate does not depend on the engine. What an application defines (fields, arguments, results, rows) is JSON.
//! An unknown field in a request is an error; an unknown field in an answer is ignored, so that an older client can read the
//! answers of a newer server.
#![forbid(unsafe_code)]

mod admin;
mod application;
mod audit;
mod blocks;
mod command;
mod duration;
mod event;
mod health;
mod page;
mod problem;
mod record;
mod series;
mod token;
mod workflow;
mod workflow_start;
mod workspace;

pub use admin::{
    BackupReport, BackupRequest, DoctorReport, DoctorRequest, Finding, LostEvents, LowerBound,
    PartitionProblem, PartitionTail, Treatment, UnfenceReport, UnfenceRequest,
};
pub use application::{
    Application, Document, Field, NamedPartition, PartitionState, PartitionStatus, Recovery,
};
pub use audit::{Audit, Broken, Forecast, Raise, Run, SeriesAudit};
pub use blocks::{Allocate, Allocated, BlockSequence, BlockSequences, PutBlocks};
pub use command::{Answer, Change, CommandRequest};
pub use duration::{duration_text, parse_duration};
pub use event::{Event, EventChange, Events};
pub use health::{Live, NotReady, Readiness, Ready, Trouble};
pub use page::{ListedKind, NamePage, Range, RecordsPage, RowsPage, WorkspacesPage};
pub use problem::{Code, Problem};
pub use record::{Record, Records, Row, Rows};
pub use series::{
    Issued, NextRequest, PutSeries, RaiseRequest, Series, SeriesList, TakenNumbers, VoidAnswer, VoidRequest,
    Voided,
};
pub use token::{CreateToken, CreatedToken, Token, Tokens};
pub use workflow::{
    BlockedBranch, HistoryEntry, PendingOperation, RunsPage, StopWorkflow, WaitFor, WhichRun, Workflow,
    WorkflowAnswer, WorkflowDelivery, WorkflowHistory, WorkflowInput, WorkflowRuns, WorkflowSummary,
    Workflows, WorkflowsPage,
};
pub use workflow_start::{IdReusePolicy, RetryPolicy, StartSignal, StartWorkflow, StartedWorkflow};
pub use workspace::{CreateWorkspace, Sequence, Workspace, Workspaces};
