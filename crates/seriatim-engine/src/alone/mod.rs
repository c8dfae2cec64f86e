//! A sequencer that is used alone: gap-free numbers on a log and a store, for a program that writes its own events.
//!
//! ```
//! use std::{error::Error, time::Duration};
//!
//! use seriatim_engine::alone::{Factory, Options};
//! use seriatim_env::Env;
//! use seriatim_sequencer::{Definition, Event, Sequence};
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
//!     sequencer.finish(Duration::from_secs(1)).await?;
//!     Ok(())
//! }
//!
//! fn main() -> Result<(), Box<dyn Error>> {
//!     seriatim_env::simulate(1, run)
//! }
//! ```

mod factory;
mod metrics;
mod options;
mod sequencer;

pub use factory::Factory;
pub use metrics::describe_metrics;
pub use options::Options;
pub use sequencer::{FinishError, Sequencer, StoredNumbers};
