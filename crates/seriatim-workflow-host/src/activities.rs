//! Activities: the work that runs do outside themselves.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use serde::de::DeserializeOwned;
use seriatim_env::{Env, Instant, Shutdown};
use seriatim_workflow::{Failure, Payload, PayloadError, Time};

pub(crate) type ActivityFuture = Pin<Box<dyn Future<Output = Result<Payload, Failure>> + Send>>;
type Code = Arc<dyn Fn(ActivityContext, Vec<Payload>) -> ActivityFuture + Send + Sync>;

/// The activities that a host can carry out, by name.
///
/// ```
/// use seriatim_workflow::Failure;
/// use seriatim_workflow_host::{Activities, ActivityContext};
///
/// let activities = Activities::new().register("shout", |_: ActivityContext, text: String| async move {
///     Ok::<_, Failure>(text.to_uppercase())
/// });
/// assert_eq!(activities.names().collect::<Vec<_>>(), ["shout"]);
/// ```
#[derive(Clone, Default)]
pub struct Activities {
    by_name: BTreeMap<String, Code>,
}

impl Activities {
    /// None.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers an activity. Input and output are JSON; several arguments are a tuple, none is `()`.
    ///
    /// It may be run more than once: a crash between its effect and the note that it has ended makes it run again.
    ///
    /// # Panics
    ///
    /// If the name is taken.
    #[must_use]
    pub fn register<F, In, Fut, Out>(mut self, name: impl Into<String>, code: F) -> Self
    where
        F: Fn(ActivityContext, In) -> Fut + Send + Sync + 'static,
        In: DeserializeOwned,
        Fut: Future<Output = Result<Out, Failure>> + Send + 'static,
        Out: Serialize,
    {
        let name = name.into();
        let code: Code = Arc::new(move |context, input| match Payload::decode_all(&input) {
            Ok(input) => {
                let future = code(context, input);
                Box::pin(async move { Ok(Payload::json(&future.await?)?) })
            }
            Err(error) => {
                let message = format!("the activity's input is wrong: {error}");
                Box::pin(std::future::ready(Err(Failure::non_retryable("Input", message))))
            }
        });
        assert!(self.by_name.insert(name.clone(), code).is_none(), "activity {name:?} is registered twice");
        self
    }

    /// Their names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.by_name.keys().map(String::as_str)
    }

    /// Begins an attempt; none if nothing of this name is registered.
    pub(crate) fn begin(
        &self,
        name: &str,
        context: ActivityContext,
        input: Vec<Payload>,
    ) -> Option<ActivityFuture> {
        self.by_name.get(name).map(|code| code(context, input))
    }

    /// Their names, as a text for people.
    pub(crate) fn known(&self) -> String {
        if self.by_name.is_empty() {
            return "none".to_owned();
        }
        self.names().collect::<Vec<_>>().join(", ")
    }
}

impl fmt::Debug for Activities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Activities").field("names", &self.by_name.keys().collect::<Vec<_>>()).finish()
    }
}

/// What an attempt of an activity is about.
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
}

/// The last sign of life of an attempt.
#[derive(Debug)]
pub(crate) struct Beat {
    pub(crate) at: Instant,
    pub(crate) details: Vec<Payload>,
}

/// What an activity works with.
#[derive(Debug, Clone)]
pub struct ActivityContext {
    pub(crate) info: Arc<ActivityInfo>,
    pub(crate) env: Env,
    pub(crate) cancel: Shutdown,
    pub(crate) beat: Arc<Mutex<Beat>>,
    /// What the attempt before it left.
    pub(crate) left: Vec<Payload>,
}

impl ActivityContext {
    /// What it is about.
    #[must_use]
    pub fn info(&self) -> &ActivityInfo {
        &self.info
    }

    /// Clock, sleep and randomness: real, or simulated with everything else.
    #[must_use]
    pub fn env(&self) -> &Env {
        &self.env
    }

    /// A sign of life. The next attempt finds `details` if this one fails.
    ///
    /// # Errors
    ///
    /// [`PayloadError`] if the details cannot be written as JSON.
    pub fn heartbeat<T: Serialize>(&self, details: &T) -> Result<(), PayloadError> {
        let details = vec![Payload::json(details)?];
        let mut beat = self.beat.lock().unwrap_or_else(PoisonError::into_inner);
        *beat = Beat { at: self.env.instant(), details };
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

    /// Returns when the run asks it to stop. Answer that with [`Failure::cancelled`].
    pub async fn cancelled(&self) {
        self.cancel.cancelled().await;
    }
}
