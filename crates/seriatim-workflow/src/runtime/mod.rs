//! How a run is driven: slots, tables of what is pending, tasks and their scheduler.

mod instance;
mod jobs;
mod matcher;
mod permits;
mod queries;
mod random;
mod sched;
mod scope;
mod signals;
mod slot;
mod state;
mod table;
mod task;
mod updates;

pub use instance::{Instance, InstanceOptions, Numbering, Policy, Watch};
pub use sched::{Blocked, WaitingFor};
pub use slot::{Slot, SlotFuture};
pub use table::{PendingOperation, REMEMBERED};

pub(crate) use permits::Permits;
pub(crate) use random::mix;
pub(crate) use sched::is_current;
pub(crate) use scope::ScopeNode;
pub(crate) use slot::{Cell, EndsWithScope, Wait};
pub(crate) use state::{
    ActivityEntry, ChildEntry, Condition, QueryHandler, SharedRun, SignalHandler, State, UpdateCode,
    UpdateHandler,
};
pub(crate) use table::Operation;
pub(crate) use task::TaskWaker;
