//! Pending operations, by number; and why the last numbers that are not pending are not.

use std::collections::VecDeque;
use std::collections::hash_map::{self, HashMap};
use std::hash::{BuildHasherDefault, Hasher};

use serde::{Deserialize, Serialize};

use crate::kind::NumberedKind;
use crate::{CommandSeq, Exhausted, Kind, Path, UnmatchedResponse};

/// How many ended numbers of each kind are remembered, so that a response that fits none says what is wrong.
pub const REMEMBERED: usize = 1024;

/// Names an operation within a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Operation {
    pub(crate) kind: Kind,
    pub(crate) seq: u32,
}

/// An operation that has had no response yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingOperation {
    /// Its kind.
    pub kind: Kind,
    /// Its number.
    pub seq: u32,
    /// Where it comes from.
    pub path: Path,
    /// The run has cancelled or abandoned it: its response will be dropped.
    pub is_abandoned: bool,
}

/// Why a number is no longer pending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EndReason {
    Resolved,
    Cancelled,
    /// The response came when no task waited for it any more.
    Dropped,
}

pub(crate) struct Entry<E> {
    pub(crate) path: Path,
    /// Where the response goes; none once the run has cancelled or abandoned the operation.
    pub(crate) slots: Option<E>,
}

/// Spreads numbers over a table. They come from the run itself, so no one can choose them to collide.
#[derive(Default)]
pub(crate) struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u32(u32::from(*byte)));
    }

    fn write_u32(&mut self, number: u32) {
        self.0 = (self.0 ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(26);
    }
}

/// The operations of one kind.
pub(crate) struct Table<K, E> {
    next: Option<CommandSeq<K>>,
    /// Its order shows nowhere.
    pending: HashMap<u32, Entry<E>, BuildHasherDefault<NumberHasher>>,
    ended: VecDeque<(u32, EndReason)>,
}

impl<K: NumberedKind, E> Table<K, E> {
    pub(crate) fn new() -> Self {
        Self { next: Some(CommandSeq::FIRST), pending: HashMap::default(), ended: VecDeque::new() }
    }

    /// From now on numbers are above this one.
    pub(crate) fn raise_above(&mut self, seq: u32) {
        if self.next.is_some_and(|next| next.get() <= seq) {
            self.next = CommandSeq::<K>::new(seq).next().ok();
        }
    }

    pub(crate) fn draw(&mut self) -> Result<CommandSeq<K>, Exhausted> {
        let seq = self.next.ok_or(Exhausted { kind: K::KIND })?;
        self.next = seq.next().ok();
        Ok(seq)
    }

    /// Files an operation. Returns false, and changes nothing, if its number is in use.
    #[must_use]
    pub(crate) fn insert(&mut self, seq: CommandSeq<K>, path: Path, slots: E) -> bool {
        match self.pending.entry(seq.get()) {
            hash_map::Entry::Occupied(_) => false,
            hash_map::Entry::Vacant(vacant) => {
                vacant.insert(Entry { path, slots: Some(slots) });
                true
            }
        }
    }

    pub(crate) fn get_mut(&mut self, seq: u32) -> Option<&mut Entry<E>> {
        self.pending.get_mut(&seq)
    }

    pub(crate) fn is_pending(&self, seq: u32) -> bool {
        self.pending.contains_key(&seq)
    }

    /// Takes what waits for the response out of the table, in one step. `None`: no task waits for it any more, and it is
    /// to be dropped.
    pub(crate) fn resolve(&mut self, seq: CommandSeq<K>, job: &str) -> Result<Option<E>, UnmatchedResponse> {
        let seq = seq.get();
        if let Some(entry) = self.pending.remove(&seq) {
            self.end(seq, if entry.slots.is_some() { EndReason::Resolved } else { EndReason::Dropped });
            return Ok(entry.slots);
        }
        self.explain(seq, job).map_or(Ok(None), Err)
    }

    /// Why a response for this number fits nothing; none if it is to be dropped in silence.
    pub(crate) fn explain(&self, seq: u32, job: &str) -> Option<UnmatchedResponse> {
        let (job, kind) = (job.to_owned(), K::KIND);
        let reason = self.ended.iter().rev().find(|(ended, _)| *ended == seq).map(|(_, reason)| *reason);
        Some(match reason {
            Some(EndReason::Cancelled) => return None,
            // Many timers may be cancelled at once and still fire. The response of a timer has no value to lose.
            None if K::KIND == Kind::Timer && self.ended.len() == REMEMBERED && !self.is_ahead(seq) => {
                return None;
            }
            Some(EndReason::Resolved | EndReason::Dropped) => UnmatchedResponse::Repeated { job, kind, seq },
            None => match self.next {
                Some(next) if next.get() <= seq => {
                    UnmatchedResponse::NeverIssued { job, kind, seq, next: next.get() }
                }
                _ => UnmatchedResponse::Forgotten { job, kind, seq, remembered: REMEMBERED },
            },
        })
    }

    /// Whether the number has not been given out yet.
    fn is_ahead(&self, seq: u32) -> bool {
        self.next.is_some_and(|next| next.get() <= seq)
    }

    /// Takes an operation out of the table because the run has cancelled it and no response will come.
    pub(crate) fn cancel(&mut self, seq: u32) -> Option<Entry<E>> {
        let entry = self.pending.remove(&seq)?;
        self.end(seq, EndReason::Cancelled);
        Some(entry)
    }

    fn end(&mut self, seq: u32, reason: EndReason) {
        if self.ended.len() == REMEMBERED {
            self.ended.pop_front();
        }
        self.ended.push_back((seq, reason));
    }

    pub(crate) fn list(&self) -> Vec<PendingOperation> {
        let pending = self.pending.iter().map(|(seq, entry)| PendingOperation {
            kind: K::KIND,
            seq: *seq,
            path: entry.path.clone(),
            is_abandoned: entry.slots.is_none(),
        });
        let mut pending: Vec<_> = pending.collect();
        pending.sort_by_key(|operation| operation.seq);
        pending
    }

    /// Forgets all operations; used when the run is over.
    pub(crate) fn clear(&mut self) {
        self.pending.clear();
    }
}
