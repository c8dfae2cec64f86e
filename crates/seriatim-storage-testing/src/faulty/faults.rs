//! The handle by which a test controls faults.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use seriatim_env::Env;
use seriatim_env::watch;
use seriatim_types::sync::{Mutex, MutexGuard};

use super::plan::{AfterFiring, Decision, Fault, Gate, GateState, HoldPoint, Plan, Rule, When};
use super::{Operation, Operations};

/// The faults of the [`FaultyLog`](super::FaultyLog)s and [`FaultyStore`](super::FaultyStore)s that share this handle. There
/// are none at first. Clones are the same handle.
///
/// If several rules fire on one operation, the one that was set first decides. Closing is never prevented: a fault on it
/// changes only the answer.
#[derive(Debug, Clone)]
pub struct Faults {
    env: Env,
    plan: Arc<Mutex<Plan>>,
}

impl Faults {
    /// No faults yet. Random choices and delays are drawn from this environment.
    #[must_use]
    pub fn new(env: &Env) -> Self {
        Self { env: env.clone(), plan: Arc::default() }
    }

    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock()
    }

    fn add(&self, on: Operations, when: When, fault: Fault, then: AfterFiring) {
        self.plan().rules.push(Rule { on, when, fault, then });
    }

    /// Each of these operations fails in this way with a probability from 0 to 1.
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
        self.add(on.into(), When::Chance(of_a_million), fault, AfterFiring::Continue);
    }

    /// These operations fail in this way until [`Faults::heal`].
    pub fn fail(&self, on: impl Into<Operations>, fault: Fault) {
        self.add(on.into(), When::Always, fault, AfterFiring::Continue);
    }

    /// The `nth` of these operations from here on (1 is the next one) fails in this way, once.
    pub fn fail_nth(&self, on: impl Into<Operations>, nth: u64, fault: Fault) {
        self.add(on.into(), When::In(nth), fault, AfterFiring::Continue);
    }

    /// As [`Faults::fail_nth`], and every later operation is refused until [`Faults::heal`]. This is a crash right before the
    /// effect ([`Fault::LoseRequest`]) or right after it ([`Fault::LoseReply`]).
    pub fn crash_at(&self, on: impl Into<Operations>, nth: u64, fault: Fault) {
        self.add(on.into(), When::In(nth), fault, AfterFiring::Crash);
    }

    /// Each of these operations waits for a random time of up to this long before its effect, and again before its answer.
    /// The last setting for an operation counts; zero ends it.
    ///
    /// Appends to one partition keep their order nevertheless: a delayed append delays the following ones. A take does not
    /// wait for them; it makes them fail.
    pub fn delay(&self, on: impl Into<Operations>, up_to: Duration) {
        self.plan().delays.push((on.into(), up_to));
    }

    /// Stops these operations before their effect, until the hold is released or dropped.
    pub fn hold(&self, on: impl Into<Operations>) -> Hold {
        self.hold_at(on.into(), HoldPoint::BeforeTheEffect)
    }

    /// Stops these operations after their effect and before their answer, until the hold is released or dropped.
    pub fn hold_answers(&self, on: impl Into<Operations>) -> Hold {
        self.hold_at(on.into(), HoldPoint::BeforeTheAnswer)
    }

    fn hold_at(&self, on: Operations, point: HoldPoint) -> Hold {
        let state = watch::Sender::new(GateState::default());
        let gate = Arc::new(Gate { on, point, state });
        self.plan().gates.push(gate.clone());
        Hold { gate }
    }

    /// Ends all faults, delays and holds. Counts stay.
    pub fn heal(&self) {
        let mut plan = self.plan();
        plan.rules.clear();
        plan.delays.clear();
        plan.crashed.send_replace(false);
        plan.gates.drain(..).for_each(|gate| gate.release());
    }

    /// Whether the operation of a [`Faults::crash_at`] has been reached.
    #[must_use]
    pub fn has_crashed(&self) -> bool {
        *self.plan().crashed.borrow()
    }

    /// Returns when the operation of a [`Faults::crash_at`] has been reached.
    pub async fn crashed(&self) {
        let mut crashed = self.plan().crashed.subscribe();
        // The plan keeps the channel open.
        let _ = crashed.wait_for(|crashed| *crashed).await;
    }

    /// How many of these operations were requested since the start or the last reset, including those that failed.
    #[must_use]
    pub fn count(&self, of: impl Into<Operations>) -> u64 {
        let (plan, of) = (self.plan(), of.into());
        of.iter().map(|operation| plan.counts[operation as usize]).sum()
    }

    /// How many faults were injected since the start or the last reset. Tests with random faults check that there were some.
    #[must_use]
    pub fn injected(&self) -> u64 {
        self.plan().injected
    }

    /// Sets all counts to 0.
    pub fn reset_counts(&self) {
        let mut plan = self.plan();
        plan.counts = Default::default();
        plan.injected = 0;
    }

    pub(super) fn env(&self) -> &Env {
        &self.env
    }

    /// Counts an operation and decides what happens to it.
    ///
    /// # Panics
    ///
    /// If the fault is [`Fault::Panic`].
    pub(super) fn decide(&self, operation: Operation) -> Decision {
        let decision = self.plan().decide(operation, &self.env);
        assert!(decision.fault != Some(Fault::Panic), "{}", Fault::Panic.reason());
        decision
    }

    /// Runs an operation with its delays, holds and faults: its effect may be prevented, or its answer replaced.
    pub(super) async fn around<T, E>(
        &self,
        operation: Operation,
        effect: impl Future<Output = Result<T, E>>,
        error: fn(Fault) -> E,
    ) -> Result<T, E> {
        let Decision { fault, before, after } = self.decide(operation);
        before.wait(&self.env).await;
        let prevented = fault.filter(|fault| fault.is_before_the_effect());
        if let Some(fault) = prevented.filter(|_| !operation.closes()) {
            return Err(error(fault));
        }
        let answer = effect.await;
        after.wait(&self.env).await;
        fault.map_or(answer, |fault| Err(error(fault)))
    }
}

/// Operations that are stopped until this is dropped.
#[derive(Debug)]
#[must_use = "a dropped hold stops nothing"]
pub struct Hold {
    gate: Arc<Gate>,
}

impl Hold {
    /// Returns when this many operations wait here.
    pub async fn reached(&self, count: usize) {
        // The gate itself keeps its channel open.
        let _ = self.gate.state.subscribe().wait_for(|state| state.waiting >= count).await;
    }

    /// Lets all of them continue, and all later ones.
    pub fn release(self) {}
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.gate.release();
    }
}
