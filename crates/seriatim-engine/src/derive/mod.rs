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
//! To be read in this order: `state` (what an event sees and changes), `overlay` (what is derived and not in the store
//! yet), `fetched` (what was read from the store before its turn), `split` (values larger than a store takes).

mod fetched;
mod overlay;
pub(crate) mod split;
mod state;

pub(crate) use fetched::{Fetched, Fetching};
pub(crate) use overlay::{Budget, FlushStart, Limits, Overlay, Round, Swept, Writing};
pub(crate) use split::Splits;
pub(crate) use state::{Base, Draft, Found, REMOVED, State, Unread, Values, lock};
