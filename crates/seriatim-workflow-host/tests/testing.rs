//! The test kit: what it promises to those who test workflows with it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::result_large_err, reason = "failures are rare")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use seriatim_workflow::{Activity, Context, Exit, Failure, Registry, RetryPolicy, args};
use seriatim_workflow_host::testing::{Simulation, assert_replays};
use seriatim_workflow_host::{Activities, ActivityContext, HostError};

const DAY: Duration = Duration::from_secs(86_400);
const CHARGE: Activity<u64, String> = Activity::new("charge");

/// Charges at most once, waits for a day or a word, and ships with a child.
async fn order(ctx: Context, cents: u64) -> Result<String, Exit> {
    let receipt = ctx.activity(CHARGE, cents).retry(RetryPolicy::never()).await;
    let receipt = receipt.unwrap_or_else(|_| "charged by hand".to_owned());
    let word = ctx.within(DAY, |ctx| async move { ctx.signals::<String>("word").next().await }).await;
    let word = word.unwrap_or_else(|_| Ok("none".to_owned()))?;
    let shipped: u64 = ctx.child("ship", args((receipt.clone(), cents))).await?;
    Ok(format!("{receipt}, word {word}, shipped {shipped}"))
}

async fn ship(ctx: Context, (receipt, cents): (String, u64)) -> Result<u64, Exit> {
    ctx.timer(3 * DAY).await?;
    Ok(ctx.activity("pack", args((receipt, cents))).await?)
}

fn workflows() -> Registry {
    Registry::new().workflow("order", order).workflow("ship", ship)
}

/// Activities that count how often their code has run.
fn activities(charged: &Arc<AtomicUsize>, packed: &Arc<AtomicUsize>) -> Activities {
    let (charged, packed) = (Arc::clone(charged), Arc::clone(packed));
    Activities::new()
        .register("charge", move |_: ActivityContext, cents: u64| {
            charged.fetch_add(1, Ordering::Relaxed);
            async move { Ok::<_, Failure>(format!("receipt {cents}")) }
        })
        .register("pack", move |_: ActivityContext, (_, cents): (String, u64)| {
            packed.fetch_add(1, Ordering::Relaxed);
            async move { Ok::<_, Failure>(cents) }
        })
}

#[test]
fn days_pass_at_once() {
    let counts = Default::default();
    let simulation = Simulation::new(workflows(), activities(&counts, &counts));
    let days = simulation.run(|host| async move {
        let before = host.env().instant();
        host.start("order", "o-1", &500_u64).await;
        host.skip(DAY / 2).await;
        host.signal("o-1", "word", "please").await;
        let result: String = host.result("o-1").await;
        assert_eq!(result, "receipt 500, word please, shipped 500");
        assert_eq!(host.histories().await.len(), 2, "the order and its child");
        (host.env().instant() - before).as_secs() / DAY.as_secs()
    });
    assert_eq!(days, 3);
}

#[test]
fn a_crash_at_every_write_loses_and_repeats_nothing() {
    let (charged, packed) = Default::default();
    let simulation = Simulation::new(workflows(), activities(&charged, &packed));
    let crashes = simulation.crash_at_every_write(|host| {
        charged.store(0, Ordering::Relaxed);
        packed.store(0, Ordering::Relaxed);
        let (charged, packed) = (&charged, &packed);
        async move {
            host.start("order", "o-1", &500_u64).await;
            host.signal("o-1", "word", "please").await;
            let result: String = host.result("o-1").await;
            assert!(result.ends_with("word please, shipped 500"), "{result}");
            assert!(charged.load(Ordering::Relaxed) <= 1, "at most once");
            assert!(packed.load(Ordering::Relaxed) >= 1, "at least once");
        }
    });
    println!("{crashes} crashes");
    assert!(crashes > 10, "{crashes}");
}

#[test]
fn lost_answers_and_failed_attempts_change_no_result() {
    let (mut faults, packed) = (0, Arc::default());
    for seed in 0..10 {
        let simulation = Simulation::new(workflows(), activities(&Default::default(), &packed)).seed(seed);
        let simulation = simulation.losing_answers(0.2).failing_attempts(0.5);
        faults += simulation.run(|host| async move {
            host.start("order", "o-1", &500_u64).await;
            let result: String = host.result("o-1").await;
            assert!(result.ends_with(", word none, shipped 500"), "{result}");
            host.faults()
        });
    }
    assert!(faults > 0, "the log has had no fault");
    assert!(packed.load(Ordering::Relaxed) > 10, "an attempt that failed after its work runs again");
}

#[test]
fn a_crash_cuts_activities_off_and_a_restart_with_other_code_carries_on() {
    let workflows = |word: &'static str| {
        Registry::new().workflow("slow", move |ctx: Context, (): ()| async move {
            let result: u128 = ctx.activity("slow", u128::MAX - 1).await?;
            Ok::<_, Exit>(format!("{word} {result}"))
        })
    };
    let (begun, ended) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let activities = {
        let (begun, ended) = (begun.clone(), ended.clone());
        Activities::new().register("slow", move |ctx: ActivityContext, number: u128| {
            let (begun, ended) = (begun.clone(), ended.clone());
            async move {
                begun.fetch_add(1, Ordering::Relaxed);
                ctx.env().sleep(Duration::from_secs(60)).await;
                ended.fetch_add(1, Ordering::Relaxed);
                Ok::<_, Failure>(number + 1)
            }
        })
    };
    let other = activities.clone();
    Simulation::new(workflows("old"), activities).run(|host| async move {
        host.start("slow", "s", &()).await;
        // Two seconds before its end: it does not come to that.
        host.skip(Duration::from_secs(58)).await;
        host.crash().await;
        assert_eq!(host.crashes(), 1);
        host.skip(Duration::from_secs(30)).await;
        host.restart_with(workflows("new"), other).await;
        assert_eq!(host.result::<String>("s").await, format!("new {}", u128::MAX));
    });
    assert_eq!((begun.load(Ordering::Relaxed), ended.load(Ordering::Relaxed)), (3, 1));
}

/// The order of a struct's fields is none of the history's business.
#[test]
fn a_run_continues_on_code_that_writes_the_same_input_in_other_bytes() {
    let workflows = |input: &'static str| {
        Registry::new().workflow("pack", move |ctx: Context, (): ()| async move {
            let input: Box<serde_json::value::RawValue> = serde_json::from_str(input).unwrap();
            let _packed: u64 = ctx.activity("pack", input).await?;
            Ok::<_, Exit>(ctx.signals::<String>("word").next().await?)
        })
    };
    let activities = Activities::new()
        .register("pack", |_: ActivityContext, order: serde_json::Value| async move {
            Ok::<_, Failure>(order["cents"].as_u64())
        });
    let other = activities.clone();
    Simulation::new(workflows(r#"{"cents":5,"to":"ada"}"#), activities).run(|host| async move {
        host.start("pack", "p", &()).await;
        host.skip(DAY).await;
        host.restart_with(workflows(r#"{ "to": "ada", "cents": 5 }"#), other).await;
        host.signal("p", "word", "please").await;
        assert_eq!(host.result::<String>("p").await, "please");
    });
}

#[test]
#[should_panic(expected = "workflow n is stuck: the code does not do what the history says")]
fn a_run_that_is_stuck_is_not_waited_for() {
    let workflows = |days: u32| {
        Registry::new()
            .workflow("nap", move |ctx: Context, (): ()| async move { Ok(ctx.timer(days * DAY).await?) })
    };
    Simulation::new(workflows(2), Activities::new()).run(|host| async move {
        host.start("nap", "n", &()).await;
        host.skip(DAY).await;
        host.restart_with(workflows(3), Activities::new()).await;
        host.result::<()>("n").await;
    });
}

#[test]
#[should_panic(expected = "histories of this simulation do not replay:\nn: DIFFERENT: nap")]
fn code_that_does_something_else_the_second_time_is_found() {
    let runs = AtomicUsize::new(1);
    let workflows = Registry::new().workflow("nap", move |ctx: Context, (): ()| {
        let seconds = runs.fetch_add(1, Ordering::Relaxed) as u64;
        async move { Ok(ctx.timer(Duration::from_secs(seconds)).await?) }
    });
    Simulation::new(workflows, Activities::new()).run(|host| async move {
        host.start("nap", "n", &()).await;
        host.result::<()>("n").await;
    });
}

#[test]
#[should_panic(expected = "the test writes nothing")]
fn a_test_without_a_write_has_nothing_to_crash_at() {
    Simulation::new(Registry::new(), Activities::new()).crash_at_every_write(|_| async {});
}

#[test]
#[should_panic(expected = "start n: no workflow type \"nap\" is registered here; known: none")]
fn a_request_that_is_wrong_is_told() {
    Simulation::new(Registry::new(), Activities::new())
        .run(|host| async move { host.start("nap", "n", &()).await });
}

#[test]
fn an_update_is_refused_or_answered() {
    let workflows = Registry::new().workflow("seats", |ctx: Context, seats: u32| async move {
        let seats = ctx.state(seats);
        let few = |_: &u32, taken: &u32| {
            if *taken > 4 { Err(Failure::application("Many", "too many")) } else { Ok(()) }
        };
        ctx.on_update("take", &seats, few, |seats, taken| {
            *seats -= taken;
            Ok(*seats)
        });
        ctx.on_query("seats", &seats, |seats, (): ()| Ok(*seats));
        Ok(ctx.signals::<()>("end").next().await?)
    });
    Simulation::new(workflows, Activities::new()).run(|host| async move {
        host.start("seats", "s", &10_u32).await;
        assert_eq!(host.query::<u32>("s", "seats").await, 10);
        assert_eq!(host.update::<_, u32>("s", "take", &3_u32).await.unwrap(), 7);
        let refused = host.update::<_, u32>("s", "take", &5_u32).await.unwrap_err();
        assert!(matches!(refused, HostError::Rejected(_)), "{refused}");
        host.cancel("s", "enough").await;
        let ended = host.outcome::<()>("s").await.unwrap_err();
        assert!(matches!(ended, HostError::Failed(_)), "{ended}");
    });
}

/// A folder with what was kept of a run that took a nap of two days.
fn kept() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let histories = Simulation::new(napping(2), Activities::new()).run(|host| async move {
        host.start("nap", "n", &()).await;
        host.result::<()>("n").await;
        host.histories().await
    });
    let below = folder.path().join("2026");
    std::fs::create_dir(&below).unwrap();
    for (id, history) in histories {
        std::fs::write(below.join(format!("{id}.json")), serde_json::to_vec(&history).unwrap()).unwrap();
    }
    folder
}

fn napping(days: u32) -> Registry {
    Registry::new()
        .workflow("nap", move |ctx: Context, (): ()| async move { Ok(ctx.timer(days * DAY).await?) })
}

/// What a call panics with.
fn panic_of(call: impl FnOnce() + std::panic::UnwindSafe) -> String {
    *std::panic::catch_unwind(call).unwrap_err().downcast::<String>().unwrap()
}

#[test]
fn kept_histories_replay_or_are_told_all_at_once() {
    let folder = kept();
    assert_replays(&napping(2), folder.path());
    assert_replays(&napping(2), folder.path().join("2026/n.json"));
    std::fs::write(folder.path().join("broken.json"), "{").unwrap();
    let told = panic_of(|| assert_replays(&napping(3), folder.path()));
    assert!(told.starts_with("1 histories replayed:\n"), "{told}");
    assert!(told.contains("broken.json: neither Temporal's JSON nor its binary form"), "{told}");
    assert!(told.contains("n.json: DIFFERENT: nap ") && told.contains("another duration"), "{told}");
}

#[test]
fn a_folder_without_histories_fails_the_test() {
    let folder = tempfile::tempdir().unwrap();
    let told = panic_of(|| assert_replays(&napping(2), folder.path()));
    assert!(told.contains("has no history: nothing was replayed"), "{told}");
    let told = panic_of(|| assert_replays(&napping(2), folder.path().join("gone")));
    assert!(told.contains("gone: No such file"), "{told}");
}
