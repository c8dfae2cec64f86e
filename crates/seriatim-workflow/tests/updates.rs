//! The order in which updates are validated, accepted and handled.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::result_large_err, reason = "failures are rare")]

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::*;
use seriatim_workflow::*;

const SECOND: Duration = Duration::from_secs(1);

/// What it asks for depends on the order in which updates, signals and timers are handled.
async fn shop(ctx: Context, mut seats: i64) -> Result<i64, Exit> {
    let shared = ctx.state(seats);
    ctx.on_update_async(
        "book",
        &shared,
        |_, _: &i64| Ok(()),
        |ctx, left, by| {
            left.change(|left| *left -= by);
            let left = left.get();
            async move { Ok(ctx.activity::<_, i64>("confirm", left).await?) }
        },
    );
    let added = shared.clone();
    drop(ctx.spawn(|ctx| async move {
        let mut signals = ctx.signals::<i64>("add");
        while let Ok(by) = signals.next().await {
            added.change(|left| *left = *left * 2 + by);
            drop(ctx.activity::<_, ()>("added", added.get()).start());
        }
    }));
    while seats < 100 {
        ctx.timer(SECOND).await?;
        shared.change(|left| *left = *left * 3 + 1);
        seats = shared.get();
        drop(ctx.activity::<_, ()>("tick", seats).start());
    }
    Ok(seats)
}

#[test]
fn three_updates_at_once_do_not_sell_one_seat_three_times() {
    let (mut run, _) = Run::of((), |ctx, (): ()| async move {
        let seats = ctx.state(1_i64);
        ctx.on_update_async(
            "book",
            &seats,
            |left, (): &()| match *left > 0 {
                true => Ok(()),
                false => Err(Failure::non_retryable("SoldOut", "no seat is left")),
            },
            |ctx, left, ()| async move {
                left.change(|left| *left -= 1);
                let left = left.get();
                ctx.timer(SECOND).await?;
                Ok(left)
            },
        );
        ctx.signals::<()>("close").next().await?;
        Ok(seats.get())
    });
    let books = ["u1", "u2", "u3"].map(|id| update(id, "book", ()));
    let commands = run.tell(books.into());
    assert_eq!(kinds(&commands), ["update_accepted", "start_timer", "update_rejected", "update_rejected"]);
    assert_eq!(result::<i64>(&run.tell(vec![signal("close", ())])), 0);
}

/// A handler may do its work before it returns its future, and open branches; the next update waits for that too.
#[test]
fn updates_take_their_turn_among_signals_and_timers() {
    let registry = Arc::new(Registry::new().workflow("shop", shop));
    let mut run = Run::new(&registry, InstanceOptions::default());
    run.tell(vec![start("shop", 1)]);
    let jobs = vec![
        update("u1", "book", 1),
        signal("add", 5),
        Job::FireTimer { seq: n(1) },
        update("u2", "book", 2),
    ];
    let commands = run.tell(jobs);
    let order: Vec<&str> = commands.iter().map(Command::name).collect();
    assert_eq!(order, ["", "confirm", "added", "tick", "", "", "confirm"], "{commands:?}");
    // 1 − 1 = 0, 0 · 2 + 5 = 5, 5 · 3 + 1 = 16, 16 − 2 = 14
    let inputs: Vec<i64> = commands.iter().filter_map(input).collect();
    assert_eq!(inputs, [0, 5, 16, 14]);
}

fn input(command: &Command) -> Option<i64> {
    match command {
        Command::ScheduleActivity { input, .. } => input.first()?.decode().ok(),
        _ => None,
    }
}

/// Recorded before updates took their turn: all of an activation were accepted first.
const LATER: &str = include_str!("histories/updates-later.json");
const WITH_START: &str = include_str!("histories/updates-with-start.json");

#[test]
fn a_run_keeps_the_order_that_it_was_recorded_with() {
    let registry = Arc::new(Registry::new().workflow("shop", shop));
    for recorded in [LATER, WITH_START] {
        let history: History = serde_json::from_str(recorded).unwrap();
        let report = replay(&registry, &history, Policy::Fail);
        assert!(report.is_same(), "{report}");
    }
    // It is the mark in its first event that keeps the order.
    let mut history: History = serde_json::from_str(LATER).unwrap();
    for job in history.steps.iter_mut().flat_map(|step| &mut step.activation.jobs) {
        if let Job::Start(start) = job {
            assert_eq!(start.rules, 0);
            start.rules = 1;
        }
    }
    assert!(!replay(&registry, &history, Policy::Fail).is_same());
}

#[test]
fn the_first_event_of_a_new_run_says_its_rules() {
    let text = serde_json::to_string(&Start::new("shop", "id", Vec::new())).unwrap();
    assert!(text.contains("\"rules\":1"), "{text}");
}
