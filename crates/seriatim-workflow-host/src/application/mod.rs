//! Workflows: the built-in application whose workspaces are workflow ids.
//!
//! A workflow id is a workspace, named in the registry; its runs are numbered in it by the sequence `Run`, and its log is
//! their history. What an event says about a run is the host's (`body`); what is kept here is which runs there are and how
//! they stand:
//!
//! ```text
//! event    argument                       header
//! Advance  rows, was, draw, settles,      draws the number of a run that it begins
//!          wait, forgets, body
//! Settle   nothing                        lets a workspace of a restored copy skip what it has to skip
//!
//! view     rows of                 key                        row
//! runs     the workspace           run, the newest first      how the run stands
//! runs     the whole partition     status, workspace          how its newest run stands
//! runs     the whole partition     "owing", workspace, run    a run that had still to tell others something
//! runs     the whole partition     "waiting", workspace       until when nothing of its open run is under way
//! ```
//!
//! Rows are removed when a host forgets runs that ended long ago (`forgets`): an event too, so that the index is the same
//! whenever it is built anew. Rows of runs are written whole, by the event that begins a run
//! and by the one that ends it, and by none between.

mod commands;
mod handle;
mod row;
mod waiting;

use seriatim_types::ApplicationId;

pub use handle::{Advance, WorkflowEvents, Workflows, WorkflowsClaim};
pub use row::{BadRunStatus, RunRow, RunStatus};
pub use waiting::{Wait, Waiting};

pub(crate) use commands::app;

/// The application's number, compiled in.
pub(crate) const ID: ApplicationId = ApplicationId::new(3);
/// The application's name, and the scope of its names in the registry.
pub(crate) const NAME: &str = "workflows";
/// The kind of its workspaces.
pub(crate) const KIND: &str = "workflow";
/// Numbers the runs of a workflow.
pub(crate) const SEQUENCE: &str = "Run";
