//! Mutexes, semaphores and channels: who comes first is served first, and who no longer waits is forgotten.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use common::*;
use seriatim_workflow::*;

const SECOND: Duration = Duration::from_secs(1);
const TWO: NonZeroUsize = NonZeroUsize::new(2).unwrap();

fn fired(seq: u32) -> Job {
    Job::FireTimer { seq: n(seq) }
}

#[test]
fn a_mutex_is_given_to_branches_in_the_order_in_which_they_came() {
    let registry = Arc::new(Registry::new().workflow("test", |ctx: Context, (): ()| async move {
        let order = ctx.mutex(Vec::new());
        let ours = order.clone();
        let all = ctx.join_all(0..4_u32, move |ctx, place| {
            let order = ours.clone();
            async move {
                let mut order = order.lock(&ctx).await?;
                ctx.timer(SECOND).await?;
                order.push(place);
                Ok::<_, Cancelled>(())
            }
        });
        all.await.into_iter().collect::<Result<Vec<()>, _>>()?;
        let order = order.lock(&ctx).await?;
        Ok(order.clone())
    }));
    let mut run = Run::new(&registry, InstanceOptions::default());
    let mut history = History::default();
    let mut tell = |jobs: Vec<Job>| {
        let activation = Activation::new("run", Time::default(), jobs);
        let commands = run.instance.activate(activation.clone()).outcome.unwrap();
        history.push(activation, commands.clone());
        commands
    };
    assert_eq!(tell(vec![start("test", ())]).len(), 1, "one branch has it at a time");
    for seq in 1..4 {
        assert_eq!(kinds(&tell(vec![fired(seq)])), ["start_timer"]);
    }
    assert_eq!(result::<Vec<u32>>(&tell(vec![fired(4)])), [0, 1, 2, 3]);
    let report = replay(&registry, &history, Policy::Fail);
    assert!(report.is_same(), "{report}");
}

#[test]
fn a_semaphore_lets_so_many_branches_continue() {
    let (mut run, commands) = Run::of((), |ctx, (): ()| async move {
        let permits = ctx.semaphore(TWO);
        let all = ctx.join_all(0..5, move |ctx, _: u32| {
            let permits = permits.clone();
            async move {
                let _permit = permits.acquire(&ctx).await?;
                ctx.timer(SECOND).await
            }
        });
        Ok(all.await.len())
    });
    assert_eq!(kinds(&commands), ["start_timer", "start_timer"]);
    let waits: Vec<_> = run.instance.blocked().into_iter().map(|one| one.waits).collect();
    assert_eq!(waits[5], [WaitingFor::Semaphore, WaitingFor::Cancellation]);
    assert_eq!(kinds(&run.tell(vec![fired(2), fired(1)])), ["start_timer", "start_timer"]);
    assert_eq!(kinds(&run.tell(vec![fired(3)])), ["start_timer"]);
    assert_eq!(result::<usize>(&run.tell(vec![fired(4), fired(5)])), 5);
    let (_, commands) = Run::of((), |ctx, (): ()| async move {
        let many = ctx.semaphore(NonZeroUsize::MAX);
        drop(many.acquire(&ctx).await?);
        Ok(())
    });
    assert_eq!(kinds(&commands), ["complete"]);
}

#[test]
fn a_channel_brings_messages_in_order_and_ends_with_its_last_sender() {
    let (mut run, _) = Run::of((), |ctx, (): ()| async move {
        let (sender, receiver) = ctx.channel();
        let other = sender.clone();
        let takes = ctx.spawn(|ctx| async move {
            let mut all = Vec::new();
            while let Some(message) = receiver.receive(&ctx).await? {
                all.push(message);
            }
            Ok::<_, Cancelled>(all)
        });
        sender.send(1);
        drop(sender);
        ctx.timer(SECOND).await?;
        other.send(2);
        other.send(3);
        drop(other);
        Ok(takes.await?)
    });
    let blocked = run.instance.blocked();
    assert_eq!(blocked[1].waits, [WaitingFor::Channel, WaitingFor::Cancellation]);
    assert_eq!(result::<Vec<u32>>(&run.tell(vec![fired(1)])), [1, 2, 3]);
}

#[test]
fn each_message_goes_to_the_receiver_that_has_waited_longest() {
    let (_, commands) = Run::of((), |ctx, (): ()| async move {
        let (sender, receiver) = ctx.channel();
        let takes = ctx.join_all(0..3, move |ctx, _: u32| {
            let receiver = receiver.clone();
            async move { receiver.receive(&ctx).await }
        });
        let sends = ctx.spawn(|_| async move {
            for message in ["a", "b"] {
                sender.send(message.to_owned());
            }
        });
        sends.await;
        takes.await.into_iter().collect::<Result<Vec<Option<String>>, _>>().map_err(Exit::from)
    });
    let got = result::<Vec<Option<String>>>(&commands);
    assert_eq!(got, [Some("a".to_owned()), Some("b".to_owned()), None]);
}

#[test]
fn a_wait_ends_with_the_scope_of_the_context_that_waits() {
    let (_, commands) = Run::of((), |ctx, (): ()| async move {
        let mutex = ctx.mutex(());
        let permits = ctx.semaphore(NonZeroUsize::MIN);
        let (_sender, receiver) = ctx.channel::<()>();
        let _held = (mutex.lock(&ctx).await?, permits.acquire(&ctx).await?);
        let mut reasons = Vec::new();
        let (one, two) = (mutex.clone(), permits.clone());
        let branches = [
            ctx.spawn(|ctx| async move { one.lock(&ctx).await.map(drop) }),
            ctx.spawn(|ctx| async move { two.acquire(&ctx).await.map(drop) }),
            ctx.spawn(|ctx| async move { receiver.receive(&ctx).await.map(drop) }),
        ];
        ctx.spawn(|_| async {}).await;
        for branch in branches {
            branch.cancel("not needed");
            reasons.push(branch.await.unwrap_err().reason);
        }
        // What is free can be taken in a cancelled scope as well: it is for cleaning up.
        let (scoped, scope) = ctx.scope();
        scope.cancel("enough");
        drop(ctx.mutex(()).lock(&scoped).await?);
        Ok(reasons)
    });
    assert_eq!(result::<Vec<String>>(&commands), ["not needed"; 3]);
}

#[test]
fn a_wait_ends_with_its_scope_in_runs_by_older_rules_too() {
    let registry = Arc::new(Registry::new().workflow("test", |ctx: Context, (): ()| async move {
        let (_sender, receiver) = ctx.channel::<()>();
        receiver.receive(&ctx).await?;
        Ok(())
    }));
    let mut run = Run::new(&registry, InstanceOptions::default());
    let old = Start { rules: 0, ..Start::new("test", "id", vec![]) };
    run.tell(vec![Job::Start(Box::new(old))]);
    assert_eq!(kinds(&run.tell(vec![Job::Cancel { reason: String::new() }])), ["cancelled"]);
}

#[test]
fn a_branch_that_was_given_its_turn_and_ends_passes_it_on() {
    let (mut run, _) = Run::of((), |ctx, (): ()| async move {
        let (mutex, log) = (ctx.mutex(0), ctx.state(Vec::new()));
        let guard = mutex.lock(&ctx).await?;
        let waits = |name: &'static str| {
            let (mutex, log) = (mutex.clone(), log.clone());
            ctx.spawn(move |ctx| async move {
                let _guard = mutex.lock(&ctx).await?;
                log.change(|log| log.push(name));
                ctx.timer(SECOND).await
            })
        };
        let (first, second) = (waits("first"), waits("second"));
        ctx.timer(SECOND).await?;
        // The first has the turn, and is ended before it runs.
        drop(guard);
        first.abort("not needed");
        second.await?;
        Ok(log.get())
    });
    assert_eq!(kinds(&run.tell(vec![fired(1)])), ["start_timer"]);
    assert_eq!(result::<Vec<String>>(&run.tell(vec![fired(2)])), ["second"]);
}

#[test]
fn a_message_for_a_receiver_that_ends_is_not_lost() {
    let (mut run, _) = Run::of((), |ctx, (): ()| async move {
        let (sender, receiver) = ctx.channel();
        let theirs = receiver.clone();
        let first = ctx.spawn(|ctx| async move { theirs.receive(&ctx).await });
        ctx.timer(SECOND).await?;
        sender.send(1);
        sender.send(2);
        first.abort("not needed");
        ctx.spawn(|_| async {}).await;
        let first = receiver.receive(&ctx).await?;
        Ok((first, receiver.receive(&ctx).await?))
    });
    let commands = run.tell(vec![fired(1)]);
    assert_eq!(result::<(Option<u32>, Option<u32>)>(&commands), (Some(1), Some(2)));
}

/// So many races for a mutex that is held: each costs the same, and leaves nothing.
#[test]
fn waits_that_are_dropped_are_forgotten() {
    let polls = |races: u32| {
        let (run, commands) = Run::of(races, |ctx, races: u32| async move {
            let mutex = ctx.mutex(7);
            let (_sender, receiver) = ctx.channel::<()>();
            let guard = mutex.lock(&ctx).await?;
            for _ in 0..races {
                let (mutex, receiver) = (mutex.clone(), receiver.clone());
                let race = ctx
                    .race()
                    .branch(|ctx| async move { mutex.lock(&ctx).await.map(drop) })
                    .branch(|ctx| async move { receiver.receive(&ctx).await.map(drop) })
                    .branch(|ctx| async move { ctx.timer(Duration::ZERO).await });
                assert_eq!(race.await.0, 2);
            }
            drop(guard);
            // A wait that had been kept would have the mutex now.
            Ok(*mutex.lock(&ctx).await?)
        });
        assert_eq!(result::<u32>(&commands), 7);
        run.instance.polls()
    };
    let (few, many) = (polls(1_000), polls(8_000));
    assert!(many < few * 9, "{few} polls for 1,000 races, {many} for 8,000");
}

#[test]
fn sending_from_a_query_is_refused() {
    let (mut run, _) = Run::of((), |ctx, (): ()| async move {
        let (sender, receiver) = ctx.channel();
        ctx.on_query("send", &ctx.state(()), move |(), (): ()| {
            sender.send(1);
            Ok(())
        });
        Ok(receiver.receive(&ctx).await?)
    });
    let commands = run.tell(vec![query("send")]);
    let [Command::QueryAnswer { answer: QueryAnswer::Failed { failure }, .. }] = &commands[..] else {
        panic!("{commands:?}")
    };
    assert!(failure.message.starts_with("the query tried to send to a channel"), "{failure}");
}

#[test]
fn the_error_for_a_foreign_wait_names_what_to_use_instead() {
    let registry = Arc::new(Registry::new().workflow("test", |_: Context, (): ()| async move {
        std::future::pending::<()>().await;
        Ok(())
    }));
    let failure = Run::new(&registry, InstanceOptions::default()).activate(vec![start("test", ())]);
    let failure = failure.unwrap_err().to_string();
    for instead in
        ["`ctx.timer`", "`ctx.mutex`", "`ctx.semaphore`", "`ctx.channel`", "`ctx.slot`", "an activity"]
    {
        assert!(failure.contains(instead), "{failure}");
    }
}

#[test]
fn a_mutex_of_another_run_is_told_as_foreign() {
    let (sent, received) = std::sync::mpsc::channel();
    let (_one, _) = Run::of((), move |ctx, (): ()| {
        let sent = sent.clone();
        async move {
            sent.send(ctx.mutex(1)).unwrap();
            Ok(ctx.timer(SECOND).await?)
        }
    });
    let mutex = received.recv().unwrap();
    let registry = Arc::new(Registry::new().workflow("test", move |ctx: Context, (): ()| {
        let mutex = mutex.clone();
        async move {
            drop(mutex.lock(&ctx).await?);
            Ok(())
        }
    }));
    let failure = Run::new(&registry, InstanceOptions::default()).activate(vec![start("test", ())]);
    assert!(matches!(failure, Err(ActivationFailure::Foreign(_))), "{failure:?}");
}
