//! Places in an ingestion where a test can make it fail or end the process.

use seriatim_storage::StoreError;

/// A place that an ingestion passes. Fails if the test on this thread wants it to.
#[expect(clippy::unnecessary_wraps, reason = "only tests make it fail")]
pub(super) fn reach(_place: &str) -> Result<(), StoreError> {
    Ok(())
}
