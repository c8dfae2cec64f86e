//! What an activity has done is not done again: faults of the code that reacts to it, stops, crashes.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::result_large_err, reason = "failures are rare")]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use common::*;
use seriatim_env::simulate;
use seriatim_workflow::{ActivityError, Context, Failure, Registry, RetryPolicy};
use seriatim_workflow_host::{Activities, ActivityContext, HostOptions};

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(86_400);

/// `charge`: takes so many seconds, gives a sign of life at once, and counts how often it ran.
fn charges(ran: &Arc<AtomicU32>) -> Activities {
    let ran = Arc::clone(ran);
    Activities::new().register("charge", move |context: ActivityContext, seconds: u64| {
        let ran = ran.fetch_add(1, Ordering::Relaxed) + 1;
        async move {
            let left: Option<u32> = context.heartbeat_details()?;
            context.heartbeat(&(ran * 10))?;
            context.env().sleep(Duration::from_secs(seconds)).await;
            Ok::<_, Failure>((ran, left))
        }
    })
}

async fn charged(
    ctx: &Context,
    seconds: u64,
    policy: RetryPolicy,
) -> Result<(u32, Option<u32>), ActivityError> {
    ctx.activity::<_, (u32, Option<u32>)>("charge", seconds).retry(policy).await
}

fn cut() -> HostOptions {
    HostOptions { close_grace: Duration::ZERO, ..HostOptions::default() }
}

#[test]
fn a_fault_of_the_code_after_an_activity_does_not_run_it_again() {
    for is_late in [false, true] {
        simulate(1, |env| async move {
            let registry = |is_broken: bool| {
                Registry::new().workflow("pay", move |ctx: Context, (): ()| async move {
                    // In the other case the run is stuck for another reason when the charge ends.
                    if is_late {
                        let paid =
                            ctx.spawn(|ctx| async move { charged(&ctx, 5, RetryPolicy::never()).await });
                        ctx.timer(SECOND).await?;
                        assert!(!is_broken, "a fault of the code");
                        return Ok(paid.await?.0);
                    }
                    let paid = charged(&ctx, 1, RetryPolicy::never()).await?;
                    assert!(!is_broken, "a fault of the code");
                    Ok(paid.0)
                })
            };
            let ran = Arc::default();
            let world = World::with(&env, registry(true), charges(&ran), cut()).await;
            world.start("pay", "p", &()).await;
            env.sleep(10 * SECOND).await;
            assert!(world.host.describe("p", None).await.unwrap().stuck.is_some());
            // Still broken; then put right.
            let world = world.again_with(registry(true), charges(&ran), cut()).await;
            env.sleep(10 * SECOND).await;
            let world = world.again_with(registry(false), charges(&ran), cut()).await;
            let result = env.timeout(DAY, world.result::<u32>("p")).await;
            assert_eq!(result.expect("the run ends"), 1);
            assert_eq!(ran.load(Ordering::Relaxed), 1);
            world.close().await;
        });
    }
}

#[test]
fn an_attempt_that_is_cut_off_counts_where_attempts_are_limited() {
    simulate(2, |env| async move {
        let registry = || {
            Registry::new().workflow("pay", |ctx: Context, attempts: u32| async move {
                Ok(match charged(&ctx, 3_600, RetryPolicy::attempts(attempts)).await {
                    Ok(paid) => format!("{paid:?}"),
                    Err(error) => error.to_string(),
                })
            })
        };
        let ran = Arc::default();
        let world = World::with(&env, registry(), charges(&ran), cut()).await;
        world.start("pay", "once", &1).await;
        env.sleep(10 * SECOND).await;
        let world = world.again_with(registry(), charges(&ran), cut()).await;
        let said = env.timeout(DAY, world.result::<String>("once")).await.expect("the run ends");
        assert!(said.contains("the host stopped while the attempt ran"), "{said}");
        assert_eq!(ran.load(Ordering::Relaxed), 1, "at most once");
        // Of two attempts the second is made, and finds the first one's sign of life.
        world.start("pay", "twice", &2).await;
        env.sleep(10 * SECOND).await;
        let world = world.again_with(registry(), charges(&ran), cut()).await;
        let said = env.timeout(DAY, world.result::<String>("twice")).await.expect("the run ends");
        assert_eq!((said.as_str(), ran.load(Ordering::Relaxed)), ("(3, Some(20))", 3));
        world.close().await;
    });
}

#[test]
fn the_last_heartbeat_outlives_a_stop() {
    simulate(3, |env| async move {
        let registry = || {
            Registry::new().workflow("pay", |ctx: Context, seconds: u64| async move {
                Ok(charged(&ctx, seconds, RetryPolicy::default()).await?)
            })
        };
        let ran = Arc::default();
        let world = World::with(&env, registry(), charges(&ran), cut()).await;
        world.start("pay", "p", &60_u64).await;
        env.sleep(SECOND).await;
        let world = world.again_with(registry(), charges(&ran), cut()).await;
        assert_eq!(world.result::<(u32, Option<u32>)>("p").await, (2, Some(10)));
        world.close().await;
    });
}

#[test]
fn a_stop_gives_running_activities_time_to_end() {
    simulate(4, |env| async move {
        let registry = || {
            Registry::new().workflow("pay", |ctx: Context, seconds: u64| async move {
                charged(&ctx, seconds, RetryPolicy::default()).await?;
                // Another is not begun while the host stops.
                Ok(charged(&ctx, 0, RetryPolicy::default()).await?.0)
            })
        };
        let ran = Arc::default();
        let world = World::new(&env, registry(), charges(&ran)).await;
        world.start("pay", "p", &3_u64).await;
        env.sleep(SECOND).await;
        let before = env.instant();
        let world = world.again(registry(), charges(&ran)).await;
        assert!(env.instant() - before < 5 * SECOND, "no longer than the activity takes");
        assert_eq!(world.result::<u32>("p").await, 2);
        assert_eq!(ran.load(Ordering::Relaxed), 2);
        world.close().await;
    });
}
