//! Operations of the pure core on one thread: start, resolve, resume.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use seriatim_workflow::{
    Activation, ActivityResolution, Command, Context, Exit, Instance, InstanceOptions, Job, Payload,
    Registry, Start, Time,
};

use crate::measure::{Goal, Measure};
use crate::sample::medians;
use crate::suite::Run;

/// How long an activity may take, in seconds.
pub(super) const ACTIVITY_S: u64 = 60;

/// One activity after the other, each in its own activation.
pub(super) async fn one_by_one(ctx: Context, count: u64) -> Result<u64, Exit> {
    let mut sum = 0;
    for i in 0..count {
        let doubled: u64 = ctx.activity("double", i).timeout(Duration::from_secs(ACTIVITY_S)).await?;
        sum += doubled;
    }
    Ok(sum)
}

/// All timers at once: they fire in one activation.
async fn all_at_once(ctx: Context, count: u64) -> Result<u64, Exit> {
    let timers: Vec<_> = (0..count).map(|i| ctx.timer(Duration::from_secs(i + 1))).collect();
    for timer in timers {
        timer.await?;
    }
    Ok(count)
}

pub(super) fn registry() -> Arc<Registry> {
    Arc::new(Registry::new().workflow("one_by_one", one_by_one).workflow("all_at_once", all_at_once))
}

pub(super) fn start(workflow: &str, count: u64) -> anyhow::Result<Job> {
    Ok(Job::Start(Box::new(Start::new(workflow, "bench", vec![Payload::json(&count)?]))))
}

/// The response to a command.
pub(super) fn answer(command: &Command) -> anyhow::Result<Option<Job>> {
    Ok(match command {
        Command::StartTimer { seq, .. } => Some(Job::FireTimer { seq: *seq }),
        Command::ScheduleActivity { seq, input, .. } => {
            let input: u64 = input.first().context("no input")?.decode()?;
            let result = Some(Payload::json(&(2 * input))?);
            Some(Job::ResolveActivity { seq: *seq, resolution: ActivityResolution::Completed { result } })
        }
        _ => None,
    })
}

/// Runs a workflow to its end, and returns the operations per second.
fn run_one(registry: &Arc<Registry>, workflow: &str, count: u64) -> anyhow::Result<f64> {
    let mut instance = Instance::new(registry.clone(), InstanceOptions::default());
    let mut jobs = vec![start(workflow, count)?];
    let (mut operations, mut spent) = (0_u64, Duration::ZERO);
    while !instance.has_ended() {
        let activation = Activation::new("run", Time::from_micros(operations), jobs);
        let started = Instant::now();
        let completion = instance.activate(activation);
        spent += started.elapsed();
        let commands = completion.outcome.map_err(|failure| anyhow::anyhow!("{failure}"))?;
        jobs = commands.iter().filter_map(|command| answer(command).transpose()).collect::<Result<_, _>>()?;
        operations += jobs.len() as u64;
    }
    ensure!(operations == count, "{operations} operations, not {count}");
    #[expect(clippy::cast_precision_loss, reason = "a count of operations")]
    Ok(operations as f64 / spent.as_secs_f64())
}

pub(super) fn measure(run: &Run) -> anyhow::Result<Vec<Measure>> {
    run.progress("the core");
    let registry = registry();
    let count = run.pick(50_000, 500_000);
    let [one_by_one, all_at_once] = medians(
        run.pick(5, 9),
        [&mut || run_one(&registry, "one_by_one", count), &mut || run_one(&registry, "all_at_once", count)],
    )?;
    let goal = Goal::AtLeast(1e6);
    Ok(vec![
        Measure::new("operations of the core, an activity after the other", one_by_one, "1/s").goal(goal),
        Measure::new("operations of the core, timers that all fire in one activation", all_at_once, "1/s")
            .goal(goal),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_workflows_do_all_their_operations() {
        for workflow in ["one_by_one", "all_at_once"] {
            assert!(run_one(&registry(), workflow, 100).unwrap() > 0.0, "{workflow}");
        }
    }
}
