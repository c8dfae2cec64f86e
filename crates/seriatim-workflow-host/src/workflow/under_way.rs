//! The operations of the open run that are in progress.

use std::collections::BTreeMap;

use seriatim_env::Shutdown;
use seriatim_workflow::{Kind, Time};

use super::effect::{Effect, Effects};
use crate::alarms::Alarm;

#[derive(Debug)]
pub(crate) enum Operation {
    /// An alarm is set for this time.
    Timer(Time),
    /// A task runs until it ends or is cancelled.
    Task(Shutdown),
}

#[derive(Debug, Default)]
pub(crate) struct UnderWay {
    /// The run that they are of. Each run numbers its operations from 1.
    run: u64,
    operations: BTreeMap<(Kind, u32), Operation>,
}

impl UnderWay {
    pub(crate) fn contains(&self, operation: (Kind, u32)) -> bool {
        self.operations.contains_key(&operation)
    }

    pub(crate) fn insert(&mut self, operation: (Kind, u32), under_way: Operation) {
        self.operations.insert(operation, under_way);
    }

    /// It was answered, or its answer is not waited for any more. What carries it out is not stopped.
    pub(crate) fn remove(&mut self, operation: (Kind, u32)) {
        self.operations.remove(&operation);
    }

    /// Stops a timer.
    pub(crate) fn stop_timer(&mut self, seq: u32, effects: &mut Effects) {
        if let Some(stopped) = self.operations.remove(&(Kind::Timer, seq)) {
            effects.push(stop(self.run, seq, stopped));
        }
    }

    /// Asks an operation to stop. It may still answer.
    pub(crate) fn cancel(&self, operation: (Kind, u32), effects: &mut Effects) {
        if let Some(Operation::Task(token)) = self.operations.get(&operation) {
            effects.push(Effect::Cancel(token.clone()));
        }
    }

    /// From here on they are of this run. Those of a run before it are stopped: that run has ended, and its end was in doubt
    /// when it was written.
    pub(crate) fn switch_to(&mut self, run: u64, effects: &mut Effects) {
        if self.run != run {
            self.clear(effects);
            self.run = run;
        }
    }

    /// Stops all of them.
    pub(crate) fn clear(&mut self, effects: &mut Effects) {
        self.stop_if(effects, |_| true);
    }

    /// Stops local activities: they begin again with what asked for them.
    pub(crate) fn stop_local(&mut self, effects: &mut Effects) {
        self.stop_if(effects, |kind| kind == Kind::LocalActivity);
    }

    /// Stops all but activities. Alarms that rang and messages that were answered meanwhile are repeated; activities are not.
    pub(crate) fn stop_all_but_activities(&mut self, effects: &mut Effects) {
        self.stop_if(effects, |kind| kind != Kind::Activity);
    }

    fn stop_if(&mut self, effects: &mut Effects, is_stopped: impl Fn(Kind) -> bool) {
        let stopped = self.operations.extract_if(.., |(kind, _), _| is_stopped(*kind));
        effects.extend(stopped.map(|((_, seq), operation)| stop(self.run, seq, operation)));
    }
}

fn stop(run: u64, seq: u32, operation: Operation) -> Effect {
    match operation {
        Operation::Timer(at) => Effect::UnsetAlarm { at, run, alarm: Alarm::Timer(seq) },
        Operation::Task(token) => Effect::Cancel(token),
    }
}
