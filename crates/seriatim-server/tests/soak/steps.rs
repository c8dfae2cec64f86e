//! Random programs: their steps, and the expected results.

use serde::{Deserialize, Serialize};

/// What a signal of a program adds to its sum.
pub(crate) const SIGNAL: u64 = 7;
/// What an update of a program adds to its sum, doubled by an activity.
pub(crate) const UPDATE: u64 = 5;

/// A step of a program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Step {
    /// An activity.
    Double(u64),
    /// The same as a local activity.
    Local(u64),
    /// An activity that fails this many times before it succeeds.
    Flaky(u32),
    /// An activity with an effect, and no more attempts than this.
    Charge {
        attempts: u32,
        millis: u64,
    },
    Sleep(u64),
    Signal,
    Child(Vec<Self>),
    Both(Vec<Self>, Vec<Self>),
    /// Steps that are cancelled after this many milliseconds.
    Within(u64, Vec<Self>),
    /// A timer; meanwhile the code holds a value whose destructor panics if the code is dropped.
    Bomb(u64),
    /// Continues as new with these steps.
    Again(Vec<Self>),
    /// `count` concurrent activities, each with an answer of `bytes` bytes.
    Large {
        count: usize,
        bytes: usize,
    },
    /// An answer that does not fit into an event.
    Oversized,
    /// An answer of another type than the code expects.
    WrongType,
    /// An activity that fails permanently.
    Fails,
    /// An activity that panics each time.
    ActivityPanics,
    /// Code that computes for this many milliseconds.
    Busy(u64),
    /// A fault: the run is stuck at it.
    Fault(Fault),
}

/// Faults of workflow code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Fault {
    /// A panic in an `async` body.
    Panic,
    /// A panic in a closure before it returns its future.
    PanicBeforeFuture,
    /// A panic in a `Deserialize`.
    PanicInDeserialize,
    /// A panic in a destructor.
    PanicInDrop,
    /// An endless loop.
    Loop,
    /// A loop that ends after the host has abandoned the activation.
    LongLoop,
}

impl Fault {
    /// The text that the reason has to contain.
    pub(crate) const fn reason(self) -> &'static str {
        match self {
            Self::Panic => "soak: in the body",
            Self::PanicBeforeFuture => "soak: before its future",
            Self::PanicInDeserialize => "soak: in a Deserialize",
            Self::PanicInDrop => "soak: in a destructor",
            Self::Loop | Self::LongLoop => "has not returned for",
        }
    }

    const fn is_loop(self) -> bool {
        matches!(self, Self::Loop | Self::LongLoop)
    }
}

/// The input of a workflow of type `program`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct Program {
    pub(crate) steps: Vec<Step>,
    /// The number of updates that it waits for at its end.
    pub(crate) updates: u32,
    /// The results of the runs before it.
    pub(crate) carried: Tally,
}

/// The result of steps.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Tally {
    pub(crate) sum: u64,
    /// The names of the effects that happened.
    pub(crate) effects: Vec<String>,
}

impl Tally {
    pub(crate) fn of(sum: u64) -> Self {
        Self { sum, effects: Vec::new() }
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.sum += other.sum;
        self.effects.extend(other.effects);
    }
}

impl Program {
    /// The sum that it has to end with.
    pub(crate) fn sum(&self) -> u64 {
        sum(&self.steps) + u64::from(self.updates) * 2 * UPDATE
    }

    pub(crate) fn signals(&self) -> usize {
        self.steps.iter().filter(|step| **step == Step::Signal).count()
    }

    /// The fault at which it is stuck.
    pub(crate) fn fault(&self) -> Option<Fault> {
        fault(&self.steps)
    }

    pub(crate) fn has_loop(&self) -> bool {
        self.fault().is_some_and(Fault::is_loop)
    }
}

fn sum(steps: &[Step]) -> u64 {
    steps.iter().map(of_step).sum()
}

fn of_step(step: &Step) -> u64 {
    match step {
        Step::Double(number) | Step::Local(number) => 2 * number,
        Step::Flaky(times) => u64::from(*times),
        Step::Signal => SIGNAL,
        Step::Child(steps) | Step::Again(steps) => sum(steps),
        Step::Both(a, b) => sum(a) + sum(b),
        Step::Large { count, bytes } => u64::try_from(count * bytes).unwrap(),
        Step::Oversized | Step::WrongType | Step::Fails | Step::ActivityPanics => 1,
        Step::Charge { .. }
        | Step::Sleep(_)
        | Step::Within(..)
        | Step::Bomb(_)
        | Step::Busy(_)
        | Step::Fault(_) => 0,
    }
}

fn fault(steps: &[Step]) -> Option<Fault> {
    steps.iter().find_map(|step| match step {
        Step::Fault(fault) => Some(*fault),
        Step::Child(steps) | Step::Again(steps) => fault(steps),
        Step::Both(a, b) => fault(a).or_else(|| fault(b)),
        _ => None,
    })
}

/// Pseudo-random numbers from a seed.
#[derive(Debug, Clone)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64, number: u64) -> Self {
        let mut dice = Self(seed ^ number.wrapping_mul(0xd134_2543_de82_ef95));
        dice.next();
        dice
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub(crate) fn one_in(&mut self, bound: u64) -> bool {
        self.below(bound) == 0
    }

    /// A program that ends with its sum.
    pub(crate) fn good(&mut self) -> Program {
        let mut steps = self.steps(0);
        if self.one_in(8) {
            steps = vec![Step::Double(1), Step::Again(self.steps(1))];
            return Program { steps, ..Program::default() };
        }
        let updates = if self.one_in(6) { 1 + u32::try_from(self.below(2)).unwrap() } else { 0 };
        Program { steps, updates, carried: Tally::default() }
    }

    /// A program that is expensive for the host, and still ends with its sum.
    pub(crate) fn heavy(&mut self, limit_ms: u64) -> Program {
        let mut program = self.good();
        let heavy = match self.below(7) {
            0 => Step::Large { count: 24, bytes: 64 << 10 },
            1 => Step::Oversized,
            2 => Step::WrongType,
            3 => Step::ActivityPanics,
            4 => Step::Busy(limit_ms / 4),
            5 => Step::Both(vec![Step::Fails], vec![Step::Bomb(50), Step::Double(2)]),
            _ => Step::Fails,
        };
        program.steps.insert(0, heavy);
        program
    }

    /// A program with a fault, at which it is stuck.
    pub(crate) fn bad(&mut self, may_loop: bool) -> Program {
        let fault = match self.below(if may_loop { 10 } else { 8 }) {
            0..=2 => Fault::Panic,
            3 | 4 => Fault::PanicBeforeFuture,
            5 | 6 => Fault::PanicInDeserialize,
            7 => Fault::PanicInDrop,
            8 => Fault::Loop,
            _ => Fault::LongLoop,
        };
        let mut steps = if self.one_in(3) { Vec::new() } else { self.steps(1) };
        steps.push(Step::Fault(fault));
        steps = match self.below(6) {
            0 => vec![Step::Double(1), Step::Child(steps)],
            1 => vec![Step::Both(steps, vec![Step::Bomb(20), Step::Charge { attempts: 1, millis: 30 }])],
            _ => steps,
        };
        Program { steps, ..Program::default() }
    }

    fn steps(&mut self, depth: u32) -> Vec<Step> {
        (0..1 + self.below(4)).map(|_| self.step(depth)).collect()
    }

    fn step(&mut self, depth: u32) -> Step {
        match self.below(if depth < 2 { 13 } else { 8 }) {
            0 | 1 => Step::Double(self.below(100)),
            2 => Step::Local(self.below(100)),
            3 => Step::Flaky(1 + u32::try_from(self.below(3)).unwrap()),
            4 | 5 => {
                let attempts = if self.one_in(3) { 3 } else { 1 };
                Step::Charge { attempts, millis: self.below(150) }
            }
            6 => Step::Sleep(5 + self.below(300)),
            7 => Step::Bomb(5 + self.below(300)),
            8 if depth == 0 => Step::Signal,
            8 => Step::Double(3),
            9 => Step::Child(self.steps(depth + 1)),
            10 | 11 => Step::Both(self.steps(depth + 1), self.steps(depth + 1)),
            _ => Step::Within(5 + self.below(200), without_bombs(self.steps(depth + 1))),
        }
    }
}

/// Without steps that panic when they are cancelled.
fn without_bombs(steps: Vec<Step>) -> Vec<Step> {
    let defused = steps.into_iter().map(|step| match step {
        Step::Bomb(millis) => Step::Sleep(millis),
        Step::Child(steps) => Step::Child(without_bombs(steps)),
        Step::Both(a, b) => Step::Both(without_bombs(a), without_bombs(b)),
        other => other,
    });
    defused.collect()
}
