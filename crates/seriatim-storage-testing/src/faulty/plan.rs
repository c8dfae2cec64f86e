//! Which faults occur, and when.

use std::sync::Arc;
use std::time::Duration;

use seriatim_env::Env;
use seriatim_env::watch;

use super::{Operation, Operations};

/// A way to fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The operation has no effect, and the answer says so: too much is in progress. An append gets `QueueFull`; every other
    /// operation is answered as with [`Fault::Refuse`].
    Busy,
    /// The operation has no effect, and the answer says so. An append gets `Stopped`, every other operation `Unavailable`.
    Refuse,
    /// The operation has no effect, and the answer does not say so: in doubt, or `Unavailable` if that leaves it open.
    LoseRequest,
    /// The operation has its effect, and the answer does not say so. A read value is lost.
    LoseReply,
    /// The answer says that the outcome is in doubt. The effect follows after a random time of up to this long. For appends,
    /// which fail if a new owner has taken the partition by then. Every other operation is done as with [`Fault::LoseReply`].
    Late(Duration),
    /// The backend panics before the operation has an effect, as if it had a defect.
    Panic,
}

impl Fault {
    /// Whether the fault prevents the effect of the operation.
    pub(super) fn is_before_the_effect(self) -> bool {
        match self {
            Self::Busy | Self::Refuse | Self::LoseRequest | Self::Panic => true,
            Self::LoseReply | Self::Late(_) => false,
        }
    }

    /// Whether the answer says that there was no effect.
    pub(super) fn is_definite(self) -> bool {
        match self {
            Self::Busy | Self::Refuse => true,
            Self::LoseRequest | Self::LoseReply | Self::Late(_) | Self::Panic => false,
        }
    }

    /// The text for error messages.
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
    /// With this chance in a million.
    Chance(u64),
    /// On the operation after this many more, once.
    In(u64),
}

#[derive(Debug)]
pub(super) struct Rule {
    pub(super) on: Operations,
    pub(super) when: When,
    pub(super) fault: Fault,
    pub(super) then: AfterFiring,
}

/// What follows when a rule has fired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AfterFiring {
    /// Nothing.
    Continue,
    /// Every later operation is refused.
    Crash,
}

/// Where an operation can be stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HoldPoint {
    BeforeTheEffect,
    BeforeTheAnswer,
}

/// Stops operations until it is released.
#[derive(Debug)]
pub(super) struct Gate {
    pub(super) on: Operations,
    pub(super) point: HoldPoint,
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

    async fn wait(&self) {
        self.state.send_modify(|state| state.waiting += 1);
        // The gate itself keeps its channel open.
        let _ = self.state.subscribe().wait_for(|state| state.released).await;
    }
}

/// Everything that a test has set.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) rules: Vec<Rule>,
    pub(super) delays: Vec<(Operations, Duration)>,
    pub(super) gates: Vec<Arc<Gate>>,
    /// Whether everything is refused, since a crash.
    pub(super) crashed: watch::Sender<bool>,
    pub(super) counts: [u64; Operation::COUNT],
    pub(super) injected: u64,
}

impl Plan {
    /// Counts an operation and decides what happens to it.
    pub(super) fn decide(&mut self, operation: Operation, env: &Env) -> Decision {
        self.counts[operation as usize] += 1;
        let fault = self.fault(operation, env);
        self.injected += u64::from(fault.is_some());
        let up_to = self.delays.iter().rev().find(|(on, _)| on.contains(operation));
        let up_to = up_to.map_or(0, |(_, up_to)| u64::try_from(up_to.as_micros()).unwrap_or(u64::MAX - 1));
        self.gates.retain(|gate| !gate.state.borrow().released);
        let pause = |point| Pause {
            delay: Duration::from_micros(if up_to == 0 { 0 } else { env.random_below(up_to + 1) }),
            gates: self
                .gates
                .iter()
                .filter(|gate| gate.point == point && gate.on.contains(operation))
                .cloned()
                .collect(),
        };
        Decision {
            fault,
            before: pause(HoldPoint::BeforeTheEffect),
            after: pause(HoldPoint::BeforeTheAnswer),
        }
    }

    /// The first rule that fires. Every rule for the operation counts it.
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
                if rule.then == AfterFiring::Crash {
                    self.crashed.send_replace(true);
                }
            }
            !(fires && matches!(rule.when, When::In(_)))
        });
        fired
    }
}

/// What happens to one operation.
#[derive(Debug)]
pub(super) struct Decision {
    pub(super) fault: Option<Fault>,
    pub(super) before: Pause,
    pub(super) after: Pause,
}

/// How long an operation waits at one point.
#[derive(Debug)]
pub(super) struct Pause {
    delay: Duration,
    gates: Vec<Arc<Gate>>,
}

impl Pause {
    /// Whether the operation does not wait.
    pub(super) fn is_none(&self) -> bool {
        self.delay.is_zero() && self.gates.is_empty()
    }

    pub(super) async fn wait(self, env: &Env) {
        if !self.delay.is_zero() {
            env.sleep(self.delay).await;
        }
        for gate in self.gates {
            gate.wait().await;
        }
    }
}
