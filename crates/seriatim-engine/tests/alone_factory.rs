//! The sequencers of an application's partitions.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod alone_support;

use alone_support::{Desk, KIND, TIMEOUT, definition, workspace};
use seriatim_engine::alone::{Factory, Options, Sequencer};
use seriatim_env::simulate;
use seriatim_storage_testing::faulty::Operation;
use seriatim_types::{ApplicationId, PartitionCount};

fn factory(desk: &Desk, partitions: u16, cache_numbers: usize) -> Factory {
    let (env, log, store) = (desk.env.clone(), desk.log.clone(), desk.store.clone());
    let partitions = PartitionCount::new(partitions).unwrap();
    let options = Options { cache_numbers, ..desk.options };
    Factory::new(env, log, store, ApplicationId::new(1), partitions, definition(), options)
}

async fn open_all(factory: &Factory) -> Vec<Sequencer> {
    let mut sequencers = factory.open_all().await.unwrap();
    for sequencer in &mut sequencers {
        sequencer.wait(TIMEOUT).await.unwrap();
    }
    sequencers
}

#[test]
fn all_partitions_are_taken_in_one_step_and_each_has_numbers_of_its_own() {
    simulate(1, |env| async move {
        let desk = Desk::memory(&env);
        let factory = factory(&desk, 3, 1_000);
        for life in 1..=2 {
            desk.faults.reset_counts();
            let mut sequencers = open_all(&factory).await;
            assert_eq!(desk.faults.count(Operation::Take), 1);
            let partitions: Vec<u16> = sequencers.iter().map(|one| one.partition().id.get()).collect();
            assert_eq!(partitions, [0, 1, 2]);
            for (place, sequencer) in sequencers.iter_mut().enumerate() {
                assert_eq!(desk.invoice(sequencer, workspace(place as u64)).await, life);
                assert_eq!(sequencer.next_offset().unwrap().get(), life + 1);
            }
            for sequencer in sequencers {
                sequencer.finish(TIMEOUT).await.unwrap();
            }
        }
        // One of them alone continues where it was, too.
        let id = PartitionCount::new(3).unwrap().partitions().nth(1).unwrap();
        let mut sequencer = factory.open(id).await.unwrap();
        sequencer.wait(TIMEOUT).await.unwrap();
        assert_eq!(desk.invoice(&mut sequencer, workspace(1)).await, 3);
    });
}

/// How many reads of the store it costs to load six workspaces twice, in each partition.
async fn reads(desk: &Desk, partitions: u16, cache_numbers: usize) -> Vec<u64> {
    let mut reads = Vec::new();
    for mut sequencer in open_all(&factory(desk, partitions, cache_numbers)).await {
        desk.faults.reset_counts();
        for number in (0..6).chain(0..6) {
            sequencer.load(KIND, workspace(number)).await.unwrap();
        }
        reads.push(desk.faults.count(Operation::Get));
    }
    reads
}

#[test]
fn partitions_share_one_bound_on_cached_numbers() {
    simulate(1, |env| async move {
        let desk = Desk::memory(&env);
        // A workspace counts five: its offset and four sequences. Six workspaces count 30.
        assert_eq!(reads(&desk, 1, 30).await, [6], "one partition has the whole bound");
        assert_eq!(reads(&desk, 4, 4 * 30).await, [6; 4], "each has its share");
        assert_eq!(reads(&desk, 4, 4 * 30 - 1).await, [12; 4], "no share has room for all six");
        assert_eq!(reads(&desk, 4, 3).await, [12; 4], "a bound below one for each still serves");
    });
}
