//! Code that misbehaves: its run stands with a reason, and everything else continues.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::result_large_err, reason = "failures are rare")]

mod common;

use std::time::Duration;

use common::*;
use seriatim_env::simulate;
use seriatim_workflow::{Context, Exit, Failure, Registry};
use seriatim_workflow_host::{Activities, HostError};

const DAY: Duration = Duration::from_secs(86_400);

#[test]
fn a_panic_before_the_future_leaves_a_run_that_answers() {
    simulate(1, |env| async move {
        async fn waits(ctx: Context, (): ()) -> Result<(), Exit> {
            ctx.on_update(
                "break",
                |(): &()| Ok(()),
                |_, ()| -> std::future::Ready<Result<(), Failure>> { panic!("before its future") },
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
        assert!(env.instant() - before < Duration::from_secs(1), "nothing is waited for in vain");
    });
}
