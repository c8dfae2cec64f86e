//! Messages between workflows in partitions of different engines: each counts once, also when calls and replies are lost.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use common::payload;
use common::several::{Move, Several, audit, persist};
use seriatim_env::{Env, simulate};
use seriatim_types::ErrorKind;
use seriatim_workflow::{Context, Execution, Exit, Failure, ParentClosePolicy, Registry};
use seriatim_workflow_host::{Activities, ActivityContext, HostError, HostOptions, RunStatus, StartRequest};

fn to(id: &str) -> Execution {
    Execution { workflow_id: id.to_owned(), ..Execution::default() }
}

/// Parents, children, and workflows that signal and cancel each other.
fn families() -> (Registry, Activities) {
    let workflows = Registry::new()
        .workflow("parent", |ctx: Context, input: u32| async move {
            let child = ctx.child::<_, u32>("child", input).id("child").start().await?;
            if input > 0 {
                child.signal("number", input).await?;
            }
            Ok::<_, Exit>(child.result().await?)
        })
        .workflow("child", |ctx: Context, input: u32| async move {
            if input == 0 {
                return Err(Exit::failed("Zero", "no number"));
            }
            ctx.timer(Duration::from_secs(50)).await?;
            Ok(input + ctx.signals::<u32>("number").next().await?)
        })
        .workflow("leaves", |ctx: Context, (): ()| async move {
            let policies = [
                ("stopped", ParentClosePolicy::RequestCancel),
                ("ended", ParentClosePolicy::Terminate),
                ("kept", ParentClosePolicy::Abandon),
            ];
            for (id, policy) in policies {
                let _child = ctx.child::<_, u32>("child", 1_u32).id(id).parent_close(policy).start().await?;
            }
            Ok::<_, Exit>(())
        })
        .workflow("sends", |ctx: Context, (): ()| async move {
            ctx.signal_external(to("target"), "number", 9_u32).await?;
            ctx.cancel_external(to("victim"), "no more").await?;
            Ok::<_, Exit>(ctx.signal_external(to("absent"), "number", 9_u32).await.is_err())
        })
        .workflow("cancels", |ctx: Context, (): ()| async move {
            let child = ctx.child::<_, u32>("child", 1_u32).id("cancelled").start().await?;
            child.cancel();
            Ok::<_, Exit>(child.result().await.is_err())
        });
    (workflows, Activities::new())
}

/// Two engines that own the partitions in turn.
async fn divided(env: &Env) -> Several {
    let several = Several::open(env, 2, |_| families(), HostOptions::default()).await;
    several.divide().await;
    several.switchboard.delay(5);
    several
}

/// Whether two workflows are in partitions of different engines.
async fn are_apart(several: &Several, one: &str, other: &str) -> bool {
    let one = several.partition_of(one).await;
    let other = several.partition_of(other).await;
    several.holder(one).await != several.holder(other).await
}

#[test]
fn a_parent_and_its_child_are_in_partitions_of_different_engines() {
    let mut lost = 0;
    for (seed, losing) in (0..40).zip([0, 100, 300, 500].into_iter().cycle()) {
        lost += simulate(seed, |env| async move {
            let several = divided(&env).await;
            several.switchboard.lose(losing);
            let start =
                || StartRequest::new("parent").id("parent").input(&3_u32).unwrap().idempotency_key("k");
            persist(&env, || several.host(0).start(start())).await.unwrap();
            let ended = persist(&env, || several.host(1).result::<u32>("parent")).await;
            assert_eq!(ended, Ok(6), "seed {seed}");
            assert!(
                are_apart(&several, "parent", "child").await,
                "they are in partitions that follow each other"
            );
            for host in [several.host(0), several.host(1)] {
                assert_eq!(audit(&env, host, "child").await, ["number"]);
                assert!(audit(&env, host, "parent").await.is_empty());
            }
            let lost = several.switchboard.lost.load(Ordering::Relaxed);
            several.close().await;
            lost
        });
    }
    assert!(lost > 30, "{lost} replies were lost");
}

#[test]
fn a_failure_of_a_child_elsewhere_is_the_failure_of_its_parent() {
    simulate(1, |env| async move {
        let several = divided(&env).await;
        several.host(0).start(StartRequest::new("parent").id("parent").input(&0_u32).unwrap()).await.unwrap();
        let failed = several.host(0).result::<u32>("parent").await.unwrap_err();
        let HostError::Failed(failure) = failed else { panic!("{failed:?}") };
        assert!(format!("{failure:?}").contains("no number"), "{failure:?}");
        assert!(are_apart(&several, "parent", "child").await);
        several.close().await;
    });
}

#[test]
fn what_becomes_of_children_elsewhere_when_their_parent_ends() {
    for losing in [0, 300] {
        simulate(losing, |env| async move {
            let several = divided(&env).await;
            several.switchboard.lose(losing);
            let start = || StartRequest::new("leaves").id("l").idempotency_key("k");
            persist(&env, || several.host(0).start(start())).await.unwrap();
            persist(&env, || several.host(0).result::<()>("l")).await.unwrap();
            env.sleep(Duration::from_secs(40)).await;
            let statuses = [
                ("stopped", RunStatus::Cancelled),
                ("ended", RunStatus::Terminated),
                ("kept", RunStatus::Running),
            ];
            let mut apart = 0;
            for (id, status) in statuses {
                let described = persist(&env, || several.host(1).describe(id, None)).await.unwrap();
                assert_eq!(described.row.status, status, "{id}");
                apart += usize::from(are_apart(&several, "l", id).await);
            }
            assert!(apart > 0);
            several.close().await;
        });
    }
}

#[test]
fn signals_and_cancels_reach_workflows_elsewhere_once() {
    for seed in 0..20 {
        simulate(seed, |env| async move {
            let several = divided(&env).await;
            for id in ["target", "victim"] {
                several
                    .host(0)
                    .start(StartRequest::new("child").id(id).input(&1_u32).unwrap())
                    .await
                    .unwrap();
            }
            several.switchboard.lose(400);
            for id in ["sends", "cancels"] {
                let start = || StartRequest::new(id).id(id).idempotency_key("k");
                persist(&env, || several.host(0).start(start())).await.unwrap();
                assert_eq!(
                    persist(&env, || several.host(1).result::<bool>(id)).await,
                    Ok(true),
                    "seed {seed}"
                );
                audit(&env, several.host(0), id).await;
            }
            assert_eq!(persist(&env, || several.host(0).result::<u32>("target")).await, Ok(10));
            assert_eq!(audit(&env, several.host(0), "target").await, ["number"], "seed {seed}");
            for id in ["victim", "cancelled"] {
                // The child was asked to stop and not waited for.
                let ended =
                    persist(&env, || several.host(0).describe(id, Some(Duration::from_secs(60)))).await;
                let status = ended.unwrap().row.status;
                assert_eq!(status, RunStatus::Cancelled, "{id}");
            }
            several.close().await;
        });
    }
}

/// Messages wait for an owner that is not reached, and are not failures of their run.
#[test]
fn a_message_waits_for_the_owner_of_its_receiver() {
    simulate(2, |env| async move {
        let several = divided(&env).await;
        several.switchboard.cut(true);
        let mut started = None;
        for id in 0..8 {
            // One whose own partition is here.
            let id = format!("parent-{id}");
            if several.host(0).start(StartRequest::new("parent").id(&id).input(&3_u32).unwrap()).await.is_ok()
            {
                started = Some(id);
                break;
            }
        }
        let id = started.unwrap();
        env.sleep(Duration::from_secs(600)).await;
        let described = several.host(0).describe(&id, None).await.unwrap();
        assert_eq!((described.row.status, described.pending.len()), (RunStatus::Running, 1));
        let calls = several.switchboard.calls();
        assert!((10..60).contains(&calls), "{calls} calls in ten minutes");
        // The sender leaves: no one calls any more.
        let partition = several.partition_of(&id).await;
        several.engine(0).release(partition).await.unwrap();
        env.sleep(Duration::from_secs(600)).await;
        assert!(several.switchboard.calls() <= calls + 1, "it is sent after its partition has left");
        // Its new owner sends it.
        several.switchboard.cut(false);
        several.engine(1).own(partition).await.unwrap();
        assert_eq!(several.host(1).result::<u32>(&id).await, Ok(6));
        several.close().await;
    });
}

#[test]
fn a_call_of_another_version_is_refused_and_nothing_is_done() {
    simulate(3, |env| async move {
        let several = divided(&env).await;
        let start = || StartRequest::new("child").id("c").input(&1_u32).unwrap().idempotency_key("k");
        several.host(0).start(start()).await.unwrap();
        let partition = several.partition_of("c").await;
        let owner = several.holder(partition).await.unwrap();
        let hosted = several.engine(1 - owner).hosted("workflows").unwrap();
        let message = serde_json::json!({ "v": 9, "call": { "explode": {} } });
        let reply = hosted.call_owner_of(partition.id, message).await.unwrap();
        assert!(reply["error"]["unknown"]["text"].as_str().unwrap().contains("version 9"), "{reply}");
        several.close().await;
    });
}

#[test]
fn a_host_that_is_closed_answers_no_calls() {
    simulate(4, |env| async move {
        let several = divided(&env).await;
        several.host(0).start(StartRequest::new("child").id("c").input(&1_u32).unwrap()).await.unwrap();
        let owner = several.holder(several.partition_of("c").await).await.unwrap();
        several.host(owner).close().await;
        let asked = several.host(1 - owner).signal("c", "number", payload(&1_u32), None).await.unwrap_err();
        assert_eq!(asked.kind(), ErrorKind::Unavailable, "{asked:?}");
        several.close().await;
    });
}

/// An attempt is noted before it begins if its policy limits their number. One that was cut off by a move counts.
#[test]
fn an_attempt_that_a_move_has_cut_off_counts_where_the_number_is_limited() {
    for how in [Move::Clean, Move::Forced] {
        simulate(5, |env| async move {
            let begun = Arc::new(AtomicU64::new(0));
            let code = |_| {
                let begun = begun.clone();
                let workflows = Registry::new().workflow("once", |ctx: Context, (): ()| async move {
                    let policy = seriatim_workflow::RetryPolicy::never();
                    Ok::<u32, Exit>(ctx.activity("slow", ()).retry(policy).await?)
                });
                let activities =
                    Activities::new().register("slow", move |context: ActivityContext, (): ()| {
                        begun.fetch_add(1, Ordering::Relaxed);
                        async move {
                            context.env().sleep(Duration::from_secs(10)).await;
                            Ok::<_, Failure>(1_u32)
                        }
                    });
                (workflows, activities)
            };
            let several = Several::open(&env, 2, code, HostOptions::default()).await;
            several.own_all(0).await;
            several.host(0).start(StartRequest::new("once").id("o")).await.unwrap();
            env.sleep(Duration::from_secs(1)).await;
            several.hand_over(several.partition_of("o").await, 1, how).await;
            let failed = several.host(1).result::<u32>("o").await.unwrap_err();
            assert!(format!("{failed:?}").contains("CutOff"), "{failed:?}");
            env.sleep(Duration::from_secs(60)).await;
            assert_eq!(begun.load(Ordering::Relaxed), 1, "{how:?}");
            audit(&env, several.host(1), "o").await;
            several.close().await;
        });
    }
}
