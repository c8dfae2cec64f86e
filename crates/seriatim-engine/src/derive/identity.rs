//! The identity of the log.

use seriatim_env::Env;
use seriatim_storage::{Log, LogError, LogIdentity};

/// The identity of a log. If the log has none yet, it gets a random one, durably.
pub(crate) async fn identify(env: &Env, log: &Log) -> Result<LogIdentity, LogError> {
    if let Some(identity) = log.identity().await? {
        return Ok(identity);
    }
    let mut bytes = [0; 16];
    env.random_bytes(&mut bytes);
    log.identify(LogIdentity::from_bytes(bytes)).await
}
