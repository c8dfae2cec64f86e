//! An owner that has lost its partition, and one that only seems to.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod several;
mod support;

use std::sync::Arc;
use std::time::Duration;

use seriatim_engine::doctor::Treatment;
use seriatim_engine::{Answer, Engine, Options, PartitionStatus, SubmitError};
use seriatim_env::{Env, Task, simulate};
use seriatim_storage::{Held, Log};
use seriatim_storage_testing::faulty::{Fault, Faults, FaultyLog, Operation};
use seriatim_types::{ErrorKind, Partition, WorkspaceId};
use several::{World, memory, own_everything, partitions, stand_by_everything};
use support::{invoice, till};

struct Two {
    world: World,
    first: Engine,
    second: Engine,
    first_faults: Faults,
    second_faults: Faults,
    workspace: WorkspaceId,
    partition: Partition,
}

async fn two(env: &Env) -> Two {
    let world = World::new(env, Options { retry: Duration::from_millis(20), ..Options::default() });
    let (first_faults, second_faults) = (Faults::new(env), Faults::new(env));
    let faulty = |faults: &Faults| Log::new(FaultyLog::new(Arc::new(world.log.reopen()), faults));
    let first = world.join_on("first", faulty(&first_faults), memory(), vec![till()]).await.unwrap();
    own_everything(&first).await;
    let second = world.join_on("second", faulty(&second_faults), memory(), vec![till()]).await.unwrap();
    stand_by_everything(&second).await;
    let workspace = support::workspace(&first, "corner").await;
    let id = first.partition_of("till", workspace).unwrap();
    let partition = partitions(&first, "till").into_iter().find(|partition| partition.id == id).unwrap();
    Two { world, first, second, first_faults, second_faults, workspace, partition }
}

impl Two {
    fn status(&self, engine: &Engine) -> PartitionStatus {
        let states = engine.partitions("till").unwrap();
        states.into_iter().find(|state| state.partition == self.partition).unwrap().status
    }

    async fn held(&self) -> Held {
        Log::new(self.world.log.reopen()).holder(self.partition).await.unwrap().unwrap()
    }

    fn bill(&self, env: &Env, engine: &Engine, key: &str) -> Task<Result<Answer, SubmitError>> {
        let (engine, workspace, request) =
            (engine.clone(), self.workspace, invoice("1.00").idempotency_key(key));
        env.spawn(async move { engine.submit("till", workspace, &request).await })
    }

    async fn check(&self, numbers: u64) {
        let is_first = self.held().await.take.holder == *self.first.holder();
        let owner = if is_first { &self.first } else { &self.second };
        let audit = owner.audit("till", self.workspace, "InvoiceNumber").await.unwrap();
        assert!(audit.is_complete(), "{audit:?}");
        assert_eq!(audit.numbers.count, numbers);
        for engine in [&self.first, &self.second] {
            if engine.holder() != owner.holder() {
                engine.stand_by(self.partition).await.unwrap();
            }
            let report = engine.doctor(&memory(), Treatment::Check, &mut |_| {}).await.unwrap();
            assert!(report.is_clean(), "{report:?}");
        }
        self.world.close().await;
    }
}

/// An append is in doubt, and another engine takes the partition over before it is settled: before the owner begins to settle it, or
/// while its take-over is on the way.
fn in_doubt_and_deposed(fault: Fault, is_written: bool) {
    for is_settling in [false, true] {
        depose_in_doubt(fault, is_written, is_settling);
    }
}

fn depose_in_doubt(fault: Fault, is_written: bool, is_settling: bool) {
    simulate(1, |env| async move {
        let two = two(&env).await;
        two.bill(&env, &two.first, "before").await.unwrap().unwrap();
        two.first_faults.fail_nth(Operation::Append, 1, fault);
        let settling = match (is_settling, is_written) {
            (true, _) => two.first_faults.hold(Operation::Take),
            (false, true) => two.first_faults.hold_answers(Operation::Append),
            (false, false) => two.first_faults.hold(Operation::Append),
        };
        let command = two.bill(&env, &two.first, "doubtful");
        settling.reached(1).await;
        two.second.own(two.partition).await.unwrap();
        let held = two.held().await;
        assert_eq!(held.take.holder, *two.second.holder());
        settling.release();
        match command.await.unwrap() {
            Ok(answer) => {
                assert!(is_written);
                assert_eq!(answer.number(1, "number"), Some(2));
            }
            Err(error) => {
                assert!(!is_written, "{error}");
                assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
            }
        }
        let repeated = two.bill(&env, &two.second, "doubtful").await.unwrap().unwrap();
        assert_eq!((repeated.repeated, repeated.number(1, "number")), (is_written, Some(2)));
        // It is deposed, says by whom, and does not take the partition back.
        let elsewhere = PartitionStatus::Elsewhere { holder: Some(two.second.holder().clone()) };
        assert_eq!(two.status(&two.first), elsewhere);
        for key in ["later", "much later"] {
            let refused = two.bill(&env, &two.first, key).await.unwrap().unwrap_err();
            assert!(matches!(refused, SubmitError::NotHere { .. }), "{refused}");
            env.sleep(Duration::from_secs(60)).await;
        }
        let read = two.first.sequences("till", two.workspace).await.map(drop);
        assert!(
            matches!(read, Err(SubmitError::NotHere { .. })),
            "it does not read what it no longer follows"
        );
        let now = two.held().await;
        assert_eq!((now.epoch, now.take), (held.epoch, held.take));
        two.check(2).await;
    });
}

#[test]
fn a_deposed_owner_does_not_take_back_when_its_append_is_in_the_log() {
    in_doubt_and_deposed(Fault::LoseReply, true);
}

#[test]
fn a_deposed_owner_does_not_take_back_when_its_append_is_not_in_the_log() {
    in_doubt_and_deposed(Fault::LoseRequest, false);
}

/// The append arrives after the take-over.
#[test]
fn a_deposed_owner_does_not_take_back_when_its_append_is_late() {
    simulate(1, |env| async move {
        let two = two(&env).await;
        let appending = two.first_faults.hold(Operation::Append);
        let command = two.bill(&env, &two.first, "late");
        appending.reached(1).await;
        two.second.own(two.partition).await.unwrap();
        let held = two.held().await;
        appending.release();
        let refused = command.await.unwrap().unwrap_err();
        assert!(matches!(refused, SubmitError::NotHere { .. }), "{refused}");
        env.sleep(Duration::from_secs(60)).await;
        assert_eq!(two.held().await.epoch, held.epoch);
        assert_eq!(two.bill(&env, &two.second, "late").await.unwrap().unwrap().number(1, "number"), Some(1));
        two.check(1).await;
    });
}

/// The append was written, the reply says that the epoch is stale: only the entry in the log tells.
#[test]
fn an_append_that_was_written_before_the_take_over_is_acknowledged() {
    simulate(1, |env| async move {
        let two = two(&env).await;
        two.first_faults.fail_nth(Operation::Append, 1, Fault::LoseReply);
        let settling = two.first_faults.hold(Operation::Take);
        let command = two.bill(&env, &two.first, "a");
        settling.reached(1).await;
        two.second.own(two.partition).await.unwrap();
        let other = two.bill(&env, &two.second, "b").await.unwrap().unwrap();
        assert_eq!(other.number(1, "number"), Some(2), "the second one has found the first number");
        settling.release();
        assert_eq!(command.await.unwrap().unwrap().number(1, "number"), Some(1));
        two.check(2).await;
    });
}

#[test]
fn a_lost_reply_to_a_take_is_not_a_deposition_when_a_partition_is_owned() {
    for fault in [Fault::LoseReply, Fault::LoseRequest] {
        simulate(1, |env| async move {
            let two = two(&env).await;
            two.bill(&env, &two.first, "a").await.unwrap().unwrap();
            let before = two.held().await.epoch;
            two.second_faults.fail_nth(Operation::Take, 1, fault);
            two.second.own(two.partition).await.unwrap();
            assert_eq!(two.second_faults.count(Operation::Take), 2);
            let held = two.held().await;
            assert_eq!((held.epoch, &held.take.holder), (before.next().unwrap(), two.second.holder()));
            assert_eq!(two.status(&two.second), PartitionStatus::Ready);
            let answer = two.bill(&env, &two.second, "b").await.unwrap().unwrap();
            assert_eq!(answer.number(1, "number"), Some(2));
            two.check(2).await;
        });
    }
}

#[test]
fn a_lost_reply_to_a_take_is_not_a_deposition_when_an_append_is_settled() {
    for (append, is_written) in [(Fault::LoseReply, true), (Fault::LoseRequest, false)] {
        for take in [Fault::LoseReply, Fault::LoseRequest] {
            simulate(1, |env| async move {
                let two = two(&env).await;
                two.first_faults.fail_nth(Operation::Append, 1, append);
                two.first_faults.fail_nth(Operation::Take, 1, take);
                let command = two.bill(&env, &two.first, "a").await.unwrap();
                // The log did not answer the first attempt to settle, so the caller may be told that the outcome is in doubt.
                if let Err(error) = &command {
                    let kinds = [ErrorKind::InDoubt, ErrorKind::Unavailable];
                    assert!(kinds.contains(&error.kind()), "{error}");
                    assert!(!is_written || error.kind() == ErrorKind::InDoubt, "{error}");
                }
                env.sleep(Duration::from_secs(1)).await;
                assert_eq!(two.status(&two.first), PartitionStatus::Ready, "it still owns the partition");
                let again = two.bill(&env, &two.first, "a").await.unwrap().unwrap();
                assert_eq!((again.repeated, again.number(1, "number")), (is_written, Some(1)));
                assert_eq!(two.held().await.take.holder, *two.first.holder());
                two.check(1).await;
            });
        }
    }
}
