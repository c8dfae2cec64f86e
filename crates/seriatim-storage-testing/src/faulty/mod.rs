//! Storage that fails on demand: a wrapper around any backend, for tests.
//!
//! A [`Faults`] handle controls any number of [`FaultyLog`]s, [`FaultyStore`]s and [`FaultyCells`], and counts their
//! operations. Its random choices come from an [`Env`](seriatim_env::Env), so that in a simulation the seed decides.
//!
//! ```
//! use std::sync::Arc;
//! use seriatim_storage::{Key, Store, memory::MemoryStore};
//! use seriatim_storage_testing::faulty::{Fault, Faults, FaultyStore, Operation};
//! use seriatim_types::ErrorKind;
//!
//! # seriatim_env::simulate(1, |env| async move {
//! let faults = Faults::new(&env);
//! let store = Store::new(FaultyStore::new(Arc::new(MemoryStore::new()), &faults));
//!
//! // The next write happens, and its answer is lost.
//! faults.fail_nth(Operation::Write, 1, Fault::LoseReply);
//! let key = Key::new(b"partition", b"key");
//! assert_eq!(store.put(key, b"value").await.unwrap_err().kind(), ErrorKind::InDoubt);
//! assert_eq!(store.get(key).await.unwrap().unwrap(), "value");
//! assert_eq!(faults.count(Operation::Get), 1);
//! # });
//! ```

mod cells;
mod faults;
mod log;
mod operation;
mod plan;
mod store;

pub use cells::FaultyCells;
pub use faults::{Faults, Hold};
pub use log::FaultyLog;
pub use operation::{Operation, Operations};
pub use plan::Fault;
pub use store::FaultyStore;
