//! A run under test: activations are given by hand, and each completion is looked at.
#![allow(dead_code, reason = "each test file uses a part of it")]

pub(crate) mod program;

use std::sync::Arc;

use seriatim_workflow::*;

pub(crate) struct Run {
    pub instance: Instance,
    pub time: u64,
}

/// The number of an operation, of whatever kind is wanted.
pub(crate) fn n<K>(value: u32) -> CommandSeq<K> {
    CommandSeq::new(value)
}

pub(crate) fn json<T: serde::Serialize>(value: T) -> Payload {
    Payload::json(&value).unwrap()
}

pub(crate) fn start<T: serde::Serialize>(workflow: &str, input: T) -> Job {
    Job::Start(Box::new(Start { random_seed: 7, ..Start::new(workflow, "the-id", vec![json(input)]) }))
}

pub(crate) fn completed<T: serde::Serialize>(value: T) -> ActivityResolution {
    ActivityResolution::Completed { result: Some(json(value)) }
}

pub(crate) fn failed(message: &str) -> ActivityResolution {
    ActivityResolution::Failed { failure: Failure::application("Test", message) }
}

pub(crate) fn signal<T: serde::Serialize>(name: &str, value: T) -> Job {
    let (input, identity) = (vec![json(value)], String::new());
    Job::Signal { name: name.to_owned(), input, headers: Headers::new(), identity }
}

pub(crate) fn query(name: &str) -> Job {
    Job::Query { id: format!("q-{name}"), name: name.to_owned(), input: vec![], headers: Headers::new() }
}

pub(crate) fn update<T: serde::Serialize>(id: &str, name: &str, value: T) -> Job {
    Job::Update {
        id: id.to_owned(),
        protocol_id: id.to_owned(),
        name: name.to_owned(),
        input: vec![json(value)],
        headers: Headers::new(),
        identity: String::new(),
        run_validator: true,
    }
}

impl Run {
    pub(crate) fn new(registry: &Arc<Registry>, options: InstanceOptions) -> Self {
        Self { instance: Instance::new(Arc::clone(registry), options), time: 0 }
    }

    /// A run of one workflow, which has had its first activation; and what it asked for.
    pub(crate) fn of<In, Fut, Out>(
        input: In,
        code: impl Fn(Context, In) -> Fut + Send + Sync + 'static,
    ) -> (Self, Vec<Command>)
    where
        In: serde::de::DeserializeOwned + serde::Serialize,
        Fut: Future<Output = Result<Out, Exit>> + Send + 'static,
        Out: serde::Serialize,
    {
        let registry = Arc::new(Registry::new().workflow("test", code));
        let mut run = Self::new(&registry, InstanceOptions::default());
        let commands = run.tell(vec![start("test", input)]);
        (run, commands)
    }

    pub(crate) fn activate(&mut self, jobs: Vec<Job>) -> Result<Vec<Command>, ActivationFailure> {
        self.time += 1_000_000;
        let completion = self.instance.activate(Activation::new("run", Time::from_micros(self.time), jobs));
        assert_eq!(completion.run_id, "run");
        completion.outcome
    }

    pub(crate) fn tell(&mut self, jobs: Vec<Job>) -> Vec<Command> {
        self.activate(jobs).unwrap()
    }
}

pub(crate) fn kinds(commands: &[Command]) -> Vec<&'static str> {
    commands.iter().map(|command| command.kind().name()).collect()
}

/// The value that the run has ended with.
pub(crate) fn result<T: serde::de::DeserializeOwned>(commands: &[Command]) -> T {
    match commands.last() {
        Some(Command::Complete { result: Some(result) }) => result.decode().unwrap(),
        other => panic!("the run has not ended with a result: {other:?}"),
    }
}
