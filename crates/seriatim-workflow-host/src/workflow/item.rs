//! The items of a workflow's inbox, and those who wait for them.

use serde::{Deserialize, Serialize};
use seriatim_workflow::{Blocked, IdReusePolicy, Job, Payload, Start, Time, Warning};
use tokio::sync::oneshot;

use crate::entry::{Attempted, Begins, Ended, Retry};
use crate::error::HostError;

pub(crate) type Reply<T> = oneshot::Sender<Result<T, HostError>>;

/// A request is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Written {
    pub(crate) run: u64,
    pub(crate) repeated: bool,
    /// The run begins with what was written.
    pub(crate) begins: bool,
}

/// An idempotency key, and what was meant by it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Key {
    pub(crate) key: String,
    pub(crate) identity: String,
}

/// How a run is to be started.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct StartAs {
    pub(crate) reuse: IdReusePolicy,
    pub(crate) key: Option<Key>,
    /// When its first activation is due, if that is not at once.
    pub(crate) due: Option<Time>,
    /// For an open run, if there is one; otherwise for the new run, with its first activation.
    pub(crate) signal: Option<Job>,
}

/// A run to be started.
#[derive(Debug)]
pub(crate) struct Starting {
    pub(crate) start: Box<Start>,
    pub(crate) begins: Begins,
    pub(crate) how: StartAs,
    /// The workspace was made for it.
    pub(crate) is_fresh: bool,
    pub(crate) reply: Reply<Written>,
}

/// A signal, an update or a request to stop, for a run.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) job: Job,
    /// Only this run.
    pub(crate) run: Option<u64>,
    pub(crate) key: Option<Key>,
    pub(crate) responder: Responder,
}

/// What the sender of a request waits for.
#[derive(Debug)]
pub(crate) enum Responder {
    /// That it is written.
    Written(Reply<Written>),
    /// The outcome of the update.
    Update(Reply<Payload>),
}

impl Responder {
    /// Whether its sender waits no longer.
    pub(crate) fn is_closed(&self) -> bool {
        match self {
            Self::Written(reply) => reply.is_closed(),
            Self::Update(reply) => reply.is_closed(),
        }
    }

    pub(crate) fn refuse(self, error: HostError) {
        // A sender that waits no longer needs no answer.
        match self {
            Self::Written(reply) => drop(reply.send(Err(error))),
            Self::Update(reply) => drop(reply.send(Err(error))),
        }
    }
}

/// Requests that one event answers, each with the id of its update.
pub(crate) type Responders = Vec<(Option<String>, Responder)>;

/// Something to be done with a workflow.
#[derive(Debug)]
pub(crate) enum Item {
    Start(Box<Starting>),
    Request(Box<Request>),
    /// An answer to an operation of a run.
    Answer {
        run: u64,
        job: Job,
        generation: u64,
    },
    Retry {
        run: u64,
        retry: Box<Retry>,
        /// It is written. Else it is known until the process ends.
        is_kept: bool,
    },
    /// An attempt of an activity has begun, or given a sign of life. It begins once that is durable.
    Attempted {
        run: u64,
        attempted: Attempted,
        reply: Option<Reply<Written>>,
    },
    /// Ends a run; the present one if none is named.
    End {
        run: Option<u64>,
        ended: Box<Ended>,
        key: Option<Key>,
        reply: Option<Reply<Written>>,
    },
    /// The first activation of a run that continues another one is due.
    Begin {
        run: u64,
    },
    /// A run that has ended has delivered all its messages to others.
    Delivered {
        run: u64,
    },
    /// Runs that ended long ago leave the index.
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
    /// A stuck run is tried again.
    RetryStuck {
        reply: Reply<Written>,
    },
    /// Nothing: the workflow is read, and what is pending continues.
    Wake,
    /// An event was written, or perhaps written, by a driver that belongs to an earlier home of the partition: the log is read again.
    Reread {
        is_in_doubt: bool,
    },
}

impl Item {
    /// Whether a caller of the host waits for it: these are limited in number.
    pub(crate) fn is_awaited(&self) -> bool {
        matches!(
            self,
            Self::Start(_)
                | Self::Request(_)
                | Self::Query { .. }
                | Self::Inspect { .. }
                | Self::RetryStuck { .. }
        )
    }

    pub(crate) fn refuse(self, error: HostError) {
        match self {
            Self::Start(starting) => drop(starting.reply.send(Err(error))),
            Self::Request(request) => request.responder.refuse(error),
            Self::End { reply: Some(reply), .. }
            | Self::Attempted { reply: Some(reply), .. }
            | Self::Forget { reply, .. }
            | Self::RetryStuck { reply } => {
                drop(reply.send(Err(error)));
            }
            Self::Query { reply, .. } => drop(reply.send(Err(error))),
            Self::Inspect { reply } => drop(reply.send(Err(error))),
            Self::Answer { .. }
            | Self::Retry { .. }
            | Self::End { reply: None, .. }
            | Self::Attempted { reply: None, .. }
            | Self::Begin { .. }
            | Self::Delivered { .. }
            | Self::Reread { .. }
            | Self::Wake => {}
        }
    }
}

/// What the code of an open run says about itself.
#[derive(Debug, Default)]
pub(crate) struct CodeStatus {
    pub(crate) blocked: Vec<Blocked>,
    pub(crate) warnings: Vec<Warning>,
}

/// The id of an update.
pub(crate) fn protocol_id(job: &Job) -> Option<String> {
    match job {
        Job::Update { protocol_id, .. } => Some(protocol_id.clone()),
        _ => None,
    }
}

/// Whether it can be kept for the first activation of a run that has had none: its sender waits for no outcome.
pub(crate) const fn is_early(job: &Job) -> bool {
    matches!(job, Job::Signal { .. } | Job::Cancel { .. })
}
