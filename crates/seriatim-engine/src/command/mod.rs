//! A command, from the request to what is derived from its event.
//!
//! ```text
//! request ──► prepare ──► prepared ──► context ──► event ──► apply ──► record, view (through projector), workspace log
//! ```

pub(crate) mod apply;
pub(crate) mod codec;
pub(crate) mod context;
pub(crate) mod event;
pub(crate) mod event_clock;
pub(crate) mod prepare;
pub(crate) mod prepared;
pub(crate) mod projector;
pub(crate) mod record;
pub(crate) mod request;
pub(crate) mod value;
pub(crate) mod view;
