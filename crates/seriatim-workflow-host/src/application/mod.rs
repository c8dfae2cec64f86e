//! The built-in application `workflows`: each of its workspaces is a workflow.
//!
//! A workflow id is a name in the registry, and leads to a workspace. The workflow's runs are numbered in the workspace by
//! the sequence `Run`, and the workspace's log is their history. What an event says about a run is in its `body` (see
//! [`entry`](crate::entry)); the application itself only keeps an index: which runs there are, and the status of each.
//!
//! ```text
//! event    argument                       header
//! Advance  rows, was, draw, settles,      draws the number of a run that it begins
//!          wait, forgets, body
//! Settle   nothing                        lets a workspace of a restored copy skip what it has to skip
//!
//! view     rows of                 key                        row
//! runs     the workspace           run, the newest first      the run
//! runs     the whole partition     status, workspace          the newest run of a workflow, by its status
//! runs     the whole partition     "owing", workspace, run    a run that ended with messages that are not delivered
//! runs     the whole partition     "waiting", workspace       until when nothing of its open run is under way
//! ```
//!
//! A row of a run is written whole: by the event that begins the run and by the event that ends it, never between. Rows are
//! removed when the host forgets runs that ended long ago (`forgets`). That is an event too, so the index is the same when
//! it is rebuilt from the log.

mod commands;
mod handle;
mod row;
mod waiting;

use seriatim_engine::BuiltIn;
use seriatim_types::ApplicationId;

pub use commands::app;
pub use handle::{Advance, WorkflowEvents, Workflows};
pub use row::{BadRunStatus, RunRow, RunStatus};
pub use waiting::{Wait, Waiting};

/// The application's name, and the scope of its names in the registry.
pub(crate) const NAME: &str = "workflows";
/// The application's number.
pub(crate) const APPLICATION: ApplicationId = ApplicationId::new(3);
/// The kind of its workspaces.
const KIND: &str = "workflow";
/// Numbers the runs of a workflow.
const SEQUENCE: &str = "Run";
/// Only the host writes. Keys never expire, because a message between workflows may be sent again after any time.
const BUILT_IN: BuiltIn = BuiltIn {
    id: APPLICATION,
    keeps_keys: true,
    refuses_workspaces: "a workflow is made by starting it",
    refuses_commands: Some(
        "what happens to a workflow is written by its host: start it, signal it, cancel it",
    ),
    partitions_by_option: true,
};

#[cfg(test)]
mod tests {
    use super::*;

    /// Both are in stored data: the number is in every key and every log, and a repeated message relies on its old key.
    #[test]
    fn the_number_of_the_application_and_the_lifetime_of_its_keys_do_not_change() {
        assert_eq!((BUILT_IN.id.get(), BUILT_IN.keeps_keys), (3, true));
    }
}
