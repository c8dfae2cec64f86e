//! The ports in memory: for tests, for simulation, and for data that may be lost with the process.

mod cells;
mod log;
mod store;

pub use cells::MemoryCells;
pub use log::MemoryLog;
pub use store::MemoryStore;
