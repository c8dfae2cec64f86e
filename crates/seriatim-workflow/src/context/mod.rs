//! What workflow code works with.
#![allow(
    clippy::needless_pass_by_value,
    reason = "arguments are given away, as to a function that is called"
)]

mod activity;
mod channel;
mod child;
mod concurrency;
mod condition;
mod external;
mod handlers;
mod local_activity;
mod log;
mod map;
mod mutex;
mod race;
mod scope;
mod semaphore;
mod signals;
mod state;
mod timer;

use std::panic::Location;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use serde::Serialize;
use serde::de::DeserializeOwned;

pub use activity::{ActivityCall, ActivityFuture};
pub use channel::{Receiver, Sender};
pub use child::{ChildCall, ChildHandle};
pub use concurrency::TaskHandle;
pub use condition::ConditionFuture;
pub use external::ExternalFuture;
pub use local_activity::{LocalActivityCall, SIDE_EFFECT_ACTIVITY};
pub(crate) use log::LogSink;
pub use log::{LogLevel, LogLine};
pub use mutex::{Mutex, MutexGuard};
pub use race::{Either, Losers, Race, RaceFuture, TimedOut};
pub use scope::Scope;
pub use semaphore::{Permit, Semaphore};
pub use signals::Signals;
pub use state::WorkflowState;
pub use timer::TimerFuture;

use crate::runtime::{ScopeNode, SharedRun, Slot, State, is_current, mix};
use crate::{
    Arguments, Branch, Command, ContinueAsNew, Exit, ForeignWait, Headers, InputDigest, Lineage, Path,
    Payload, PayloadError, Start, Time,
};

/// What the context's longer operations return.
pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A branch, and how far it has come.
pub(crate) struct BranchNode {
    pub(crate) branch: Branch,
    ordinals: AtomicU32,
    children: AtomicU32,
    draws: AtomicU64,
}

impl BranchNode {
    pub(crate) fn new(branch: Branch) -> Arc<Self> {
        Arc::new(Self {
            branch,
            ordinals: AtomicU32::new(0),
            children: AtomicU32::new(0),
            draws: AtomicU64::new(0),
        })
    }
}

/// A branch of a run, as its code sees it: all that it may ask for.
///
/// A clone is the same branch. `spawn`, `race`, `join` and `map_concurrently` give each of their branches a context of
/// its own: use that one, so that an operation's place does not depend on what other branches do.
#[derive(Clone)]
pub struct Context {
    pub(crate) shared: Arc<SharedRun>,
    pub(crate) node: Arc<BranchNode>,
    pub(crate) scope: Arc<ScopeNode>,
}

impl Context {
    pub(crate) fn main(shared: &Arc<SharedRun>) -> Self {
        Self::of(shared, Branch::main())
    }

    /// The context of a branch that belongs to the run as a whole.
    pub(crate) fn of(shared: &Arc<SharedRun>, branch: Branch) -> Self {
        let scope = Arc::clone(&shared.lock().root);
        Self { shared: Arc::clone(shared), node: BranchNode::new(branch), scope }
    }

    /// The context of a new branch below this one, in a scope of its own.
    pub(crate) fn open_branch(&self) -> Self {
        let index = self.node.children.fetch_add(1, Ordering::Relaxed) + 1;
        let node = BranchNode::new(self.node.branch.child(index));
        Self { shared: Arc::clone(&self.shared), node, scope: self.scope.child() }
    }

    /// The place of the next operation.
    pub(crate) fn next_path(&self) -> Path {
        let ordinal = self.node.ordinals.fetch_add(1, Ordering::Relaxed) + 1;
        Path { branch: self.node.branch.clone(), ordinal }
    }

    /// Whether an operation may be issued here and now; if not, the reason has been noted.
    pub(crate) fn may_issue(&self, state: &mut State, what: &'static str) -> bool {
        if !is_current(&self.shared.sched) {
            self.shared.sched.report(ForeignWait::Called);
            return false;
        }
        !state.refuse(what) && state.fault.is_none()
    }

    /// The branch that this context belongs to.
    #[must_use]
    pub fn branch(&self) -> &Branch {
        &self.node.branch
    }

    /// How the run began: type, id, attempt, parent and so on.
    #[must_use]
    pub fn info(&self) -> Arc<Start> {
        Arc::clone(&self.shared.lock().start)
    }

    /// The run.
    #[must_use]
    pub fn run_id(&self) -> String {
        self.shared.lock().run_id.clone()
    }

    /// The time of the activation: the same on every replay, and the same throughout one activation.
    #[must_use]
    pub fn now(&self) -> Time {
        self.shared.lock().time
    }

    /// Whether what happens now is known from the history. For observing only: code that decides by it does not replay.
    /// [`log`](Self::log) checks it by itself.
    #[must_use]
    pub fn is_replaying(&self) -> bool {
        self.shared.lock().is_replaying
    }

    /// Events in the run's history, as far as the host counts them: continue as new before there are too many.
    #[must_use]
    pub fn history_length(&self) -> u32 {
        self.shared.lock().history_length
    }

    /// Whether the history is so long that the run should end with [`Self::continue_as_new`]: each replay reads all of it,
    /// and beyond a limit the host ends the run. The same on every replay.
    ///
    /// ```
    /// # use seriatim_workflow::{Context, Exit};
    /// # async fn workflow(ctx: Context, done: u64) -> Result<(), Exit> {
    /// if ctx.continue_as_new_suggested() {
    ///     return Err(ctx.continue_as_new(&done));
    /// }
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn continue_as_new_suggested(&self) -> bool {
        self.shared.lock().continue_as_new_suggested
    }

    /// A number that looks random and is the same on every replay. Each branch has its own sequence of them.
    #[must_use]
    pub fn random(&self) -> u64 {
        let seed = self.shared.lock().seed;
        let draw = self.node.draws.fetch_add(1, Ordering::Relaxed);
        let branch = self.node.branch.indices().iter().map(|index| u64::from(*index));
        mix([seed].into_iter().chain(branch).chain([u64::MAX, draw]))
    }

    /// A UUID (version 4) that is the same on every replay.
    ///
    /// ```
    /// # use seriatim_workflow::{Context, Exit};
    /// # async fn workflow(ctx: Context, _: ()) -> Result<String, Exit> {
    /// let order_id = ctx.uuid();
    /// # Ok(order_id) }
    /// ```
    #[must_use]
    pub fn uuid(&self) -> String {
        let high = self.random() & 0xffff_ffff_ffff_0fff | 0x4000;
        let low = self.random() & 0x3fff_ffff_ffff_ffff | 0x8000_0000_0000_0000;
        format!(
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            high >> 32,
            high >> 16 & 0xffff,
            high & 0xffff,
            low >> 48,
            low & 0xffff_ffff_ffff
        )
    }

    /// Whether to run the new code that this patch guards: yes on a run that gets here for the first time, and on one whose
    /// history says that it has done so before; no on one that passed this place before the patch existed.
    #[track_caller]
    #[must_use]
    pub fn patched(&self, id: &str) -> bool {
        self.patch(id, false, Location::caller())
    }

    /// The old code that this patch guarded is gone; its mark stays until no run needs it.
    #[track_caller]
    pub fn deprecate_patch(&self, id: &str) {
        self.patch(id, true, Location::caller());
    }

    fn patch(&self, id: &str, deprecated: bool, site: &'static Location<'static>) -> bool {
        let mut state = self.shared.lock();
        if let Some(said) = state.patched.get(id) {
            return *said;
        }
        if !self.may_issue(&mut state, "set a patch") {
            return false;
        }
        let is_recorded = state.matcher.as_ref().is_some_and(|matcher| matcher.has_patch(id));
        let is_known = !state.is_replaying || is_recorded || state.patches.contains(id);
        let is_patched = deprecated || is_known;
        state.patched.insert(id.to_owned(), is_patched);
        if is_known {
            let ordinal = self.node.ordinals.load(Ordering::Relaxed);
            let path = Path { branch: self.node.branch.clone(), ordinal };
            state.push(Command::SetPatch { id: id.to_owned(), deprecated, path }, Some(site));
        }
        is_patched
    }

    /// A value that need not be deterministic: `make` is run once, and its value is kept in the history for every replay.
    ///
    /// # Errors
    ///
    /// [`PayloadError`] if the value is not JSON, or the recorded one is not of this type.
    #[track_caller]
    pub fn side_effect<T: Serialize + DeserializeOwned + Send + 'static>(
        &self,
        make: impl FnOnce() -> T,
    ) -> BoxFuture<Result<T, PayloadError>> {
        let site = Location::caller();
        let path = self.next_path();
        let (recorded, is_by_lineage) = {
            let state = self.shared.lock();
            (state.matcher.as_ref().and_then(|matcher| matcher.value(&path)), state.is_by_lineage)
        };
        let value = recorded.map_or_else(|| Payload::json(&make()), Ok);
        let echo = match &value {
            Ok(value) if is_by_lineage => {
                self.record_side_effect(path, value.clone(), site);
                None
            }
            Ok(value) => Some(self.echo(path, value.clone(), site)),
            Err(_) => None,
        };
        Box::pin(async move {
            match echo {
                Some(echo) => echo.await,
                None => value?.decode(),
            }
        })
    }

    fn record_side_effect(&self, path: Path, value: Payload, site: &'static Location<'static>) {
        let mut state = self.shared.lock();
        if self.may_issue(&mut state, "record a side effect") {
            let lineage = Lineage { path, digest: InputDigest::NONE };
            state.push(Command::RecordSideEffect { lineage, value }, Some(site));
        }
    }

    /// Changes what the run can be found by. `null` removes an attribute.
    #[track_caller]
    pub fn upsert_search_attributes(&self, attributes: Headers) {
        let (path, site) = (self.next_path(), Location::caller());
        let mut state = self.shared.lock();
        if self.may_issue(&mut state, "set search attributes") {
            let lineage = Lineage { path, digest: digest_of(&attributes) };
            state.push(Command::UpsertSearchAttributes { lineage, attributes }, Some(site));
        }
    }

    /// Changes the notes that travel with the run. `null` removes a note.
    #[track_caller]
    pub fn modify_memo(&self, memo: Headers) {
        let (path, site) = (self.next_path(), Location::caller());
        let mut state = self.shared.lock();
        if self.may_issue(&mut state, "change the memo") {
            let lineage = Lineage { path, digest: digest_of(&memo) };
            state.push(Command::ModifyMemo { lineage, memo }, Some(site));
        }
    }

    /// How a run ends that continues as a new one, with an empty history: `return Err(ctx.continue_as_new(&input))`.
    pub fn continue_as_new<In: Arguments + ?Sized>(&self, input: &In) -> Exit {
        match arguments(input) {
            Ok(input) => Exit::ContinueAsNew(Box::new(ContinueAsNew { input, ..ContinueAsNew::default() })),
            Err(error) => error.into(),
        }
    }

    /// A value that branches of this run hand to one another: set once, awaited by many.
    #[must_use]
    pub fn slot<T: Clone>(&self) -> Slot<T> {
        Slot::new(self)
    }

    /// Waits until a condition on the workflow's own state holds. It is checked whenever no branch can continue, and must
    /// not change anything. Dropping the future forgets the condition. For one [state](Self::state) it is shorter to
    /// [wait with that](WorkflowState::wait_until).
    ///
    /// The future ends with [`Cancelled`](crate::Cancelled) if the context's scope is cancelled first.
    ///
    /// ```
    /// # use seriatim_workflow::{Context, Exit};
    /// # async fn workflow(ctx: Context, _: ()) -> Result<(), Exit> {
    /// let (ours, theirs) = (ctx.state(1), ctx.state(2));
    /// ctx.wait_until(move || ours.get() > theirs.get()).await?;
    /// # Ok(()) }
    /// ```
    pub fn wait_until(&self, holds: impl FnMut() -> bool + Send + 'static) -> ConditionFuture {
        ConditionFuture::new(self, Box::new(holds))
    }

    /// Whether waits in this context end with its scope: not in runs whose rules are older.
    pub(crate) fn ends_waits(&self) -> bool {
        self.shared.lock().start.rules >= 1
    }
}

pub(crate) fn arguments<In: Arguments + ?Sized>(input: &In) -> Result<Vec<Payload>, PayloadError> {
    input.to_payloads()
}

fn digest_of(values: &Headers) -> InputDigest {
    InputDigest::of(&values.values().cloned().collect::<Vec<_>>())
}
