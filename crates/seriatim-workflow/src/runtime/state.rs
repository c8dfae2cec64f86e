//! What the branches of a run share.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::panic::Location;
use std::pin::Pin;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Weak};

use seriatim_types::sync::{Mutex, MutexGuard};

use super::instance::Policy;
use super::matcher::Matcher;
use super::sched::{Sched, TaskId};
use super::scope::ScopeNode;
use super::slot::Cell;
use super::table::{Operation, PendingOperation, Table};
use super::task::{NewTask, TaskFuture, TaskWaker};
use crate::context::LogSink;
use crate::kind::{self, NumberedKind};
use crate::warning::WARNINGS_KEPT;
use crate::{
    ActivationFailure, ActivityResolution, Branch, CancellationType, ChildResolution, ChildStartResolution,
    Command, CommandSeq, Context, Difference, Failure, Kind, Path, Payload, PayloadError, Start, Time,
    Warning,
};

/// A run, as its contexts know it.
pub(crate) struct SharedRun {
    pub(crate) sched: Arc<Sched>,
    state: Mutex<State>,
    /// The task that is polled; read from other threads.
    pub(crate) polled: AtomicU32,
}

impl SharedRun {
    pub(crate) fn new(state: State) -> Arc<Self> {
        Arc::new(Self {
            sched: Arc::default(),
            state: Mutex::new(state),
            polled: AtomicU32::new(TaskId::MAX),
        })
    }

    /// The lock is held for a few instructions, and never while workflow code runs.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Makes a task, which is ready.
    pub(crate) fn spawn(&self, branch: Branch, future: TaskFuture) -> Arc<TaskWaker> {
        let mut state = self.lock();
        let task = state.free_tasks.pop().unwrap_or_else(|| {
            state.next_task += 1;
            state.next_task - 1
        });
        let waker = TaskWaker::queued(task, branch, &self.sched);
        let index = task as usize;
        if state.wakers.len() <= index {
            state.wakers.resize_with(index + 1, Weak::new);
        }
        state.wakers[index] = Arc::downgrade(&waker);
        state.spawned.push(NewTask { waker: Arc::clone(&waker), future });
        waker
    }

    /// Ends a task; its future is dropped before anything else runs.
    pub(crate) fn abort(&self, waker: &TaskWaker) {
        if !waker.is_done() {
            waker.done();
            self.lock().aborted.push(waker.task);
        }
    }
}

pub(crate) type QueryHandler = Arc<dyn Fn(&[Payload]) -> Result<Payload, Failure> + Send + Sync>;
pub(crate) type UpdateFuture = Pin<Box<dyn Future<Output = Result<Payload, Failure>> + Send>>;

pub(crate) type UpdateCode = Arc<dyn Fn(Context, &[Payload]) -> UpdateFuture + Send + Sync>;

/// What takes the signals of one name.
pub(crate) type SignalHandler = Arc<dyn Fn(&[Payload]) -> Result<(), PayloadError> + Send + Sync>;

/// What answers updates of one name.
#[derive(Clone)]
pub(crate) struct UpdateHandler {
    pub(crate) validate: QueryHandler,
    pub(crate) handle: UpdateCode,
}

/// An update that has not been handed to its handler.
pub(crate) struct IncomingUpdate {
    pub(crate) protocol_id: String,
    pub(crate) name: String,
    pub(crate) input: Vec<Payload>,
    pub(crate) run_validator: bool,
}

/// A signal that was not taken yet.
pub(crate) struct IncomingSignal {
    pub(crate) input: Vec<Payload>,
}

/// The signals of one name.
#[derive(Default)]
pub(crate) struct SignalQueue {
    pub(crate) waiting: VecDeque<IncomingSignal>,
    /// Set when the next one comes.
    pub(crate) arrival: Option<Cell<()>>,
}

/// A condition on the workflow's own state, checked whenever no task is ready.
pub(crate) struct Condition {
    /// None while it is being checked.
    pub(crate) holds: Option<Box<dyn FnMut() -> bool + Send>>,
    pub(crate) slot: Cell<()>,
}

#[derive(Clone)]
pub(crate) struct ActivityEntry {
    pub(crate) slot: Cell<ActivityResolution>,
    pub(crate) cancellation: CancellationType,
    pub(crate) is_cancel_sent: bool,
}

impl ActivityEntry {
    pub(crate) fn new(cancellation: CancellationType) -> Self {
        Self { slot: Cell::new(), cancellation, is_cancel_sent: false }
    }
}

#[derive(Clone)]
pub(crate) struct ChildEntry {
    /// The first phase; holds the first run's id.
    pub(crate) start: Cell<ChildStartResolution>,
    /// The second phase.
    pub(crate) result: Cell<ChildResolution>,
    pub(crate) cancellation: CancellationType,
    pub(crate) is_cancel_sent: bool,
}

/// The response to a message to another workflow: why it was not delivered.
pub(crate) type Delivery = Cell<Option<Failure>>;

/// Everything about a run that an activation changes.
pub(crate) struct State {
    pub(crate) run_id: String,
    pub(crate) start: Arc<Start>,
    pub(crate) time: Time,
    pub(crate) is_replaying: bool,
    pub(crate) history_length: u32,
    pub(crate) continue_as_new_suggested: bool,
    pub(crate) seed: u64,
    pub(crate) patches: BTreeSet<String>,
    /// What `patched` has said, so that it says the same again.
    pub(crate) patched: BTreeMap<String, bool>,
    pub(crate) root: Arc<ScopeNode>,
    pub(crate) is_cancel_requested: bool,

    pub(crate) timers: Table<kind::Timer, Cell<Result<(), Arc<str>>>>,
    pub(crate) activities: Table<kind::Activity, ActivityEntry>,
    pub(crate) local_activities: Table<kind::LocalActivity, ActivityEntry>,
    pub(crate) children: Table<kind::ChildWorkflow, ChildEntry>,
    /// Children whose first phase is over.
    pub(crate) started_children: BTreeSet<u32>,
    pub(crate) external_signals: Table<kind::ExternalSignal, Delivery>,
    pub(crate) external_cancels: Table<kind::ExternalCancel, Delivery>,

    pub(crate) signals: BTreeMap<String, SignalQueue>,
    pub(crate) signal_handlers: BTreeMap<String, SignalHandler>,
    pub(crate) queries: BTreeMap<String, QueryHandler>,
    pub(crate) updates: BTreeMap<String, UpdateHandler>,
    /// Updates whose turn has not come.
    pub(crate) incoming_updates: VecDeque<IncomingUpdate>,
    /// Updates that have had their turn and whose handler is not registered.
    pub(crate) waiting_updates: VecDeque<IncomingUpdate>,
    pub(crate) accepted_updates: u32,
    /// How many of them are not completed.
    pub(crate) open_updates: u32,
    /// In the order in which they were waited for.
    pub(crate) conditions: BTreeMap<u64, Condition>,
    pub(crate) next_condition: u64,

    pub(crate) commands: Vec<Command>,
    pub(crate) sites: Vec<Option<&'static Location<'static>>>,
    pub(crate) matcher: Option<Matcher>,
    pub(crate) policy: Policy,
    pub(crate) is_by_lineage: bool,
    pub(crate) differences: Vec<Difference>,
    pub(crate) fault: Option<ActivationFailure>,
    pub(crate) has_ended: bool,
    /// The newest of them, and how many there were.
    pub(crate) warnings: VecDeque<Warning>,
    pub(crate) warned: u64,
    /// Where lines of the log go.
    pub(crate) log: Option<LogSink>,
    /// While a query or a validator runs: what it has tried to do.
    pub(crate) read_only: Option<Option<&'static str>>,

    pub(crate) spawned: Vec<NewTask>,
    pub(crate) aborted: Vec<TaskId>,
    pub(crate) free_tasks: Vec<TaskId>,
    /// The tasks, by their ids: which branch is polled.
    pub(crate) wakers: Vec<Weak<TaskWaker>>,
    pub(crate) next_task: TaskId,
}

/// A kind whose operations have a table in the state.
pub(crate) trait Tabled: NumberedKind {
    type Slots;
    fn table(state: &mut State) -> &mut Table<Self, Self::Slots>;
}

macro_rules! tabled {
    ($($kind:ident $slots:ty => $field:ident;)*) => {$(
        impl Tabled for kind::$kind {
            type Slots = $slots;
            fn table(state: &mut State) -> &mut Table<Self, Self::Slots> {
                &mut state.$field
            }
        }
    )*};
}

tabled! {
    Timer Cell<Result<(), Arc<str>>> => timers;
    Activity ActivityEntry => activities;
    LocalActivity ActivityEntry => local_activities;
    ChildWorkflow ChildEntry => children;
    ExternalSignal Delivery => external_signals;
    ExternalCancel Delivery => external_cancels;
}

impl State {
    pub(crate) fn new(matcher: Option<Matcher>, is_by_lineage: bool, policy: Policy) -> Self {
        let mut state = Self {
            run_id: String::new(),
            start: Arc::default(),
            time: Time::default(),
            is_replaying: false,
            history_length: 0,
            continue_as_new_suggested: false,
            seed: 0,
            patches: BTreeSet::new(),
            patched: BTreeMap::new(),
            root: ScopeNode::root(),
            is_cancel_requested: false,
            timers: Table::new(),
            activities: Table::new(),
            local_activities: Table::new(),
            children: Table::new(),
            started_children: BTreeSet::new(),
            external_signals: Table::new(),
            external_cancels: Table::new(),
            signals: BTreeMap::new(),
            signal_handlers: BTreeMap::new(),
            queries: BTreeMap::new(),
            updates: BTreeMap::new(),
            incoming_updates: VecDeque::new(),
            waiting_updates: VecDeque::new(),
            accepted_updates: 0,
            open_updates: 0,
            conditions: BTreeMap::new(),
            next_condition: 0,
            commands: Vec::new(),
            sites: Vec::new(),
            matcher: None,
            policy,
            is_by_lineage,
            differences: Vec::new(),
            fault: None,
            has_ended: false,
            warnings: VecDeque::new(),
            warned: 0,
            log: None,
            read_only: None,
            spawned: Vec::new(),
            aborted: Vec::new(),
            free_tasks: Vec::new(),
            wakers: Vec::new(),
            next_task: 0,
        };
        for (kind, seq) in matcher.iter().flat_map(Matcher::numbers) {
            state.raise_above(kind, seq);
        }
        state.matcher = matcher;
        state
    }

    fn raise_above(&mut self, kind: Kind, seq: u32) {
        match kind {
            Kind::Timer => self.timers.raise_above(seq),
            Kind::Activity => self.activities.raise_above(seq),
            Kind::LocalActivity => self.local_activities.raise_above(seq),
            Kind::ChildWorkflow => self.children.raise_above(seq),
            Kind::ExternalSignal => self.external_signals.raise_above(seq),
            Kind::ExternalCancel => self.external_cancels.raise_above(seq),
        }
    }

    pub(crate) fn is_pending(&self, operation: Operation) -> bool {
        let seq = operation.seq;
        match operation.kind {
            Kind::Timer => self.timers.is_pending(seq),
            Kind::Activity => self.activities.is_pending(seq),
            Kind::LocalActivity => self.local_activities.is_pending(seq),
            Kind::ChildWorkflow => self.children.is_pending(seq),
            Kind::ExternalSignal => self.external_signals.is_pending(seq),
            Kind::ExternalCancel => self.external_cancels.is_pending(seq),
        }
    }

    pub(crate) fn pending(&self) -> Vec<PendingOperation> {
        let mut pending = self.timers.list();
        pending.extend(self.activities.list());
        pending.extend(self.local_activities.list());
        pending.extend(self.children.list());
        pending.extend(self.external_signals.list());
        pending.extend(self.external_cancels.list());
        pending
    }

    /// The run cannot continue this activation. The first reason counts.
    pub(crate) fn fail(&mut self, failure: impl Into<ActivationFailure>) {
        self.fault.get_or_insert(failure.into());
    }

    pub(crate) fn warn(&mut self, warning: Warning) {
        self.warned += 1;
        if self.warnings.len() == WARNINGS_KEPT {
            self.warnings.pop_front();
        }
        self.warnings.push_back(warning);
    }

    /// Whether code that must not change anything is running; remembers what it tried.
    pub(crate) fn refuse(&mut self, what: &'static str) -> bool {
        match &mut self.read_only {
            Some(tried) => {
                tried.get_or_insert(what);
                true
            }
            None => false,
        }
    }

    /// The number of the operation at this path: the recorded one if there is one, else the next.
    pub(crate) fn number<K: Tabled>(&mut self, path: &Path) -> Option<CommandSeq<K>> {
        if let Some(seq) = self.matcher.as_ref().and_then(|matcher| matcher.number(path, K::KIND)) {
            return Some(CommandSeq::new(seq));
        }
        match K::table(self).draw() {
            Ok(seq) => Some(seq),
            Err(exhausted) => {
                self.fail(exhausted);
                None
            }
        }
    }

    /// Files an operation under its number and scope.
    pub(crate) fn file<K: Tabled>(
        &mut self,
        seq: CommandSeq<K>,
        path: &Path,
        scope: &ScopeNode,
        slots: K::Slots,
    ) -> bool {
        if !K::table(self).insert(seq, path.clone(), slots) {
            let reason =
                format!("{seq} is in use, and the operation at {path} has it too: the history is damaged");
            self.fail(ActivationFailure::Protocol { reason });
            return false;
        }
        scope.add(Operation { kind: K::KIND, seq: seq.get() }, |operation| self.is_pending(operation));
        true
    }

    /// Issues a command: it is compared with the recorded one at once.
    pub(crate) fn push(&mut self, command: Command, site: Option<&'static Location<'static>>) {
        // After a fault only destructors run: what they ask for is not the run's doing.
        if self.has_ended || self.fault.is_some() {
            return;
        }
        let difference = self.matcher.as_mut().and_then(|matcher| matcher.check(&command, site));
        if let Some(difference) = difference {
            self.differs(difference);
        }
        match &command {
            Command::UpdateAccepted { .. } => self.open_updates += 1,
            Command::UpdateCompleted { .. } => self.open_updates = self.open_updates.saturating_sub(1),
            _ => {}
        }
        self.has_ended = command.kind().ends_the_run();
        if self.has_ended && self.open_updates > 0 {
            self.warn(Warning::UnfinishedHandlers { updates: self.open_updates });
        }
        self.commands.push(command);
        self.sites.push(site);
    }

    /// Code and history differ: the end of the activation, or a note.
    pub(crate) fn differs(&mut self, difference: Difference) {
        if self.policy == Policy::Fail {
            if self.fault.is_some() {
                return;
            }
            self.fail(ActivationFailure::Nondeterminism { difference: Box::new(difference.clone()) });
        }
        self.differences.push(difference);
    }

    /// Cancels a scope and what ends with it.
    pub(crate) fn cancel_scope(
        &mut self,
        scope: &Arc<ScopeNode>,
        reason: &Arc<str>,
        site: Option<&'static Location<'static>>,
    ) {
        for operation in scope.cancel(reason) {
            self.cancel(operation, reason, site);
        }
    }

    /// Cancels an operation, by its cancellation type. One that has ended stays as it is.
    pub(crate) fn cancel(
        &mut self,
        operation: Operation,
        reason: &Arc<str>,
        site: Option<&'static Location<'static>>,
    ) {
        let seq = operation.seq;
        match operation.kind {
            Kind::Timer => {
                if let Some(entry) = self.timers.cancel(seq) {
                    self.push(Command::CancelTimer { seq: CommandSeq::new(seq), path: entry.path }, site);
                    entry.slots.map(|slot| slot.set(Err(Arc::clone(reason))));
                }
            }
            Kind::Activity => {
                if let Some(path) = cancel_activity(&mut self.activities, seq, reason) {
                    self.push(Command::CancelActivity { seq: CommandSeq::new(seq), path }, site);
                }
            }
            Kind::LocalActivity => {
                if let Some(path) = cancel_activity(&mut self.local_activities, seq, reason) {
                    self.push(Command::CancelLocalActivity { seq: CommandSeq::new(seq), path }, site);
                }
            }
            Kind::ChildWorkflow => self.cancel_child(seq, reason, site),
            Kind::ExternalSignal => {
                let Some(entry) = self.external_signals.get_mut(seq) else { return };
                let Some(slot) = entry.slots.take() else { return };
                let path = entry.path.clone();
                slot.set(Some(Failure::cancelled(&**reason)));
                self.push(Command::CancelSignal { seq: CommandSeq::new(seq), path }, site);
            }
            // A request to stop cannot be taken back.
            Kind::ExternalCancel => {}
        }
    }

    fn cancel_child(&mut self, seq: u32, reason: &Arc<str>, site: Option<&'static Location<'static>>) {
        let Some(entry) = self.children.get_mut(seq) else { return };
        let Some(slots) = &mut entry.slots else { return };
        let is_sent = std::mem::replace(&mut slots.is_cancel_sent, true);
        let (path, cancellation) = (entry.path.clone(), slots.cancellation);
        if matches!(cancellation, CancellationType::TryCancel | CancellationType::Abandon) {
            let failure = Failure::cancelled(&**reason);
            slots.start.set(ChildStartResolution::Cancelled { failure: failure.clone() });
            slots.result.set(ChildResolution::Cancelled { failure });
            entry.slots = None;
        }
        if !is_sent && cancellation != CancellationType::Abandon {
            let command =
                Command::CancelChild { seq: CommandSeq::new(seq), path, reason: reason.to_string() };
            self.push(command, site);
        }
    }
}

/// Cancels an activity in its table. Returns its path if it is to be asked to stop.
fn cancel_activity<K: NumberedKind>(
    table: &mut Table<K, ActivityEntry>,
    seq: u32,
    reason: &Arc<str>,
) -> Option<Path> {
    let entry = table.get_mut(seq)?;
    let slots = entry.slots.as_mut()?;
    let is_sent = std::mem::replace(&mut slots.is_cancel_sent, true);
    let cancellation = slots.cancellation;
    if matches!(cancellation, CancellationType::TryCancel | CancellationType::Abandon) {
        slots.slot.set(ActivityResolution::Cancelled { failure: Failure::cancelled(&**reason) });
        entry.slots = None;
    }
    (!is_sent && cancellation != CancellationType::Abandon).then(|| entry.path.clone())
}
