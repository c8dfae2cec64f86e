//! Names and numbers of Seriatim.
//!
//! There is a newtype for every number that crosses a module. So an offset of one kind cannot be used for another, and
//! "the next one" has one meaning and one checked function. There is no I/O and no async here. The crate also has what every
//! other crate needs: kinds of errors, the text of a panic, and locks ([`sync`]).
//!
//! ```
//! use seriatim_types::{PartitionOffset, WorkspaceOffset};
//!
//! let first = PartitionOffset::FIRST;
//! assert_eq!(first.get(), 1);
//! assert_eq!(first.next().unwrap().get(), 2);
//! // Zero is not a position: a missing value can never be mistaken for one.
//! assert_eq!(WorkspaceOffset::new(0), None);
//! ```
//!
//! Positions of different kinds do not mix:
//!
//! ```compile_fail
//! use seriatim_types::{PartitionOffset, WorkspaceOffset};
//!
//! fn read(from: PartitionOffset) {}
//! read(WorkspaceOffset::FIRST);
//! ```
#![forbid(unsafe_code)]

mod error_kind;
mod identifier;
pub mod limits;
mod number;
mod panic_text;
mod partition;
mod position;
mod record_id;
pub mod sync;
mod timestamp;
mod trust_level;

pub use error_kind::ErrorKind;
pub use identifier::{ApplicationId, SequenceId, WorkspaceId, WorkspaceKind};
pub use number::Number;
pub use panic_text::panic_text;
pub use partition::{Partition, PartitionCount, PartitionId};
pub use position::{AppendId, Epoch, ParsePositionError, PartitionOffset, WorkspaceOffset};
pub use record_id::RecordId;
pub use timestamp::Timestamp;
pub use trust_level::{ParseTrustLevelError, TrustLevel};
