//! Workflow code that breaks the rules: its run fails, and says why; nothing else does.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::result_large_err, reason = "failures are rare")]

mod common;

use std::future::{pending, poll_fn};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::Duration;

use common::*;
use seriatim_workflow::*;

const SECOND: Duration = Duration::from_secs(1);

fn fails<Fut>(code: impl Fn(Context, ()) -> Fut + Send + Sync + 'static) -> ActivationFailure
where
    Fut: Future<Output = Result<(), Exit>> + Send + 'static,
{
    let registry = Arc::new(Registry::new().workflow("test", code));
    Run::new(&registry, InstanceOptions::default()).activate(vec![start("test", ())]).unwrap_err()
}

#[test]
fn a_panic_names_its_branch() {
    let failure = fails(|ctx, ()| async move { ctx.spawn(|_| async { panic!("number {}", 7) }).await });
    assert_eq!(
        failure,
        ActivationFailure::Panicked { branch: "/1".to_owned(), message: "number 7".to_owned() }
    );
}

#[test]
fn a_panic_in_a_destructor_stays_inside() {
    struct Loud;
    impl Drop for Loud {
        fn drop(&mut self) {
            panic!("dropped");
        }
    }
    let (mut run, _) = Run::of((), |ctx, (): ()| async move {
        let _loud = Loud;
        Ok(ctx.timer(SECOND).await?)
    });
    assert_eq!(run.tell(vec![Job::Evict { reason: String::new() }]), []);
}

struct Loud;

impl Drop for Loud {
    fn drop(&mut self) {
        panic!("dropped");
    }
}

/// A type that panics where others return an error.
#[derive(serde::Serialize)]
struct Hostile;

impl<'de> serde::Deserialize<'de> for Hostile {
    fn deserialize<D: serde::Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
        panic!("hostile")
    }
}

thread_local! {
    static READ: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// A type that panics when it is read again.
struct Fussy;

impl<'de> serde::Deserialize<'de> for Fussy {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        serde::de::IgnoredAny::deserialize(from)?;
        if READ.replace(true) { panic!("hostile") } else { Ok(Self) }
    }
}

fn panicked(branch: &str, message: &str) -> ActivationFailure {
    ActivationFailure::Panicked { branch: branch.to_owned(), message: message.to_owned() }
}

#[test]
fn a_panic_before_the_code_has_returned_its_future_stays_inside() {
    let failure = fails(|_, ()| -> std::future::Ready<Result<(), Exit>> { panic!("at once") });
    assert_eq!(failure, panicked("/", "at once"));
}

#[test]
fn a_panic_in_reading_the_input_stays_inside() {
    let registry = Arc::new(Registry::new().workflow("test", |_, _: Hostile| async { Ok(()) }));
    let mut run = Run::new(&registry, InstanceOptions::default());
    assert_eq!(run.activate(vec![start("test", 1)]).unwrap_err(), panicked("/", "hostile"));
}

#[test]
fn a_panic_of_an_update_handler_before_its_future_stays_inside() {
    for (name, says) in [("at once", "at once"), ("hostile", "hostile")] {
        let (mut run, _) = Run::of((), |ctx, (): ()| async move {
            let none = ctx.state(());
            ctx.on_update_async(
                "at once",
                &none,
                |(), (): &()| Ok(()),
                |_, _, ()| -> std::future::Ready<Result<(), Failure>> { panic!("at once") },
            );
            ctx.on_update_async("hostile", &none, |(), _: &Fussy| Ok(()), |_, _, _| async { Ok(()) });
            Ok(ctx.timer(SECOND).await?)
        });
        let failure = run.activate(vec![update("u", name, ())]).unwrap_err();
        assert_eq!(failure, panicked("/0/0/1", says));
    }
}

#[test]
fn what_a_panic_throws_may_panic_when_it_is_dropped() {
    let failure = fails(|_, ()| async { std::panic::panic_any(Loud) });
    assert_eq!(failure, panicked("/", "no message"));
}

#[test]
fn a_condition_and_a_handler_may_panic_when_they_are_dropped() {
    let (mut run, _) = Run::of((), |ctx, (): ()| async move {
        let loud = Loud;
        let mut looks = 0;
        ctx.wait_until(move || {
            let _loud = &loud;
            looks += 1;
            looks > 1
        })
        .await?;
        Ok(ctx.timer(SECOND).await?)
    });
    assert_eq!(run.tell(vec![Job::Evict { reason: String::new() }]), []);
    let loud = Arc::new(Mutex::new(Some(Loud)));
    let failure = fails(move |ctx, ()| {
        let loud = loud.lock().unwrap().take();
        async move {
            ctx.on_query("q", &ctx.state(()), move |(), (): ()| Ok(loud.is_some()));
            ctx.on_query("q", &ctx.state(()), |(), (): ()| Ok(false));
            Ok(())
        }
    });
    assert_eq!(failure, panicked("/", "dropped"));
}

#[test]
fn a_handler_that_is_replaced_may_use_the_context_when_it_is_dropped() {
    struct Asks(Context);
    impl Drop for Asks {
        fn drop(&mut self) {
            drop(self.0.timer(SECOND));
        }
    }
    let (_, commands) = Run::of((), |ctx, (): ()| async move {
        let asks = Asks(ctx.clone());
        ctx.on_query("q", &ctx.state(()), move |(), (): ()| Ok(asks.0.is_cancelled()));
        ctx.on_query("q", &ctx.state(()), |(), (): ()| Ok(false));
        Ok(ctx.timer(SECOND).await?)
    });
    assert_eq!(kinds(&commands), ["start_timer", "start_timer"]);
}

#[test]
fn waiting_for_something_foreign_is_told_as_such() {
    let failure = fails(|ctx, ()| async move {
        let _timer = ctx.timer(SECOND);
        ctx.spawn(|_| pending::<()>()).await;
        Ok(())
    });
    assert_eq!(failure, ActivationFailure::Foreign(ForeignWait::Blocked { branch: "/1".to_owned() }));
}

#[test]
fn a_wake_from_outside_an_activation_is_told_as_such() {
    static WAKER: Mutex<Option<Waker>> = Mutex::new(None);
    let (mut run, _) = Run::of((), |ctx, (): ()| async move {
        let mut timer = ctx.timer(SECOND);
        poll_fn(|cx| {
            *WAKER.lock().unwrap() = Some(cx.waker().clone());
            std::pin::Pin::new(&mut timer).poll(cx)
        })
        .await?;
        Ok(())
    });
    let waker = WAKER.lock().unwrap().take().unwrap();
    #[expect(clippy::disallowed_methods, reason = "the test is about threads")]
    std::thread::spawn(move || waker.wake()).join().unwrap();
    let failure = run.activate(vec![Job::FireTimer { seq: n(1) }]).unwrap_err();
    assert_eq!(failure, ActivationFailure::Foreign(ForeignWait::Woken { branch: "/".to_owned() }));
}

#[test]
fn a_context_that_has_left_its_run_is_told_as_such() {
    static LEFT: Mutex<Option<Context>> = Mutex::new(None);
    let (mut run, _) = Run::of((), |ctx, (): ()| async move {
        *LEFT.lock().unwrap() = Some(ctx.clone());
        Ok(ctx.timer(SECOND).await?)
    });
    let left = LEFT.lock().unwrap().take().unwrap();
    drop(left.timer(SECOND));
    let failure = run.activate(vec![Job::FireTimer { seq: n(1) }]).unwrap_err();
    assert_eq!(failure, ActivationFailure::Foreign(ForeignWait::Called));
}

#[test]
fn a_branch_that_spins_is_stopped() {
    let failure = fails(|_, ()| {
        poll_fn(|cx| {
            cx.waker().wake_by_ref();
            Poll::Pending
        })
    });
    assert!(matches!(failure, ActivationFailure::Foreign(ForeignWait::Spinning { .. })), "{failure}");
}

#[test]
fn own_combinators_and_slots_work() {
    let (mut run, _) = Run::of((), |ctx, (): ()| async move {
        // Two futures in one task, polled by hand: both are woken by their own slots.
        let (mut a, mut b) = (ctx.timer(SECOND), ctx.timer(SECOND));
        let (mut fired_a, mut fired_b) = (false, false);
        poll_fn(|cx| {
            fired_a = fired_a || std::pin::Pin::new(&mut a).poll(cx).is_ready();
            fired_b = fired_b || std::pin::Pin::new(&mut b).poll(cx).is_ready();
            if fired_a && fired_b { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        let slot = ctx.slot::<u32>();
        let waiting = [slot.clone(), slot.clone()];
        let waiters = ctx.join_all(waiting, |_, slot| async move { slot.wait().await });
        assert!(slot.set(4) && !slot.set(5) && slot.is_set());
        Ok(waiters.await.into_iter().collect::<Result<Vec<u32>, _>>()?)
    });
    assert!(run.tell(vec![Job::FireTimer { seq: n(2) }]).is_empty());
    assert_eq!(result::<Vec<u32>>(&run.tell(vec![Job::FireTimer { seq: n(1) }])), [4, 4]);
}

#[test]
fn numbers_end_before_two_to_the_32() {
    let registry = Arc::new(Registry::new().workflow("test", |ctx: Context, (): ()| async move {
        ctx.timer(SECOND).await?;
        Ok(ctx.timer(SECOND).await?)
    }));
    let path = "/#1".parse().unwrap();
    let lineage = Lineage { path, digest: InputDigest::NONE };
    let mut recorded = Recorded::none();
    recorded.push(&[Command::StartTimer { seq: n(u32::MAX), lineage, duration: SECOND }]);
    let options = InstanceOptions { numbering: Numbering::ByLineage(recorded), policy: Policy::Fail };
    let mut run = Run::new(&registry, options);
    assert_eq!(run.tell(vec![start("test", ())])[0].seq(), Some((Kind::Timer, u32::MAX)));
    let failure = run.activate(vec![Job::FireTimer { seq: n(u32::MAX) }]).unwrap_err();
    assert_eq!(failure, ActivationFailure::Exhausted(Exhausted { kind: Kind::Timer }));
}

#[test]
fn a_number_that_is_in_use_is_refused() {
    let registry = Arc::new(Registry::new().workflow("test", |ctx: Context, (): ()| async move {
        let (a, b) = (ctx.timer(SECOND), ctx.timer(SECOND));
        a.await?;
        Ok(b.await?)
    }));
    let timer = |path: &str| Command::StartTimer {
        seq: n(4),
        lineage: Lineage { path: path.parse().unwrap(), digest: InputDigest::NONE },
        duration: SECOND,
    };
    let mut recorded = Recorded::none();
    recorded.push(&[timer("/#1"), timer("/#2")]);
    let options = InstanceOptions { numbering: Numbering::ByLineage(recorded), policy: Policy::Fail };
    let failure = Run::new(&registry, options).activate(vec![start("test", ())]).unwrap_err();
    assert_eq!(
        failure.to_string(),
        "timer 4 is in use, and the operation at /#2 has it too: the history is damaged"
    );
}

#[test]
fn dropping_an_instance_frees_its_code() {
    let (alive, _commands) = {
        let token = Arc::new(());
        let weak = Arc::downgrade(&token);
        let (run, commands) = Run::of((), move |ctx, (): ()| {
            let token = Arc::clone(&token);
            async move {
                let (inner, asks) = (ctx.clone(), Arc::clone(&token));
                let state = ctx.state(Arc::clone(&token));
                ctx.on_query("alive", &state, move |_, (): ()| {
                    Ok((inner.is_replaying(), Arc::strong_count(&asks)))
                });
                ctx.on_update("add", &state, |_, (): &()| Ok(()), |_, ()| Ok(()));
                ctx.on_signal("add", &state, |_, (): ()| {});
                let _token = token;
                Ok(ctx.timer(SECOND).await?)
            }
        });
        drop(run);
        (weak, commands)
    };
    assert_eq!(alive.strong_count(), 0);
}
