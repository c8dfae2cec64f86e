//! Random workflow programs, and a host that answers them in random order.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use seriatim_workflow::*;

use super::{json, n, signal};

/// Chance from a seed, the same everywhere.
#[derive(Clone)]
pub(crate) struct Chance(pub(crate) u64);

impl Chance {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }

    pub(crate) fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).unwrap()
    }

    pub(crate) fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }
}

/// A step of a program.
#[derive(Debug)]
pub(crate) enum Node {
    Timer(u64),
    Activity(&'static str, CancellationType),
    Local(&'static str),
    Child(&'static str, CancellationType),
    Signal(&'static str),
    Cancel,
    Await(&'static str),
    SideEffect,
    Random,
    Attributes,
    Patch(&'static str, Program),
    Spawn(Program),
    Join(Program, Program),
    Race(Vec<Program>, Losers),
    Map(usize, Vec<Program>),
    /// Runs the first beside the second, and cancels it when that has ended.
    CancelAfter(Program, Program),
    Within(u64, Program),
}

pub(crate) type Program = Arc<Vec<Node>>;

const NAMES: [&str; 3] = ["a", "b", "c"];
const SIGNALS: [&str; 2] = ["s", "t"];
const CANCELLATIONS: [CancellationType; 3] =
    [CancellationType::TryCancel, CancellationType::WaitCompleted, CancellationType::Abandon];

pub(crate) fn program(chance: &mut Chance, depth: u64) -> Program {
    let len = 1 + chance.below(if depth > 2 { 5 } else { 3 });
    let nodes = (0..len).map(|_| node(chance, depth)).collect();
    Arc::new(nodes)
}

fn programs(chance: &mut Chance, depth: u64) -> Vec<Program> {
    (0..2 + chance.below(3)).map(|_| program(chance, depth)).collect()
}

fn node(chance: &mut Chance, depth: u64) -> Node {
    let name = NAMES[chance.index(3)];
    let cancellation = CANCELLATIONS[chance.index(3)];
    match chance.below(if depth == 0 { 12 } else { 24 }) {
        0..=2 => Node::Timer(chance.below(5)),
        3..=5 => Node::Activity(name, cancellation),
        6 => Node::Local(name),
        7 => Node::Child(name, cancellation),
        8 => {
            if chance.one_in(2) {
                Node::Signal(name)
            } else {
                Node::Cancel
            }
        }
        9 => Node::Await(SIGNALS[chance.index(2)]),
        10 => {
            if chance.one_in(2) {
                Node::SideEffect
            } else {
                Node::Attributes
            }
        }
        11 => Node::Random,
        12 => Node::Patch(name, program(chance, depth - 1)),
        13..=14 => Node::Spawn(program(chance, depth - 1)),
        15..=16 => Node::Join(program(chance, depth - 1), program(chance, depth - 1)),
        17..=18 => {
            let losers = if chance.one_in(3) { Losers::Leave } else { Losers::Cancel };
            Node::Race(programs(chance, depth - 1), losers)
        }
        19..=20 => Node::Map(1 + chance.index(3), programs(chance, depth - 1)),
        21..=22 => Node::CancelAfter(program(chance, depth - 1), program(chance, depth - 1)),
        _ => Node::Within(1 + chance.below(3), program(chance, depth - 1)),
    }
}

pub(crate) fn registry(program: &Program) -> Arc<Registry> {
    let program = Arc::clone(program);
    Arc::new(Registry::new().workflow("program", move |ctx: Context, seed: u64| {
        let program = Arc::clone(&program);
        async move {
            let value = run(ctx.clone(), program, seed).await;
            if ctx.is_cancelled() { Err(Exit::Cancelled) } else { Ok(value) }
        }
    }))
}

/// Runs a program. Its value depends on all responses, and goes into what it asks for next.
fn run(ctx: Context, program: Program, value: u64) -> BoxFuture<u64> {
    Box::pin(async move {
        let mut value = value;
        let mut spawned = Vec::new();
        for node in program.iter() {
            let step = one(&ctx, node, value, &mut spawned).await;
            value = Chance(value ^ step.wrapping_mul(31)).next() >> 16;
        }
        for task in spawned {
            value ^= task.await;
        }
        value
    })
}

async fn one(ctx: &Context, node: &Node, value: u64, spawned: &mut Vec<TaskHandle<u64>>) -> u64 {
    let other = || Execution { workflow_id: format!("w{}", value % 3), ..Execution::default() };
    match node {
        Node::Timer(seconds) => u64::from(ctx.timer(Duration::from_secs(*seconds)).await.is_ok()),
        Node::Activity(name, cancellation) => {
            ctx.activity::<_, u64>(*name, value).cancellation(*cancellation).await.unwrap_or(1)
        }
        Node::Local(name) => ctx.local_activity::<_, u64>(*name, value).await.unwrap_or(2),
        Node::Child(name, cancellation) => {
            match ctx.child::<_, u64>(*name, value).cancellation(*cancellation).start().await {
                Ok(child) => child.result().await.unwrap_or(3) + child.first_run_id().len() as u64,
                Err(_) => 4,
            }
        }
        Node::Signal(name) => u64::from(ctx.signal_external(other(), *name, value).await.is_ok()),
        Node::Cancel => u64::from(ctx.cancel_external(other(), "x").await.is_ok()),
        Node::Await(name) => ctx.signals::<u64>(*name).next().await.unwrap_or(5),
        Node::SideEffect => ctx.side_effect(|| 6_u64).await.unwrap_or(7),
        Node::Random => ctx.random() >> 16,
        Node::Attributes => {
            ctx.upsert_search_attributes(Headers::from([("k".to_owned(), json(value))]));
            8
        }
        Node::Patch(id, program) => {
            if !ctx.patched(id) {
                return 9;
            }
            let fired = ctx.timer(Duration::from_secs(1)).await.is_ok();
            run(ctx.clone(), Arc::clone(program), value + u64::from(fired)).await
        }
        Node::Spawn(program) => {
            let program = Arc::clone(program);
            spawned.push(ctx.spawn(|ctx| run(ctx, program, value)));
            10
        }
        Node::Join(a, b) => {
            let (a, b) = (Arc::clone(a), Arc::clone(b));
            let (a, b) = ctx.join(|ctx| run(ctx, a, value), |ctx| run(ctx, b, value)).await;
            a ^ b
        }
        Node::Race(programs, losers) => {
            let mut race = ctx.race().losers(*losers);
            for program in programs {
                let program = Arc::clone(program);
                race = race.branch(move |ctx| run(ctx, program, value));
            }
            let (winner, won) = race.await;
            won + winner as u64
        }
        Node::Map(width, programs) => {
            let width = NonZeroUsize::new(*width).unwrap();
            let results =
                ctx.map_concurrently(programs.clone(), width, move |ctx, program| run(ctx, program, value));
            results.await.into_iter().fold(0, |sum, result| sum.rotate_left(5) ^ result)
        }
        Node::CancelAfter(a, b) => {
            let (scoped, scope) = ctx.scope();
            let program = Arc::clone(a);
            let task = scoped.spawn(|ctx| run(ctx, program, value));
            let second = run(ctx.clone(), Arc::clone(b), value).await;
            scope.cancel("enough");
            second ^ task.await
        }
        Node::Within(seconds, program) => {
            let program = Arc::clone(program);
            ctx.within(Duration::from_secs(*seconds), move |ctx| run(ctx, program, value)).await.unwrap_or(11)
        }
    }
}

/// What a host still has to answer to a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Whole,
    ChildStart,
    ChildResult,
}

/// Answers a run at random until it has ended or a number of activations is over.
pub(crate) struct Host {
    chance: Chance,
    open: BTreeMap<(Kind, u32, Phase), ()>,
    /// Timers that were cancelled and fire all the same, once.
    crossing: Vec<u32>,
    time: u64,
}

impl Host {
    pub(crate) fn new(chance: Chance) -> Self {
        Self { chance, open: BTreeMap::new(), crossing: Vec::new(), time: 0 }
    }

    pub(crate) fn activation(&mut self, jobs: Vec<Job>) -> Activation {
        self.time += 1 + self.chance.below(1_000_000);
        Activation::new("run", Time::from_micros(self.time), jobs)
    }

    /// Takes note of what the run asks for.
    pub(crate) fn carry_out(&mut self, commands: &[Command]) {
        for command in commands {
            let Some((kind, seq)) = command.seq() else { continue };
            match command.kind() {
                CommandKind::StartChild => drop(self.open.insert((kind, seq, Phase::ChildStart), ())),
                CommandKind::CancelTimer => {
                    self.open.remove(&(kind, seq, Phase::Whole));
                    if self.chance.one_in(3) {
                        self.crossing.push(seq);
                    }
                }
                CommandKind::CancelSignal
                | CommandKind::CancelActivity
                | CommandKind::CancelLocalActivity
                | CommandKind::CancelChild => {}
                _ => drop(self.open.insert((kind, seq, Phase::Whole), ())),
            }
        }
    }

    /// Some of the pending answers, in any order; now and then a signal, or a request to stop.
    pub(crate) fn jobs(&mut self) -> Vec<Job> {
        let mut jobs: Vec<Job> = self.crossing.drain(..).map(|seq| Job::FireTimer { seq: n(seq) }).collect();
        let count = 1 + self.chance.below(4);
        for _ in 0..count {
            if self.open.is_empty() || self.chance.one_in(4) {
                let name = SIGNALS[self.chance.index(2)];
                jobs.push(signal(name, self.chance.below(100)));
                continue;
            }
            let at = self.chance.index(self.open.len());
            let pending = *self.open.keys().nth(at).unwrap();
            self.open.remove(&pending);
            jobs.push(self.answer(pending));
        }
        if self.chance.one_in(60) {
            jobs.push(Job::Cancel { reason: "stop".to_owned() });
        }
        jobs
    }

    fn answer(&mut self, (kind, seq, phase): (Kind, u32, Phase)) -> Job {
        let value = self.chance.below(1000);
        let failure = || Failure::application("Test", "no");
        let is_failed = value.is_multiple_of(5);
        let resolution = if is_failed {
            ActivityResolution::Failed { failure: failure() }
        } else {
            ActivityResolution::Completed { result: Some(json(value)) }
        };
        let undelivered = is_failed.then(failure);
        match (kind, phase) {
            (Kind::Timer, _) => Job::FireTimer { seq: n(seq) },
            (Kind::Activity, _) => Job::ResolveActivity { seq: n(seq), resolution },
            (Kind::LocalActivity, _) if value.is_multiple_of(7) => {
                let (delay, original_schedule_time) = (Duration::from_secs(1), None);
                let resolution = ActivityResolution::Backoff { attempt: 2, delay, original_schedule_time };
                Job::ResolveLocalActivity { seq: n(seq), resolution }
            }
            (Kind::LocalActivity, _) => Job::ResolveLocalActivity { seq: n(seq), resolution },
            (Kind::ChildWorkflow, Phase::ChildStart) if is_failed => {
                let (workflow_id, workflow_type) = (String::new(), String::new());
                let cause = ChildStartFailure::AlreadyExists;
                let resolution = ChildStartResolution::Failed { cause, workflow_id, workflow_type };
                Job::ResolveChildStart { seq: n(seq), resolution }
            }
            (Kind::ChildWorkflow, Phase::ChildStart) => {
                self.open.insert((kind, seq, Phase::ChildResult), ());
                let resolution = ChildStartResolution::Started { run_id: format!("r{value}") };
                Job::ResolveChildStart { seq: n(seq), resolution }
            }
            (Kind::ChildWorkflow, _) => {
                let resolution = ChildResolution::Completed { result: Some(json(value)) };
                Job::ResolveChild { seq: n(seq), resolution }
            }
            (Kind::ExternalSignal, _) => Job::ResolveExternalSignal { seq: n(seq), failure: undelivered },
            (Kind::ExternalCancel, _) => Job::ResolveExternalCancel { seq: n(seq), failure: undelivered },
        }
    }
}

/// A program, and the history of one run of it.
pub(crate) fn play(seed: u64, depth: u64, activations: usize) -> (Arc<Registry>, History) {
    let mut chance = Chance(seed);
    let registry = registry(&program(&mut chance, depth));
    let mut host = Host::new(chance);
    let mut instance = Instance::new(Arc::clone(&registry), InstanceOptions::default());
    let mut history = History::default();
    let start = Start { random_seed: seed, ..Start::new("program", "the-id", vec![json(seed >> 16)]) };
    let mut jobs = vec![Job::Start(Box::new(start))];
    while history.steps.len() < activations && !instance.has_ended() {
        let activation = host.activation(jobs);
        let commands = instance.activate(activation.clone()).outcome;
        let commands = commands.unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
        host.carry_out(&commands);
        history.push(activation, commands);
        jobs = host.jobs();
    }
    (registry, history)
}
