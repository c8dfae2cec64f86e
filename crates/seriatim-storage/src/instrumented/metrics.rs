//! Every metric of the two ports.
//!
//! | name | kind | labels | meaning |
//! |---|---|---|---|
//! | `seriatim_log_operations_total` | counter | `operation`, `outcome` | operations of the log that have been answered |
//! | `seriatim_log_operation_seconds` | histogram | `operation` | from the call to the answer |
//! | `seriatim_log_appended_entries_total` | counter | | entries of appends that were acknowledged |
//! | `seriatim_log_appended_bytes_total` | counter | | their bytes |
//! | `seriatim_log_read_entries_total` | counter | | entries read |
//! | `seriatim_log_read_bytes_total` | counter | | their bytes |
//! | `seriatim_store_operations_total` | counter | `operation`, `outcome` | operations of the store that have been answered |
//! | `seriatim_store_operation_seconds` | histogram | `operation` | from the call to the answer |
//! | `seriatim_store_written_keys_total` | counter | | keys put or removed by writes that were acknowledged |
//! | `seriatim_store_written_bytes_total` | counter | | bytes of their keys and values |
//! | `seriatim_store_read_bytes_total` | counter | | bytes of values read, and of keys where they were scanned |
//!
//! An outcome is `ok` or the [kind](seriatim_types::ErrorKind) of the error. Waiting for an offset, as followers do, is not
//! measured: it takes as long as nothing happens.

use std::borrow::Cow;
use std::future::Future;
use std::time::Duration;

use metrics::{counter, histogram};
use seriatim_env::{Env, Instant};
use seriatim_types::ErrorKind;

/// Answered operations of the log, by operation and outcome.
pub const LOG_OPERATIONS: &str = "seriatim_log_operations_total";
/// How long they took.
pub const LOG_SECONDS: &str = "seriatim_log_operation_seconds";
/// Entries appended.
pub const LOG_APPENDED_ENTRIES: &str = "seriatim_log_appended_entries_total";
/// Bytes appended.
pub const LOG_APPENDED_BYTES: &str = "seriatim_log_appended_bytes_total";
/// Entries read from the log.
pub const LOG_READ_ENTRIES: &str = "seriatim_log_read_entries_total";
/// Bytes read from the log.
pub const LOG_READ_BYTES: &str = "seriatim_log_read_bytes_total";
/// Answered operations of the store, by operation and outcome.
pub const STORE_OPERATIONS: &str = "seriatim_store_operations_total";
/// How long they took.
pub const STORE_SECONDS: &str = "seriatim_store_operation_seconds";
/// Keys put or removed.
pub const STORE_WRITTEN_KEYS: &str = "seriatim_store_written_keys_total";
/// Bytes written to the store.
pub const STORE_WRITTEN_BYTES: &str = "seriatim_store_written_bytes_total";
/// Bytes read from the store.
pub const STORE_READ_BYTES: &str = "seriatim_store_read_bytes_total";

/// Counts, times and tells of the operations of one port.
#[derive(Debug, Clone)]
pub(super) struct Meter {
    pub(super) env: Env,
    pub(super) operations: &'static str,
    pub(super) seconds: &'static str,
}

impl Meter {
    /// Waits for an answer and records it, and in the span that is current says how it went.
    pub(super) async fn measure<T, E>(
        &self,
        operation: &'static str,
        answer: impl Future<Output = Result<T, E>>,
        kind: fn(&E) -> ErrorKind,
    ) -> Result<T, E> {
        self.measure_from(self.env.instant(), operation, answer, kind).await
    }

    /// As [`Meter::measure`], for something that was called at `start`.
    pub(super) async fn measure_from<T, E>(
        &self,
        start: Instant,
        operation: &'static str,
        answer: impl Future<Output = Result<T, E>>,
        kind: fn(&E) -> ErrorKind,
    ) -> Result<T, E> {
        let answer = answer.await;
        self.record(operation, answer.as_ref().err().map(kind), self.env.instant() - start);
        answer
    }

    fn record(&self, operation: &'static str, error: Option<ErrorKind>, took: Duration) {
        let outcome = error.map_or(Cow::Borrowed("ok"), |kind| Cow::Owned(kind.to_string()));
        tracing::debug!(outcome = %outcome, micros = took.as_micros(), "answered");
        counter!(self.operations, "operation" => operation, "outcome" => outcome).increment(1);
        histogram!(self.seconds, "operation" => operation).record(took.as_secs_f64());
    }
}

/// Adds to a counter without labels.
pub(super) fn add(name: &'static str, amount: usize) {
    counter!(name).increment(amount as u64);
}
