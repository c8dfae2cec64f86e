//! What is to go wrong, and when.

use std::sync::Arc;
use std::time::Duration;

use seriatim_env::Env;
use tokio::sync::watch;

use super::{Operation, Operations};

/// A way to fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing happens, and the answer says so: too much is under way. An append gets `QueueFull`; all else as
    /// [`Fault::Refuse`].
    Busy,
    /// Nothing happens, and the answer says so. An append gets `Stopped`, all else `Unavailable`.
    Refuse,
    /// Nothing happens, and the answer leaves it open: in doubt, or `Unavailable` where that allows both.
    LoseRequest,
    /// It happens, and the answer leaves it open. What was read is lost.
    LoseReply,
    /// The answer leaves it open, and it happens after a random while of up to this long: for appends, which a new
    /// owner shuts out. All else as [`Fault::LoseReply`].
    Late(Duration),
    /// The backend panics, before anything happens: a defect.
    Panic,
}

impl Fault {
    /// Whether it keeps the operation from having an effect.
    pub(super) fn is_before_the_effect(self) -> bool {
        match self {
            Self::Busy | Self::Refuse | Self::LoseRequest | Self::Panic => true,
            Self::LoseReply | Self::Late(_) => false,
        }
    }

    /// Whether its answer says that nothing happened.
    pub(super) fn is_definite(self) -> bool {
        match self {
            Self::Busy | Self::Refuse => true,
            Self::LoseRequest | Self::LoseReply | Self::Late(_) | Self::Panic => false,
        }
    }

    /// For messages.
    pub(super) fn reason(self) -> &'static str {
        match self {
            Self::Busy | Self::Refuse => "injected fault: refused",
            Self::LoseRequest | Self::LoseReply | Self::Late(_) => "injected fault: no answer came",
            Self::Panic => "injected fault: a panic",
        }
    }
}

/// When a rule fires.
#[derive(Debug)]
pub(super) enum When {
    Always,
    /// In so many of a million.
    Chance(u64),
    /// After so many more; gone then.
    In(u64),
}

#[derive(Debug)]
pub(super) struct Rule {
    pub(super) on: Operations,
    pub(super) when: When,
    pub(super) fault: Fault,
    pub(super) then: Then,
}

/// What a rule leaves when it has fired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    /// Nothing.
    Continue,
    /// Nothing works any more.
    Crash,
}

/// Where an operation can be held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moment {
    BeforeTheEffect,
    BeforeTheAnswer,
}

/// Something that holds operations until it is released.
#[derive(Debug)]
pub(super) struct Gate {
    pub(super) on: Operations,
    pub(super) moment: Moment,
    pub(super) state: watch::Sender<GateState>,
}

#[derive(Debug, Default)]
pub(super) struct GateState {
    pub(super) waiting: usize,
    pub(super) released: bool,
}

impl Gate {
    pub(super) fn release(&self) {
        self.state.send_modify(|state| state.released = true);
    }

    async fn pass(&self) {
        self.state.send_modify(|state| state.waiting += 1);
        // The gate itself keeps its channel open.
        let _ = self.state.subscribe().wait_for(|state| state.released).await;
    }
}

/// Everything that a test has asked for.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) rules: Vec<Rule>,
    pub(super) delays: Vec<(Operations, Duration)>,
    pub(super) gates: Vec<Arc<Gate>>,
    /// Whether everything is refused; watched by those who wait for it.
    pub(super) crashed: watch::Sender<bool>,
    pub(super) counts: [u64; Operation::COUNT],
    pub(super) injected: u64,
}

impl Plan {
    /// Counts an operation and decides what becomes of it.
    pub(super) fn meet(&mut self, operation: Operation, env: &Env) -> Passage {
        self.counts[operation as usize] += 1;
        let fault = self.fault(operation, env);
        self.injected += u64::from(fault.is_some());
        let up_to = self.delays.iter().rev().find(|(on, _)| on.contains(operation));
        let up_to = up_to.map_or(0, |(_, up_to)| u64::try_from(up_to.as_micros()).unwrap_or(u64::MAX - 1));
        self.gates.retain(|gate| !gate.state.borrow().released);
        let stop = |moment| Stop {
            delay: Duration::from_micros(if up_to == 0 { 0 } else { env.random_below(up_to + 1) }),
            gates: self
                .gates
                .iter()
                .filter(|gate| gate.moment == moment && gate.on.contains(operation))
                .cloned()
                .collect(),
        };
        Passage { fault, before: stop(Moment::BeforeTheEffect), after: stop(Moment::BeforeTheAnswer) }
    }

    /// The first rule that fires; all that count, count.
    fn fault(&mut self, operation: Operation, env: &Env) -> Option<Fault> {
        if *self.crashed.borrow() {
            return Some(Fault::Refuse);
        }
        let mut fired = None;
        self.rules.retain_mut(|rule| {
            if !rule.on.contains(operation) {
                return true;
            }
            let fires = match &mut rule.when {
                When::Always => true,
                When::Chance(chance) => env.random_below(1_000_000) < *chance,
                When::In(left) => {
                    *left = left.saturating_sub(1);
                    *left == 0
                }
            };
            if fires && fired.is_none() {
                fired = Some(rule.fault);
                if rule.then == Then::Crash {
                    self.crashed.send_replace(true);
                }
            }
            !(fires && matches!(rule.when, When::In(_)))
        });
        fired
    }
}

/// What becomes of one operation.
#[derive(Debug)]
pub(super) struct Passage {
    pub(super) fault: Option<Fault>,
    pub(super) before: Stop,
    pub(super) after: Stop,
}

/// A place where an operation is kept waiting.
#[derive(Debug)]
pub(super) struct Stop {
    delay: Duration,
    gates: Vec<Arc<Gate>>,
}

impl Stop {
    /// Whether nobody waits here.
    pub(super) fn is_open(&self) -> bool {
        self.delay.is_zero() && self.gates.is_empty()
    }

    pub(super) async fn pass(self, env: &Env) {
        if !self.delay.is_zero() {
            env.sleep(self.delay).await;
        }
        for gate in self.gates {
            gate.pass().await;
        }
    }
}
