//! A workflow in memory: what is known of it, and what waits to be done with it.

pub(crate) mod ending;
pub(crate) mod pending;
pub(crate) mod wait;

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use seriatim_engine::{RunRow, Wait};
use seriatim_env::Shutdown;
use seriatim_types::WorkspaceId;
use seriatim_workflow::{Blocked, IdReusePolicy, Job, Kind, Payload, Start, Time, UpdateOutcome, Warning};
use tokio::sync::{Notify, oneshot};

use crate::entry::{Attempted, Begins, Ended, Retry};
use crate::error::HostError;
use crate::messages::Outcome;
use self::pending::Pending;

pub(crate) type Reply<T> = oneshot::Sender<Result<T, HostError>>;

/// A request to somebody's workflow was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) run: u64,
    pub(crate) repeated: bool,
    /// The run begins with what was written.
    pub(crate) begins: bool,
}

/// An idempotency key, and what was meant by it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) key: String,
    pub(crate) identity: String,
}

/// How a run is to be started.
#[derive(Debug, Default)]
pub(crate) struct StartAs {
    pub(crate) reuse: IdReusePolicy,
    pub(crate) key: Option<Key>,
    /// When its first activation is due, if that is not at once.
    pub(crate) due: Option<Time>,
    /// Told to an open run, if there is one; otherwise to the new run, with its first activation.
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

/// Something that a run is told from outside.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) job: Job,
    /// Only this run.
    pub(crate) run: Option<u64>,
    pub(crate) key: Option<Key>,
    pub(crate) answer: Answering,
}

/// Who waits for what is told.
#[derive(Debug)]
pub(crate) enum Answering {
    Written(Reply<Written>),
    Update(Reply<Payload>),
}

impl Answering {
    /// Whether nobody waits any more.
    pub(crate) fn is_closed(&self) -> bool {
        match self {
            Self::Written(reply) => reply.is_closed(),
            Self::Update(reply) => reply.is_closed(),
        }
    }

    pub(crate) fn refuse(self, error: HostError) {
        // Nobody waits any more: then nobody has to hear it.
        match self {
            Self::Written(reply) => drop(reply.send(Err(error))),
            Self::Update(reply) => drop(reply.send(Err(error))),
        }
    }
}

/// Something to be done with a workflow.
#[derive(Debug)]
pub(crate) enum Item {
    Start(Box<Starting>),
    Tell(Box<Told>),
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
    /// The first activation of a run that goes on where another has ended is due.
    Begin {
        run: u64,
    },
    /// What a run that has ended had still to tell others has been told.
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
    Look {
        reply: Reply<Looked>,
    },
    /// A stuck run is tried again.
    Unstick {
        reply: Reply<Written>,
    },
    /// Nothing: it is looked at, and what is pending goes on.
    Wake,
}

impl Item {
    /// Whether somebody outside waits for it.
    pub(crate) fn is_asked(&self) -> bool {
        matches!(
            self,
            Self::Start(_) | Self::Tell(_) | Self::Query { .. } | Self::Look { .. } | Self::Unstick { .. }
        )
    }

    pub(crate) fn refuse(self, error: HostError) {
        match self {
            Self::Start(starting) => drop(starting.reply.send(Err(error))),
            Self::Tell(told) => told.answer.refuse(error),
            Self::End { reply: Some(reply), .. }
            | Self::Attempted { reply: Some(reply), .. }
            | Self::Forget { reply, .. }
            | Self::Unstick { reply } => {
                drop(reply.send(Err(error)));
            }
            Self::Query { reply, .. } => drop(reply.send(Err(error))),
            Self::Look { reply } => drop(reply.send(Err(error))),
            Self::Answer { .. }
            | Self::Retry { .. }
            | Self::End { reply: None, .. }
            | Self::Attempted { reply: None, .. }
            | Self::Begin { .. }
            | Self::Delivered { .. }
            | Self::Wake => {}
        }
    }
}

/// What the code of an open run says about itself.
#[derive(Debug, Default)]
pub(crate) struct Looked {
    pub(crate) blocked: Vec<Blocked>,
    pub(crate) warnings: Vec<Warning>,
}

/// A run that has not ended.
#[derive(Debug)]
pub(crate) struct OpenRun {
    pub(crate) row: RunRow,
    /// Without its input, if that is large.
    pub(crate) start: Arc<Start>,
    /// Bytes of its input.
    pub(crate) input_bytes: usize,
    pub(crate) begins: Begins,
    pub(crate) pending: Pending,
    /// Bytes of its history, by estimate.
    pub(crate) bytes: usize,
    /// Activations so far.
    pub(crate) turns: u32,
    /// What its clock showed last.
    pub(crate) time: Time,
    /// When its first activation is due, if it has had none.
    pub(crate) due: Option<Time>,
    /// What the index says about its wait; none: it is not known.
    pub(crate) wait: Option<Wait>,
}

/// What is known of a workflow: what its log says.
#[derive(Debug, Default)]
pub(crate) struct Known {
    /// The offset of the last event; 0 if there is none.
    pub(crate) offset: u64,
    pub(crate) newest: Option<RunRow>,
    pub(crate) open: Option<OpenRun>,
}

/// An operation that is being carried out.
#[derive(Debug)]
pub(crate) enum UnderWay {
    Timer(Time),
    Task(Shutdown),
}

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) inbox: VecDeque<Item>,
    /// How many in the inbox, and held back, somebody outside waits for.
    pub(crate) asked: usize,
    /// Updates that wait for the open run's first activation, which is not due yet. They count as asked for. Nothing of them
    /// is written: one that nobody waits for any more is dropped.
    pub(crate) held_back: VecDeque<Box<Told>>,
    pub(crate) is_driven: bool,
    /// Jobs that the next activation takes, if those of one before came to more than an event holds.
    pub(crate) jobs_limit: Option<usize>,
    /// Nobody finds it any more: look it up again.
    pub(crate) is_removed: bool,
    /// Nothing: it has to be read from the log.
    pub(crate) known: Option<Known>,
    /// Why the run's code does not get on.
    pub(crate) stuck: Option<String>,
    /// Operations of the open run that are being carried out.
    pub(crate) under_way: HashMap<(Kind, u32), UnderWay>,
    /// The run that they are of. Numbers of operations begin anew with each run.
    pub(crate) under_way_of: u64,
    /// Local activities that were begun before what is known was forgotten answer in vain.
    pub(crate) generation: u64,
    /// The run that ended last, if this process has ended it and no other goes on where it did.
    pub(crate) last_ended: Option<(RunRow, Outcome)>,
    /// Who waits for the outcome of an accepted update.
    pub(crate) updates: HashMap<String, Reply<Payload>>,
}

/// A workflow in memory.
#[derive(Debug)]
pub(crate) struct Workflow {
    pub(crate) workspace: WorkspaceId,
    state: Mutex<State>,
    /// Told when a run has ended.
    pub(crate) ended: Notify,
    /// Told when something is put into the inbox.
    pub(crate) arrived: Notify,
}

impl Workflow {
    pub(crate) fn new(workspace: WorkspaceId) -> Self {
        let (ended, arrived) = (Notify::new(), Notify::new());
        Self { workspace, state: Mutex::default(), ended, arrived }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this run is known to be open.
    pub(crate) fn is_open(&self, run: u64) -> bool {
        let state = self.lock();
        let open = state.known.as_ref().and_then(|known| known.open.as_ref());
        open.is_some_and(|open| open.row.run == run)
    }

    /// The name of a run, as the outside knows it.
    pub(crate) fn run_id(&self, run: u64) -> String {
        run_id(self.workspace, run)
    }
}

/// The name of a run: its workspace and its number in it.
pub(crate) fn run_id(workspace: WorkspaceId, run: u64) -> String {
    format!("{}-{run}", workspace.get())
}

/// The workspace and number that a run's name has.
pub(crate) fn parse_run_id(text: &str) -> Option<(WorkspaceId, u64)> {
    let (workspace, run) = text.split_once('-')?;
    Some((WorkspaceId::new(workspace.parse().ok()?), run.parse().ok()?))
}

pub(crate) fn outcome(outcome: UpdateOutcome) -> Result<Payload, HostError> {
    match outcome {
        UpdateOutcome::Completed { result } => Ok(result),
        UpdateOutcome::Failed { failure } => Err(HostError::Rejected(failure.into())),
    }
}

impl State {
    /// Whether the open run waits for its first activation.
    pub(crate) fn is_before_begin(&self) -> bool {
        let open = self.known.as_ref().and_then(|known| known.open.as_ref());
        open.is_some_and(|open| open.due.is_some())
    }

    /// Holds an update back until the open run's first activation.
    pub(crate) fn hold_back(&mut self, told: Box<Told>) {
        self.asked += 1;
        self.held_back.push_back(told);
    }

    /// What was held back is looked at again.
    pub(crate) fn release(&mut self) {
        while let Some(told) = self.held_back.pop_back() {
            self.inbox.push_front(Item::Tell(told));
        }
    }

    /// Everything that somebody outside waits for, taken out: the driver has ended.
    pub(crate) fn drain(&mut self) -> Vec<Item> {
        (self.is_driven, self.asked) = (false, 0);
        self.updates.clear();
        self.release();
        self.inbox.drain(..).collect()
    }

    /// Forgets what is known: it is read from the log again. Local activities are begun again with what asked for them.
    pub(crate) fn forget(&mut self) {
        self.known = None;
        self.generation += 1;
        self.under_way.retain(|(kind, _), under_way| {
            if let (Kind::LocalActivity, UnderWay::Task(token)) = (kind, under_way) {
                token.cancel();
                return false;
            }
            true
        });
    }

    /// Ends what is being carried out for a run that is over, and returns the timers among it.
    pub(crate) fn drop_under_way(&mut self) -> Vec<(u32, Time)> {
        let mut timers = Vec::new();
        for ((_, seq), under_way) in self.under_way.drain() {
            match under_way {
                UnderWay::Timer(due) => timers.push((seq, due)),
                UnderWay::Task(token) => token.cancel(),
            }
        }
        timers
    }
}
