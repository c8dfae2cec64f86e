//! Commands compared with PostgreSQL: a counter row per tenant, and an insert with gaps.

use std::time::Duration;

use tokio::runtime::Runtime;

use super::Contestants;
use crate::measure::{Goal, Measure};
use crate::peer::{Insert, Postgres};
use crate::sample::medians;
use crate::suite::Run;
use crate::writers::{drive, settle};

const CLIENTS: usize = 64;
const TENANTS: u32 = 1_000;
const HOT: &str = "commands, one hot workspace, 64 in flight";
const THOUSAND: &str = "commands, 1000 workspaces, 64 in flight";

pub(super) fn measure(
    run: &Run,
    runtime: &Runtime,
    contestants: &Contestants,
) -> anyhow::Result<Vec<Measure>> {
    run.progress("compared with PostgreSQL");
    let directory = run.directory("postgres-")?;
    let seconds = run.pick(1, 3);
    let duration = Duration::from_millis(run.pick(300, 1_500));
    let ours = |invoices| {
        settle();
        Ok(drive(runtime, invoices, CLIENTS, duration)?.per_second)
    };
    let theirs = |postgres: &Postgres, insert| {
        settle();
        postgres.drive(insert, CLIENTS, seconds)
    };
    let rounds = run.pick(2, 5);
    let postgres = match Postgres::start(directory.path(), TENANTS) {
        Ok(postgres) => postgres,
        Err(error) => {
            let [hot, thousand] =
                medians(rounds, [&mut || ours(&contestants.hot), &mut || ours(&contestants.thousand)])?;
            let figures = Figures { name: "PostgreSQL".to_owned(), hot, thousand };
            return Ok(figures.measures(&Err(format!("{error:#}"))));
        }
    };
    let [hot, thousand, counted, spread, gappy] = medians(
        rounds,
        [
            &mut || ours(&contestants.hot),
            &mut || ours(&contestants.thousand),
            &mut || theirs(&postgres, Insert::Counted { tenants: 1 }),
            &mut || theirs(&postgres, Insert::Counted { tenants: TENANTS }),
            &mut || theirs(&postgres, Insert::Gappy),
        ],
    )?;
    postgres.check()?;
    let figures = Figures { name: postgres.version()?, hot, thousand };
    Ok(figures.measures(&Ok([counted, spread, gappy])))
}

/// Our figures, from the same rounds.
struct Figures {
    name: String,
    hot: f64,
    thousand: f64,
}

impl Figures {
    /// Compared with the counter row of one tenant, those of many, and the insert with gaps.
    fn measures(&self, peer: &Result<[f64; 3], String>) -> Vec<Measure> {
        let figure = |place: usize| peer.as_ref().map(|found| found[place]).map_err(Clone::clone);
        let compare = |name: &str, value: f64, what: &str, place: usize| {
            let (measure, what) = (Measure::new(name, value, "1/s"), format!("{}, {what}", self.name));
            match figure(place) {
                Ok(found) => measure.compared_with(what, found),
                Err(reason) => measure.without(what, reason),
            }
        };
        vec![
            compare(HOT, self.hot, "a counter row", 0).goal(Goal::RatioAtLeast(50.0)),
            compare(THOUSAND, self.thousand, "1000 counter rows", 1),
            compare(HOT, self.hot, "a gappy sequence", 2),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_that_is_not_available_has_a_reason() {
        let figures = Figures { name: "PostgreSQL".to_owned(), hot: 1.0, thousand: 2.0 };
        let measures = figures.measures(&Err("not here".to_owned()));
        assert_eq!(measures.len(), 3);
        for measure in measures {
            assert_eq!((measure.peer_value, measure.reason.as_deref()), (None, Some("not here")));
        }
    }
}
