//! The ports in memory: for tests, for simulation, and for data that may be lost when the process ends.

mod cells;
mod log;
mod storage;
mod store;

pub use cells::MemoryCells;
pub use log::MemoryLog;
pub use storage::MemoryStorage;
pub use store::MemoryStore;
