//! Several engines on one log: partitions move, and no number is lost, repeated or skipped.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod several;
mod support;

use std::time::Duration;

use seriatim_engine::{Access, NextRequest, Options, PartitionStatus, Scope, SubmitError};
use seriatim_env::{Env, simulate};
use seriatim_storage::{Holder, Log};
use seriatim_types::ErrorKind;
use several::{SYS, World, memory, own_everything, partitions, stand_by_everything};
use support::{invoice, till};

fn request(key: &str) -> NextRequest {
    NextRequest { idempotency_key: Some(key.to_owned()), ..NextRequest::default() }
}

async fn next(engine: &seriatim_engine::Engine, key: &str) -> Result<u64, SubmitError> {
    engine.series().next("invoices", &request(key)).await.map(|taken| taken.number)
}

/// Two engines: the first one owns everything, the second one follows everything.
async fn two(env: &Env) -> (World, seriatim_engine::Engine, seriatim_engine::Engine) {
    let world = World::new(env, Options::default());
    let first = world.join("first", memory(), vec![till()]).await;
    own_everything(&first).await;
    let second = world.join("second", memory(), vec![till()]).await;
    stand_by_everything(&second).await;
    (world, first, second)
}

#[test]
fn numbers_continue_when_a_partition_is_handed_over() {
    simulate(1, |env| async move {
        let (world, first, second) = two(&env).await;
        assert_eq!(next(&first, "a").await.unwrap(), 1);
        let refused = next(&second, "b").await.unwrap_err();
        assert!(matches!(refused, SubmitError::NotHere { .. }), "{refused}");
        for partition in partitions(&first, "series") {
            first.release(partition).await.unwrap();
            second.own(partition).await.unwrap();
        }
        assert_eq!(next(&second, "b").await.unwrap(), 2);
        assert_eq!(next(&second, "a").await.unwrap(), 1, "the key leads to its first answer");
        let refused = next(&first, "c").await.unwrap_err();
        assert!(matches!(refused, SubmitError::NotHere { .. }), "{refused}");
        let statuses: Vec<_> =
            first.partitions("series").unwrap().into_iter().map(|state| state.status).collect();
        assert!(statuses.iter().all(|status| *status == PartitionStatus::Standby), "{statuses:?}");
        world.close().await;
    });
}

#[test]
fn an_owner_that_was_taken_over_names_its_successor_and_can_follow_it() {
    simulate(1, |env| async move {
        let (world, first, second) = two(&env).await;
        assert_eq!(next(&first, "a").await.unwrap(), 1);
        for partition in partitions(&second, "series") {
            second.own(partition).await.unwrap();
        }
        let refused = next(&first, "b").await.unwrap_err();
        let holder = Some(second.holder().clone());
        assert!(
            matches!(&refused, SubmitError::NotHere { holder: found, .. } if *found == holder),
            "{refused}"
        );
        assert!(refused.to_string().contains("another owner has taken over: second-2"), "{refused}");
        assert_eq!(next(&second, "b").await.unwrap(), 2);
        // It is a state of its own, and not a fault.
        let deposed = PartitionStatus::Elsewhere { holder };
        let states = first.partitions("series").unwrap();
        assert_eq!(states.iter().filter(|state| state.status == deposed).count(), 1);
        for partition in partitions(&first, "series") {
            first.stand_by(partition).await.unwrap();
        }
        assert!(first.wait_ready(Duration::from_secs(60)).await);
        assert_eq!(first.series().state("invoices").await.unwrap().next, Some(3));
        world.close().await;
    });
}

#[test]
fn an_engine_that_owns_a_partition_takes_it_back_only_if_it_was_deposed() {
    simulate(1, |env| async move {
        let (world, first, second) = two(&env).await;
        let partition = partitions(&first, "series")[0];
        let log = Log::new(world.log.reopen());
        let epoch = log.holder(partition).await.unwrap().unwrap().epoch;
        first.own(partition).await.unwrap();
        assert_eq!(log.holder(partition).await.unwrap().unwrap().epoch, epoch, "it owned the partition");
        // The first engine does not know yet that it was deposed.
        second.own(partition).await.unwrap();
        first.own(partition).await.unwrap();
        let held = log.holder(partition).await.unwrap().unwrap();
        assert_eq!(held.take.holder, *first.holder());
        world.close().await;
    });
}

#[test]
fn what_is_elsewhere_is_refused_at_once_with_the_name_of_its_holder() {
    simulate(1, |env| async move {
        let (world, first, second) = two(&env).await;
        let (workspace, _) = first.create_workspace("till", "store", Some("corner")).await.unwrap();
        let holder = Some(Holder::new("first-1"));
        for partition in partitions(&second, "till") {
            second.leave(partition, holder.clone()).await.unwrap();
        }
        let before = env.instant();
        let command = second.submit("till", workspace.id, &seriatim_engine::Request::new("Ping")).await;
        let read = second.sequences("till", workspace.id).await.map(drop);
        for refused in [command.map(drop), read] {
            let refused = refused.unwrap_err();
            assert!(
                matches!(&refused, SubmitError::NotHere { holder: found, .. } if *found == holder),
                "{refused}"
            );
        }
        assert_eq!(env.instant(), before);
        world.close().await;
    });
}

#[test]
fn a_standby_answers_reads_with_everything_that_was_acknowledged() {
    simulate(1, |env| async move {
        let (world, first, second) = two(&env).await;
        let (workspace, _) = first.create_workspace("till", "store", Some("corner")).await.unwrap();
        for number in 1..=50 {
            first.submit("till", workspace.id, &invoice("1.00")).await.unwrap();
            let states = second.sequences("till", workspace.id).await.unwrap();
            let invoices = states.iter().find(|state| &*state.name == "InvoiceNumber").unwrap();
            assert_eq!(invoices.next.map(|next| next.get()), Some(number + 1));
        }
        world.close().await;
    });
}

#[test]
fn the_registry_is_written_through_its_owner_and_read_everywhere() {
    simulate(1, |env| async move {
        let (world, first, second) = two(&env).await;
        let (by_second, created) = second.create_workspace("till", "store", Some("corner")).await.unwrap();
        assert!(created);
        // The engine that asked has applied it, and the other one has written it.
        for engine in [&second, &first] {
            assert_eq!(engine.workspace_named("till", "corner").await.unwrap(), Some(by_second.id));
        }
        let (again, created) = first.create_workspace("till", "store", Some("corner")).await.unwrap();
        assert_eq!((again.id, created), (by_second.id, false));
        assert!(second.blocks().put("ids", 1, 10).await.unwrap());
        let (a, b) = (
            second.blocks().allocate("ids", 3).await.unwrap(),
            first.blocks().allocate("ids", 3).await.unwrap(),
        );
        assert_eq!((a.first, b.first), (1, 4), "the owner of the registry allocates for both");
        // The registry moves, and everything continues.
        first.release(SYS).await.unwrap();
        second.own(SYS).await.unwrap();
        let c = first.blocks().allocate("ids", 3).await.unwrap();
        assert!(c.first >= 7, "{c:?}");
        assert!(first.create_workspace("till", "store", Some("harbour")).await.unwrap().1);
        world.close().await;
    });
}

#[test]
fn a_token_that_one_engine_revokes_is_refused_by_all() {
    simulate(1, |env| async move {
        let (world, first, second) = two(&env).await;
        let third = world.join("third", memory(), vec![till()]).await;
        let admin = Scope::everywhere(Access::Admin);
        let token = second.tokens().create(std::slice::from_ref(&admin), None).await.unwrap();
        let other = first.tokens().create(&[admin], None).await.unwrap();
        for engine in [&first, &second, &third] {
            engine.wait_applied(SYS, seriatim_types::PartitionOffset::FIRST).await.unwrap();
        }
        third.tokens().list(None, 10).await.unwrap();
        for engine in [&first, &second, &third] {
            assert!(engine.tokens().verify(token.secret.reveal()).is_some());
        }
        third.tokens().revoke(&token.token.id).await.unwrap();
        for engine in [&first, &second, &third] {
            assert!(engine.tokens().verify(token.secret.reveal()).is_none());
            assert!(engine.tokens().verify(other.secret.reveal()).is_some());
        }
        world.close().await;
    });
}

#[test]
fn a_token_of_another_engine_is_known_at_once_and_guesses_are_limited() {
    simulate(1, |env| async move {
        let (world, first, second) = two(&env).await;
        let admin = Scope::everywhere(Access::Admin);
        let token = first.tokens().create(&[admin], None).await.unwrap();
        let verified = second.tokens().verify_current(token.secret.reveal()).await.unwrap();
        assert!(verified.is_some());
        let guess = token.secret.reveal().replace('a', "b");
        let mut answers = Vec::new();
        for _ in 0..30 {
            answers.push(second.tokens().verify_current(&guess).await.map_err(|error| error.kind()));
        }
        assert_eq!(answers.iter().filter(|answer| matches!(answer, Ok(None))).count(), 20);
        assert_eq!(answers.last(), Some(&Err(ErrorKind::Busy)), "the existence of a token is not denied");
        // A token that is known is not affected.
        assert!(second.tokens().verify_current(token.secret.reveal()).await.unwrap().is_some());
        env.sleep(Duration::from_secs(2)).await;
        assert_eq!(second.tokens().verify_current(&guess).await.unwrap(), None);
        world.close().await;
    });
}
