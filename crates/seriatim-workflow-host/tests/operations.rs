//! Each kind of operation, end to end on memory storage, in simulation.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::result_large_err, reason = "handlers of workflows fail with a whole failure")]

mod common;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{World, payload};
use seriatim_env::simulate;
use seriatim_types::ErrorKind;
use seriatim_workflow::{
    ActivityError, ActivityOptions, CancellationType, ChildOptions, Context, Execution, Exit, Failure,
    FailureInfo, ParentClosePolicy, Registry, RetryPolicy, TimeoutType,
};
use seriatim_workflow_host::{
    Activities, ActivityContext, HostError, HostOptions, RunStatus, StartRequest, Workflows,
};

fn quick_retries(attempts: u32) -> RetryPolicy {
    RetryPolicy { initial_interval: Duration::from_millis(100), ..RetryPolicy::attempts(attempts) }
}

/// A workflow of one activity, `work`, with these options.
fn one_activity(options: ActivityOptions) -> Registry {
    Registry::new().workflow("one", move |ctx: Context, input: u32| {
        let options = options.clone();
        async move { Ok::<u32, Exit>(ctx.activity("work", input).options(options).await?) }
    })
}

fn failure_of(error: HostError) -> Failure {
    match error {
        HostError::Failed(failure) => *failure,
        other => panic!("{other}"),
    }
}

fn timeout_of(failure: &Failure) -> Option<TimeoutType> {
    match &*failure.cause.as_deref()?.info {
        FailureInfo::Timeout { timeout, .. } => Some(*timeout),
        _ => None,
    }
}

#[test]
fn an_activity_is_tried_again_until_it_succeeds() {
    simulate(1, |env| async move {
        let attempts = Arc::new(Mutex::new(Vec::new()));
        let seen = attempts.clone();
        let activities =
            Activities::new().register("work", move |ctx: ActivityContext, input: u32| {
                let attempt = ctx.info().attempt;
                seen.lock().unwrap().push((attempt, ctx.env().now().as_millis()));
                assert!(attempt != 2, "the second attempt panics");
                async move {
                    if attempt == 1 { Err(Failure::application("Flaky", "not yet")) } else { Ok(input * 2) }
                }
            });
        let options = ActivityOptions { retry_policy: Some(quick_retries(5)), ..ActivityOptions::default() };
        let world = World::new(&env, one_activity(options), activities).await;
        world.start("one", "w", &21).await;
        world.sleep_ms(150).await;
        let pending = world.host.describe("w", None).await.unwrap().pending;
        assert_eq!((pending[0].attempt, &*pending[0].name), (Some(3), "work"));
        assert!(pending[0].last_failure.as_ref().unwrap().message.contains("panics"));
        assert_eq!(world.result::<u32>("w").await, 42);
        let attempts = attempts.lock().unwrap().clone();
        let waits: Vec<u64> = attempts.windows(2).map(|pair| pair[1].1 - pair[0].1).collect();
        assert_eq!(attempts.iter().map(|(attempt, _)| *attempt).collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(waits, [100, 200]);
        world.close().await;
    });
}

#[test]
fn an_activity_that_must_not_be_tried_again_is_not() {
    simulate(2, |env| async move {
        let tries = Arc::new(AtomicU32::new(0));
        let seen = tries.clone();
        let activities = Activities::new().register("work", move |_: ActivityContext, input: u32| {
            seen.fetch_add(1, Ordering::Relaxed);
            async move {
                match input {
                    0 => Err::<u32, _>(Failure::non_retryable("Never", "no use")),
                    1 => Err(Failure::application("Listed", "no use either")),
                    _ => Err(Failure::application("Other", "again and again")),
                }
            }
        });
        let policy = RetryPolicy { non_retryable_error_types: vec!["Listed".to_owned()], ..quick_retries(3) };
        let options = ActivityOptions { retry_policy: Some(policy), ..ActivityOptions::default() };
        let world = World::new(&env, one_activity(options), activities).await;
        for (input, expected) in [(0, 1), (1, 1), (2, 3)] {
            let id = format!("w{input}");
            world.start("one", &id, &input).await;
            let failure = failure_of(world.host.result::<u32>(&id).await.unwrap_err());
            assert!(matches!(*failure.info, FailureInfo::Activity { .. }), "{failure:?}");
            assert_eq!(tries.swap(0, Ordering::Relaxed), expected, "{input}");
            assert_eq!(world.host.describe(&id, None).await.unwrap().row.status, RunStatus::Failed);
        }
        world.start("one", "typed", &"no number").await;
        assert!(failure_of(world.host.result::<u32>("typed").await.unwrap_err()).message.contains("input"));
        world.close().await;
    });
}

#[test]
fn each_time_out_of_an_activity() {
    simulate(3, |env| async move {
        let activities = Activities::new().register("work", |ctx: ActivityContext, _: u32| async move {
            ctx.heartbeat(&ctx.info().attempt).unwrap();
            ctx.env().sleep(Duration::from_secs(3_600)).await;
            Ok::<u32, Failure>(0)
        });
        let second = Some(Duration::from_secs(1));
        let once = Some(RetryPolicy::never());
        let none = ActivityOptions { retry_policy: once, ..ActivityOptions::default() };
        let cases = [
            (ActivityOptions { start_to_close_timeout: second, ..none.clone() }, TimeoutType::StartToClose),
            (
                ActivityOptions { schedule_to_close_timeout: second, ..none.clone() },
                TimeoutType::ScheduleToClose,
            ),
            (ActivityOptions { heartbeat_timeout: second, ..none.clone() }, TimeoutType::Heartbeat),
        ];
        for (options, expected) in cases {
            let world = World::new(&env, one_activity(options), activities.clone()).await;
            world.start("one", "w", &1).await;
            let failure = failure_of(world.host.result::<u32>("w").await.unwrap_err());
            assert_eq!(timeout_of(&failure), Some(expected), "{failure:?}");
            world.close().await;
        }
        // One place for activities, taken by somebody else.
        let options = ActivityOptions { schedule_to_start_timeout: second, ..none };
        let host = HostOptions { activities_max: 1, ..HostOptions::default() };
        let world = World::with(&env, one_activity(options), activities, host).await;
        world.start("one", "first", &1).await;
        world.start("one", "second", &1).await;
        let failure = failure_of(world.host.result::<u32>("second").await.unwrap_err());
        assert_eq!(timeout_of(&failure), Some(TimeoutType::ScheduleToStart), "{failure:?}");
        world.close().await;
    });
}

#[test]
fn a_heartbeat_keeps_an_attempt_alive_and_its_details_reach_the_next() {
    simulate(4, |env| async move {
        let activities = Activities::new().register("work", |ctx: ActivityContext, total: u32| async move {
            let mut done: u32 = ctx.heartbeat_details().unwrap().unwrap_or(0);
            while done < total {
                ctx.env().sleep(Duration::from_millis(800)).await;
                done += 1;
                ctx.heartbeat(&done).unwrap();
                if done == 5 && ctx.info().attempt == 1 {
                    ctx.env().sleep(Duration::from_secs(60)).await;
                }
            }
            Ok::<_, Failure>(ctx.info().attempt * 100 + done)
        });
        let options = ActivityOptions {
            heartbeat_timeout: Some(Duration::from_secs(1)),
            retry_policy: Some(quick_retries(3)),
            ..ActivityOptions::default()
        };
        let world = World::new(&env, one_activity(options), activities).await;
        world.start("one", "w", &8).await;
        assert_eq!(world.result::<u32>("w").await, 208);
        world.close().await;
    });
}

#[test]
fn a_cancelled_activity_is_notified_and_its_answer_is_waited_for_or_not() {
    simulate(5, |env| async move {
        for (cancellation, expected) in
            [(CancellationType::WaitCompleted, "cleaned up"), (CancellationType::TryCancel, "cancelled by")]
        {
            let workflows = Registry::new().workflow("w", move |ctx: Context, (): ()| async move {
                let options =
                    ActivityOptions { cancellation_type: cancellation, ..ActivityOptions::default() };
                let work = ctx.activity::<u32, u32>("work", 1).options(options).start();
                ctx.timer(Duration::from_secs(1)).await?;
                work.cancel();
                match work.await {
                    Err(ActivityError::Cancelled(failure)) => Ok(failure.to_string()),
                    other => Ok(format!("{other:?}")),
                }
            });
            let notified = Arc::new(AtomicU32::new(0));
            let seen = notified.clone();
            let activities = Activities::new().register("work", move |ctx: ActivityContext, _: u32| {
                let seen = seen.clone();
                async move {
                    ctx.cancelled().await;
                    seen.fetch_add(1, Ordering::Relaxed);
                    Err::<u32, _>(Failure::cancelled("cleaned up"))
                }
            });
            let world = World::new(&env, workflows, activities).await;
            world.start("w", "w", &()).await;
            let said: String = world.result("w").await;
            assert!(said.contains(expected), "{said}");
            world.sleep_ms(100).await;
            assert_eq!(notified.load(Ordering::Relaxed), 1);
            world.close().await;
        }
    });
}

#[test]
fn local_activities_are_written_with_what_asked_for_them() {
    simulate(6, |env| async move {
        let workflows = Registry::new().workflow("w", |ctx: Context, (): ()| async move {
            let mut sum = 0;
            for number in 0..5_u32 {
                sum += ctx.local_activity::<u32, u32>("double", number).await?;
            }
            let slow: u32 = ctx.local_activity("slow", 7).await?;
            Ok::<_, Exit>(sum + slow)
        });
        let activities = Activities::new()
            .register("double", |_: ActivityContext, number: u32| async move { Ok::<_, Failure>(number * 2) })
            .register("slow", |ctx: ActivityContext, number: u32| async move {
                ctx.env().sleep(Duration::from_secs(5)).await;
                Ok::<_, Failure>(number)
            });
        let world = World::new(&env, workflows.clone(), activities.clone()).await;
        world.start("w", "w", &()).await;
        assert_eq!(world.result::<u32>("w").await, 27);
        let events = world.host.history("w", None).await.unwrap().events;
        // The five quick ones and the schedule of the slow one; then its result.
        assert_eq!(events.iter().map(|(_, _, entry)| entry.turns.len()).collect::<Vec<_>>(), [6, 1]);
        // The run is rebuilt from what was written.
        let world = world.again(workflows, activities).await;
        assert_eq!(world.result::<u32>("w").await, 27);
        world.close().await;
    });
}

#[test]
fn a_timer_fires_after_its_time() {
    simulate(7, |env| async move {
        let workflows = Registry::new().workflow("w", |ctx: Context, (): ()| async move {
            let before = ctx.now();
            ctx.timer(Duration::from_secs(3_600)).await?;
            Ok::<_, Exit>(ctx.now().since(before).as_secs())
        });
        let world = World::new(&env, workflows, Activities::new()).await;
        world.start("w", "w", &()).await;
        assert_eq!(world.result::<u64>("w").await, 3_600);
        world.close().await;
    });
}

#[test]
fn signals_reach_a_run_in_order_also_those_of_other_runs() {
    simulate(8, |env| async move {
        let workflows = Registry::new()
            .workflow("collect", |ctx: Context, count: usize| async move {
                let mut numbers = ctx.signals::<u32>("number");
                let mut found = Vec::new();
                while found.len() < count {
                    found.push(numbers.next().await?);
                }
                Ok::<_, Exit>(found)
            })
            .workflow("send", |ctx: Context, to: String| async move {
                let target = Execution { workflow_id: to, ..Execution::default() };
                let sent = ctx.signal_external(target, "number", 9).await;
                Ok::<_, Exit>(sent.err().map(|error| error.to_string()))
            });
        let world = World::new(&env, workflows, Activities::new()).await;
        world.start("collect", "c", &3).await;
        world.signal("c", "number", &7).await;
        world.signal("c", "number", &8).await;
        world.start("send", "s", &"c").await;
        assert_eq!(world.result::<Option<String>>("s").await, None);
        assert_eq!(world.result::<Vec<u32>>("c").await, [7, 8, 9]);
        world.start("send", "t", &"absent").await;
        assert!(world.result::<Option<String>>("t").await.unwrap().contains("does not exist"));
        let late = world.host.signal("c", "number", payload(&1), None).await;
        assert!(matches!(late, Err(HostError::NotRunning { .. })), "{late:?}");
        world.close().await;
    });
}

#[test]
fn cancelling_a_run_from_outside_and_from_another_run() {
    simulate(9, |env| async move {
        let workflows = Registry::new()
            .workflow("sleep", |ctx: Context, (): ()| async move {
                ctx.timer(Duration::from_secs(86_400)).await?;
                Ok::<_, Exit>(())
            })
            .workflow("stop", |ctx: Context, id: String| async move {
                let target = Execution { workflow_id: id, ..Execution::default() };
                ctx.cancel_external(target, "no more").await?;
                Ok::<_, Exit>(())
            });
        let world = World::new(&env, workflows, Activities::new()).await;
        world.start("sleep", "a", &()).await;
        world.start("sleep", "b", &()).await;
        world.host.cancel("a", "enough", None).await.unwrap();
        assert_eq!(world.host.describe("a", None).await.unwrap().row.status, RunStatus::Cancelled);
        world.start("stop", "s", &"b").await;
        world.result::<()>("s").await;
        let ended = world.host.describe("b", Some(Duration::from_secs(5))).await.unwrap();
        assert_eq!(ended.row.status, RunStatus::Cancelled);
        world.start("sleep", "c", &()).await;
        world.host.terminate("c", "away with it", None).await.unwrap();
        let ended = world.host.describe("c", None).await.unwrap();
        assert_eq!(
            (ended.row.status, &*ended.failure.unwrap().message),
            (RunStatus::Terminated, "away with it")
        );
        world.close().await;
    });
}

#[test]
fn children_return_fail_and_are_refused() {
    simulate(10, |env| async move {
        let workflows = Registry::new()
            .workflow("child", |_: Context, input: u32| async move {
                if input == 0 { Err(Exit::failed("Zero", "nothing")) } else { Ok(input + 1) }
            })
            .workflow("parent", |ctx: Context, (id, kind, input): (String, String, u32)| async move {
                let child = if kind == "child" {
                    ctx.child::<u32, u32>("child", input).id(id).await
                } else {
                    ctx.child::<u32, u32>("unknown", input).id(id).await
                };
                Ok::<_, Exit>(child.map_err(|error| error.to_string()))
            });
        let world = World::new(&env, workflows, Activities::new()).await;
        for (number, (kind, input, expected)) in
            [("child", 4, "5"), ("child", 0, "nothing"), ("unknown", 1, "UnknownType")]
                .into_iter()
                .enumerate()
        {
            let id = format!("p{number}");
            world.start("parent", &id, &(format!("{id}.child"), kind, input)).await;
            let said: Result<u32, String> = world.result(&id).await;
            let said = said.map_or_else(|error| error, |number| number.to_string());
            assert!(said.contains(expected), "{said}");
        }
        // An id that is taken by an open run.
        world.start("parent", "taken", &("taken", "child", 1)).await;
        let said: Result<u32, String> = world.result("taken").await;
        assert!(said.unwrap_err().contains("AlreadyExists"));
        world.close().await;
    });
}

#[test]
fn what_becomes_of_children_when_their_parent_ends() {
    simulate(11, |env| async move {
        let workflows = Registry::new()
            .workflow("sleep", |ctx: Context, (): ()| async move {
                ctx.timer(Duration::from_secs(86_400)).await?;
                Ok::<_, Exit>(())
            })
            .workflow("parent", |ctx: Context, wait: bool| async move {
                for (id, policy) in [
                    ("terminated", ParentClosePolicy::Terminate),
                    ("cancelled", ParentClosePolicy::RequestCancel),
                    ("left", ParentClosePolicy::Abandon),
                ] {
                    let id = format!("{}.{id}", ctx.info().workflow_id);
                    let started = ctx.child::<(), ()>("sleep", ()).id(id).parent_close(policy).start();
                    if wait {
                        started.await?;
                    }
                }
                Ok::<_, Exit>(())
            });
        let world = World::new(&env, workflows, Activities::new()).await;
        for wait in [true, false] {
            let id = format!("p-{wait}");
            world.start("parent", &id, &wait).await;
            world.result::<()>(&id).await;
            world.sleep_ms(1_000).await;
            for (child, status) in [
                ("terminated", RunStatus::Terminated),
                ("cancelled", RunStatus::Cancelled),
                ("left", RunStatus::Running),
            ] {
                let found = world.host.describe(&format!("{id}.{child}"), None).await.unwrap();
                assert_eq!(found.row.status, status, "{id}.{child}");
            }
        }
        world.close().await;
    });
}

#[test]
fn a_cancelled_parent_cancels_its_child_and_waits_for_it_or_not() {
    simulate(12, |env| async move {
        for cancellation in
            [CancellationType::WaitCompleted, CancellationType::TryCancel, CancellationType::WaitRequested]
        {
            let workflows = Registry::new()
                .workflow("child", |ctx: Context, (): ()| async move {
                    let slept = ctx.timer(Duration::from_secs(86_400)).await;
                    slept?;
                    Ok::<_, Exit>(())
                })
                .workflow("parent", move |ctx: Context, (): ()| async move {
                    let options = ChildOptions {
                        workflow_id: "child".to_owned(),
                        cancellation_type: cancellation,
                        ..ChildOptions::default()
                    };
                    let child = ctx.child::<(), ()>("child", ()).options(options).start().await?;
                    child.result().await?;
                    Ok::<_, Exit>(())
                });
            let world = World::new(&env, workflows, Activities::new()).await;
            world.start("parent", "parent", &()).await;
            world.sleep_ms(1_000).await;
            world.host.cancel("parent", "enough", None).await.unwrap();
            let parent = world.host.describe("parent", Some(Duration::from_secs(60))).await.unwrap();
            assert_eq!(parent.row.status, RunStatus::Cancelled, "{cancellation:?} {:?}", parent.failure);
            let child = world.host.describe("child", Some(Duration::from_secs(60))).await.unwrap();
            let expected = match cancellation {
                CancellationType::WaitCompleted => vec![RunStatus::Cancelled],
                // The parent's end terminates what its request may not have reached yet.
                _ => vec![RunStatus::Cancelled, RunStatus::Terminated],
            };
            assert!(expected.contains(&child.row.status), "{cancellation:?} {:?}", child.row);
            world.close().await;
        }
    });
}

#[test]
fn a_run_continues_as_new_under_the_same_id() {
    simulate(13, |env| async move {
        let workflows = Registry::new()
            .workflow("count", |ctx: Context, left: u32| async move {
                if left == 0 {
                    return Ok(ctx.info().continued_from.clone());
                }
                if left.is_multiple_of(2) {
                    ctx.timer(Duration::from_secs(1)).await?;
                }
                Err(ctx.continue_as_new(&(left - 1)))
            })
            .workflow("parent", |ctx: Context, (): ()| async move {
                Ok::<Option<String>, Exit>(ctx.child("count", 3).id("child").await?)
            });
        let world = World::new(&env, workflows, Activities::new()).await;
        // Its first activation continues as the next run at once: two numbers in one event.
        let first = world.start("count", "c", &3).await;
        let last: Option<String> = world.result("c").await;
        assert_eq!(last, Some(first.replace("-1", "-3")));
        let workflows = Workflows::new(&world.engine);
        let workspace = workflows.find("c").await.unwrap().unwrap();
        let runs = workflows.runs(workspace, None, 10).await.unwrap();
        assert_eq!(
            runs.iter().map(|row| (row.run, row.status, row.next)).collect::<Vec<_>>(),
            [
                (4, RunStatus::Completed, None),
                (3, RunStatus::ContinuedAsNew, Some(4)),
                (2, RunStatus::ContinuedAsNew, Some(3)),
                (1, RunStatus::ContinuedAsNew, Some(2)),
            ]
        );
        assert_eq!(world.host.list(Some(RunStatus::Running), None, 10).await.unwrap(), []);
        // A parent waits for the last of its child's runs.
        world.start("parent", "p", &()).await;
        assert!(world.result::<Option<String>>("p").await.unwrap().ends_with("-3"));
        world.close().await;
    });
}

#[test]
fn a_run_has_time_outs_and_is_tried_again_as_a_whole() {
    simulate(14, |env| async move {
        let workflows = Registry::new()
            .workflow("sleep", |ctx: Context, (): ()| async move {
                ctx.timer(Duration::from_secs(86_400)).await?;
                Ok::<_, Exit>(())
            })
            .workflow("fail", |ctx: Context, until: u32| async move {
                if ctx.info().attempt < until {
                    Err(Exit::failed("Again", "not yet"))
                } else {
                    Ok(ctx.info().attempt)
                }
            });
        let world = World::new(&env, workflows, Activities::new()).await;
        let limited =
            StartRequest { run_timeout: Some(Duration::from_secs(60)), ..StartRequest::new("sleep").id("a") };
        world.host.start(limited).await.unwrap();
        let ended = world.host.describe("a", Some(Duration::from_secs(61))).await.unwrap();
        assert_eq!(
            (ended.row.status, ended.row.ended.unwrap() - ended.row.started),
            (RunStatus::TimedOut, 60_000)
        );
        let retried = StartRequest {
            retry_policy: Some(quick_retries(5)),
            ..StartRequest::new("fail").id("b").input(&3).unwrap()
        };
        world.host.start(retried.clone()).await.unwrap();
        assert_eq!(world.result::<u32>("b").await, 3);
        let too_short = StartRequest {
            execution_timeout: Some(Duration::from_millis(150)),
            id: Some("c".to_owned()),
            ..retried
        };
        world.host.start(too_short).await.unwrap();
        assert!(world.host.result::<u32>("c").await.is_err());
        world.close().await;
    });
}

#[test]
fn queries_and_updates() {
    simulate(15, |env| async move {
        let workflows = Registry::new().workflow("account", |ctx: Context, (): ()| async move {
            let balance = ctx.state(0);
            ctx.on_query("balance", &balance, |balance, (): ()| Ok(*balance));
            ctx.on_update_async(
                "add",
                &balance,
                |balance, amount: &u32| {
                    if *amount == 0 || *balance > 1_000 {
                        return Err(Failure::application("Amount", "not that"));
                    }
                    Ok(())
                },
                |ctx, balance, amount| async move {
                    ctx.timer(Duration::from_secs(1)).await?;
                    balance.change(|balance| *balance += amount);
                    Ok(balance.get())
                },
            );
            ctx.signals::<()>("close").next().await?;
            Ok::<_, Exit>(balance.get())
        });
        let world = World::new(&env, workflows, Activities::new()).await;
        world.start("account", "a", &()).await;
        let add = |amount: u32, key: Option<&'static str>| {
            let host = world.host.clone();
            async move {
                host.update("a", "add", payload(&amount), key)
                    .await
                    .map(|result| result.decode::<u32>().unwrap())
            }
        };
        assert_eq!(add(5, None).await, Ok(5));
        let before = world.host.history("a", None).await.unwrap().events.len();
        assert!(matches!(add(0, None).await, Err(HostError::Rejected(_))));
        assert!(matches!(world.host.update("a", "other", vec![], None).await, Err(HostError::Rejected(_))));
        assert_eq!(world.host.history("a", None).await.unwrap().events.len(), before, "refused: not written");
        assert_eq!(add(7, Some("k")).await, Ok(12));
        assert_eq!(add(7, Some("k")).await, Ok(12), "the same key, the same outcome");
        assert!(matches!(add(8, Some("k")).await, Err(HostError::KeyReused(_))));
        let balance = world.host.query("a", "balance", vec![]).await.unwrap();
        assert_eq!(balance.decode::<u32>().unwrap(), 12);
        assert!(matches!(world.host.query("a", "other", vec![]).await, Err(HostError::Query(_))));
        let blocked = world.host.describe("a", None).await.unwrap().blocked;
        assert!(format!("{blocked:?}").contains("close"), "{blocked:?}");
        world.signal("a", "close", &()).await;
        assert_eq!(world.result::<u32>("a").await, 12);
        let balance = world.host.query("a", "balance", vec![]).await.unwrap();
        assert_eq!(balance.decode::<u32>().unwrap(), 12, "one that has ended still answers");
        world.close().await;
    });
}

#[test]
fn a_start_with_a_bad_key_leaves_no_workflow() {
    simulate(16, |env| async move {
        let workflows =
            Registry::new().workflow("idle", |_: Context, (): ()| async move { Ok::<_, Exit>(()) });
        let world = World::new(&env, workflows, Activities::new()).await;
        for key in [String::new(), "k".repeat(201)] {
            let request = StartRequest::new("idle").id("new").input(&()).unwrap().idempotency_key(key);
            let error = world.host.start(request).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        }
        assert_eq!(Workflows::new(&world.engine).find("new").await.unwrap(), None);
        world.close().await;
    });
}

#[test]
fn starts_of_a_new_workflow_under_one_key_are_one_start_whichever_is_first() {
    for seed in 1..=30 {
        simulate(seed, |env| async move {
            let workflows = Registry::new().workflow("wait", |ctx: Context, (): ()| async move {
                Ok::<_, Exit>(ctx.timer(Duration::from_secs(60)).await?)
            });
            let world = World::new(&env, workflows, Activities::new()).await;
            let starts: Vec<_> = (0..8)
                .map(|_| {
                    let host = world.host.clone();
                    let request = StartRequest::new("wait").id("new").input(&()).unwrap();
                    env.spawn(async move { host.start(request.idempotency_key("one")).await })
                })
                .collect();
            let mut repeated = 0;
            for start in starts {
                repeated += usize::from(start.await.unwrap().unwrap().repeated);
            }
            assert_eq!(repeated, 7);
            world.close().await;
        });
    }
}

#[test]
fn the_same_key_is_the_same_request() {
    simulate(16, |env| async move {
        let workflows = Registry::new().workflow("collect", |ctx: Context, count: usize| async move {
            let mut numbers = ctx.signals::<u32>("number");
            let mut found = Vec::new();
            while found.len() < count {
                found.push(numbers.next().await?);
            }
            Ok::<_, Exit>(found)
        });
        let world = World::new(&env, workflows, Activities::new()).await;
        let request = StartRequest::new("collect").input(&2).unwrap().idempotency_key("k");
        let first = world.host.start(request.clone()).await.unwrap();
        let second = world.host.start(request.clone()).await.unwrap();
        assert_eq!((&first.id, &first.run_id, true), (&second.id, &second.run_id, second.repeated));
        let id = &*first.id;
        for (number, key, repeated) in [(1, "a", false), (1, "a", true), (2, "b", false), (1, "a", true)] {
            let told = world.host.signal(id, "number", payload(&number), Some(key)).await.unwrap();
            assert_eq!(told.repeated, repeated);
        }
        assert_eq!(world.result::<Vec<u32>>(id).await, [1, 2]);
        // Also when the run has ended.
        assert_eq!(world.host.start(request).await.unwrap().run_id, first.run_id);
        assert!(world.host.signal(id, "number", payload(&2), Some("b")).await.unwrap().repeated);
        let reused = world.host.signal(id, "number", payload(&3), Some("b")).await;
        assert!(matches!(reused, Err(HostError::KeyReused(_))), "{reused:?}");
        let spoofed = world.host.signal(id, "number", payload(&3), Some("workflow:1/1/signal/1")).await;
        assert!(matches!(spoofed, Err(HostError::Invalid(_))), "{spoofed:?}");
        world.close().await;
    });
}
