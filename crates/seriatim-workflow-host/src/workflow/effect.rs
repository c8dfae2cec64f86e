//! What follows from a step, to be carried out by the driver.

use std::sync::Arc;

use seriatim_env::Shutdown;
use seriatim_storage::Holder;
use seriatim_workflow::{Job, Kind, Payload, Time};

use super::item::{CodeStatus, Item, Key, Reply, Request, Responder, Responders, Starting, Written};
use super::pending::{ActivityTask, Child, Message, Pending};
use crate::alarms::Alarm;
use crate::application::RunRow;
use crate::entry::{Attempted, Ended, Retry};
use crate::error::HostError;

/// In the order in which they are carried out.
pub(crate) type Effects = Vec<Effect>;

/// Something that a step wants done. None of it waits, and none can fail.
#[derive(Debug)]
pub(crate) enum Effect {
    /// The sender of an item gets an error.
    Refuse(Item, HostError),
    /// The sender of a request gets an error.
    RefuseRequest(Responder, HostError),
    /// The sender's request is written.
    Acknowledge(Reply<Written>, Written),
    /// An update has its outcome.
    Answer(Reply<Payload>, Result<Payload, HostError>),
    SetAlarm {
        at: Time,
        run: u64,
        alarm: Alarm,
    },
    UnsetAlarm {
        at: Time,
        run: u64,
        alarm: Alarm,
    },
    BeginActivity(Box<BeginActivity>),
    /// A child is started, unless it was, and its end is waited for.
    WatchChild {
        run: u64,
        id: String,
        seq: u32,
        child: Arc<Child>,
        cancel: Shutdown,
    },
    /// A child is asked to stop.
    CancelChild {
        run: u64,
        id: String,
        seq: u32,
        child: Arc<Child>,
    },
    SendMessage {
        run: u64,
        id: String,
        kind: Kind,
        seq: u32,
        message: Arc<Message>,
        cancel: Shutdown,
    },
    /// The task that carries out an operation is asked to stop.
    Cancel(Shutdown),
    /// A run has ended with messages to others that are not delivered.
    DeliverRemaining(RunRow, Box<Pending>),
    /// The run's code is dropped: it is not what the log says.
    DiscardCode,
    /// The engine no longer owns the workflow's partition: everything of that partition is dropped from memory.
    LetGo(Option<Holder>),
    /// The engine has refused something: the driver waits before it tries again.
    Pause,
    RunStarted,
    RunEnded,
    /// Those that wait for the end of a run check again.
    NotifyEnded,
}

/// An activity that is to be carried out.
#[derive(Debug)]
pub(crate) struct BeginActivity {
    pub(crate) run: u64,
    pub(crate) id: String,
    pub(crate) seq: u32,
    pub(crate) task: Arc<ActivityTask>,
    /// A large input. It may be dropped: it is in the log.
    pub(crate) large_input: Option<Vec<Payload>>,
    pub(crate) generation: u64,
    pub(crate) cancel: Shutdown,
}

/// What the driver does next, which takes time and may fail.
#[derive(Debug)]
pub(crate) enum Work {
    Start(Box<Starting>),
    /// The run's code is activated with these jobs.
    Activate {
        jobs: Vec<Job>,
        responders: Responders,
    },
    /// A request with an idempotency key: the log says whether it was sent before.
    Keyed(Box<Request>),
    Retries(Vec<Retry>),
    Attempts {
        attempts: Vec<Attempted>,
        replies: Vec<Reply<Written>>,
    },
    /// Kept, since the run's code cannot react to it now.
    Arrived {
        jobs: Vec<Job>,
        responders: Responders,
    },
    RetryStuck {
        reply: Reply<Written>,
    },
    End {
        ended: Ended,
        key: Option<Key>,
        reply: Option<Reply<Written>>,
    },
    Begin,
    /// The log is read again.
    Reread,
    Delivered(u64),
    Forget {
        runs: Vec<u64>,
        reply: Reply<Written>,
    },
    Query {
        job: Job,
        reply: Reply<Payload>,
    },
    Inspect {
        reply: Reply<CodeStatus>,
    },
}
