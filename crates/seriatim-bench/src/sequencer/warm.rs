//! One warm transaction, compared with three get-and-put pairs on an LRU.

use std::hint::black_box;
use std::num::NonZeroUsize;
use std::time::Instant;

use lru::LruCache;
use seriatim_engine::alone::Options;
use seriatim_sequencer::{Event, Pin};
use seriatim_storage::{Digest, Draw, Entries, Header, Store};
use seriatim_types::{AppendId, Epoch, Number, SequenceId, WorkspaceId, WorkspaceOffset};

use super::no_storage::NoStore;
use super::subject::{KIND, Subject, commit, event, number_event};
use crate::measure::{Goal, Measure};
use crate::sample::rounds;
use crate::suite::Run;

/// The hashed part of an entry: the header with three draws, without length, checksum and chain.
pub(super) const HASHED_BYTES: usize = 79 + 3 * 18;
/// Transactions of a round: few, so that many rounds run without a disturbance.
const COUNT: u32 = 1_000;
/// The size of the cache in the designs.
const LRU_NUMBERS: usize = 100_000;

/// Nanoseconds of each part, in one round.
type Parts = [f64; 5];

pub(super) fn measure(run: &Run) -> anyhow::Result<Vec<Measure>> {
    run.progress("a warm transaction");
    let runtime = run.runtime()?;
    // Without limits: no checkpoint is written here, so the distance from it would end the loop.
    let options = Options {
        uncheckpointed_events_max: u64::MAX,
        uncheckpointed_bytes_max: u64::MAX,
        ..Options::default()
    };
    let mut subject = runtime.block_on(Subject::open(Store::new(NoStore), options))?;
    let pin = runtime.block_on(subject.sequencer.load(KIND, WorkspaceId::FIRST))?;
    let mut cache = LruCache::new(NonZeroUsize::MIN.saturating_add(LRU_NUMBERS - 1));
    let [ours, floor] = rounds(
        run.pick(300, 1_000),
        [&mut || runtime.block_on(parts(&mut subject, &pin)), &mut || {
            Ok([three_pairs(&mut cache), 0.0, 0.0, 0.0, 0.0])
        }],
    )?;
    // On a shared machine the fastest round shows the cost of the code.
    let least =
        |rounds: &[Parts], part: usize| rounds.iter().map(|parts| parts[part]).fold(f64::INFINITY, f64::min);
    let [whole, append, hash, group, encoding] = [0, 1, 2, 3, 4].map(|part| least(&ours, part));
    let (own, floor) = (whole - append - hash - group, least(&floor, 0));
    let measures = vec![
        Measure::new("warm transaction with 3 draws, hashing left out", own, "ns").goal(Goal::AtMost(150.0)),
        Measure::new("the same beside the floor", own, "ns")
            .compared_with("three get-and-put pairs on lru", floor)
            .goal(Goal::RatioAtMost(1.0)),
        Measure::new("the chain's SHA-256 of that transaction", hash, "ns"),
        Measure::new("its entry encoded, copied and checksummed, hashing left out", encoding - hash, "ns"),
        Measure::new("opening a group and dropping it", group, "ns"),
        Measure::new("a group of one transaction, hashing included", whole - append, "ns"),
    ];
    let reason =
        "the fastest round counts, of ours and of the floor; parts that are measured alone are subtracted";
    let with_reason = |measure: Measure| Measure { reason: Some(reason.to_owned()), ..measure };
    Ok(measures.into_iter().map(with_reason).collect())
}

#[expect(clippy::cast_precision_loss, reason = "counts are small")]
fn nanos_each(started: Instant) -> f64 {
    started.elapsed().as_nanos() as f64 / f64::from(COUNT)
}

/// The whole transaction, then its parts: the log that does nothing, hashing, and an empty group. The rest is begin, draws, stage,
/// seal and commit.
async fn parts(subject: &mut Subject, pin: &Pin) -> anyhow::Result<Parts> {
    let body = subject.body();
    let event = event(&body);
    let started = Instant::now();
    for _ in 0..COUNT {
        let sealed = number_event(&mut subject.sequencer, pin, &event)?;
        let receipt = subject.log.append(sealed.owner(), sealed.at(), sealed.entries()).await?;
        commit(&mut subject.sequencer, sealed, receipt)?;
    }
    let whole = nanos_each(started);
    let sealed = number_event(&mut subject.sequencer, pin, &event)?;
    let started = Instant::now();
    for _ in 0..COUNT {
        black_box(subject.log.append(sealed.owner(), sealed.at(), sealed.entries()).await?);
    }
    let append = nanos_each(started);
    subject.sequencer.discard(sealed);
    let started = Instant::now();
    hash_chain(COUNT);
    let hash = nanos_each(started);
    let started = Instant::now();
    for _ in 0..COUNT {
        black_box(subject.sequencer.group()?.len());
    }
    let group = nanos_each(started);
    Ok([whole, append, hash, group, encode_entries(&event)?])
}

/// The links of a chain, as staging computes them.
#[inline(never)]
pub(super) fn hash_chain(count: u32) {
    let header = [7; HASHED_BYTES];
    let mut head = Digest::ZERO;
    for _ in 0..count {
        head = head.link(black_box(&header));
    }
    black_box(head);
}

/// Only encodes the entry of such a transaction.
fn encode_entries(event: &Event<'_>) -> anyhow::Result<f64> {
    let append = AppendId { epoch: Epoch::FIRST, counter: 0 };
    let draw = |sequence| Draw { sequence: SequenceId::new(sequence), first: Number::new(1), count: 1 };
    let draws = [draw(3), draw(4), draw(20)];
    let header = Header {
        workspace: WorkspaceId::FIRST,
        kind: KIND,
        workspace_offset: WorkspaceOffset::FIRST,
        time: event.time,
        body_digest: event.body_digest,
        draws: &draws,
        raises: &[],
    };
    let mut entries = Entries::new(append);
    let mut head = Digest::ZERO;
    let started = Instant::now();
    for _ in 0..COUNT {
        entries.reset(append);
        head = entries.push(black_box(&header), head, event.body)?;
    }
    black_box(head);
    Ok(nanos_each(started))
}

/// The lower bound of the designs: a look-up and an update of each number.
fn three_pairs(cache: &mut LruCache<(u64, u16), u64>) -> f64 {
    let started = Instant::now();
    for _ in 0..COUNT {
        for sequence in 0..3 {
            let key = black_box((WorkspaceId::FIRST.get(), sequence));
            let next = cache.get(&key).copied().unwrap_or(1);
            cache.put(key, next + 1);
        }
    }
    nanos_each(started)
}
