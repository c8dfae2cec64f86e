//! An engine with an older definition follows a partition until a later definition has written to it, and no further.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod several;
mod support;

use std::time::Duration;

use seriatim_engine::definition::{
    Application, CommandDefinition, DocumentDefinition, DocumentKind, FieldDefinition, KindDefinition,
    SequenceDefinition,
};
use seriatim_engine::{App, Change, Engine, Options, PartitionStatus, Request, SubmitError};
use seriatim_env::{Env, simulate};
use seriatim_storage::Store;
use seriatim_types::{ErrorKind, Partition, WorkspaceId};
use several::{SYS, World, memory};

/// Numbers bills up to `last`.
fn desk(last: u64) -> App {
    let definition = Application::builder("desk")
        .partitions(1)
        .sequence(SequenceDefinition::with_ranges("Number", &[1..=last]))
        .document(
            DocumentDefinition::new("Bill", DocumentKind::W).with(FieldDefinition::drawn("number", "Number")),
        )
        .command(CommandDefinition::new("Ping"))
        .kind(KindDefinition::new("room"));
    App::new(definition.build().unwrap())
}

async fn bill(engine: &Engine, room: WorkspaceId) -> Result<i64, SubmitError> {
    let answer = engine.submit("desk", room, &Request::changes([Change::create("Bill", 1)])).await?;
    Ok(answer.number(1, "number").unwrap())
}

/// An engine that numbers up to 3, one that numbers up to 9, and a store of the first one. Both engines follow the partition.
struct Upgrade {
    world: World,
    old: Engine,
    new: Engine,
    kept: Store,
    partition: Partition,
    room: WorkspaceId,
}

impl Upgrade {
    /// The old engine has given out 1 and 2 before the new one joined.
    async fn new(env: &Env) -> Self {
        let world = World::new(env, Options::default());
        let kept = memory();
        let old = world.join("old", kept.clone(), vec![desk(3)]).await;
        several::own_everything(&old).await;
        let room = old.create_workspace("desk", "room", Some("one")).await.unwrap().0.id;
        assert_eq!(bill(&old, room).await.unwrap(), 1);
        assert_eq!(bill(&old, room).await.unwrap(), 2);
        let new = world.join("new", memory(), vec![desk(9)]).await;
        let [partition] = several::partitions(&old, "desk")[..] else { unreachable!("it has one partition") };
        Self { world, old, new, kept, partition, room }
    }

    fn status_of_old(&self) -> PartitionStatus {
        self.old.partitions("desk").unwrap().remove(0).status
    }
}

fn is_about_the_definition(error: &SubmitError) -> bool {
    error.to_string().contains("application desk has a later definition")
}

#[test]
fn an_old_standby_stops_before_events_of_a_later_definition_and_no_number_is_given_twice() {
    simulate(1, |env| async move {
        let it = Upgrade::new(&env).await;
        it.new.own(it.partition).await.unwrap();
        it.old.stand_by(it.partition).await.unwrap();
        for number in 3..=6 {
            assert_eq!(bill(&it.new, it.room).await.unwrap(), number);
        }
        env.sleep(Duration::from_secs(5)).await;
        let PartitionStatus::Stopped(reason) = it.status_of_old() else { panic!("{:?}", it.status_of_old()) };
        assert!(reason.contains("application desk has a later definition"), "{reason}");
        let refused = it.old.own(it.partition).await.unwrap_err();
        assert!(is_about_the_definition(&refused), "{refused}");
        it.old.release(SYS).await.unwrap();
        it.new.own(SYS).await.unwrap();
        it.old.close().await;
        it.world.neighbours.remove(it.old.holder());
        // The same store with the later definition: it continues where the old engine stopped.
        let renewed = it.world.join("renewed", it.kept.clone(), vec![desk(9)]).await;
        renewed.own(it.partition).await.unwrap();
        assert_eq!(bill(&renewed, it.room).await.unwrap(), 7);
        it.world.close().await;
    });
}

#[test]
fn an_old_owner_continues_until_a_later_definition_has_written() {
    simulate(1, |env| async move {
        let it = Upgrade::new(&env).await;
        assert_eq!(bill(&it.old, it.room).await.unwrap(), 3);
        // It has no more numbers, and the later definition has.
        assert_eq!(bill(&it.old, it.room).await.unwrap_err().kind(), ErrorKind::Exhausted);
        it.new.own(it.partition).await.unwrap();
        assert_eq!(bill(&it.new, it.room).await.unwrap(), 4);
        let refused = it.old.own(it.partition).await.unwrap_err();
        assert!(is_about_the_definition(&refused), "{refused}");
        assert_eq!(bill(&it.new, it.room).await.unwrap(), 5);
        it.world.close().await;
    });
}

#[test]
fn an_old_owner_of_the_registry_that_was_deposed_reads_the_present_one() {
    simulate(1, |env| async move {
        let it = Upgrade::new(&env).await;
        it.old.stand_by(it.partition).await.unwrap();
        // The old engine does not notice that it no longer owns the registry.
        it.new.own(SYS).await.unwrap();
        let newest = it.world.join("newest", memory(), vec![desk(20)]).await;
        newest.own(it.partition).await.unwrap();
        for number in 3..=12 {
            assert_eq!(bill(&newest, it.room).await.unwrap(), number);
        }
        for engine in [&it.old, &it.new] {
            let refused = engine.own(it.partition).await.unwrap_err();
            assert!(is_about_the_definition(&refused), "{refused}");
        }
        assert_eq!(bill(&newest, it.room).await.unwrap(), 13);
        it.world.close().await;
    });
}
