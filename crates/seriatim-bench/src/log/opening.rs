//! Opening after a kill and after a clean stop: a long log and a large store compared with short and small ones, and with plain
//! fjall.

use std::collections::HashMap;

use super::visit::{Directory, Ending, Side};
use crate::measure::{Goal, Measure};
use crate::sample::median;
use crate::suite::Run;

/// Pairs with the same number of bytes as one segment of the log.
const SEGMENT_PAIRS: u64 = 65_536;
/// Pairs in addition to a whole number of segments, so that the last segment is equally full for each size.
const REST_PAIRS: u64 = 8_000;

/// Two sizes of our storage and of the peer's, each opened repeatedly.
pub(super) fn measure(run: &Run) -> anyhow::Result<Vec<Measure>> {
    let sizes = run.pick([1, 3], [3, 30]).map(|segments| segments * SEGMENT_PAIRS + REST_PAIRS);
    let mut directories = Vec::new();
    for side in [Side::Ours, Side::Fjall] {
        for pairs in sizes {
            run.progress(&format!("opening, {side:?} is filled with {}", gigabytes(pairs)));
            let mut directory = Directory::new(run, side)?;
            directory.visit(pairs, Ending::Close)?;
            directories.push((side, pairs, directory));
        }
    }
    run.progress("opening, repeatedly");
    // What is written before a kill ends the visit, and is left for the next opening: the same for every size.
    let added = run.pick(8_000, 16_000);
    let mut times: HashMap<_, Vec<f64>> = HashMap::new();
    for _ in 0..run.pick(3, 7) {
        // A visit finds what the previous visit left.
        for (ending, left) in [(Ending::Kill, Ending::Close), (Ending::Close, Ending::Kill)] {
            for (side, pairs, directory) in &mut directories {
                let opened_ms = directory.visit(added, ending)?;
                times.entry((*side, *pairs, left)).or_default().push(opened_ms);
            }
        }
    }

    let [small, large] = sizes;
    let found = |side, pairs, left| median(times.get(&(side, pairs, left)).map_or(&[], Vec::as_slice));
    let mut measures = Vec::new();
    for (left, most_ms) in [(Ending::Kill, 1_000.0), (Ending::Close, 300.0)] {
        let name = format!("opening {}, {}", left.after(), gigabytes(large));
        let ours = found(Side::Ours, large, left);
        let short = found(Side::Ours, small, left);
        let fjall = found(Side::Fjall, large, left);
        let by_size = Measure::new(format!("{name}, by size"), ours, "ms");
        let small = format!("ours with {}", gigabytes(small));
        measures.push(by_size.compared_with(small, short).goal(Goal::RatioAtMost(1.2)));
        let by_peer = Measure::new(name, ours, "ms").compared_with("plain fjall, store only", fjall);
        measures.push(by_peer.goal(Goal::AtMost(most_ms)));
    }
    Ok(measures)
}

/// The size of the log, which is that of the store too.
#[expect(clippy::cast_precision_loss, reason = "two digits are shown")]
fn gigabytes(pairs: u64) -> String {
    format!("{:.2} GB", (pairs * super::visit::PAIR_BYTES) as f64 / 1e9)
}
