//! Code that misbehaves: its run stands with a reason, and everything else continues.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::result_large_err, reason = "failures are rare")]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use common::*;
use seriatim_env::simulate;
use seriatim_workflow::{ActivityError, Context, Exit, Failure, Registry, RetryPolicy, Warning, args};
use seriatim_workflow_host::{
    Activities, ActivityContext, HostError, HostOptions, StartRequest, WorkflowHost, demo,
};

const DAY: Duration = Duration::from_secs(86_400);

#[test]
fn a_panic_before_the_future_leaves_a_run_that_answers() {
    simulate(1, |env| async move {
        async fn waits(ctx: Context, (): ()) -> Result<(), Exit> {
            ctx.on_update_async(
                "break",
                &ctx.state(()),
                |(), (): &()| Ok(()),
                |_, _, ()| -> std::future::Ready<Result<(), Failure>> { panic!("before its future") },
            );
            ctx.timer(DAY).await?;
            Ok(())
        }
        let world = World::new(&env, Registry::new().workflow("waits", waits), Activities::new()).await;
        world.start("waits", "w", &()).await;
        let limit = Duration::from_secs(60);
        let broken = env.timeout(limit, world.host.update("w", "break", Vec::new(), None)).await;
        let error = broken.expect("an update is answered").unwrap_err();
        assert!(error.to_string().contains("before its future"), "{error}");
        let signal = env.timeout(limit, world.host.signal("w", "s", Vec::new(), None)).await;
        assert!(matches!(signal, Ok(Err(HostError::Stuck { .. }))), "{signal:?}");
        let told = env.timeout(limit, world.host.describe("w", None)).await;
        assert!(told.expect("a description is answered").unwrap().stuck.is_some());
        let ended = env.timeout(limit, world.host.terminate("w", "test", None)).await;
        ended.expect("a termination is answered").unwrap();
        let before = env.instant();
        world.host.close().await;
        assert!(env.instant() - before < Duration::from_secs(1), "it waits for nothing");
    });
}

/// `size`: returns so many letters, and counts how often it ran.
fn sized(ran: &Arc<AtomicUsize>) -> Activities {
    let ran = Arc::clone(ran);
    Activities::new().register("size", move |_: ActivityContext, size: usize| {
        ran.fetch_add(1, Ordering::Relaxed);
        async move { Ok::<_, Failure>("x".repeat(size)) }
    })
}

#[test]
fn answers_that_do_not_fit_into_one_event_are_written_in_several() {
    simulate(2, |env| async move {
        async fn many(ctx: Context, sizes: Vec<usize>) -> Result<usize, Exit> {
            let answers = ctx.join_all(sizes, |ctx, size| async move {
                Ok::<_, ActivityError>(ctx.activity::<_, String>("size", size).await?.len())
            });
            let mut sum = 0;
            for answer in answers.await {
                sum += answer?;
            }
            Ok(sum)
        }
        async fn local(ctx: Context, sizes: Vec<usize>) -> Result<usize, Exit> {
            let answers = ctx.join_all(sizes, |ctx, size| async move {
                Ok::<_, ActivityError>(ctx.local_activity::<_, String>("size", size).await?.len())
            });
            let mut sum = 0;
            for answer in answers.await {
                sum += answer?;
            }
            Ok(sum)
        }
        let ran = Arc::default();
        let workflows = || Registry::new().workflow("many", many).workflow("local", local);
        let world = World::new(&env, workflows(), sized(&ran)).await;
        world.start("many", "m", &vec![64 << 10; 200]).await;
        let limit = Duration::from_secs(600);
        let sum = env.timeout(limit, world.result::<usize>("m")).await;
        assert_eq!(sum.expect("the run ends"), 200 * (64 << 10));
        world.start("local", "l", &vec![256 << 10; 36]).await;
        let sum = env.timeout(limit, world.result::<usize>("l")).await;
        assert_eq!(sum.expect("the run ends"), 36 * (256 << 10));
        assert_eq!(ran.load(Ordering::Relaxed), 236);
        let world = world.again(workflows(), sized(&ran)).await;
        assert_eq!(world.result::<usize>("m").await, 200 * (64 << 10));
        assert_eq!(ran.load(Ordering::Relaxed), 236, "none of them runs again");
        world.close().await;
    });
}

#[test]
fn an_answer_that_cannot_fit_fails_its_operation_and_is_not_tried_again() {
    simulate(3, |env| async move {
        async fn one(ctx: Context, size: usize) -> Result<String, Exit> {
            match ctx.activity::<_, String>("size", size).await {
                Ok(_) => Ok("it fits".to_owned()),
                Err(ActivityError::Failed(failure)) => Ok(failure.to_string()),
                Err(other) => Err(other.into()),
            }
        }
        let ran = Arc::default();
        let world = World::new(&env, Registry::new().workflow("one", one), sized(&ran)).await;
        world.start("one", "large", &(9_usize << 20)).await;
        let said = env.timeout(Duration::from_secs(600), world.result::<String>("large")).await;
        let said = said.expect("the run ends");
        assert!(said.contains("the answer of the activity takes 9437"), "{said}");
        assert_eq!(ran.load(Ordering::Relaxed), 1);
        world.start("one", "just", &(3_000_000_usize)).await;
        assert_eq!(world.result::<String>("just").await, "it fits");
        let signal = world.host.signal("just", "s", payload(&"x".repeat(4 << 20)), None).await;
        assert!(matches!(signal, Err(HostError::TooLarge { .. })), "{signal:?}");
        world.close().await;
    });
}

/// The answers are small, and what the code asks for in return is not.
#[test]
fn what_the_code_asks_for_may_make_batches_smaller() {
    simulate(4, |env| async move {
        async fn echo(ctx: Context, count: usize) -> Result<usize, Exit> {
            let answers = ctx.join_all(0..count, |ctx, _| async move {
                let small: String = ctx.activity("size", 1_usize).await?;
                ctx.activity::<_, usize>("length", small.repeat(1 << 20)).await
            });
            let mut sum = 0;
            for answer in answers.await {
                sum += answer?;
            }
            Ok(sum)
        }
        let ran = Arc::default();
        let activities = sized(&ran).register("length", |_: ActivityContext, text: String| async move {
            Ok::<_, Failure>(text.len())
        });
        let world = World::new(&env, Registry::new().workflow("echo", echo), activities).await;
        world.start("echo", "e", &10).await;
        let sum = env.timeout(Duration::from_secs(600), world.result::<usize>("e")).await;
        assert_eq!(sum.expect("the run ends"), 10 << 20);
        assert_eq!(ran.load(Ordering::Relaxed), 10);
        world.close().await;
    });
}

#[test]
fn a_signal_of_the_wrong_type_does_not_end_the_run_and_is_shown() {
    simulate(5, |env| async move {
        async fn adds(ctx: Context, (): ()) -> Result<u32, Exit> {
            let mut signals = ctx.signals::<u32>("add");
            Ok(signals.next().await? + signals.next().await?)
        }
        let workflows = || Registry::new().workflow("adds", adds);
        let world = World::new(&env, workflows(), Activities::new()).await;
        world.start("adds", "a", &()).await;
        world.signal("a", "add", &1).await;
        world.signal("a", "add", &"many").await;
        let shown = world.host.describe("a", None).await.unwrap().warnings;
        assert!(shown[0].to_string().contains("signal \"add\" was skipped"), "{shown:?}");
        // Also by a process that has only read its history.
        let world = world.again(workflows(), Activities::new()).await;
        assert_eq!(world.host.describe("a", None).await.unwrap().warnings, shown);
        world.signal("a", "add", &2).await;
        assert_eq!(world.result::<u32>("a").await, 3);
        world.close().await;
    });
}

#[test]
fn signals_and_cancels_are_kept_while_a_run_waits_for_its_next_attempt() {
    simulate(6, |env| async move {
        async fn second(ctx: Context, (): ()) -> Result<u32, Exit> {
            if ctx.info().attempt == 1 {
                return Err(Exit::failed("Again", "not yet"));
            }
            Ok(ctx.signals::<u32>("add").next().await? + ctx.signals::<u32>("add").next().await?)
        }
        let workflows = || Registry::new().workflow("second", second);
        let world = World::new(&env, workflows(), Activities::new()).await;
        for id in ["s", "c"] {
            let policy = RetryPolicy { initial_interval: Duration::from_secs(60), ..RetryPolicy::default() };
            let request = StartRequest { retry_policy: Some(policy), ..StartRequest::new("second").id(id) };
            world.host.start(request).await.unwrap();
        }
        world.signal("s", "add", &1).await;
        world.host.cancel("c", "not wanted", None).await.unwrap();
        let world = world.again(workflows(), Activities::new()).await;
        let told = world.host.signal("s", "add", payload(&2), Some("key")).await.unwrap();
        assert!(!told.repeated);
        assert!(world.host.signal("s", "add", payload(&2), Some("key")).await.unwrap().repeated);
        assert_eq!(world.result::<u32>("s").await, 3);
        let cancelled = world.host.result::<u32>("c").await.unwrap_err().to_string();
        assert!(cancelled.contains("cancelled"), "{cancelled}");
        world.close().await;
    });
}

#[test]
fn an_update_across_continue_as_new_is_told_what_became_of_it() {
    simulate(7, |env| async move {
        async fn renews(ctx: Context, is_first: bool) -> Result<(), Exit> {
            ctx.on_update_async(
                "slow",
                &ctx.state(()),
                |(), (): &()| Ok(()),
                |ctx, _, ()| async move { Ok(ctx.timer(DAY).await?) },
            );
            ctx.signals::<()>("go").next().await?;
            if is_first { Err(ctx.continue_as_new(&false)) } else { Ok(()) }
        }
        let world = World::new(&env, Registry::new().workflow("renews", renews), Activities::new()).await;
        world.start("renews", "r", &true).await;
        let host = world.host.clone();
        let update = env.spawn(async move { host.update("r", "slow", Vec::new(), None).await });
        env.sleep(Duration::from_secs(1)).await;
        world.signal("r", "go", &()).await;
        let error = update.await.unwrap().unwrap_err().to_string();
        assert!(error.contains("continued as new before its handler returned"), "{error}");
        world.close().await;
    });
}

#[test]
fn a_second_host_on_one_engine_is_refused() {
    simulate(8, |env| async move {
        let world = World::new(&env, demo::workflows(), demo::activities()).await;
        let options = HostOptions::default;
        let open = || {
            let (env, engine) = (env.clone(), world.engine.clone());
            WorkflowHost::open(env, engine, demo::workflows(), demo::activities(), options())
        };
        let second = open();
        let request = || StartRequest::new("greet").input(&"Ada").unwrap();
        assert_eq!(second.start(request()).await, Err(HostError::SecondHost));
        second.close().await;
        world.host.start(request()).await.unwrap();
        world.host.close().await;
        // The first has gone: another may take its place.
        let third = open();
        let started = third.start(request()).await.unwrap();
        assert_eq!(third.result::<String>(&started.id).await.unwrap(), "Hello, Ada!");
        third.close().await;
        world.engine.close().await;
    });
}

#[test]
fn large_inputs_do_not_stay_in_memory_and_are_there_when_they_are_needed() {
    simulate(9, |env| async move {
        async fn length(ctx: Context, text: String) -> Result<(u32, usize), Exit> {
            ctx.signals::<()>("go").next().await?;
            if ctx.info().attempt == 1 {
                return Err(Exit::failed("Again", "not yet"));
            }
            Ok((ctx.info().attempt, text.len()))
        }
        let options = HostOptions { cached_bytes: 1 << 20, ..HostOptions::default() };
        let workflows = Registry::new().workflow("length", length);
        let world = World::with(&env, workflows, Activities::new(), options).await;
        let text = "x".repeat(64 << 10);
        for number in 0..40 {
            let policy = Some(RetryPolicy::default());
            let request = StartRequest::new("length").id(format!("l{number}")).input(&text).unwrap();
            world.host.start(StartRequest { retry_policy: policy, ..request }).await.unwrap();
        }
        let held = world.host.cached_bytes();
        assert!(held <= 1 << 20, "{held} bytes are held, for 2,5 MiB of input");
        assert_eq!(world.host.describe("l1", None).await.unwrap().input, payload(&text));
        for id in ["l0", "l39"] {
            world.signal(id, "go", &()).await;
            world.signal(id, "go", &()).await;
            assert_eq!(world.result::<(u32, usize)>(id).await, (2, 64 << 10));
        }
        world.close().await;
    });
}

#[test]
fn a_history_is_read_in_pages() {
    simulate(10, |env| async move {
        async fn naps(ctx: Context, times: u32) -> Result<(), Exit> {
            for _ in 0..times {
                ctx.timer(Duration::from_millis(1)).await?;
            }
            Ok(())
        }
        let world = World::new(&env, Registry::new().workflow("naps", naps), Activities::new()).await;
        world.start("naps", "n", &25).await;
        world.result::<()>("n").await;
        let whole = world.host.history("n", None).await.unwrap();
        assert_eq!((whole.events.len(), whole.next), (26, None));
        for (limit, bytes, pages) in [(10, usize::MAX, 3), (usize::MAX, 1, 26), (26, usize::MAX, 1)] {
            let (mut events, mut after, mut count) = (Vec::new(), None, 0);
            loop {
                let page = world.host.history_page("n", None, after, limit, bytes).await.unwrap();
                events.extend(page.events);
                (after, count) = (page.next, count + 1);
                if after.is_none() {
                    break;
                }
            }
            assert_eq!((events, count), (whole.events.clone(), pages));
        }
        world.close().await;
    });
}

#[test]
fn a_long_run_is_told_to_continue_as_new_and_ended_beyond_the_limit() {
    simulate(11, |env| async move {
        async fn counts(ctx: Context, (obeys, done): (bool, u32)) -> Result<u32, Exit> {
            let mut done = done;
            while done < 30 {
                if obeys && ctx.continue_as_new_suggested() {
                    return Err(ctx.continue_as_new(&(obeys, done)));
                }
                ctx.timer(Duration::from_secs(1)).await?;
                done += 1;
            }
            Ok(done)
        }
        let options =
            || HostOptions { suggest_activations: 5, activations_max: 20, ..HostOptions::default() };
        let workflows = || Registry::new().workflow("counts", counts);
        let world = World::with(&env, workflows(), Activities::new(), options()).await;
        world.start("counts", "good", &(true, 0)).await;
        world.start("counts", "bad", &(false, 0)).await;
        env.sleep(Duration::from_secs(10)).await;
        let warned = world.host.describe("bad", None).await.unwrap().warnings;
        assert_eq!(warned, [Warning::LongHistory { activations: 5 }]);
        // What a run was told is part of its history.
        let world = world.again_with(workflows(), Activities::new(), options()).await;
        assert_eq!(world.result::<u32>("good").await, 30);
        assert!(world.host.runs("good", None, 100).await.unwrap().len() >= 5);
        let ended = world.host.result::<u32>("bad").await.unwrap_err().to_string();
        assert!(ended.contains("20 activations") && ended.contains("continue as new earlier"), "{ended}");
        world.close().await;
    });
}

#[test]
fn an_activity_that_fails_for_long_costs_no_event_for_each_attempt() {
    simulate(12, |env| async move {
        async fn tries(ctx: Context, first: Duration) -> Result<(), Exit> {
            let policy =
                RetryPolicy { initial_interval: first, backoff_coefficient: 1.0, ..RetryPolicy::default() };
            Ok(ctx.activity::<_, ()>("fails", ()).retry(policy).await?)
        }
        let activities = Activities::new().register("fails", |_: ActivityContext, (): ()| async {
            Err::<(), _>(Failure::application("Down", "not reachable"))
        });
        let world = World::new(&env, Registry::new().workflow("tries", tries), activities).await;
        world.start("tries", "t", &Duration::from_secs(1)).await;
        env.sleep(Duration::from_secs(600)).await;
        let attempt = world.host.describe("t", None).await.unwrap().pending[0].attempt.unwrap();
        assert!(attempt > 500, "{attempt}");
        let events = world.host.history("t", None).await.unwrap().events.len();
        assert!(events < 20, "{events} events for {attempt} attempts");
        // Without a pause it is not tried at all.
        world.start("tries", "z", &Duration::ZERO).await;
        let refused = world.host.result::<()>("z").await.unwrap_err();
        assert!(format!("{refused:?}").contains("first interval is 0"), "{refused:?}");
        world.close().await;
    });
}

#[test]
fn several_arguments_reach_activities_children_and_signals() {
    simulate(13, |env| async move {
        async fn parent(ctx: Context, (name, count): (String, usize)) -> Result<String, Exit> {
            let child = ctx.child::<_, String>("child", args((name, count))).id("c").start().await?;
            child.signal("more", args(("!", 2))).await?;
            Ok(child.result().await?)
        }
        async fn child(ctx: Context, (name, count): (String, usize)) -> Result<String, Exit> {
            let (text, times) = ctx.signals::<(String, usize)>("more").next().await?;
            Ok(ctx.activity::<_, String>("repeat", args((name, count))).await? + &text.repeat(times))
        }
        let activities = Activities::new().register(
            "repeat",
            |_: ActivityContext, (text, times): (String, usize)| async move {
                Ok::<_, Failure>(text.repeat(times))
            },
        );
        let workflows = Registry::new().workflow("parent", parent).workflow("child", child);
        let world = World::new(&env, workflows, activities).await;
        let request = StartRequest::new("parent").id("p").input("tea").unwrap().input(&3).unwrap();
        world.host.start(request).await.unwrap();
        assert_eq!(world.result::<String>("p").await, "teateatea!!");
        world.close().await;
    });
}
