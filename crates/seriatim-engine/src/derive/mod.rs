//! How everything except the log is derived from the log.
//!
//! ```text
//!                       apply (crate::command::apply): what follows from one event
//!                         │ finds values through DerivedState: draft, open group, overlay, fetched
//!                         ▼
//! a command is staged ──► values,   ──► overlay: waiting layer ─► writing layer ──► store: values and
//! the log is replayed ──► numbers,                                   flush                 checkpoint, one batch
//!                         next offset
//! ```
//!
//! A recovery replays the log from the checkpoint into the overlay. A doctor replays the whole log into a scratch store. An engine
//! derives what its application defines. A sequencer that is used alone derives numbers only.
//!
//! Read the modules in this order:
//!
//! 1. `derives`: what follows from an event besides numbers; `draft`: what an event reads and what it changes;
//! 2. `layer` and `overlay`: derived values that are not in the store yet; `budget`: how many of them are allowed;
//! 3. `fetched`: values that were read from the store before they are needed;
//! 4. `partition`: everything derived for one partition, and how it is read;
//! 5. `flusher` and `checkpoint`: writing to the store, and how far it has come; `ahead`: how much of that is durable;
//! 6. `recovery` and `replay`: applying the log again;
//! 7. `identity`: which log it is; `local`: measuring and removing a partition's values; `stream`: copying them elsewhere;
//! 8. `split` and `collected`: values larger than a store accepts, and what a flush writes.

mod ahead;
mod budget;
mod checkpoint;
mod collected;
mod derives;
mod draft;
mod fetched;
pub(crate) mod flusher;
pub(crate) mod identity;
pub(crate) mod keys;
mod layer;
pub(crate) mod local;
mod overlay;
mod partition;
pub(crate) mod recovery;
mod replay;
pub(crate) mod split;
pub(crate) mod stream;
mod sync;

pub(crate) use ahead::Stretch;
pub(crate) use budget::{Budget, Limits};
pub(crate) use checkpoint::{Checkpoint, Mark, Standing};
pub(crate) use derives::NumbersOnly;
pub(crate) use draft::{Base, DerivedState, Draft, Found, REMOVED, Unread, Values, lock};
pub(crate) use fetched::{Fetched, Fetching};
pub(crate) use overlay::{Overlay, Round};
pub(crate) use partition::{DerivedPartition, Observer, Parts, read_missing_numbers};
pub(crate) use replay::{Bodies, Chunk, Replay, ReplayError, Target};
pub(crate) use split::Splits;

#[cfg(test)]
mod overlay_tests;
#[cfg(test)]
mod world_tests;
