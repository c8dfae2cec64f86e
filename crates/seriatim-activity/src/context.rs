//! What an activity is given.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use seriatim_env::{Env, Shutdown};
use seriatim_workflow::{Headers, Payload, PayloadError, Time};

/// Identifies an attempt of an activity.
#[derive(Debug, Clone, PartialEq)]
pub struct ActivityInfo {
    /// The workflow that asked for it.
    pub workflow_id: String,
    /// The run that asked for it.
    pub run_id: String,
    /// Its id in the run: with the run's id it names this activity and no other, on every attempt.
    pub activity_id: String,
    /// Its name.
    pub activity_type: String,
    /// Which attempt it is, from 1.
    pub attempt: u32,
    /// When the run asked for it.
    pub scheduled: Time,
    /// Context that travels with it.
    pub headers: Headers,
}

/// What an activity works with.
#[derive(Clone)]
pub struct ActivityContext {
    info: Arc<ActivityInfo>,
    env: Env,
    cancel: Shutdown,
    left: Arc<[Payload]>,
    heartbeat: Arc<dyn Fn(Vec<Payload>) + Send + Sync>,
}

impl ActivityContext {
    /// A context as a host makes it for one attempt. `cancel` asks the attempt to stop; `left` is what the last heartbeat
    /// of the attempts before it said; `heartbeat` is called with each heartbeat, and must not wait.
    #[must_use]
    pub fn new(
        info: ActivityInfo,
        env: Env,
        cancel: Shutdown,
        left: Vec<Payload>,
        heartbeat: impl Fn(Vec<Payload>) + Send + Sync + 'static,
    ) -> Self {
        Self { info: Arc::new(info), env, cancel, left: left.into(), heartbeat: Arc::new(heartbeat) }
    }

    /// Identifies the attempt.
    #[must_use]
    pub fn info(&self) -> &ActivityInfo {
        &self.info
    }

    /// Clock, sleep and randomness: real, or simulated with everything else.
    #[must_use]
    pub fn env(&self) -> &Env {
        &self.env
    }

    /// Sends a heartbeat. The next attempt gets `details` if this one fails.
    ///
    /// # Errors
    ///
    /// [`PayloadError`] if the details cannot be written as JSON.
    pub fn heartbeat<T: Serialize>(&self, details: &T) -> Result<(), PayloadError> {
        (self.heartbeat)(vec![Payload::json(details)?]);
        Ok(())
    }

    /// What the last heartbeat of the attempts before this one said.
    ///
    /// # Errors
    ///
    /// [`PayloadError`] if it is of another type.
    pub fn heartbeat_details<T: DeserializeOwned>(&self) -> Result<Option<T>, PayloadError> {
        if self.left.is_empty() { Ok(None) } else { Payload::decode_all(&self.left).map(Some) }
    }

    /// Whether the run has asked it to stop.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.cancel.is_cancelled()
    }

    /// Returns when the run asks it to stop. Answer that with
    /// [`Failure::cancelled`](seriatim_workflow::Failure::cancelled).
    pub async fn cancelled(&self) {
        self.cancel.cancelled().await;
    }
}

impl fmt::Debug for ActivityContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ActivityContext").field("info", &self.info).finish_non_exhaustive()
    }
}
