//! Opening the store again after a failure, in place.

use std::sync::Arc;

use seriatim_storage::StoreError;

use super::shared::Shared;

/// If the engine has given up, closes it, opens its directory again and puts the new one in its place, for all clones.
/// The data directory's lock is not touched: it is held by the log. Writers wait meanwhile, readers are refused.
///
/// Once begun it continues to its end, also if the caller is gone.
pub(super) async fn reopen(shared: &Arc<Shared>) -> Result<u64, StoreError> {
    let lifecycle = shared.lifecycle.clone().lock_owned().await;
    // Between two writes, so that no writer is between a compare and its write.
    let mut turn = shared.wait_for_turn().await;
    let own = shared.clone();
    let work = move || {
        let _lifecycle = lifecycle;
        own.replace_failed_engine(&mut turn)?;
        Ok(own.generation())
    };
    shared.env.blocking(work).await
}
