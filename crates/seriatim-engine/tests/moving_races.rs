//! Moves that meet each other, a failing storage, the doctor or the end of the engine.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod several;
mod support;

use std::sync::Arc;
use std::time::Duration;

use seriatim_engine::doctor::Treatment;
use seriatim_engine::{
    Access, AsyncProjector, Engine, NextRequest, Options, PartitionStatus, Projected, Scope, SubmitError,
};
use seriatim_env::{Env, Task, simulate};
use seriatim_storage::memory::{MemoryLog, MemoryStore};
use seriatim_storage::{Log, Store};
use seriatim_storage_testing::faulty::{Fault, Faults, FaultyLog, FaultyStore, Operation};
use seriatim_types::{ErrorKind, Partition, WorkspaceId};
use several::{SYS, World, memory, own_everything, partitions, stand_by_everything};
use support::{invoice, till};

/// More than any move takes that waits for storage only.
const LONG: Duration = Duration::from_secs(600);

fn faulty(log: &MemoryLog, faults: &Faults) -> Log {
    Log::new(FaultyLog::new(Arc::new(log.reopen()), faults))
}

/// Two engines: the first one owns everything, the second one follows everything. The storage of both can fail.
struct Two {
    world: World,
    first: Engine,
    second: Engine,
    first_faults: Faults,
    second_faults: Faults,
    workspace: WorkspaceId,
    /// The partition of the workspace.
    partition: Partition,
}

async fn two(env: &Env) -> Two {
    let options = Options { flush_interval: Duration::from_millis(50), ..Options::default() };
    let world = World::new(env, options);
    let (first_faults, second_faults) = (Faults::new(env), Faults::new(env));
    let store = |faults: &Faults| Store::new(FaultyStore::new(Arc::new(MemoryStore::new()), faults));
    let join = |name: &'static str, faults: Faults| {
        let (world, log, store) = (world.clone(), faulty(&world.log, &faults), store(&faults));
        async move { world.join_on(name, log, store, vec![till()]).await.unwrap() }
    };
    let first = join("first", first_faults.clone()).await;
    own_everything(&first).await;
    let second = join("second", second_faults.clone()).await;
    stand_by_everything(&second).await;
    let workspace = support::workspace(&first, "corner").await;
    let id = first.partition_of("till", workspace).unwrap();
    let partition = partitions(&first, "till").into_iter().find(|partition| partition.id == id).unwrap();
    Two { world, first, second, first_faults, second_faults, workspace, partition }
}

async fn bill(engine: &Engine, workspace: WorkspaceId, count: usize) {
    for _ in 0..count {
        engine.submit("till", workspace, &invoice("1.00")).await.unwrap();
    }
}

/// Another workspace of the same partition.
async fn other_workspace(engine: &Engine, partition: Partition) -> WorkspaceId {
    for number in 0..100 {
        let workspace = support::workspace(engine, &format!("shop {number}")).await;
        if engine.partition_of("till", workspace).unwrap() == partition.id {
            return workspace;
        }
    }
    panic!("all workspaces are in other partitions");
}

async fn assert_clean(engine: &Engine) {
    let report = engine.doctor(&memory(), Treatment::Check, &mut |_| {}).await.unwrap();
    assert!(report.is_clean(), "{}: {report:?}", engine.holder());
}

fn status(engine: &Engine, partition: Partition) -> PartitionStatus {
    let states = engine.all_partitions().into_iter().map(|(_, state)| state);
    states.into_iter().find(|state| state.partition == partition).unwrap().status
}

fn spawn_own(env: &Env, engine: &Engine, partition: Partition) -> Task<Result<(), SubmitError>> {
    let engine = engine.clone();
    env.spawn(async move { engine.own(partition).await })
}

/// The recovery of an owner and the standby that follows it would both fill the overlay.
#[test]
fn a_partition_that_is_released_while_it_recovers_is_filled_once() {
    for seed in 0..30 {
        simulate(seed, |env| async move {
            let two = two(&env).await;
            let (first, second) = (two.first.clone(), two.second.clone());
            bill(&first, two.workspace, 20).await;
            let other = other_workspace(&first, two.partition).await;
            // The second one takes the partition, and its recovery waits for the log.
            let taking = two.second_faults.hold(Operation::Take);
            let owning = spawn_own(&env, &second, two.partition);
            taking.reached(1).await;
            two.second_faults.delay(Operation::Read, Duration::from_secs(3));
            bill(&first, two.workspace, 20).await;
            taking.release();
            while !second.owns(two.partition) {
                env.sleep(Duration::from_millis(1)).await;
            }
            first.own(two.partition).await.unwrap();
            bill(&first, other, 20).await;
            second.release(two.partition).await.unwrap();
            bill(&first, other, 20).await;
            let _ = env.timeout(LONG, owning).await.expect("it ends");
            two.second_faults.heal();
            // The slowest read of the recovery has returned.
            env.sleep(Duration::from_secs(10)).await;
            assert!(second.wait_ready(LONG).await);
            assert_eq!(status(&second, two.partition), PartitionStatus::Standby);
            assert_clean(&second).await;
            second.own(two.partition).await.unwrap();
            bill(&second, two.workspace, 1).await;
            assert_clean(&second).await;
            two.world.close().await;
        });
    }
}

#[test]
fn a_partition_does_not_move_while_the_doctor_holds_it() {
    simulate(1, |env| async move {
        let two = two(&env).await;
        bill(&two.first, two.workspace, 20).await;
        two.second.sequences("till", two.workspace).await.unwrap();
        // What the log does not explain: the doctor removes it, and the standby begins again.
        let scanning = two.second_faults.hold(Operation::ScanPage);
        let doctor = {
            let second = two.second.clone();
            env.spawn(async move { second.doctor(&memory(), Treatment::Rebuild, &mut |_| {}).await })
        };
        scanning.reached(1).await;
        let owning: Vec<_> = two
            .second
            .every_partition()
            .into_iter()
            .map(|partition| spawn_own(&env, &two.second, partition))
            .collect();
        env.sleep(Duration::from_secs(5)).await;
        assert_ne!(status(&two.second, SYS), PartitionStatus::Ready, "the registry is held");
        scanning.release();
        let report = env.timeout(LONG, doctor).await.expect("the doctor ends").unwrap().unwrap();
        assert!(report.problems.is_empty(), "{report:?}");
        for owning in owning {
            env.timeout(LONG, owning).await.expect("the move ends").unwrap().unwrap();
        }
        assert!(two.second.wait_ready(LONG).await);
        bill(&two.second, two.workspace, 1).await;
        two.second.sequences("till", two.workspace).await.unwrap();
        assert_clean(&two.second).await;
        two.world.close().await;
    });
}

#[test]
fn tokens_of_one_group_are_all_known_to_a_standby() {
    simulate(1, |env| async move {
        let two = two(&env).await;
        let admin = || Scope::everywhere(Access::Admin);
        two.first.tokens().create(&[admin()], None).await.unwrap();
        let creating: Vec<_> = (0..20)
            .map(|_| {
                let first = two.first.clone();
                env.spawn(async move {
                    first.tokens().create(&[Scope::everywhere(Access::Admin)], None).await.unwrap()
                })
            })
            .collect();
        let mut tokens = Vec::new();
        for creating in creating {
            tokens.push(creating.await.unwrap());
        }
        two.second.tokens().list(None, 100).await.unwrap();
        for engine in [&two.first, &two.second] {
            let known = tokens.iter().filter(|token| engine.tokens().verify(token.secret.reveal()).is_some());
            assert_eq!(known.count(), tokens.len(), "{}", engine.holder());
        }
        two.world.close().await;
    });
}

/// The first engine does not know that it no longer owns the registry.
#[test]
fn what_a_deposed_owner_of_the_registry_has_forwarded_is_not_denied() {
    simulate(1, |env| async move {
        let two = two(&env).await;
        two.second.own(SYS).await.unwrap();
        let put = env.timeout(LONG, two.first.blocks().put("ids", 1, 10)).await.expect("an answer");
        let state = two.second.blocks().state("ids").await;
        match put {
            Ok(_) => drop(state.unwrap()),
            Err(error) if error.kind() == ErrorKind::InDoubt => {}
            Err(error) => panic!("it is {}, and the answer was: {error}", state.is_ok()),
        }
        two.world.close().await;
    });
}

#[test]
fn a_token_is_not_reported_as_revoked_while_a_deposed_owner_accepts_it() {
    simulate(1, |env| async move {
        let two = two(&env).await;
        let admin = || Scope::everywhere(Access::Admin);
        let kept = two.first.tokens().create(&[admin()], None).await.unwrap();
        let token = two.first.tokens().create(&[admin()], None).await.unwrap();
        two.second.own(SYS).await.unwrap();
        let revoked =
            env.timeout(LONG, two.second.tokens().revoke(&token.token.id)).await.expect("an answer");
        assert!(two.second.tokens().verify(token.secret.reveal()).is_none());
        let accepted = two.first.tokens().verify(token.secret.reveal()).is_some();
        assert!(revoked.is_err() || !accepted, "the first engine accepts it");
        // It follows the new owner, and has applied it then.
        two.first.stand_by(SYS).await.unwrap();
        let again = two.second.tokens().revoke(&kept.token.id).await;
        again.unwrap();
        for token in [kept, token] {
            assert!(two.first.tokens().verify(token.secret.reveal()).is_none());
        }
        two.world.close().await;
    });
}

#[test]
fn a_command_that_meets_a_release_is_answered_with_not_here() {
    for seed in 0..50 {
        simulate(seed, |env| async move {
            let two = two(&env).await;
            two.first_faults.delay(Operation::Append, Duration::from_millis(3));
            let commands: Vec<_> = (0..40)
                .map(|_| {
                    let (first, workspace, env) = (two.first.clone(), two.workspace, env.clone());
                    let wait = Duration::from_micros(env.random_below(8_000));
                    env.clone().spawn(async move {
                        env.sleep(wait).await;
                        first.submit("till", workspace, &invoice("1.00")).await
                    })
                })
                .collect();
            env.sleep(Duration::from_millis(4)).await;
            two.first.release(two.partition).await.unwrap();
            two.second.own(two.partition).await.unwrap();
            let mut acknowledged = 0;
            for command in commands {
                match command.await.unwrap() {
                    Ok(_) => acknowledged += 1,
                    Err(SubmitError::NotHere { .. }) => {}
                    Err(error) => panic!("{error:?}"),
                }
            }
            let states = two.second.sequences("till", two.workspace).await.unwrap();
            let next = states.iter().find(|state| &*state.name == "InvoiceNumber").unwrap().next;
            assert_eq!(next.map(|next| next.get()), Some(acknowledged + 1));
            two.world.close().await;
        });
    }
}

#[test]
fn owning_ends_when_the_partition_is_left_meanwhile() {
    simulate(1, |env| async move {
        let two = two(&env).await;
        let taking = two.second_faults.hold(Operation::Take);
        let owning = spawn_own(&env, &two.second, two.partition);
        taking.reached(1).await;
        let reading = two.second_faults.hold(Operation::Read);
        bill(&two.first, two.workspace, 5).await;
        taking.release();
        while !two.second.owns(two.partition) {
            env.sleep(Duration::from_millis(1)).await;
        }
        two.second.leave(two.partition, None).await.unwrap();
        assert!(env.timeout(LONG, owning).await.expect("it ends").unwrap().is_err());
        reading.release();
        two.second.stand_by(two.partition).await.unwrap();
        assert!(two.second.wait_ready(LONG).await);
        assert_clean(&two.second).await;
        two.world.close().await;
    });
}

#[test]
fn closing_ends_a_move_that_waits_for_the_log() {
    simulate(1, |env| async move {
        let two = two(&env).await;
        let hold = two.second_faults.hold(Operation::Tail);
        let owning = spawn_own(&env, &two.second, two.partition);
        hold.reached(1).await;
        env.timeout(LONG, two.second.close()).await.expect("it closes");
        assert!(env.timeout(LONG, owning).await.expect("it ends").unwrap().is_err());
        drop(hold);
        two.first.close().await;
    });
}

#[test]
fn an_engine_that_is_closed_moves_nothing() {
    simulate(1, |env| async move {
        let two = two(&env).await;
        two.second.leave(two.partition, None).await.unwrap();
        two.second.close().await;
        for partition in two.second.every_partition() {
            let owned = env.timeout(LONG, two.second.own(partition)).await.expect("an answer");
            assert!(matches!(owned, Err(SubmitError::Closed)), "{owned:?}");
            let followed = env.timeout(LONG, two.second.stand_by(partition)).await.expect("an answer");
            assert!(matches!(followed, Err(SubmitError::Closed)), "{followed:?}");
        }
        let read = env.timeout(LONG, two.second.sequences("till", two.workspace)).await.expect("an answer");
        assert!(read.is_err());
        assert!(two.first.owns(two.partition));
        bill(&two.first, two.workspace, 1).await;
        two.first.close().await;
    });
}

#[test]
fn a_read_of_the_registry_is_bounded_while_its_standby_begins_again() {
    simulate(1, |env| async move {
        let two = two(&env).await;
        // The standby stops, because its store has a defect, and begins again on a log that does not answer.
        two.second_faults.fail(Operation::Get | Operation::GetMany, Fault::Panic);
        support::workspace(&two.first, "harbour").await;
        while !matches!(status(&two.second, SYS), PartitionStatus::Stopped(_)) {
            env.sleep(Duration::from_millis(10)).await;
        }
        two.second_faults.heal();
        two.second_faults.fail(Operation::Tail, Fault::LoseReply);
        two.second.stand_by(SYS).await.unwrap();
        let named = env.timeout(LONG, two.second.workspace_named("till", "corner")).await.expect("an answer");
        let kind = named.map_err(|error| error.kind());
        assert!(matches!(kind, Err(ErrorKind::Busy | ErrorKind::Unavailable)), "{kind:?}");
        two.second_faults.heal();
        assert!(two.second.wait_ready(LONG).await);
        assert_eq!(two.second.workspace_named("till", "corner").await.unwrap(), Some(two.workspace));
        two.world.close().await;
    });
}

#[test]
fn a_release_that_storage_does_not_answer_leaves_no_second_writer() {
    simulate(1, |env| async move {
        let two = two(&env).await;
        bill(&two.first, two.workspace, 5).await;
        let appending = two.first_faults.hold(Operation::Append);
        let command = {
            let (first, workspace) = (two.first.clone(), two.workspace);
            env.spawn(async move { first.submit("till", workspace, &invoice("1.00")).await })
        };
        appending.reached(1).await;
        let released = two.first.release(two.partition).await;
        assert!(matches!(released, Err(SubmitError::NotIdle { .. })), "{released:?}");
        two.second.own(two.partition).await.unwrap();
        bill(&two.second, two.workspace, 5).await;
        env.timeout(LONG, two.first.stand_by(two.partition)).await.expect("an answer").unwrap();
        assert!(two.first.wait_ready(LONG).await);
        appending.release();
        let answer = env.timeout(LONG, command).await.expect("an answer").unwrap();
        assert!(matches!(
            answer.map_err(|error| error.kind()),
            Err(ErrorKind::InDoubt | ErrorKind::Unavailable)
        ));
        env.timeout(LONG, two.first.own(two.partition)).await.expect("an answer").unwrap();
        bill(&two.first, two.workspace, 1).await;
        let states = two.first.sequences("till", two.workspace).await.unwrap();
        let next = states.iter().find(|state| &*state.name == "InvoiceNumber").unwrap().next;
        assert_eq!(next.map(|next| next.get()), Some(12));
        two.second.stand_by(two.partition).await.unwrap();
        for engine in [&two.first, &two.second] {
            assert_clean(engine).await;
        }
        two.world.close().await;
    });
}

/// A standby that has stopped and begins again: what it was writing must not land on what is written later.
#[test]
fn a_standby_that_begins_again_waits_for_the_write_before() {
    for seed in 0..20 {
        simulate(seed, |env| async move {
            let two = two(&env).await;
            bill(&two.first, two.workspace, 5).await;
            two.second_faults.delay(Operation::Write, Duration::from_secs(8));
            env.sleep(Duration::from_millis(60)).await;
            bill(&two.first, two.workspace, 5).await;
            env.sleep(Duration::from_millis(60)).await;
            two.second_faults.fail(Operation::Get | Operation::GetMany, Fault::Panic);
            let before = env.instant();
            while !matches!(status(&two.second, two.partition), PartitionStatus::Stopped(_)) {
                // A workspace that the standby has not in memory.
                let other = support::workspace(&two.first, &format!("{}", env.random())).await;
                bill(&two.first, other, 1).await;
                env.sleep(Duration::from_millis(1)).await;
                assert!(env.instant() < before + Duration::from_secs(5), "it stops");
            }
            two.second_faults.heal();
            for partition in two.second.every_partition() {
                two.second.stand_by(partition).await.unwrap();
            }
            assert!(two.second.wait_ready(LONG).await);
            bill(&two.first, two.workspace, 5).await;
            env.sleep(Duration::from_secs(30)).await;
            assert_clean(&two.second).await;
            two.world.close().await;
        });
    }
}

/// Moves of one partition that are requested at the same time: each ends, and the last state is a correct one.
#[test]
fn moves_at_the_same_time_end_and_agree() {
    for seed in 0..60 {
        simulate(seed, |env| async move {
            let two = two(&env).await;
            for faults in [&two.first_faults, &two.second_faults] {
                faults.delay(
                    Operation::Take | Operation::Read | Operation::Append | Operation::Write,
                    Duration::from_millis(4),
                );
            }
            let mut moves = Vec::new();
            for _ in 0..30 {
                let engine = if env.random_below(2) == 0 { two.first.clone() } else { two.second.clone() };
                let (choice, partition, workspace) = (env.random_below(6), two.partition, two.workspace);
                moves.push(env.spawn(async move {
                    match choice {
                        0 | 1 => drop(engine.own(partition).await),
                        2 => drop(engine.release(partition).await),
                        3 => drop(engine.stand_by(partition).await),
                        4 => drop(engine.leave(partition, None).await),
                        _ => drop(engine.doctor(&memory(), Treatment::Check, &mut |_| {}).await),
                    }
                    let _ = engine.submit("till", workspace, &invoice("1.00")).await;
                }));
                env.sleep(Duration::from_micros(env.random_below(6_000))).await;
            }
            for one in moves {
                env.timeout(LONG, one).await.expect("a move ends").unwrap();
            }
            env.timeout(LONG, two.second.own(two.partition)).await.expect("an answer").unwrap();
            two.first.stand_by(two.partition).await.unwrap();
            bill(&two.second, two.workspace, 1).await;
            for engine in [&two.first, &two.second] {
                assert!(engine.wait_ready(LONG).await);
                assert_clean(engine).await;
            }
            let audit = two.second.audit("till", two.workspace, "InvoiceNumber").await.unwrap();
            assert!(audit.is_complete(), "{audit:?}");
            two.world.close().await;
        });
    }
}

/// A call that is dropped, because its caller no longer waits, leaves a partition that can move.
#[test]
fn a_move_that_no_one_waits_for_leaves_nothing_half_done() {
    for seed in 0..60 {
        simulate(seed, |env| async move {
            let two = two(&env).await;
            for faults in [&two.first_faults, &two.second_faults] {
                faults.delay(Operation::Take | Operation::Read | Operation::Append, Duration::from_millis(4));
            }
            for _ in 0..10 {
                let engine = if env.random_below(2) == 0 { &two.first } else { &two.second };
                let within = Duration::from_micros(env.random_below(12_000));
                let _ = match env.random_below(3) {
                    0 => env.timeout(within, engine.own(two.partition)).await,
                    1 => env.timeout(within, engine.release(two.partition)).await,
                    _ => env.timeout(within, engine.leave(two.partition, None)).await,
                };
                let _ = env.timeout(within, two.first.submit("till", two.workspace, &invoice("1.00"))).await;
            }
            // The moves that no one waits for have ended, and the first engine does not take the partition again.
            env.sleep(Duration::from_secs(1)).await;
            two.first.stand_by(two.partition).await.unwrap();
            let owned = env.timeout(LONG, two.second.own(two.partition)).await;
            owned.expect("an answer").unwrap();
            two.first.stand_by(two.partition).await.unwrap();
            bill(&two.second, two.workspace, 1).await;
            for engine in [&two.first, &two.second] {
                assert!(engine.wait_ready(LONG).await);
                assert_clean(engine).await;
            }
            two.world.close().await;
        });
    }
}

/// The bounds of memory are divided among what is open: a partition that has left does not count.
#[test]
fn many_moves_leave_no_memory_behind() {
    simulate(1, |env| async move {
        let two = two(&env).await;
        for _ in 0..200 {
            two.second.own(two.partition).await.unwrap();
            bill(&two.second, two.workspace, 1).await;
            two.first.stand_by(two.partition).await.unwrap();
            two.first.own(two.partition).await.unwrap();
            bill(&two.first, two.workspace, 1).await;
            two.second.leave(two.partition, None).await.unwrap();
        }
        two.second.stand_by(two.partition).await.unwrap();
        assert!(two.second.wait_ready(LONG).await);
        assert_clean(&two.second).await;
        let request = NextRequest::default();
        two.first.series().next("invoices", &request).await.unwrap();
        two.world.close().await;
    });
}

/// A standby that is late does not deny what another engine has created.
#[test]
fn nothing_is_denied_before_the_end_of_the_log() {
    simulate(1, |env| async move {
        let two = two(&env).await;
        let reading = two.second_faults.hold(Operation::Read);
        let created = support::workspace(&two.first, "harbour").await;
        let early = two.second.workspace_named("till", "harbour").await.map_err(|error| error.kind());
        assert_eq!(early, Err(ErrorKind::Busy), "it is not known yet");
        reading.release();
        assert_eq!(two.second.workspace_named("till", "harbour").await.unwrap(), Some(created));
        assert_eq!(two.second.workspace_named("till", "nowhere").await.unwrap(), None);
        two.world.close().await;
    });
}

/// Notes which engine was given which event.
struct Notes(&'static str, Arc<seriatim_types::sync::Mutex<Vec<(&'static str, u64)>>>);

#[async_trait::async_trait]
impl AsyncProjector for Notes {
    fn name(&self) -> &'static str {
        "notes"
    }

    async fn take(&self, event: Projected<'_>) -> Result<(), String> {
        self.1.lock().push((self.0, event.place.partition_offset.get()));
        Ok(())
    }
}

#[test]
fn an_asynchronous_projector_ends_when_its_partition_is_released_or_deposed() {
    simulate(1, |env| async move {
        let world = World::new(&env, Options::default());
        let notes = Arc::default();
        let first =
            world.join("first", memory(), vec![till().async_projector(Notes("first", Arc::clone(&notes)))]);
        let first = first.await;
        own_everything(&first).await;
        let second =
            world.join("second", memory(), vec![till().async_projector(Notes("second", Arc::clone(&notes)))]);
        let second = second.await;
        stand_by_everything(&second).await;
        let workspace = support::workspace(&first, "corner").await;
        let application = partitions(&first, "till")[0].application;
        let partition = Partition { application, id: first.partition_of("till", workspace).unwrap() };
        let wait = || env.sleep(Duration::from_secs(1));
        bill(&first, workspace, 2).await;
        wait().await;
        first.release(partition).await.unwrap();
        second.own(partition).await.unwrap();
        bill(&second, workspace, 2).await;
        wait().await;
        // Without a release: the second one notices it with its next command.
        first.own(partition).await.unwrap();
        assert!(second.submit("till", workspace, &invoice("1.00")).await.is_err());
        bill(&first, workspace, 2).await;
        wait().await;
        let expected = [("first", 1), ("first", 2), ("second", 3), ("second", 4), ("first", 5), ("first", 6)];
        assert_eq!(*notes.lock(), expected);
        world.close().await;
    });
}

#[test]
fn the_doctor_compares_a_standby_while_its_owner_works() {
    simulate(1, |env| async move {
        let two = two(&env).await;
        let working = {
            let (first, workspace) = (two.first.clone(), two.workspace);
            env.spawn(async move { bill(&first, workspace, 300).await })
        };
        two.first_faults.delay(Operation::Append, Duration::from_millis(2));
        two.second_faults.delay(Operation::Read | Operation::ScanPage, Duration::from_micros(300));
        let mut looks = 0;
        while !working.is_finished() {
            assert_clean(&two.second).await;
            looks += 1;
        }
        assert!(looks > 1, "{looks}");
        two.world.close().await;
    });
}
