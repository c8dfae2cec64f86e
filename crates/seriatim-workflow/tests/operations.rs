//! Each kind of operation: what it asks for, what answers it, and what the code sees.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::result_large_err, reason = "failures are rare")]

mod common;

use std::time::Duration;

use common::*;
use seriatim_workflow::*;

const SECOND: Duration = Duration::from_secs(1);

fn is_send<T: Send>() {}

#[test]
fn instances_can_be_sent_between_activations() {
    is_send::<Instance>();
    is_send::<Context>();
}

#[test]
fn a_timer_fires() {
    let (mut run, commands) = Run::of((), |ctx, (): ()| async move {
        ctx.timer(SECOND).await?;
        Ok(ctx.now().as_micros())
    });
    let [Command::StartTimer { seq, lineage, duration }] = &commands[..] else { panic!("{commands:?}") };
    assert_eq!((seq.get(), lineage.path.to_string(), *duration), (1, "/#1".to_owned(), SECOND));
    let commands = run.tell(vec![Job::FireTimer { seq: n(1) }]);
    assert_eq!(result::<u64>(&commands), 2_000_000);
    assert!(run.instance.has_ended());
}

#[test]
fn an_activity_ends_in_each_way() {
    let code = |ctx: Context, name: String| async move {
        let answer: Result<u32, _> = ctx.activity("count", name).timeout(SECOND).await;
        Ok(match answer {
            Ok(number) => number.to_string(),
            Err(error) => error.to_string(),
        })
    };
    let cancelled = || ActivityResolution::Cancelled { failure: Failure::cancelled("enough") };
    for (resolution, seen) in [
        (completed(3), "3"),
        (
            completed("three"),
            "the payload is not a u32: invalid type: string \"three\", expected u32 at line 1 column 7",
        ),
        (
            ActivityResolution::Completed { result: None },
            "the payload is not a u32: invalid type: null, expected u32 at line 1 column 4",
        ),
        (failed("broken"), "the activity failed: broken"),
        (cancelled(), "the activity was cancelled: enough"),
    ] {
        let (mut run, commands) = Run::of("x".to_owned(), code);
        let [Command::ScheduleActivity { seq, activity_type, input, options, lineage }] = &commands[..]
        else {
            panic!("{commands:?}")
        };
        assert_eq!((seq.get(), activity_type.as_str()), (1, "count"));
        assert_eq!(options.start_to_close_timeout, Some(SECOND));
        assert_eq!(lineage.digest, InputDigest::of(input));
        let commands = run.tell(vec![Job::ResolveActivity { seq: n(1), resolution }]);
        assert_eq!(result::<String>(&commands), seen);
    }
}

#[test]
fn a_local_activity_that_is_put_off_waits_for_a_timer_of_the_run() {
    let (mut run, commands) = Run::of((), |ctx, (): ()| async move {
        let answer: u32 = ctx.local_activity("count", ()).await?;
        ctx.timer(SECOND).await?;
        Ok(answer)
    });
    assert_eq!(kinds(&commands), ["schedule_local_activity"]);
    let original_schedule_time = Some(Time::from_micros(5));
    let resolution = ActivityResolution::Backoff { attempt: 4, delay: SECOND, original_schedule_time };
    let commands = run.tell(vec![Job::ResolveLocalActivity { seq: n(1), resolution }]);
    let [Command::StartTimer { seq, lineage, .. }] = &commands[..] else { panic!("{commands:?}") };
    assert_eq!((seq.get(), lineage.path.to_string()), (1, "/0/1#1".to_owned()));
    let commands = run.tell(vec![Job::FireTimer { seq: n(1) }]);
    let [Command::ScheduleLocalActivity { seq, lineage, options, .. }] = &commands[..] else {
        panic!("{commands:?}")
    };
    assert_eq!((seq.get(), lineage.path.to_string()), (2, "/0/1#2".to_owned()));
    assert_eq!((options.attempt, options.original_schedule_time), (4, original_schedule_time));
    let commands = run.tell(vec![Job::ResolveLocalActivity { seq: n(2), resolution: completed(9) }]);
    assert_eq!(commands[0].path().unwrap().to_string(), "/#2", "what comes after keeps its path");
    assert_eq!(result::<u32>(&run.tell(vec![Job::FireTimer { seq: n(2) }])), 9);
}

#[test]
fn a_child_is_started_and_then_ends() {
    let code = |ctx: Context, (): ()| async move {
        let child = ctx
            .child("kid", 5)
            .id("kid-1")
            .start()
            .await
            .map_err(|error| Exit::failed("Start", error.to_string()))?;
        let run_id = child.first_run_id().to_owned();
        child.signal("go", ()).await?;
        let answer: Result<u32, _> = child.result().await;
        Ok(format!("{run_id}: {answer:?}"))
    };
    let started = || ChildStartResolution::Started { run_id: "r-1".to_owned() };
    for (resolution, seen) in [
        (ChildResolution::Completed { result: Some(json(6)) }, "r-1: Ok(6)"),
        (ChildResolution::Completed { result: Some(json("six")) }, "r-1: Err(Payload(Decode"),
        (ChildResolution::Failed { failure: Failure::application("Test", "no") }, "r-1: Err(Failed("),
        (ChildResolution::Cancelled { failure: Failure::cancelled("no") }, "r-1: Err(Cancelled("),
    ] {
        let (mut run, commands) = Run::of((), code);
        let [Command::StartChild { seq, workflow_type, options, .. }] = &commands[..] else {
            panic!("{commands:?}")
        };
        assert_eq!((seq.get(), workflow_type.as_str(), options.workflow_id.as_str()), (1, "kid", "kid-1"));
        let commands = run.tell(vec![Job::ResolveChildStart { seq: n(1), resolution: started() }]);
        let [Command::SignalExternal { target, name, .. }] = &commands[..] else { panic!("{commands:?}") };
        assert_eq!((target, name.as_str()), (&SignalTarget::Child { workflow_id: "kid-1".to_owned() }, "go"));
        let commands = run.tell(vec![
            Job::ResolveExternalSignal { seq: n(1), failure: None },
            Job::ResolveChild { seq: n(1), resolution },
        ]);
        let text: String = result(&commands);
        assert!(text.starts_with(seen), "{text}");
    }
    let (mut run, _) = Run::of((), code);
    let cause = ChildStartFailure::AlreadyExists;
    let resolution = ChildStartResolution::Failed {
        cause,
        workflow_id: "kid-1".to_owned(),
        workflow_type: "kid".to_owned(),
    };
    let commands = run.tell(vec![Job::ResolveChildStart { seq: n(1), resolution }]);
    assert_eq!(kinds(&commands), ["fail"]);
    assert!(run.instance.pending().is_empty());
}

#[test]
fn messages_to_other_workflows_are_delivered_or_not() {
    let target = || Execution { workflow_id: "other".to_owned(), ..Execution::default() };
    let code = move |ctx: Context, (): ()| async move {
        let signal = ctx.signal_external(target(), "hi", 1);
        let cancel = ctx.cancel_external(target(), "enough");
        Ok(format!("{:?} {:?}", signal.await.is_ok(), cancel.await.is_ok()))
    };
    let failure = || Some(Failure::application("NotFound", "no such workflow"));
    for (signal, cancel, seen) in
        [(None, None, "true true"), (failure(), None, "false true"), (None, failure(), "true false")]
    {
        let (mut run, commands) = Run::of((), code);
        assert_eq!(kinds(&commands), ["signal_external", "cancel_external"]);
        assert_eq!(
            commands.iter().map(|c| c.seq().unwrap().1).collect::<Vec<_>>(),
            [1, 1],
            "each kind counts by itself"
        );
        assert!(run.tell(vec![Job::ResolveExternalCancel { seq: n(1), failure: cancel }]).is_empty());
        let commands = run.tell(vec![Job::ResolveExternalSignal { seq: n(1), failure: signal }]);
        assert_eq!(result::<String>(&commands), seen);
    }
}

#[test]
fn a_zero_timer_asks_for_nothing() {
    let (_, commands) = Run::of((), |ctx, (): ()| async move { Ok(ctx.timer(Duration::ZERO).await.is_ok()) });
    assert_eq!(kinds(&commands), ["complete"]);
    // Where numbers go by call order it takes one all the same, as Temporal's own histories have it.
    let registry = Registry::new().workflow("test", |ctx: Context, (): ()| async move {
        ctx.timer(Duration::ZERO).await?;
        Ok(ctx.timer(SECOND).await?)
    });
    let options = InstanceOptions { numbering: Numbering::ByCallOrder, policy: Policy::Fail };
    let commands = Run::new(&registry.into(), options).tell(vec![start("test", ())]);
    assert_eq!(commands[0].seq(), Some((Kind::Timer, 2)));
}

#[test]
fn a_run_ends_in_each_way() {
    let code = |ctx: Context, how: String| async move {
        match how.as_str() {
            "fail" => Err(Exit::failed("Test", "no")),
            "continue" => Err(ctx.continue_as_new(&7)),
            "cancel" => ctx.timer(SECOND).await.map_err(Into::into),
            _ => Ok(()),
        }
    };
    let of = |how: &str| Run::of(how.to_owned(), code);
    assert_eq!(kinds(&of("fail").1), ["fail"]);
    assert_eq!(kinds(&of("done").1), ["complete"]);
    let (_, commands) = of("continue");
    let [Command::ContinueAsNew { options }] = &commands[..] else { panic!("{commands:?}") };
    assert_eq!(options.input, [json(7)]);
    let (mut run, _) = of("cancel");
    let commands = run.tell(vec![Job::Cancel { reason: "stop".to_owned() }]);
    assert_eq!(kinds(&commands), ["cancel_timer", "cancelled"]);
    assert!(
        run.tell(vec![Job::FireTimer { seq: n(1) }]).is_empty(),
        "what comes after the end is not delivered"
    );
}

#[test]
fn randomness_depends_on_seed_and_branch_alone() {
    let code = |ctx: Context, (): ()| async move {
        let (a, b) = ctx.join(|ctx| async move { ctx.random() }, |ctx| async move { ctx.random() }).await;
        let before = ctx.random();
        ctx.timer(SECOND).await?;
        Ok((a, b, before, ctx.random(), ctx.uuid()))
    };
    let ends = |jobs: Vec<Job>| {
        let (mut run, _) = Run::of((), code);
        result::<(u64, u64, u64, u64, String)>(&run.tell(jobs))
    };
    let fire = || Job::FireTimer { seq: n(1) };
    let once = ends(vec![fire()]);
    assert_eq!(once, ends(vec![fire()]));
    let all = std::collections::BTreeSet::from([once.0, once.1, once.2, once.3]);
    assert_eq!(all.len(), 4);
    assert_eq!((once.4.len(), &once.4[14..15]), (36, "4"));
    let reseeded = ends(vec![Job::RandomSeed { seed: 8 }, fire()]);
    assert_eq!((reseeded.0, reseeded.2), (once.0, once.2));
    assert_ne!(reseeded.3, once.3);
}

#[test]
fn several_arguments_are_several_payloads() {
    let (_, commands) = Run::of((), |ctx, (): ()| async move {
        let _two = ctx.activity::<_, ()>("two", args(("tea", 3))).start();
        let _one = ctx.activity::<_, ()>("one", ("tea", 3)).start();
        Ok(ctx.local_activity::<_, ()>("three", args((1, (), "x"))).await?)
    });
    let inputs: Vec<Vec<Payload>> = commands
        .iter()
        .filter_map(|command| match command {
            Command::ScheduleActivity { input, .. } | Command::ScheduleLocalActivity { input, .. } => {
                Some(input.clone())
            }
            _ => None,
        })
        .collect();
    assert_eq!(inputs[0], [json("tea"), json(3)]);
    assert_eq!(inputs[1], [json(("tea", 3))]);
    assert_eq!(inputs[2], [json(1), Payload::null(), json("x")]);
}
