//! All suites on every backend and wrapper of this crate.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::Duration;

use seriatim_env::Env;
use seriatim_storage::memory::{MemoryCells, MemoryLog, MemoryStore};
use seriatim_storage::{Cells, CellsBackend, Log, LogBackend, Store, StoreBackend};
use seriatim_storage_testing::conformance::{CellsFixture, LogFixture, SharedLogFixture, StoreFixture};
use seriatim_storage_testing::faulty::{
    Fault, Faults, FaultyCells, FaultyLog, FaultyStore, Operation, Operations,
};

/// A memory backend inside a wrapper.
struct Wrapped<M, W> {
    memory: M,
    wrap: fn(M) -> W,
}

impl<W: LogBackend> LogFixture for Wrapped<MemoryLog, W> {
    async fn open(&self) -> Log {
        Log::new((self.wrap)(self.memory.reopen()))
    }

    fn always_verifies(&self) -> bool {
        false
    }
}

impl<W: LogBackend> SharedLogFixture for Wrapped<MemoryLog, W> {
    async fn open(&self) -> Log {
        Log::new((self.wrap)(self.memory.reopen()))
    }
}

impl<W: StoreBackend> StoreFixture for Wrapped<MemoryStore, W> {
    async fn open(&self) -> Store {
        Store::new((self.wrap)(self.memory.reopen()))
    }
}

impl<W: CellsBackend> CellsFixture for Wrapped<MemoryCells, W> {
    async fn open(&self) -> Cells {
        Cells::new((self.wrap)(self.memory.reopen()))
    }
}

fn cells<W>(wrap: fn(MemoryCells) -> W) -> Wrapped<MemoryCells, W> {
    let memory = MemoryCells::new();
    Wrapped { memory, wrap }
}

fn log<W>(wrap: fn(MemoryLog) -> W) -> Wrapped<MemoryLog, W> {
    let memory = MemoryLog::new();
    Wrapped { memory, wrap }
}

fn store<W>(wrap: fn(MemoryStore) -> W) -> Wrapped<MemoryStore, W> {
    let memory = MemoryStore::new();
    Wrapped { memory, wrap }
}

/// No errors, but every operation is delayed.
fn delays() -> Faults {
    let faults = Faults::new(&Env::real());
    faults.delay(Operations::ALL, Duration::from_millis(1));
    faults
}

/// Answers to appends are lost, and appends arrive late.
fn in_doubt() -> Faults {
    let faults = Faults::new(&Env::real());
    faults.chance(Operation::Append, Fault::LoseRequest, 0.04);
    faults.chance(Operation::Append, Fault::LoseReply, 0.04);
    faults.chance(Operation::Append, Fault::Late(Duration::from_millis(2)), 0.04);
    faults
}

mod memory {
    use super::*;

    seriatim_storage_testing::log_conformance!(log(|memory| memory));
    seriatim_storage_testing::shared_log_conformance!(log(|memory| memory));
    seriatim_storage_testing::store_conformance!(store(|memory| memory));
    seriatim_storage_testing::cells_conformance!(cells(|memory| memory));
}

mod faulty {
    use super::*;

    seriatim_storage_testing::log_conformance!(log(|memory| FaultyLog::new(Arc::new(memory), &delays())));
    seriatim_storage_testing::shared_log_conformance!(log(|memory| FaultyLog::new(
        Arc::new(memory),
        &delays()
    )));
    seriatim_storage_testing::store_conformance!(store(|memory| FaultyStore::new(
        Arc::new(memory),
        &delays()
    )));
    seriatim_storage_testing::cells_conformance!(cells(|memory| FaultyCells::new(
        Arc::new(memory),
        &delays()
    )));
}

mod in_doubt {
    use super::*;

    seriatim_storage_testing::log_conformance!(log(|memory| FaultyLog::new(Arc::new(memory), &in_doubt())));
    seriatim_storage_testing::shared_log_conformance!(log(|memory| FaultyLog::new(
        Arc::new(memory),
        &in_doubt()
    )));
}

mod no_faults {
    use super::*;

    fn none() -> Faults {
        Faults::new(&Env::real())
    }

    seriatim_storage_testing::log_conformance!(log(|memory| FaultyLog::new(Arc::new(memory), &none())));
    seriatim_storage_testing::shared_log_conformance!(log(|memory| FaultyLog::new(
        Arc::new(memory),
        &none()
    )));
}
