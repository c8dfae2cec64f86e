//! The sequencer beside a model of twenty lines.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod alone_support;

use std::collections::BTreeMap;
use std::time::Duration;

use alone_support::{Desk, INVOICE, KIND, TICKET, TIMEOUT, event, workspace};
use proptest::prelude::*;
use seriatim_engine::alone::{Options, Sequencer};
use seriatim_env::simulate;
use seriatim_sequencer::Settled;
use seriatim_types::{Number, SequenceId};

/// What is true of numbers: a committed event's are used, everybody else's are not.
#[derive(Debug, Clone, Default)]
struct Model {
    next: BTreeMap<(u64, SequenceId), u64>,
    events: u64,
}

impl Model {
    fn draw(&mut self, number: u64, sequence: SequenceId) -> Option<u64> {
        let next = self.next.entry((number, sequence)).or_insert(if sequence == TICKET { 10 } else { 1 });
        let drawn = match (sequence == TICKET, *next) {
            (true, 13..=19) => 20,
            (true, 22..) => return None,
            (_, next) => next,
        };
        *next = drawn + 1;
        Some(drawn)
    }
}

/// One group, and what becomes of it.
#[derive(Debug, Clone)]
struct Step {
    /// (workspace, draws, raise, staged)
    transactions: Vec<(u64, Vec<SequenceId>, Option<u64>, bool)>,
    outcome: Outcome,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Commit,
    DropOpen,
    Refused,
    ReplyLost,
    RequestLost,
    SealedLost { written: bool },
    Restart { clean: bool },
}

fn any_step() -> impl Strategy<Value = Step> {
    let draws = prop::collection::vec(prop_oneof![Just(INVOICE), Just(TICKET)], 0..4);
    let raise = prop::option::weighted(0.1, 1..4_u64);
    let transaction = (0..4_u64, draws, raise, prop::bool::weighted(0.8));
    let outcome = prop_oneof![
        6 => Just(Outcome::Commit),
        1 => Just(Outcome::DropOpen),
        1 => Just(Outcome::Refused),
        1 => Just(Outcome::ReplyLost),
        1 => Just(Outcome::RequestLost),
        1 => any::<bool>().prop_map(|written| Outcome::SealedLost { written }),
        1 => any::<bool>().prop_map(|clean| Outcome::Restart { clean }),
    ];
    (prop::collection::vec(transaction, 1..4), outcome)
        .prop_map(|(transactions, outcome)| Step { transactions, outcome })
}

async fn run(desk: &Desk, mut sequencer: Sequencer, model: &mut Model, step: Step) -> Sequencer {
    sequencer.wait(TIMEOUT).await.unwrap();
    let mut pins = Vec::new();
    for (number, ..) in &step.transactions {
        pins.push(sequencer.load(KIND, workspace(*number)).await.unwrap());
    }
    let mut group = sequencer.group().unwrap();
    let mut staged = model.clone();
    for ((number, draws, raise, stage), pin) in step.transactions.iter().zip(&pins) {
        let mut after = staged.clone();
        let mut transaction = group.begin(pin).unwrap();
        assert_eq!(transaction.partition_offset().get(), after.events + 1);
        for sequence in draws {
            let drawn = transaction.draw(*sequence).ok().map(Number::get);
            assert_eq!(drawn, after.draw(*number, *sequence), "{number} {sequence}");
        }
        if let Some(by) = raise {
            let next = after.next.entry((*number, INVOICE)).or_insert(1);
            *next += by;
            transaction.raise(INVOICE, Number::new(*next)).unwrap();
        }
        if *stage {
            transaction.stage(&event()).unwrap();
            after.events += 1;
            staged = after;
        }
    }
    if group.is_empty() || step.outcome == Outcome::DropOpen {
        drop(group);
        return sequencer;
    }
    let sealed = group.seal();
    let append =
        |sealed: &seriatim_sequencer::Sealed| desk.log.append(sealed.owner(), sealed.at(), sealed.entries());
    match step.outcome {
        Outcome::Commit | Outcome::DropOpen => desk.commit(&mut sequencer, sealed).await,
        Outcome::Refused => {
            sequencer.discard(sealed);
            return sequencer;
        }
        Outcome::ReplyLost => {
            append(&sealed).await.unwrap();
            assert_eq!(desk.settle(&mut sequencer, sealed).await, Settled::Committed);
        }
        Outcome::RequestLost => {
            assert_eq!(desk.settle(&mut sequencer, sealed).await, Settled::Discarded);
            return sequencer;
        }
        Outcome::SealedLost { written } => {
            if written {
                append(&sealed).await.unwrap();
            }
            drop(sealed);
            sequencer.recover(desk.log.take(desk.partition).await.unwrap()).unwrap();
            if !written {
                return sequencer;
            }
        }
        Outcome::Restart { clean } => {
            desk.commit(&mut sequencer, sealed).await;
            if clean {
                sequencer.finish(TIMEOUT).await.unwrap();
            } else {
                drop(sequencer);
            }
            sequencer = desk.open().await;
        }
    }
    *model = staged;
    sequencer
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn the_sequencer_agrees_with_its_model(
        steps in prop::collection::vec(any_step(), 1..25),
        sizes in (0..30_usize, 1..4_usize, 1..4_usize, 0..800_u64),
        seed in any::<u64>(),
    ) {
        let (cache_numbers, unflushed_max, flush_at, flush_millis) = sizes;
        simulate(seed, |env| async move {
            let mut desk = Desk::memory(&env);
            let flush_interval = Duration::from_millis(flush_millis);
            desk.options = Options { cache_numbers, unflushed_max, flush_at, flush_interval, ..desk.options };
            let mut model = Model::default();
            let mut sequencer = desk.open().await;
            for step in steps {
                sequencer = run(&desk, sequencer, &mut model, step).await;
            }
            assert_eq!(desk.events().await.len() as u64, model.events);
        });
    }
}
