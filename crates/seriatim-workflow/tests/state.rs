//! The workflow's own state, and the handlers that read and change it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::result_large_err, reason = "failures are rare")]

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::*;
use seriatim_workflow::*;

const SECOND: Duration = Duration::from_secs(1);
const TOTAL: Query<(), i64> = Query::new("total");
const ADD: Signal<i64> = Signal::new("add");
const DOUBLE: Update<i64, i64> = Update::new("double");

fn panicked(failure: ActivationFailure) -> (String, String) {
    match failure {
        ActivationFailure::Panicked { branch, message } => (branch, message),
        other => panic!("{other}"),
    }
}

fn answer(commands: &[Command]) -> Result<Payload, Failure> {
    match commands {
        [Command::QueryAnswer { answer: QueryAnswer::Answered { result }, .. }] => Ok(result.clone()),
        [Command::QueryAnswer { answer: QueryAnswer::Failed { failure }, .. }] => Err(failure.clone()),
        other => panic!("{other:?}"),
    }
}

/// Adds what signals say, doubles it (plus a number) by updates, and asks for the sum whenever its timer fires.
async fn sums(ctx: Context, first: i64) -> Result<i64, Exit> {
    let sum = ctx.state(first);
    ctx.on_query(TOTAL, &sum, |sum, ()| Ok(*sum));
    ctx.on_signal(ADD, &sum, |sum, by| *sum += by);
    ctx.on_update(
        DOUBLE,
        &sum,
        |sum, _| match *sum > 100 {
            true => Err(Failure::non_retryable("TooMuch", "it is enough")),
            false => Ok(()),
        },
        |sum, plus| {
            *sum = *sum * 2 + plus;
            Ok(*sum)
        },
    );
    let seen = sum.clone();
    drop(ctx.spawn(|ctx| async move {
        while ctx.timer(SECOND).await.is_ok() {
            drop(ctx.activity::<_, ()>("tick", seen.get()).start());
        }
    }));
    sum.wait_until(|sum| *sum > 1_000).await?;
    Ok(sum.read(|sum| *sum))
}

fn inputs(commands: &[Command]) -> Vec<i64> {
    let input = |command: &Command| match command {
        Command::ScheduleActivity { input, .. } => input.first()?.decode().ok(),
        Command::UpdateCompleted { outcome: UpdateOutcome::Completed { result }, .. } => result.decode().ok(),
        _ => None,
    };
    commands.iter().filter_map(input).collect()
}

#[test]
fn signals_and_updates_change_the_state_where_their_jobs_are() {
    let registry = Arc::new(Registry::new().workflow("sums", sums));
    let mut run = Run::new(&registry, InstanceOptions::default());
    let mut history = History::default();
    let mut tell = |jobs: Vec<Job>| {
        let activation = Activation::new("run", Time::default(), jobs);
        let commands = run.instance.activate(activation.clone()).outcome.unwrap();
        history.push(activation, commands.clone());
        commands
    };
    // Those that come with the start wait for their handler: signals first, which are handled when it is registered.
    let commands = tell(vec![update("u1", "double", 0), start("sums", 1), signal("add", 2)]);
    assert_eq!(inputs(&commands), [6]);
    let fired = |seq| Job::FireTimer { seq: n(seq) };
    let commands = tell(vec![signal("add", 1), update("u2", "double", 1), fired(1), signal("add", 10)]);
    // 6 + 1 = 7, 7 · 2 + 1 = 15, and the last signal comes after the timer.
    assert_eq!(inputs(&commands), [15, 15]);
    let commands =
        tell(vec![fired(2), signal("add", 5), update("u3", "double", 0), update("u4", "double", 5)]);
    assert_eq!(inputs(&commands), [25, 60, 125]);
    let commands = tell(vec![signal("add", 800), update("u5", "double", 0), signal("add", 100)]);
    assert_eq!(kinds(&commands), ["update_rejected", "complete"]);
    assert_eq!(result::<i64>(&commands), 1_025);
    let report = replay(&registry, &history, Policy::Fail);
    assert!(report.is_same(), "{report}");
}

#[test]
fn a_query_reads_the_state() {
    let (mut run, _) = Run::of(5, sums);
    assert_eq!(answer(&run.tell(vec![query("total")])), Ok(json(5)));
    // It sees what the jobs before it have done.
    let commands = run.tell(vec![query("total"), signal("add", 2)]);
    assert_eq!(answer(&commands), Ok(json(7)));
}

#[test]
fn a_query_or_a_validator_cannot_change_the_state() {
    let (mut run, _) = Run::of((), |ctx, (): ()| async move {
        let sum = ctx.state(1);
        let (asked, validated) = (sum.clone(), sum.clone());
        ctx.on_query("take", &ctx.state(()), move |(), (): ()| {
            asked.change(|sum| *sum -= 1);
            Ok(())
        });
        ctx.on_update(
            "take",
            &ctx.state(()),
            move |(), (): &()| {
                validated.change(|sum| *sum -= 1);
                Ok(())
            },
            |(), ()| Ok(()),
        );
        ctx.signals::<()>("end").next().await?;
        Ok(sum.get())
    });
    let failure = answer(&run.tell(vec![query("take")])).unwrap_err();
    assert_eq!(
        failure.message,
        "the query tried to change the workflow's state: a query may only read the workflow's state"
    );
    let commands = run.tell(vec![update("u", "take", ())]);
    let [Command::UpdateRejected { failure, .. }] = &commands[..] else { panic!("{commands:?}") };
    assert!(failure.message.starts_with("the validator tried to change the workflow's state"), "{failure}");
    assert_eq!(result::<i32>(&run.tell(vec![signal("end", ())])), 1);
}

#[test]
fn a_query_cannot_register_a_handler() {
    let (mut run, _) = Run::of((), |ctx, (): ()| async move {
        let none = ctx.state(());
        for name in ["signal", "query", "update"] {
            let (inner, state) = (ctx.clone(), none.clone());
            ctx.on_query(name, &none, move |(), (): ()| {
                match name {
                    "signal" => inner.on_signal("add", &state, |(), (): ()| {}),
                    "query" => inner.on_query("total", &state, |(), (): ()| Ok(1)),
                    _ => inner.on_update("double", &state, |(), (): &()| Ok(()), |(), ()| Ok(())),
                }
                Ok(())
            });
        }
        ctx.timer(SECOND).await?;
        Ok(ctx.signals(ADD).next().await?)
    });
    run.tell(vec![signal("add", 7)]);
    for name in ["signal", "query", "update"] {
        let failure = answer(&run.tell(vec![query(name)])).unwrap_err();
        assert!(failure.message.starts_with("the query tried to register a handler"), "{failure}");
    }
    assert!(answer(&run.tell(vec![query("total")])).is_err());
    assert_eq!(result::<i64>(&run.tell(vec![Job::FireTimer { seq: n(1) }])), 7);
}

#[test]
fn state_that_is_used_inside_its_own_closure_fails_the_activation() {
    type Misuse = fn(&WorkflowState<u32>);
    let misuses: [Misuse; 3] = [
        |state| state.change(|_| state.read(|_| ())),
        |state| state.change(|_| state.change(|_| ())),
        |state| state.read(|_| state.change(|_| ())),
    ];
    for misuse in misuses {
        let registry = Arc::new(Registry::new().workflow("test", move |ctx: Context, (): ()| async move {
            misuse(&ctx.state(1));
            Ok(())
        }));
        let failure = Run::new(&registry, InstanceOptions::default()).activate(vec![start("test", ())]);
        let (branch, message) = panicked(failure.unwrap_err());
        assert_eq!(branch, "/");
        assert!(message.starts_with("the workflow's state is used inside a closure"), "{message}");
    }
    // To read is allowed any number of times.
    let (_, commands) = Run::of((), |ctx, (): ()| async move {
        let state = ctx.state(2);
        Ok(state.read(|outer| *outer + state.read(|inner| *inner)))
    });
    assert_eq!(result::<u32>(&commands), 4);
}

#[test]
fn a_panic_in_a_closure_fails_the_activation_and_spoils_nothing() {
    let (mut run, _) = Run::of((), |ctx, (): ()| async move {
        let state = ctx.state(1);
        ctx.on_query("read", &state, |state, is_hostile: Option<bool>| {
            assert!(is_hostile.is_none(), "asked badly");
            Ok(*state)
        });
        ctx.on_signal("break", &state, |_, (): ()| panic!("oops"));
        ctx.on_update("break", &state, |_, (): &()| Ok(()), |_, ()| -> Result<(), Failure> { panic!("ah") });
        Ok(ctx.timer(SECOND).await?)
    });
    let hostile = Job::Query {
        id: "q".to_owned(),
        name: "read".to_owned(),
        input: vec![json(true)],
        headers: Headers::new(),
    };
    assert_eq!(answer(&run.tell(vec![hostile])).unwrap_err().message, "the query panicked: asked badly");
    assert_eq!(answer(&run.tell(vec![query("read")])), Ok(json(1)));
    let failure = run.activate(vec![signal("break", ())]).unwrap_err();
    let expected = ("of the handler of signal \"break\"".to_owned(), "oops".to_owned());
    assert_eq!(panicked(failure), expected);
    // The destructors of a branch that has panicked in a closure still see the state.
    let (mut run, _) = Run::of((), |ctx, (): ()| async move {
        struct Looks(WorkflowState<u32>, Context);
        impl Drop for Looks {
            fn drop(&mut self) {
                self.1.log(LogLevel::Info, self.0.get());
            }
        }
        let state = ctx.state(1);
        let _looks = Looks(state.clone(), ctx.clone());
        ctx.on_update("break", &state, |_, (): &()| Ok(()), |_, ()| -> Result<(), Failure> { panic!("ah") });
        Ok(ctx.timer(SECOND).await?)
    });
    let failure = run.activate(vec![update("u", "break", ())]).unwrap_err();
    assert_eq!(panicked(failure), ("/0/0/1".to_owned(), "ah".to_owned()));
}

#[test]
fn a_wait_for_the_state_ends_with_its_scope() {
    let (mut run, _) = Run::of((), |ctx, (): ()| async move {
        let (state, all) = (ctx.state(0), ctx.state(0));
        let theirs = state.clone();
        let branch = ctx.spawn(|ctx| async move { theirs.wait_until_in(&ctx, |state| *state > 0).await });
        branch.cancel("not needed");
        let reason = branch.await.unwrap_err().reason;
        all.wait_until(|all| *all > 0).await?;
        Ok(reason)
    });
    let blocked: Vec<_> = run.instance.blocked().into_iter().map(|one| one.branch).collect();
    assert_eq!(blocked, ["/"], "the branch has ended");
    assert_eq!(kinds(&run.tell(vec![Job::Cancel { reason: "enough".to_owned() }])), ["cancelled"]);
}

#[test]
fn a_signal_of_the_wrong_type_is_skipped_by_a_handler_too() {
    let (mut run, _) = Run::of(0, sums);
    run.tell(vec![signal("add", 1), signal("add", "one"), signal("add", 1_000)]);
    assert!(run.instance.has_ended());
    let [Warning::SignalSkipped { name, reason }] = &run.instance.warnings()[..] else { panic!() };
    assert_eq!(name, "add");
    assert!(reason.starts_with("the payload is not a i64"), "{reason}");
}

#[test]
fn a_handler_takes_all_signals_of_its_name() {
    let says = "signal \"add\" has a handler, which takes all signals of this name: use either `on_signal` or `signals` for it";
    // A branch that waits for the signal when the handler is registered.
    let registry = Arc::new(Registry::new().workflow("test", |ctx: Context, (): ()| async move {
        let waits = ctx.spawn(|ctx| async move { ctx.signals(ADD).next().await });
        ctx.timer(Duration::ZERO).await?;
        ctx.on_signal(ADD, &ctx.state(0), |sum, by| *sum += by);
        Ok(waits.await?)
    }));
    let failure = Run::new(&registry, InstanceOptions::default()).activate(vec![start("test", ())]);
    assert_eq!(panicked(failure.unwrap_err()), ("/1".to_owned(), says.to_owned()));
    // One that begins to wait afterwards, or only looks.
    for waits in [true, false] {
        let (mut run, _) = Run::of(waits, |ctx, waits: bool| async move {
            ctx.on_signal(ADD, &ctx.state(0), |sum, by| *sum += by);
            ctx.timer(SECOND).await?;
            match waits {
                true => drop(ctx.signals(ADD).next().await?),
                false => drop(ctx.signals(ADD).try_next()),
            }
            Ok(())
        });
        let failure = run.activate(vec![signal("add", 1), Job::FireTimer { seq: n(1) }]).unwrap_err();
        assert_eq!(panicked(failure), ("/".to_owned(), says.to_owned()));
    }
}

#[test]
fn a_handler_that_is_replaced_takes_nothing_any_more() {
    let (mut run, _) = Run::of((), |ctx, (): ()| async move {
        let (first, second) = (ctx.state(Vec::new()), ctx.state(Vec::new()));
        ctx.on_signal(ADD, &first, |all, by| all.push(by));
        ctx.timer(SECOND).await?;
        // The signal that came with the timer has not had its turn.
        ctx.on_signal(ADD, &second, |all, by| all.push(by));
        second.wait_until(|all| all.len() == 2).await?;
        Ok((first.get(), second.get()))
    });
    run.tell(vec![signal("add", 1)]);
    run.tell(vec![Job::FireTimer { seq: n(1) }, signal("add", 2)]);
    let commands = run.tell(vec![signal("add", 3)]);
    assert_eq!(result::<(Vec<i64>, Vec<i64>)>(&commands), (vec![1], vec![2, 3]));
}

#[test]
fn state_that_is_changed_outside_an_activation_is_told_as_such() {
    let (sent, received) = std::sync::mpsc::channel();
    let (mut run, _) = Run::of((), move |ctx, (): ()| {
        let sent = sent.clone();
        async move {
            sent.send(ctx.state(1)).unwrap();
            Ok(ctx.timer(SECOND).await?)
        }
    });
    received.recv().unwrap().change(|state| *state += 1);
    let failure = run.activate(vec![Job::FireTimer { seq: n(1) }]).unwrap_err();
    assert_eq!(failure, ActivationFailure::Foreign(ForeignWait::Called));
}

#[test]
fn constants_name_activities_children_signals_and_workflows() {
    const CHARGE: Activity<Args<(String, u64)>, String> = Activity::new("charge");
    const SHIP: Workflow<String, u32> = Workflow::new("ship");
    const ORDER: Workflow<u64, u32> = Workflow::new("order");
    async fn order(ctx: Context, cents: u64) -> Result<u32, Exit> {
        let receipt = ctx.activity(CHARGE, args(("tea".to_owned(), cents))).start();
        let local = ctx.local_activity(CHARGE, args(("milk".to_owned(), cents)));
        let shop = Execution { workflow_id: "shop".to_owned(), ..Execution::default() };
        drop(ctx.signal_external(shop, ADD, 7));
        drop(local.await?);
        Ok(ctx.child(SHIP, receipt.await?).await?)
    }
    let registry = Arc::new(Registry::new().workflow(ORDER, order));
    let commands = Run::new(&registry, InstanceOptions::default()).tell(vec![start(ORDER.name(), 5)]);
    let names: Vec<&str> = commands.iter().map(Command::name).collect();
    assert_eq!(names, ["charge", "add", "charge"]);
    assert_eq!(format!("{CHARGE:?} {ADD:?}"), "Activity(\"charge\") Signal(\"add\")");
    // A name that is made while the code runs is one as well.
    let (_, commands) =
        Run::of(
            (),
            |ctx, (): ()| async move { Ok(ctx.activity::<_, u32>(format!("charge_{}", 1), ()).await?) },
        );
    assert_eq!(commands[0].name(), "charge_1");
}
