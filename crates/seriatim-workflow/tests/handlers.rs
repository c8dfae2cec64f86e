//! Signals, queries, updates, patches, side effects, scopes.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::result_large_err, reason = "failures are rare")]

mod common;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::*;
use seriatim_workflow::*;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_query_may_only_read() {
    let (mut run, _) = Run::of((), |ctx, (): ()| async move {
        let (inner, none) = (ctx.clone(), ctx.state(()));
        ctx.on_query("greedy", &none, move |(), (): ()| {
            drop(inner.timer(SECOND));
            Ok(1)
        });
        ctx.on_query("clumsy", &none, |(), (): ()| -> Result<u32, Failure> { panic!("oops") });
        ctx.on_query("picky", &none, |(), number: u32| Ok(number));
        Ok(ctx.timer(SECOND).await?)
    });
    for (name, says) in [
        ("greedy", "the query tried to start a timer: a query may only read the workflow's state"),
        ("clumsy", "the query panicked: oops"),
        ("picky", "the payload is not a u32"),
        ("absent", "no query \"absent\" is registered by the workflow; known: clumsy, greedy, picky"),
    ] {
        let commands = run.tell(vec![query(name)]);
        let [Command::QueryAnswer { answer: QueryAnswer::Failed { failure }, .. }] = &commands[..] else {
            panic!("{commands:?}")
        };
        assert!(failure.message.starts_with(says), "{}", failure.message);
    }
    assert_eq!(run.instance.pending().len(), 1, "nothing has changed");
    assert_eq!(kinds(&run.tell(vec![Job::FireTimer { seq: n(1) }])), ["complete"]);
}

#[test]
fn an_update_is_validated_accepted_and_completed() {
    let code = |ctx: Context, (): ()| async move {
        let total = ctx.state(0);
        ctx.on_update_async(
            "add",
            &total,
            |_, by: &u32| if *by > 9 { Err(Failure::non_retryable("TooMuch", "at most 9")) } else { Ok(()) },
            |ctx, total, by| async move {
                if by == 2 {
                    ctx.timer(SECOND).await?;
                }
                total.change(|total| *total += by);
                Ok(total.get())
            },
        );
        total.wait_until(|total| *total >= 3).await?;
        Ok(total.get())
    };
    // Together with the start: the handler is not yet known, and the update waits for it.
    let registry = Arc::new(Registry::new().workflow("test", code));
    let mut run = Run::new(&registry, InstanceOptions::default());
    let commands = run.tell(vec![
        update("u1", "add", 1),
        start("test", ()),
        update("u2", "add", 10),
        update("u3", "sub", 1),
    ]);
    assert_eq!(
        kinds(&commands),
        ["update_accepted", "update_completed", "update_rejected", "update_rejected"]
    );
    let Command::UpdateRejected { protocol_id, failure } = &commands[3] else { panic!("{commands:?}") };
    assert_eq!(
        (protocol_id.as_str(), failure.message.as_str()),
        ("u3", "no update \"sub\" is registered by the workflow; known: add")
    );
    let commands = run.tell(vec![update("u4", "add", 2)]);
    assert_eq!(kinds(&commands), ["update_accepted", "start_timer"]);
    assert_eq!(commands[1].path().unwrap().to_string(), "/0/0/2#1");
    let commands = run.tell(vec![Job::FireTimer { seq: n(1) }]);
    assert_eq!(kinds(&commands), ["update_completed", "complete"]);
    assert_eq!(result::<u32>(&commands), 3);
}

#[test]
fn a_validator_may_only_read() {
    let (mut run, _) = Run::of((), |ctx, (): ()| async move {
        let inner = ctx.clone();
        ctx.on_update(
            "add",
            &ctx.state(()),
            move |(), _: &u32| {
                drop(inner.activity::<_, ()>("work", ()).start());
                Ok(())
            },
            |(), by| Ok(by),
        );
        Ok(ctx.timer(SECOND).await?)
    });
    let commands = run.tell(vec![update("u1", "add", 1)]);
    let [Command::UpdateRejected { failure, .. }] = &commands[..] else { panic!("{commands:?}") };
    assert!(failure.message.contains("tried to schedule an activity"), "{failure}");
}

#[test]
fn a_patch_says_the_same_throughout() {
    let registry = Arc::new(Registry::new().workflow("test", |ctx: Context, (): ()| async move {
        let first = ctx.patched("p");
        ctx.timer(SECOND).await?;
        Ok((first, ctx.patched("p"), ctx.patched("q")))
    }));
    let play = |is_replaying: bool, recorded: Recorded| {
        let options = InstanceOptions { numbering: Numbering::ByLineage(recorded), policy: Policy::Fail };
        let mut instance = Instance::new(Arc::clone(&registry), options);
        let first = Activation::new("run", Time::default(), vec![start("test", ())]).replaying(is_replaying);
        let first = instance.activate(first).outcome.unwrap();
        let second =
            instance.activate(Activation::new("run", Time::default(), vec![Job::FireTimer { seq: n(1) }]));
        (first, second.outcome.unwrap())
    };
    let (first, second) = play(false, Recorded::none());
    assert_eq!(kinds(&first), ["set_patch", "start_timer"]);
    assert_eq!(first[1].path().unwrap().to_string(), "/#1", "a patch does not move what comes after it");
    assert_eq!(result::<(bool, bool, bool)>(&second), (true, true, true));
    assert_eq!(play(true, [&first[..]].into_iter().collect()), (first.clone(), second));
    // A run that came by before the patch existed.
    let (old, second) = play(true, [&first[1..]].into_iter().collect());
    assert_eq!(kinds(&old), ["start_timer"]);
    assert_eq!(result::<(bool, bool, bool)>(&second), (false, false, true));
}

#[test]
fn a_patch_is_deprecated_and_then_gone() {
    let code = |stage: u8| {
        Arc::new(Registry::new().workflow("test", move |ctx: Context, (): ()| async move {
            match stage {
                0 => {}
                1 => assert!(ctx.patched("p")),
                2 => ctx.deprecate_patch("p"),
                _ => {}
            }
            Ok(ctx.timer(SECOND).await?)
        }))
    };
    let history = |stage: u8| {
        let activation = Activation::new("run", Time::default(), vec![start("test", ())]);
        let commands = Instance::new(code(stage), InstanceOptions::default()).activate(activation.clone());
        let mut history = History::default();
        history.push(activation, commands.outcome.unwrap());
        history
    };
    for (written_by, read_by, is_same) in [
        (1, 2, true),  // patched, then deprecated
        (2, 1, true),  // rolled back
        (2, 3, true),  // deprecated, then gone
        (1, 3, false), // gone too early
        (0, 2, true),  // from before the patch: the mark was never there
    ] {
        let report = replay(&code(read_by), &history(written_by), Policy::Fail);
        assert_eq!(report.is_same(), is_same, "{written_by} to {read_by}: {report}");
    }
}

#[test]
fn a_side_effect_is_made_once() {
    static MADE: AtomicU32 = AtomicU32::new(0);
    let registry = Arc::new(Registry::new().workflow("test", |ctx: Context, (): ()| async move {
        Ok(ctx.side_effect(|| MADE.fetch_add(1, Ordering::Relaxed)).await?)
    }));
    let live = Run::new(&registry, InstanceOptions::default()).tell(vec![start("test", ())]);
    assert_eq!(kinds(&live), ["record_side_effect", "complete"]);
    let numbering = Numbering::ByLineage([&live[..]].into_iter().collect());
    let replayed = Run::new(&registry, InstanceOptions { numbering, policy: Policy::Fail })
        .tell(vec![start("test", ())]);
    assert_eq!((replayed, MADE.load(Ordering::Relaxed)), (live, 1));
    // Where the host keeps the history, a local activity that returns its input brings the value into it.
    let options = InstanceOptions { numbering: Numbering::ByCallOrder, policy: Policy::Fail };
    let mut run = Run::new(&registry, options);
    let commands = run.tell(vec![start("test", ())]);
    assert_eq!(commands[0].name(), SIDE_EFFECT_ACTIVITY);
    let commands = run.tell(vec![Job::ResolveLocalActivity { seq: n(1), resolution: completed(77) }]);
    assert_eq!(result::<u32>(&commands), 77);
}

#[test]
fn cancelling_a_scope_cancels_what_is_below_it_in_order() {
    let (mut run, commands) = Run::of((), |ctx, (): ()| async move {
        let (scoped, scope) = ctx.scope();
        let timer = scoped.timer(SECOND);
        let below = scoped.spawn(|ctx| async move {
            let failed = ctx.activity::<_, ()>("work", ()).await.is_err();
            let (shielded, _) = ctx.shielded();
            shielded.activity::<_, ()>("clean", ()).await?;
            Ok::<_, ActivityError>(failed && ctx.is_cancelled())
        });
        let beside = ctx.timer(SECOND);
        ctx.signals::<()>("stop").next().await?;
        scope.cancel("enough");
        assert_eq!(timer.await, Err(Cancelled { reason: "enough".to_owned() }));
        assert!(scoped.timer(SECOND).await.is_err(), "nothing begins in a cancelled scope");
        assert!(scoped.signals::<()>("more").next().await.is_err());
        assert_eq!(scoped.cancelled().await, "enough");
        beside.await?;
        Ok(below.await?)
    });
    assert_eq!(kinds(&commands), ["start_timer", "start_timer", "schedule_activity"]);
    let commands = run.tell(vec![signal("stop", ())]);
    assert_eq!(kinds(&commands), ["cancel_timer", "cancel_activity", "schedule_activity"]);
    run.tell(vec![Job::ResolveActivity { seq: n(2), resolution: completed(()) }]);
    assert!(result::<bool>(&run.tell(vec![Job::FireTimer { seq: n(2) }])));
}

#[test]
fn a_child_is_cancelled_as_its_options_say() {
    for (cancellation, asks) in [
        (CancellationType::TryCancel, &["cancel_child", "complete"][..]),
        (CancellationType::Abandon, &["complete"]),
        (CancellationType::WaitCompleted, &["cancel_child"]),
    ] {
        let (mut run, _) = Run::of((), move |ctx, (): ()| async move {
            let child = ctx.child::<_, ()>("kid", ()).id("kid").cancellation(cancellation).start().await?;
            ctx.signals::<()>("stop").next().await?;
            child.cancel();
            Ok(child.result().await.is_err())
        });
        let started = ChildStartResolution::Started { run_id: "r".to_owned() };
        run.tell(vec![Job::ResolveChildStart { seq: n(1), resolution: started }]);
        assert_eq!(kinds(&run.tell(vec![signal("stop", ())])), asks);
        let failure = Failure::cancelled("as told");
        let commands = run
            .tell(vec![Job::ResolveChild { seq: n(1), resolution: ChildResolution::Cancelled { failure } }]);
        assert!(run.instance.has_ended());
        assert_eq!(commands.len(), usize::from(cancellation == CancellationType::WaitCompleted));
    }
}

#[test]
fn within_a_time_or_not() {
    let code = |ctx: Context, (): ()| async move {
        let answer = ctx.within(SECOND, |ctx| async move { ctx.activity::<_, u32>("work", ()).await }).await;
        Ok(match answer {
            Ok(answer) => answer?,
            Err(timed_out) => u32::try_from(timed_out.limit.as_secs()).unwrap() + 100,
        })
    };
    let (mut run, commands) = Run::of((), code);
    assert_eq!(kinds(&commands), ["schedule_activity", "start_timer"]);
    let commands = run.tell(vec![Job::FireTimer { seq: n(1) }]);
    assert_eq!((kinds(&commands), result::<u32>(&commands)), (vec!["cancel_activity", "complete"], 101));
    let (mut run, _) = Run::of((), code);
    let commands = run.tell(vec![Job::ResolveActivity { seq: n(1), resolution: completed(5) }]);
    assert_eq!((kinds(&commands), result::<u32>(&commands)), (vec!["cancel_timer", "complete"], 5));
}

#[test]
fn what_a_blocked_branch_waits_for_can_be_asked() {
    let (run, _) = Run::of((), |ctx, (): ()| async move {
        let both = ctx.join(
            |ctx| async move { ctx.timer(SECOND).await.is_ok() },
            |ctx| async move { ctx.signals::<()>("go").next().await.is_ok() },
        );
        Ok(both.await)
    });
    let waits: Vec<_> = run.instance.blocked().into_iter().map(|b| (b.branch, b.waits)).collect();
    let expected = vec![
        ("/".to_owned(), vec![WaitingFor::Branch { branch: "/1".to_owned() }]),
        ("/1".to_owned(), vec![WaitingFor::Response { kind: Kind::Timer, seq: 1 }]),
        ("/2".to_owned(), vec![WaitingFor::Signal { name: "go".to_owned() }, WaitingFor::Cancellation]),
    ];
    assert_eq!(waits, expected);
}

#[test]
fn jobs_and_commands_come_back_from_json() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let (mut run, commands) = Run::of((), |ctx, (): ()| async move {
        ctx.upsert_search_attributes(Headers::from([("k".to_owned(), json(1))]));
        let (activity, child) = (
            ctx.activity::<_, ()>("a", 1.5).retry(RetryPolicy::attempts(2)).start(),
            ctx.child::<_, ()>("c", ()),
        );
        let _signal =
            ctx.signal_external(Execution { workflow_id: "w".to_owned(), ..Execution::default() }, "s", "x");
        activity.await?;
        Ok(child.await?)
    });
    log.lock().unwrap().extend(commands);
    log.lock().unwrap().extend(run.tell(vec![Job::ResolveActivity { seq: n(1), resolution: completed(()) }]));
    for command in log.lock().unwrap().iter() {
        let text = serde_json::to_string(command).unwrap();
        assert_eq!(&serde_json::from_str::<Command>(&text).unwrap(), command, "{text}");
    }
    let failure = Failure::timeout(TimeoutType::Heartbeat, "late").caused_by(Failure::cancelled("why"));
    for job in [
        start("x", vec![1, 2]),
        Job::ResolveActivity {
            seq: n(1),
            resolution: ActivityResolution::Failed { failure: failure.clone() },
        },
        Job::ResolveChildStart { seq: n(0), resolution: ChildStartResolution::Cancelled { failure } },
        signal("s", "x"),
        query("q"),
        update("u", "n", 1),
        Job::Evict { reason: "r".to_owned() },
    ] {
        let activation = Activation::new("run", Time::from_micros(3), vec![job]);
        let text = serde_json::to_string(&activation).unwrap();
        assert_eq!(serde_json::from_str::<Activation>(&text).unwrap(), activation, "{text}");
    }
}

#[test]
fn a_wait_for_a_condition_ends_with_its_scope() {
    let (mut run, commands) = Run::of((), |ctx, (): ()| async move {
        let ended = ctx.wait_until(|| false).await.unwrap_err();
        let (clean, _) = ctx.shielded();
        clean.activity::<_, ()>("clean_up", ended.reason).await?;
        Ok(())
    });
    assert_eq!(kinds(&commands), [""; 0]);
    let commands = run.tell(vec![Job::Cancel { reason: "enough".to_owned() }]);
    assert_eq!(commands[0].name(), "clean_up");
}

#[test]
fn a_wait_for_a_slot_ends_with_its_scope() {
    let (_, commands) = Run::of((), |ctx, (): ()| async move {
        let slot = ctx.slot::<u32>();
        let (theirs, ours) = (slot.clone(), slot.clone());
        // A branch waits in a scope of its own for a slot of another.
        let branch = ctx.spawn(|ctx| async move { theirs.wait_in(&ctx).await });
        branch.cancel("not needed");
        let cancelled = branch.await.unwrap_err().reason;
        slot.set(7);
        Ok((cancelled, ours.wait().await?))
    });
    assert_eq!(result::<(String, u32)>(&commands), ("not needed".to_owned(), 7));
    let (mut run, _) = Run::of((), |ctx, (): ()| async move { Ok(ctx.slot::<u32>().wait().await?) });
    assert_eq!(kinds(&run.tell(vec![Job::Cancel { reason: "enough".to_owned() }])), ["cancelled"]);
}

#[test]
fn a_dropped_wait_forgets_its_condition() {
    let looks = Arc::new(AtomicU32::new(0));
    let looked = Arc::clone(&looks);
    let (_, commands) = Run::of((), move |ctx, (): ()| {
        let looks = Arc::clone(&looks);
        async move {
            for _ in 0..1_000 {
                let looks = Arc::clone(&looks);
                let never = move || {
                    looks.fetch_add(1, Ordering::Relaxed);
                    false
                };
                ctx.race2(
                    |ctx| async move { ctx.wait_until(never).await },
                    |ctx| async move { ctx.wait_until(|| true).await },
                )
                .await;
            }
            Ok(())
        }
    });
    assert_eq!(kinds(&commands), ["complete"]);
    assert!(looked.load(Ordering::Relaxed) <= 2_000, "{looked:?} checks in a thousand races");
}

/// A run that was recorded before keeps waiting through a cancellation.
#[test]
fn a_run_by_older_rules_waits_on_when_it_is_cancelled() {
    let registry = Arc::new(Registry::new().workflow("test", |ctx: Context, (): ()| async move {
        ctx.wait_until(|| false).await?;
        Ok(())
    }));
    let mut run = Run::new(&registry, InstanceOptions::default());
    let old = Start { rules: 0, ..Start::new("test", "id", vec![]) };
    run.tell(vec![Job::Start(Box::new(old))]);
    assert_eq!(run.tell(vec![Job::Cancel { reason: String::new() }]), []);
}

#[test]
fn a_signal_of_the_wrong_type_is_skipped_and_noted() {
    let (mut run, _) = Run::of((), |ctx, (): ()| async move {
        let first = ctx.signals::<u32>("add").next().await?;
        let second = ctx.signals::<u32>("add").try_next().transpose()?;
        Ok((first, second))
    });
    let jobs = vec![signal("add", "one"), signal("add", 2), signal("add", [3]), signal("add", 4)];
    assert_eq!(result::<(u32, Option<u32>)>(&run.tell(jobs)), (2, Some(4)));
    assert_eq!(run.instance.warned(), 2);
    let warned = run.instance.warnings()[0].to_string();
    assert!(warned.starts_with("signal \"add\" was skipped: the payload is not a u32"), "{warned}");
}

#[test]
fn strict_signals_of_the_wrong_type_are_an_error() {
    let (mut run, _) =
        Run::of((), |ctx, (): ()| async move { Ok(ctx.signals::<u32>("add").strict().next().await?) });
    assert_eq!(kinds(&run.tell(vec![signal("add", "one")])), ["fail"]);
    assert_eq!(run.instance.warned(), 0);
}

#[test]
fn a_run_can_wait_for_its_handlers_and_is_warned_when_it_does_not() {
    for waits in [true, false] {
        let (mut run, _) = Run::of(waits, |ctx, waits: bool| async move {
            ctx.on_update_async(
                "slow",
                &ctx.state(()),
                |(), (): &()| Ok(()),
                |ctx, _, ()| async move { Ok(ctx.timer(SECOND).await?) },
            );
            ctx.signals::<()>("end").next().await?;
            let handlers = ctx.clone();
            ctx.wait_until(move || !waits || handlers.all_handlers_finished()).await?;
            Ok(())
        });
        run.tell(vec![update("u", "slow", ())]);
        let commands = run.tell(vec![signal("end", ())]);
        if waits {
            let ended = run.tell(vec![Job::FireTimer { seq: n(1) }]);
            assert_eq!(kinds(&ended), ["update_completed", "complete"]);
            assert_eq!(run.instance.warned(), 0);
        } else {
            assert_eq!(kinds(&commands), ["complete"]);
            assert_eq!(run.instance.warnings(), [Warning::UnfinishedHandlers { updates: 1 }]);
        }
    }
}
