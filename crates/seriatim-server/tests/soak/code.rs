//! The workflow that carries out the steps of a program, and its activities.

use std::fs::File;
use std::io::Write as _;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde::{Deserialize, Deserializer};
use seriatim_workflow::{ActivityError, Context, Exit, Failure, Registry, RetryPolicy};
use seriatim_workflow_host::{Activities, ActivityContext};

use crate::steps::{Fault, Program, Step, Tally};

/// A `LongLoop` takes this many times the time limit of an activation.
const LONG: u32 = 4;

pub(crate) fn workflows(limit: Duration) -> Registry {
    Registry::new().workflow("program", move |ctx: Context, program: Program| run(ctx, program, limit))
}

async fn run(ctx: Context, program: Program, limit: Duration) -> Result<Tally, Exit> {
    // The number of updates, and the sum of what they added.
    let added = ctx.state((0_u32, 0_u64));
    ctx.on_update_async(
        "add",
        &added,
        |_, number: &u64| if *number == 0 { Err(Failure::application("Zero", "not 0")) } else { Ok(()) },
        |ctx, added, number: u64| async move {
            let doubled: u64 = ctx.activity("double", number).await?;
            added.change(|(updates, sum)| {
                *updates += 1;
                *sum += doubled;
            });
            Ok(doubled)
        },
    );
    let mut tally = program.carried;
    let mut steps = program.steps;
    let next = match steps.last() {
        Some(Step::Again(next)) => Some(next.clone()),
        _ => None,
    };
    if next.is_some() {
        steps.pop();
    }
    tally.add(all(ctx.clone(), steps, limit).await?);
    if let Some(steps) = next {
        return Err(ctx.continue_as_new(&Program { steps, updates: program.updates, carried: tally }));
    }
    let handlers = ctx.clone();
    added
        .wait_until(move |(updates, _)| *updates >= program.updates && handlers.all_handlers_finished())
        .await?;
    tally.sum += added.get().1;
    Ok(tally)
}

type Running = Pin<Box<dyn Future<Output = Result<Tally, Exit>> + Send>>;

/// Carries out steps, one after the other.
fn all(ctx: Context, steps: Vec<Step>, limit: Duration) -> Running {
    Box::pin(async move {
        let mut tally = Tally::default();
        for step in steps {
            tally.add(one(&ctx, step, limit).await?);
        }
        Ok(tally)
    })
}

/// Retries after a short interval.
fn quick_retries(attempts: u32) -> RetryPolicy {
    RetryPolicy { initial_interval: Duration::from_millis(10), ..RetryPolicy::attempts(attempts) }
}

async fn one(ctx: &Context, step: Step, limit: Duration) -> Result<Tally, Exit> {
    let sum = match step {
        Step::Double(number) => ctx.activity("double", number).await?,
        Step::Local(number) => ctx.local_activity("double", number).await?,
        Step::Flaky(times) => ctx.activity("flaky", times).retry(quick_retries(0)).await?,
        Step::Charge { attempts, millis } => return charge(ctx, attempts, millis).await,
        Step::Sleep(millis) => {
            ctx.timer(Duration::from_millis(millis)).await?;
            0
        }
        Step::Signal => ctx.signals("go").next().await?,
        Step::Child(steps) => {
            let program = Program { steps, ..Program::default() };
            let id = format!("{}.{:016x}", ctx.info().workflow_id, ctx.random());
            return Ok(ctx.child("program", program).id(id).await?);
        }
        Step::Both(a, b) => {
            let both = ctx.join(move |ctx| all(ctx, a, limit), move |ctx| all(ctx, b, limit));
            let (a, b) = both.await;
            let mut tally = a?;
            tally.add(b?);
            return Ok(tally);
        }
        Step::Within(millis, steps) => {
            let limited = ctx.within(Duration::from_millis(millis), move |ctx| all(ctx, steps, limit));
            // It is not known which steps were carried out.
            let effects = limited.await.ok().and_then(Result::ok).unwrap_or_default().effects;
            return Ok(Tally { sum: 0, effects });
        }
        Step::Bomb(millis) => {
            let mut bomb = Bomb(true);
            ctx.timer(Duration::from_millis(millis)).await?;
            bomb.0 = false;
            0
        }
        Step::Again(_) => 0,
        Step::Large { count, bytes } => {
            let answers = ctx.join_all(0..count, move |ctx, _| async move {
                Ok::<_, ActivityError>(ctx.activity::<_, String>("text", bytes).await?.len())
            });
            let mut sum = 0;
            for answer in answers.await {
                sum += u64::try_from(answer?).unwrap_or_default();
            }
            sum
        }
        Step::Oversized => failed(ctx.activity::<_, String>("text", 4_usize << 20).await, "TooLarge")?,
        Step::WrongType => failed(ctx.activity::<_, u64>("text", 4_usize).await, "u64")?,
        Step::Fails => failed(ctx.activity::<_, u64>("fails", ()).await, "permanently")?,
        Step::ActivityPanics => {
            failed(ctx.activity::<_, u64>("panics", ()).retry(quick_retries(3)).await, "in an activity")?
        }
        Step::Busy(millis) => {
            spin(Duration::from_millis(millis));
            0
        }
        Step::Fault(fault) => return cause(ctx, fault, limit).await,
    };
    Ok(Tally::of(sum))
}

/// 1, if the activity failed with this text.
fn failed<T>(outcome: Result<T, ActivityError>, text: &str) -> Result<u64, Exit> {
    match outcome {
        Ok(_) => Err(Exit::failed("Soak", "an activity succeeded that could not")),
        Err(error) if is_interrupted(&error) || format!("{error:?}").contains(text) => Ok(1),
        Err(error) => Err(error.into()),
    }
}

/// Whether a stop of the host interrupted the last attempt.
fn is_interrupted(error: &ActivityError) -> bool {
    matches!(error, ActivityError::Failed(failure) if format!("{failure:?}").contains("CutOff"))
}

/// An effect, unless the last attempt was interrupted.
async fn charge(ctx: &Context, attempts: u32, millis: u64) -> Result<Tally, Exit> {
    match ctx.activity("charge", millis).retry(quick_retries(attempts)).await {
        Ok(effect) => Ok(Tally { sum: 0, effects: vec![effect] }),
        Err(error) if is_interrupted(&error) => Ok(Tally::default()),
        Err(error) => Err(error.into()),
    }
}

async fn cause(ctx: &Context, fault: Fault, limit: Duration) -> Result<Tally, Exit> {
    match fault {
        Fault::Panic => panic!("{}", fault.reason()),
        Fault::PanicBeforeFuture => {
            let handle = ctx.spawn(|_| -> std::future::Ready<()> { panic!("soak: before its future") });
            handle.await;
        }
        Fault::PanicInDeserialize => drop(ctx.activity::<_, Panics>("double", 1_u64).await),
        Fault::PanicInDrop => {
            let bomb = Bomb(true);
            ctx.timer(Duration::from_millis(1)).await?;
            drop(bomb);
        }
        Fault::Loop => {
            ctx.timer(Duration::from_millis(1)).await?;
            loop {
                std::hint::spin_loop();
            }
        }
        Fault::LongLoop => {
            let _: u64 = ctx.activity("double", 1_u64).await?;
            spin(limit * LONG);
        }
    }
    Err(Exit::failed("Soak", "the fault had no consequence"))
}

#[expect(clippy::disallowed_methods, reason = "this code misbehaves on purpose and reads the clock directly")]
fn spin(time: Duration) {
    let started = Instant::now();
    while started.elapsed() < time {
        std::hint::spin_loop();
    }
}

/// Panics when it is dropped, unless it was disarmed.
struct Bomb(bool);

impl Drop for Bomb {
    fn drop(&mut self) {
        assert!(!self.0, "soak: in a destructor");
    }
}

struct Panics;

impl<'de> Deserialize<'de> for Panics {
    fn deserialize<D: Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
        panic!("soak: in a Deserialize")
    }
}

/// The activities. Each effect is a line of a file that outlives the process.
pub(crate) fn activities(effects: File) -> Activities {
    let effects = Arc::new(Mutex::new(effects));
    Activities::new()
        .register("double", |_: ActivityContext, number: u64| async move { Ok(2 * number) })
        .register("text", |_: ActivityContext, bytes: usize| async move { Ok("x".repeat(bytes)) })
        .register("fails", |_: ActivityContext, (): ()| async move {
            Err::<u64, _>(Failure::non_retryable("Soak", "permanently"))
        })
        .register("panics", |_: ActivityContext, (): ()| async move {
            panic!("soak: in an activity") as Result<u64, Failure>
        })
        .register("flaky", |context: ActivityContext, times: u32| async move {
            match context.info().attempt {
                attempt if attempt <= times => Err(Failure::application("Soak", "not yet")),
                _ => Ok(u64::from(times)),
            }
        })
        .register("charge", move |context: ActivityContext, millis: u64| {
            let info = context.info();
            let effect = format!("{} {} {}", info.run_id, info.activity_id, info.attempt);
            effects.lock().unwrap().write_all(format!("{effect}\n").as_bytes()).unwrap();
            async move {
                context.env().sleep(Duration::from_millis(millis)).await;
                Ok(effect)
            }
        })
}
