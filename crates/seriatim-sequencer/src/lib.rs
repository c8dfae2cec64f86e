//! Gap-free sequences derived from a log.
//!
//! A number exists if and only if its event is in the log. The header of an event has its draws, positions and raises. Stored
//! counters are derived from the headers, and can be deleted.
//!
//! This crate only decides; it stores nothing. A [`Derived`] holds the committed numbers: `seriatim_engine::alone` has them
//! in a store, with flusher, checkpoint and recovery, and the engine derives much more from the same log. In this example
//! it is a map:
//!
//! ```
//! use std::{collections::HashMap, error::Error, sync::{Arc, Mutex}, time::Duration};
//!
//! use seriatim_env::Env;
//! use seriatim_sequencer::{
//!     Busy, Committed, Definition, Derived, Event, Numbers, ReadError, Recovery, Sequence, Sequencer,
//! };
//! use seriatim_storage::{Log, memory::MemoryLog};
//! use seriatim_types::{Partition, SequenceId, WorkspaceId, WorkspaceKind};
//! use seriatim_env::watch;
//!
//! #[derive(Debug, Default)]
//! struct Map(Mutex<HashMap<WorkspaceId, Numbers>>, watch::Sender<()>);
//!
//! impl Derived for Map {
//!     type Values = ();
//!
//!     async fn read(self: Arc<Self>, ids: Vec<WorkspaceId>) -> Vec<Result<Option<Numbers>, ReadError>> {
//!         ids.iter().map(|id| Ok(self.0.lock().unwrap().get(id).cloned())).collect()
//!     }
//!
//!     fn publish(&self, committed: &Committed<'_>, (): ()) {
//!         let numbers = committed.numbers().map(|(id, numbers)| (id, numbers.clone()));
//!         self.0.lock().unwrap().extend(numbers);
//!     }
//!
//!     fn backlog(&self) -> Option<Busy> {
//!         None
//!     }
//!
//!     fn subscribe(&self) -> watch::Receiver<()> {
//!         self.1.subscribe()
//!     }
//!
//!     fn recover(self: Arc<Self>, recovery: Recovery) {
//!         recovery.recovered(); // the log is new and empty
//!     }
//! }
//!
//! const SHOP: WorkspaceKind = WorkspaceKind::new(1);
//! const INVOICE: SequenceId = SequenceId::new(20);
//!
//! async fn run(env: Env) -> Result<(), Box<dyn Error>> {
//!     let log = Log::new(MemoryLog::new());
//!     let owner = log.take(Partition::new(1, 0)).await?;
//!     let definition = Arc::new(Definition::new([(SHOP, vec![Sequence::new(INVOICE, 1)])])?);
//!     let mut sequencer = Sequencer::new(env.clone(), owner, definition, 1_000, Arc::new(Map::default()));
//!     sequencer.wait(Duration::from_secs(1)).await?;
//!
//!     let shop = sequencer.load(SHOP, WorkspaceId::FIRST).await?;
//!     let mut group = sequencer.group()?;
//!     let mut transaction = group.begin(&shop)?;
//!     assert_eq!(transaction.draw(INVOICE)?.get(), 1);
//!     transaction.stage(&Event::new(env.now(), b"an invoice"))?;
//!     let sealed = group.seal();
//!     let receipt = log.append(sealed.owner(), sealed.at(), sealed.entries()).await?;
//!     sequencer.commit(sealed, receipt)?;
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
mod core;
mod definition;
mod derived;
mod error;
mod event;
mod fold;
mod group;
mod loading;
pub mod metrics;
pub mod misuse;
mod nexts;
mod numbers;
mod numbers_codec;
mod pin;
mod sequence;
mod sequencer;
mod settle;
mod shared_status;
mod status;
mod transaction;
mod workspace_map;

pub use definition::{Definition, DefinitionError, Kind, RangesProblem};
pub use derived::{Committed, Derived, ReadError, Recovery};
pub use error::{
    BadValue, Busy, CommitError, DrawError, LoadError, Mismatch, SettleError, SettleProblem, StageError,
    Stale, StopReason,
};
pub use event::{Event, Staged};
pub use fold::{FoldError, Ignored, IgnoredNumbers, IgnoredReason};
pub use group::{Group, Sealed};
pub use loading::{Loaded, Loading};
pub use numbers::Numbers;
pub use numbers_codec::NumbersKey;
pub use pin::Pin;
pub use sequence::{IdSpace, Range, Sequence};
pub use sequencer::Sequencer;
pub use settle::Settled;
pub use status::{Status, StatusHandle};
pub use transaction::Transaction;
pub use workspace_map::{WorkspaceHasher, WorkspaceMap};
