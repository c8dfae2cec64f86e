//! Random programs, answered in random order: however they are run again, they ask for the same, by the same numbers.
//!
//! `SERIATIM_SEED=n` runs the program of one seed; `SERIATIM_FULL=1` runs ten times as many.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::result_large_err, reason = "failures are rare")]

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;

use common::program::{Chance, play};
use seriatim_workflow::*;

const PROGRAMS: u64 = 2_000;

fn seeds() -> Vec<u64> {
    if let Ok(seed) = std::env::var("SERIATIM_SEED") {
        return vec![seed.parse().unwrap()];
    }
    let full = std::env::var_os("SERIATIM_FULL").is_some();
    (0..PROGRAMS * if full { 10 } else { 1 }).collect()
}

/// Gives an instance the activations of a history, and checks that it answers as the history says.
fn expect(seed: u64, what: &str, instance: &mut Instance, steps: &[Step], is_replaying: bool) {
    for (at, step) in steps.iter().enumerate() {
        let outcome = instance.activate(step.activation.clone().replaying(is_replaying)).outcome;
        let commands = outcome.unwrap_or_else(|failure| panic!("seed {seed}, {what}, step {at}: {failure}"));
        assert_eq!(Some(&commands), step.commands.as_ref(), "seed {seed}, {what}, step {at}");
    }
}

#[test]
fn the_same_activations_give_the_same_commands_and_numbers() {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut activations = 0;
    let seeds = seeds();
    for &seed in &seeds {
        let (registry, history) = play(seed, 3, 60);
        let commands = history.answered().flat_map(|(_, commands)| commands);
        commands.for_each(|command| *counts.entry(command.kind().name()).or_default() += 1);
        activations += history.steps.len();
        let with = |recorded: Recorded| {
            let options = InstanceOptions { numbering: Numbering::ByLineage(recorded), policy: Policy::Fail };
            Instance::new(Arc::clone(&registry), options)
        };
        // Once more, knowing nothing.
        expect(seed, "again", &mut with(Recorded::none()), &history.steps, false);
        // From the whole history.
        expect(seed, "replay", &mut with(history.recorded()), &history.steps, true);
        if seed % 8 == 0 {
            let report = replay(&registry, &history, Policy::Fail);
            assert!(report.is_same(), "seed {seed}: {report}");
        }
        // Evicted somewhere, rebuilt from the history so far, and on from there.
        let cut = Chance(seed).index(history.steps.len());
        let (before, after) = history.steps.split_at(cut);
        let recorded = before.iter().map(|step| step.commands.as_deref().unwrap()).collect();
        let mut rebuilt = with(recorded);
        expect(seed, "rebuilt", &mut rebuilt, before, true);
        expect(seed, "rebuilt and on", &mut rebuilt, after, false);
    }
    println!("{} programs, {activations} activations, commands: {counts:?}", seeds.len());
    if seeds.len() > 1 {
        for kind in [
            "start_timer",
            "cancel_timer",
            "cancel_activity",
            "cancel_child",
            "start_child",
            "set_patch",
            "cancelled",
        ] {
            assert!(counts.contains_key(kind), "no program has issued {kind}");
        }
    }
}

#[test]
fn numbers_of_a_kind_are_dense_and_each_is_used_once() {
    for seed in seeds().into_iter().take(500) {
        let (_, history) = play(seed, 3, 60);
        let mut numbers: BTreeMap<Kind, Vec<u32>> = BTreeMap::new();
        for command in history.answered().flat_map(|(_, commands)| commands) {
            if command.lineage().is_some()
                && let Some((kind, seq)) = command.seq()
            {
                numbers.entry(kind).or_default().push(seq);
            }
        }
        for (kind, numbers) in numbers {
            assert!(
                numbers.iter().copied().eq(1..=u32::try_from(numbers.len()).unwrap()),
                "seed {seed}, {kind}: {numbers:?}"
            );
        }
    }
}
