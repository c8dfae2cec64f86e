//! The handle that a test steers.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use seriatim_env::Env;
use seriatim_types::sync::{Mutex, MutexGuard};
use tokio::sync::watch;

use super::plan::{Fault, Gate, GateState, Moment, Passage, Plan, Rule, Then, When};
use super::{Operation, Operations};

/// What goes wrong in the [`FaultyLog`](super::FaultyLog)s and [`FaultyStore`](super::FaultyStore)s that share it:
/// nothing, until told. Clones are the same handle.
///
/// Where several rules fire on one operation, the one that was set first decides. Closing is never prevented: a fault
/// on it only spoils the answer.
#[derive(Debug, Clone)]
pub struct Faults {
    env: Env,
    plan: Arc<Mutex<Plan>>,
}

impl Faults {
    /// No faults yet; chances and delays are drawn from this environment.
    #[must_use]
    pub fn new(env: &Env) -> Self {
        Self { env: env.clone(), plan: Arc::default() }
    }

    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock()
    }

    fn add(&self, on: Operations, when: When, fault: Fault, then: Then) {
        self.plan().rules.push(Rule { on, when, fault, then });
    }

    /// These operations fail in this way with a probability from 0 to 1, each by itself.
    ///
    /// # Panics
    ///
    /// If the probability is not from 0 to 1.
    pub fn chance(&self, on: impl Into<Operations>, fault: Fault, probability: f64) {
        assert!((0.0..=1.0).contains(&probability), "a probability is from 0 to 1");
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "between 0 and a million"
        )]
        let of_a_million = (probability * 1e6) as u64;
        self.add(on.into(), When::Chance(of_a_million), fault, Then::Continue);
    }

    /// These operations fail in this way until [`Faults::heal`].
    pub fn fail(&self, on: impl Into<Operations>, fault: Fault) {
        self.add(on.into(), When::Always, fault, Then::Continue);
    }

    /// The `nth` of these operations from here on (1 is the next one) fails in this way, once.
    pub fn fail_nth(&self, on: impl Into<Operations>, nth: u64, fault: Fault) {
        self.add(on.into(), When::In(nth), fault, Then::Continue);
    }

    /// As [`Faults::fail_nth`], and from then on everything is refused until [`Faults::heal`]: a crash right before the
    /// effect ([`Fault::LoseRequest`]) or right behind it ([`Fault::LoseReply`]).
    pub fn crash_at(&self, on: impl Into<Operations>, nth: u64, fault: Fault) {
        self.add(on.into(), When::In(nth), fault, Then::Crash);
    }

    /// Each of these operations takes a random while of up to this long before its effect, and as much again before
    /// its answer. The last setting for an operation counts; zero ends it.
    ///
    /// Appends to one partition keep their order all the same: one that is delayed delays those behind it. A take does
    /// not wait for them; it shuts them out.
    pub fn delay(&self, on: impl Into<Operations>, up_to: Duration) {
        self.plan().delays.push((on.into(), up_to));
    }

    /// Holds these operations before they have an effect, until the hold is released or dropped.
    pub fn hold(&self, on: impl Into<Operations>) -> Hold {
        self.hold_at(on.into(), Moment::BeforeTheEffect)
    }

    /// Holds these operations after their effect, before they are answered, until the hold is released or dropped.
    pub fn hold_answers(&self, on: impl Into<Operations>) -> Hold {
        self.hold_at(on.into(), Moment::BeforeTheAnswer)
    }

    fn hold_at(&self, on: Operations, moment: Moment) -> Hold {
        let state = watch::Sender::new(GateState::default());
        let gate = Arc::new(Gate { on, moment, state });
        self.plan().gates.push(gate.clone());
        Hold { gate }
    }

    /// Ends everything that was asked for: all faults, delays and holds. Counts stay.
    pub fn heal(&self) {
        let mut plan = self.plan();
        plan.rules.clear();
        plan.delays.clear();
        plan.crashed.send_replace(false);
        plan.gates.drain(..).for_each(|gate| gate.release());
    }

    /// Whether a [`Faults::crash_at`] has come true.
    #[must_use]
    pub fn has_crashed(&self) -> bool {
        *self.plan().crashed.borrow()
    }

    /// Returns when a [`Faults::crash_at`] has come true.
    pub async fn crashed(&self) {
        let mut crashed = self.plan().crashed.subscribe();
        // The plan keeps the channel open.
        let _ = crashed.wait_for(|crashed| *crashed).await;
    }

    /// How many of these operations have been asked for since the beginning or the last reset, failed ones included.
    #[must_use]
    pub fn count(&self, of: impl Into<Operations>) -> u64 {
        let (plan, of) = (self.plan(), of.into());
        of.iter().map(|operation| plan.counts[operation as usize]).sum()
    }

    /// How many faults have been injected since the beginning or the last reset. A test that relies on chance asks.
    #[must_use]
    pub fn injected(&self) -> u64 {
        self.plan().injected
    }

    /// Starts counting anew.
    pub fn reset_counts(&self) {
        let mut plan = self.plan();
        plan.counts = Default::default();
        plan.injected = 0;
    }

    pub(super) fn env(&self) -> &Env {
        &self.env
    }

    /// # Panics
    ///
    /// If it was told to.
    pub(super) fn meet(&self, operation: Operation) -> Passage {
        let passage = self.plan().meet(operation, &self.env);
        assert!(passage.fault != Some(Fault::Panic), "{}", Fault::Panic.reason());
        passage
    }

    /// Does something, or not, or does it and says something else.
    pub(super) async fn around<T, E>(
        &self,
        operation: Operation,
        effect: impl Future<Output = Result<T, E>>,
        error: fn(Fault) -> E,
    ) -> Result<T, E> {
        let Passage { fault, before, after } = self.meet(operation);
        before.pass(&self.env).await;
        let prevented = fault.filter(|fault| fault.is_before_the_effect());
        if let Some(fault) = prevented.filter(|_| !operation.closes()) {
            return Err(error(fault));
        }
        let answer = effect.await;
        after.pass(&self.env).await;
        fault.map_or(answer, |fault| Err(error(fault)))
    }
}

/// Operations that are held. Dropped, it lets them go.
#[derive(Debug)]
#[must_use = "dropped, it holds nothing"]
pub struct Hold {
    gate: Arc<Gate>,
}

impl Hold {
    /// Returns when this many operations have come here.
    pub async fn reached(&self, count: usize) {
        // The gate itself keeps its channel open.
        let _ = self.gate.state.subscribe().wait_for(|state| state.waiting >= count).await;
    }

    /// Lets them go, and all that come later.
    pub fn release(self) {}
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.gate.release();
    }
}
