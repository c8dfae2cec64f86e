//! The one derivation: everything but the log follows from the log, and this is how.
//!
//! ```text
//!                 apply: what follows from an event (crate::apply)
//!                   ▲ finds values through State: draft, open group, overlay, fetched
//!                   │
//!  commands ────────┤                       ┌──────────── overlay ────────────┐        store
//!                   ├── values, numbers, ──►│ waiting layer ──► writing layer │──────► values, then
//!  log ── replay ───┘   next offset         └─────────────────────────────────┘ flush  the checkpoint
//! ```
//!
//! To be read in this order: `state` (what an event sees and changes), `layer` and `overlay` (what is derived and not in
//! the store yet), `budget` (how much of it there may be), `fetched` (what was read from the store before its turn),
//! `split` (values larger than a store takes), `checkpoint` (how far the store is).

mod budget;
mod checkpoint;
mod fetched;
mod layer;
mod overlay;
mod replay;
pub(crate) mod split;
mod state;

pub(crate) use budget::{Budget, Limits};
pub(crate) use checkpoint::Checkpoint;
pub(crate) use fetched::{Fetched, Fetching};
pub(crate) use layer::Swept;
pub(crate) use overlay::{FlushStart, Overlay, Round, Writing};
pub(crate) use replay::{Bodies, Chunk, Fault, Replay, ReplayError, Target};
pub(crate) use split::Splits;
pub(crate) use state::{Base, Draft, Found, REMOVED, State, Unread, Values, lock};
