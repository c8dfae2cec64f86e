//! Gap-free sequences derived from a log.
//!
//! A number exists if and only if its event is in the log. Draws, positions and raises go into the header of the event
//! that they are for; the stored counters are derived from there, and can be deleted.
//!
//! ```
//! use std::{error::Error, time::Duration};
//!
//! use seriatim_env::Env;
//! use seriatim_sequencer::{Definition, Event, Factory, Options, Sequence};
//! use seriatim_storage::{Log, Store, memory::{MemoryLog, MemoryStore}};
//! use seriatim_types::{ApplicationId, PartitionCount, PartitionId, SequenceId, WorkspaceId, WorkspaceKind};
//!
//! const SHOP: WorkspaceKind = WorkspaceKind::new(1);
//! const INVOICE: SequenceId = SequenceId::new(20);
//!
//! async fn run(env: Env) -> Result<(), Box<dyn Error>> {
//!     let (log, store) = (Log::new(MemoryLog::new()), Store::new(MemoryStore::new()));
//!     let definition = Definition::new([(SHOP, vec![Sequence::new(INVOICE, 1)])])?;
//!     let (application, one, options) = (ApplicationId::new(1), PartitionCount::ONE, Options::default());
//!     let factory = Factory::new(env.clone(), log.clone(), store, application, one, definition, options);
//!     let mut sequencer = factory.open(PartitionId::new(0)).await?;
//!     sequencer.wait(Duration::from_secs(1)).await?;
//!
//!     let shop = sequencer.load(SHOP, WorkspaceId::FIRST).await?;          // at most one read
//!     let mut group = sequencer.group()?;                                  // Err: recovering, or backlogged
//!     let mut transaction = group.begin(&shop)?;                           // one at a time
//!     let invoice = transaction.draw(INVOICE)?;                            // no I/O
//!     transaction.stage(&Event::new(env.now(), b"an invoice"))?;           // or drop it: free
//!     let sealed = group.seal();
//!     match log.append(sealed.owner(), sealed.at(), sealed.entries()).await {
//!         Ok(receipt) => sequencer.commit(sealed, receipt)?,               // only the log can make a receipt
//!         Err(error) if error.is_refused() => sequencer.discard(sealed),   // nothing was written
//!         Err(_) => { sequencer.settle(sealed, &log).await?; }             // in doubt: the log is asked
//!     }
//!     assert_eq!(invoice.get(), 1);
//!     Ok(())
//! }
//!
//! fn main() -> Result<(), Box<dyn Error>> {
//!     seriatim_env::simulate(1, run)
//! }
//! ```
#![forbid(unsafe_code)]

pub mod builtin;
mod cache;
mod checkpoint;
mod core;
mod definition;
mod derived;
mod error;
mod event;
mod factory;
mod flusher;
mod fold;
mod group;
mod loading;
pub mod metrics;
pub mod misuse;
mod nexts;
mod numbers;
mod numbers_codec;
mod options;
mod pin;
mod recovery;
mod sequence;
mod sequencer;
mod settle;
mod shared;
mod status;
mod stored;
mod transaction;
mod unflushed;
mod workspace_map;

pub use definition::{Definition, DefinitionError, Kind, RangesProblem};
pub use derived::{Committed, Derived, ReadError, Recovery};
pub use error::{
    BadValue, Busy, CommitError, DrawError, FinishError, LoadError, Mismatch, SettleError, SettleProblem,
    StageError, Stale, StopReason,
};
pub use event::{Event, Staged};
pub use factory::Factory;
pub use fold::{FoldError, Ignored, IgnoredNumbers, IgnoredReason};
pub use group::{Group, Sealed};
pub use loading::{Loaded, Loading};
pub use numbers::Numbers;
pub use numbers_codec::NumbersKey;
pub use options::Options;
pub use pin::Pin;
pub use sequence::{IdSpace, Range, Sequence};
pub use sequencer::Sequencer;
pub use settle::Settled;
pub use status::{Status, StatusHandle};
pub use stored::Stored;
pub use transaction::Transaction;
