//! What has gone wrong in other runtimes, each as a test of its own; and responses that fit nothing.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::result_large_err, reason = "failures are rare")]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use common::*;
use seriatim_workflow::*;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn fire_after_cancel_in_the_same_activation_is_nothing() {
    let (mut run, _) = Run::of((), |ctx, (): ()| async move {
        let timer = ctx.timer(SECOND);
        ctx.signals::<()>("stop").next().await?;
        timer.cancel();
        let was_cancelled = timer.await.is_err();
        ctx.timer(SECOND).await?;
        Ok(was_cancelled)
    });
    let commands = run.tell(vec![signal("stop", ())]);
    assert_eq!(kinds(&commands), ["cancel_timer", "start_timer"]);
    // The host had sent it before it saw the cancellation.
    assert!(run.tell(vec![Job::FireTimer { seq: n(1) }]).is_empty());
    assert!(result::<bool>(&run.tell(vec![Job::FireTimer { seq: n(2) }])));
}

#[test]
fn cancel_of_a_fired_timer_asks_for_nothing() {
    let (mut run, _) = Run::of((), |ctx, (): ()| async move {
        let timer = ctx.timer(SECOND);
        ctx.signals::<()>("stop").next().await?;
        timer.cancel();
        Ok(timer.await.is_ok())
    });
    let commands = run.tell(vec![signal("stop", ()), Job::FireTimer { seq: n(1) }]);
    assert_eq!(kinds(&commands), ["complete"]);
    assert!(result::<bool>(&commands), "it had fired before the code cancelled it");
}

#[test]
fn cancel_and_end_of_an_activity_may_cross() {
    for (cancellation, asks) in [
        (CancellationType::TryCancel, &["cancel_activity", "start_timer"][..]),
        (CancellationType::Abandon, &["start_timer"]),
        (CancellationType::WaitCompleted, &["cancel_activity"]),
    ] {
        let (mut run, _) = Run::of((), move |ctx, (): ()| async move {
            let activity = ctx.activity("work", ()).cancellation(cancellation).start();
            ctx.signals::<()>("stop").next().await?;
            activity.cancel();
            let seen: Result<u32, _> = activity.await;
            ctx.timer(SECOND).await?;
            Ok(seen.ok())
        });
        assert_eq!(kinds(&run.tell(vec![signal("stop", ())])), asks);
        let late = Job::ResolveActivity { seq: n(1), resolution: completed(3) };
        let commands = run.tell(vec![late.clone()]);
        let is_waited_for = cancellation == CancellationType::WaitCompleted;
        assert_eq!(kinds(&commands), if is_waited_for { vec!["start_timer"] } else { vec![] });
        let repeated = run.activate(vec![late]);
        assert!(
            matches!(repeated, Err(ActivationFailure::Unmatched(UnmatchedResponse::Repeated { .. }))),
            "{repeated:?}"
        );
    }
}

#[test]
fn ten_thousand_ready_responses_are_linear() {
    fn polls(count: u32) -> u64 {
        let (mut run, commands) = Run::of((), move |ctx, (): ()| async move {
            let answers = ctx
                .join_all(0..count, |ctx, item| async move {
                    ctx.activity::<_, u32>("double", item).await.unwrap_or(0)
                })
                .await;
            Ok(answers.into_iter().map(u64::from).sum::<u64>())
        });
        assert_eq!(commands.len(), count as usize);
        let before = run.instance.polls();
        // In any order: here the last first.
        let jobs =
            (1..=count).rev().map(|seq| Job::ResolveActivity { seq: n(seq), resolution: completed(seq) });
        let commands = run.tell(jobs.collect());
        assert_eq!(result::<u64>(&commands), u64::from(count) * u64::from(count + 1) / 2);
        run.instance.polls() - before
    }
    assert_eq!(polls(100), 101, "one poll for each response, and one for who waits for all");
    assert_eq!(polls(10_000), 10_001);
}

#[test]
fn the_first_code_sees_replaying_flag_time_seed_and_patches() {
    let registry = Registry::new().workflow("test", |ctx: Context, (): ()| async move {
        Ok((
            ctx.is_replaying(),
            ctx.now().as_micros(),
            ctx.patched("new"),
            ctx.patched("newer"),
            ctx.random(),
        ))
    });
    let registry = Arc::new(registry);
    let see = |jobs: Vec<Job>| {
        let activation = Activation::new("run", Time::from_micros(42), jobs).replaying(true);
        let options = InstanceOptions { numbering: Numbering::ByCallOrder, policy: Policy::Fail };
        let outcome = Instance::new(Arc::clone(&registry), options).activate(activation).outcome.unwrap();
        result::<(bool, u64, bool, bool, u64)>(&outcome)
    };
    let seen = see(vec![start("test", ()), Job::Patch { id: "new".to_owned() }]);
    assert_eq!((seen.0, seen.1, seen.2, seen.3), (true, 42, true, false));
    let reseeded = see(vec![start("test", ()), Job::RandomSeed { seed: 9 }]);
    assert_ne!(reseeded.4, seen.4);
}

#[test]
fn signal_with_start_is_not_lost() {
    for jobs in [
        vec![start("test", ()), signal("go", 1), signal("go", 2)],
        vec![signal("go", 1), start("test", ()), signal("go", 2)],
    ] {
        let registry = Registry::new().workflow("test", |ctx: Context, (): ()| async move {
            ctx.timer(SECOND).await?;
            let mut signals = ctx.signals::<u32>("go");
            Ok((signals.next().await?, signals.next().await?, signals.try_next().is_none()))
        });
        let mut run = Run::new(&registry.into(), InstanceOptions::default());
        assert_eq!(kinds(&run.tell(jobs)), ["start_timer"]);
        let commands = run.tell(vec![Job::FireTimer { seq: n(1) }]);
        assert_eq!(result::<(u32, u32, bool)>(&commands), (1, 2, true));
    }
}

#[test]
fn a_query_before_the_first_yield_is_answered_after_it() {
    let registry = Registry::new().workflow("test", |ctx: Context, (): ()| async move {
        let steps = ctx.state(0);
        ctx.on_query("steps", &steps, |steps, (): ()| Ok(*steps));
        steps.change(|steps| *steps = 1);
        ctx.timer(SECOND).await?;
        Ok(())
    });
    let mut run = Run::new(&registry.into(), InstanceOptions::default());
    let commands = run.tell(vec![query("steps"), start("test", ())]);
    assert_eq!(kinds(&commands), ["start_timer", "query_answer"]);
    let Command::QueryAnswer { id, answer: QueryAnswer::Answered { result } } = &commands[1] else {
        panic!("{commands:?}")
    };
    assert_eq!((id.as_str(), result.decode::<u32>().unwrap()), ("q-steps", 1));
}

#[test]
fn after_a_failed_completion_there_is_one_answer_to_each_activation() {
    let (mut run, _) = Run::of((), |ctx, (): ()| async move {
        ctx.timer(SECOND).await?;
        if ctx.now().as_micros() > 0 {
            panic!("on the floor");
        }
        Ok(())
    });
    let failure = run.activate(vec![Job::FireTimer { seq: n(1) }]).unwrap_err();
    assert_eq!(
        failure,
        ActivationFailure::Panicked { branch: "/".to_owned(), message: "on the floor".to_owned() }
    );
    let again = run.activate(vec![Job::FireTimer { seq: n(1) }]).unwrap_err();
    assert!(
        matches!(&again, ActivationFailure::Poisoned { first } if first.contains("on the floor")),
        "{again}"
    );
    assert_eq!(run.activate(vec![Job::Evict { reason: String::new() }]), Ok(vec![]));
}

#[test]
fn an_external_cancel_is_not_filed_under_external_signals() {
    let target = || Execution { workflow_id: "other".to_owned(), ..Execution::default() };
    let code = move |ctx: Context, (): ()| async move { Ok(ctx.cancel_external(target(), "enough").await?) };
    let (mut run, _) = Run::of((), code);
    let wrong = run.activate(vec![Job::ResolveExternalSignal { seq: n(1), failure: None }]).unwrap_err();
    let ActivationFailure::Unmatched(UnmatchedResponse::WrongKind { kind, other, seq: 1, .. }) = &wrong
    else {
        panic!("{wrong}")
    };
    assert_eq!((*kind, *other), (Kind::ExternalSignal, Kind::ExternalCancel));
    let (mut run, _) = Run::of((), code);
    assert_eq!(kinds(&run.tell(vec![Job::ResolveExternalCancel { seq: n(1), failure: None }])), ["complete"]);
}

#[test]
fn losers_of_a_race_never_wake() {
    static WOKEN: AtomicU32 = AtomicU32::new(0);
    let race = |losers| {
        move |ctx: Context, (): ()| async move {
            let branch = |seconds: u64| {
                move |ctx: Context| async move {
                    let fired = ctx.timer(Duration::from_secs(seconds)).await;
                    WOKEN.fetch_add(1, Ordering::Relaxed);
                    fired.is_ok()
                }
            };
            let (winner, _) =
                ctx.race().branch(branch(1)).branch(branch(2)).branch(branch(3)).losers(losers).await;
            ctx.timer(SECOND).await?;
            Ok(winner)
        }
    };
    let (mut run, _) = Run::of((), race(Losers::Cancel));
    // All three have fired: the first response wins, and the others' code does not run.
    let fire = |seq| Job::FireTimer { seq: n(seq) };
    let commands = run.tell(vec![fire(2), fire(1), fire(3)]);
    assert_eq!(kinds(&commands), ["start_timer"], "fired timers are not cancelled");
    assert_eq!(WOKEN.swap(0, Ordering::Relaxed), 1);
    assert_eq!(result::<usize>(&run.tell(vec![fire(4)])), 1);

    let (mut run, _) = Run::of((), race(Losers::Cancel));
    assert_eq!(kinds(&run.tell(vec![fire(3)])), ["cancel_timer", "cancel_timer", "start_timer"]);
    assert!(run.tell(vec![fire(1), fire(2)]).is_empty());
    assert_eq!(WOKEN.swap(0, Ordering::Relaxed), 1);

    let (mut run, _) = Run::of((), race(Losers::Leave));
    assert_eq!(kinds(&run.tell(vec![fire(3)])), ["start_timer"]);
    assert!(run.tell(vec![fire(1), fire(2)]).is_empty());
    assert_eq!(WOKEN.swap(0, Ordering::Relaxed), 3, "losers that are left alone continue");
}

#[test]
fn join_and_map_keep_the_order_of_their_items() {
    for width in [1, 2, 5, 100] {
        let (mut run, mut commands) = Run::of((), move |ctx, (): ()| async move {
            let width = std::num::NonZeroUsize::new(width).unwrap();
            let doubled = ctx.map_concurrently(1..=5_u32, width, |ctx, item| async move {
                ctx.activity::<_, u32>("double", item).await.unwrap_or(0)
            });
            Ok(doubled.await)
        });
        let mut most = 0;
        let mut open: Vec<(u32, u32)> = Vec::new();
        while !run.instance.has_ended() {
            for command in &commands {
                let Command::ScheduleActivity { seq, input, lineage, .. } = command else { continue };
                let item: u32 = input[0].decode().unwrap();
                assert_eq!(
                    lineage.path.to_string(),
                    format!("/{item}#1"),
                    "a branch for each item, by its place"
                );
                open.push((seq.get(), item));
            }
            most = most.max(open.len());
            let (seq, item) = open.pop().unwrap(); // the last first
            commands = run.tell(vec![Job::ResolveActivity { seq: n(seq), resolution: completed(2 * item) }]);
        }
        assert_eq!(result::<Vec<u32>>(&commands), [2, 4, 6, 8, 10]);
        assert_eq!(most, width.min(5));
    }
}

#[test]
fn responses_that_fit_nothing_say_what_is_wrong() {
    let start_run = || {
        Run::of((), |ctx, (): ()| async move {
            ctx.timer(SECOND).await?;
            ctx.activity::<_, ()>("work", ()).await?;
            Ok(ctx.child::<_, ()>("kid", ()).await?)
        })
        .0
    };
    let started = || ChildStartResolution::Started { run_id: "r".to_owned() };
    let child = || ChildResolution::Completed { result: None };
    let until = |steps: usize| {
        let mut run = start_run();
        let steps_to = [
            Job::FireTimer { seq: n(1) },
            Job::ResolveActivity { seq: n(1), resolution: completed(()) },
            Job::ResolveChildStart { seq: n(1), resolution: started() },
        ];
        steps_to.into_iter().take(steps).for_each(|job| drop(run.tell(vec![job])));
        run
    };
    let backoff = || ActivityResolution::Backoff { attempt: 2, delay: SECOND, original_schedule_time: None };
    let cases = [
        (
            0,
            Job::FireTimer { seq: n(2) },
            "fire_timer for timer 2, which was never issued; the next number is 2",
        ),
        (
            0,
            Job::FireTimer { seq: n(0) },
            "fire_timer for timer 0, which is not pending and not among the last 1024 that were settled",
        ),
        (
            1,
            Job::FireTimer { seq: n(1) },
            "fire_timer for timer 1, which was resolved before: the response has come twice",
        ),
        (
            0,
            Job::ResolveActivity { seq: n(1), resolution: completed(()) },
            "resolve_activity for activity 1, which is not pending, while timer 1 is: the response was filed under the wrong kind",
        ),
        (
            1,
            Job::ResolveLocalActivity { seq: n(1), resolution: completed(()) },
            "resolve_local_activity for local activity 1, which is not pending, while activity 1 is: the response was filed under the wrong kind",
        ),
        (
            1,
            Job::ResolveActivity { seq: n(1), resolution: backoff() },
            "a backoff for activity 1: only local activities have one",
        ),
        (
            2,
            Job::ResolveChild { seq: n(1), resolution: child() },
            "resolve_child for child workflow 1, which has not been started yet",
        ),
        (
            3,
            Job::ResolveChildStart { seq: n(1), resolution: started() },
            "resolve_child_start for child workflow 1, whose start was resolved before: the response has come twice",
        ),
        (
            3,
            Job::ResolveExternalCancel { seq: n(1), failure: None },
            "resolve_external_cancel for external cancel 1, which is not pending, while child workflow 1 is: the response was filed under the wrong kind",
        ),
    ];
    for (steps, job, says) in cases {
        let failure = until(steps).activate(vec![job]).unwrap_err();
        assert!(matches!(failure, ActivationFailure::Unmatched(_)), "{failure:?}");
        assert_eq!(failure.to_string(), says);
    }
    assert_eq!(
        kinds(&until(3).tell(vec![Job::ResolveChild { seq: n(1), resolution: child() }])),
        ["complete"]
    );
}

#[test]
fn what_has_become_of_a_number_is_remembered_for_a_while() {
    let (mut run, _) = Run::of((), |ctx, (): ()| async move {
        for item in 0_u32.. {
            ctx.activity::<_, ()>("work", item).await?;
        }
        Ok(())
    });
    let resolve = |seq| vec![Job::ResolveActivity { seq: n(seq), resolution: completed(()) }];
    let count = u32::try_from(REMEMBERED).unwrap() + 1;
    (1..=count).for_each(|seq| drop(run.tell(resolve(seq))));
    let failure = run.activate(resolve(1)).unwrap_err();
    assert!(
        matches!(failure, ActivationFailure::Unmatched(UnmatchedResponse::Forgotten { .. })),
        "{failure}"
    );
}

#[test]
fn timers_that_are_cancelled_by_the_thousand_may_all_fire() {
    const TIMERS: u32 = 3000;
    let (mut run, _) = Run::of((), |ctx, (): ()| async move {
        let (scoped, scope) = ctx.scope();
        let timers: Vec<_> = (0..TIMERS).map(|_| scoped.timer(SECOND)).collect();
        ctx.signals::<()>("stop").next().await?;
        scope.cancel("enough");
        drop(timers);
        Ok(ctx.signals::<u32>("end").next().await?)
    });
    assert_eq!(run.tell(vec![signal("stop", ())]).len(), TIMERS as usize);
    assert!(run.tell((1..=TIMERS).map(|seq| Job::FireTimer { seq: n(seq) }).collect()).is_empty());
    assert_eq!(result::<u32>(&run.tell(vec![signal("end", 4)])), 4);
}

#[test]
fn the_host_is_told_which_rule_it_has_broken() {
    let started = || Run::of((), |ctx, (): ()| async move { Ok(ctx.timer(SECOND).await?) }).0;
    let says = |run: &mut Run, jobs: Vec<Job>| run.activate(jobs).unwrap_err().to_string();
    let evict = || Job::Evict { reason: String::new() };
    assert!(says(&mut started(), vec![start("test", ())]).contains("started before"));
    assert!(says(&mut started(), vec![evict(), signal("x", ())]).contains("comes alone"));
    let registry = Arc::new(Registry::new().workflow("b", |_: Context, (): ()| async { Ok(()) }));
    let mut run = Run::new(&registry, InstanceOptions::default());
    assert_eq!(says(&mut run, vec![start("a", ())]), "no workflow \"a\" is registered here; known: b");
    let mut run = Run::new(&registry, InstanceOptions::default());
    assert!(says(&mut run, vec![signal("x", ())]).contains("has no start"));
    let mut run = started();
    assert_eq!(run.tell(vec![evict()]), []);
    assert!(says(&mut run, vec![Job::FireTimer { seq: n(1) }]).contains("evicted"));
}
