//! Workflows: the built-in application whose workspaces are workflow ids.
//!
//! A workflow id is a workspace, named in the registry; its runs are numbered in it by the sequence `Run`, and its log is
//! their history. What an event says about a run is the host's (`body`); what is kept here is which runs there are and how
//! they stand:
//!
//! ```text
//! event    argument                       header
//! Advance  rows, was, draw, settles, body draws the number of a run that it begins
//! Settle   nothing                        lets a workspace of a restored copy skip what it has to skip
//!
//! view     rows of                 key                        row
//! runs     the workspace           run, the newest first      how the run stands
//! runs     the whole partition     status, workspace          how its newest run stands
//! runs     the whole partition     "owing", workspace, run    a run that had still to tell others something
//! ```
//!
//! Rows are written whole, by the event that begins a run and by the one that ends it, and by none between.

mod commands;
mod handle;
mod row;

use seriatim_types::ApplicationId;

pub use handle::{Advance, WorkflowEvents, Workflows, WorkflowsClaim};
pub use row::{BadRunStatus, RunRow, RunStatus};

pub(crate) use commands::app;

/// The application's number, compiled in.
pub(crate) const ID: ApplicationId = ApplicationId::new(3);
/// The application's name, and the scope of its names in the registry.
pub(crate) const NAME: &str = "workflows";
/// The kind of its workspaces.
pub(crate) const KIND: &str = "workflow";
/// Numbers the runs of a workflow.
pub(crate) const SEQUENCE: &str = "Run";
