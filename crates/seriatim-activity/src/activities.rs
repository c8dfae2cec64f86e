//! The activities that a host can carry out.

use std::collections::BTreeMap;
use std::fmt;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use serde::Serialize;
use serde::de::DeserializeOwned;
use seriatim_types::panic_text;
use seriatim_workflow::{Activity, Failure, Name, Payload, list_names};

use crate::ActivityContext;

/// An attempt that runs. It does not panic.
pub type ActivityFuture = Pin<Box<dyn Future<Output = Result<Payload, Failure>> + Send>>;
type Code = Arc<dyn Fn(ActivityContext, Vec<Payload>) -> ActivityFuture + Send + Sync>;

/// The activities that a host can carry out, by name.
///
/// ```
/// use seriatim_activity::{Activities, ActivityContext};
/// use seriatim_workflow::Failure;
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
    /// The name is a text or an [`Activity`], which fixes the types for the code and for those who call it:
    ///
    /// ```
    /// use seriatim_activity::{Activities, ActivityContext};
    /// use seriatim_workflow::{Activity, Failure};
    ///
    /// const SHOUT: Activity<String, String> = Activity::new("shout");
    ///
    /// async fn shout(_: ActivityContext, text: String) -> Result<String, Failure> {
    ///     Ok(text.to_uppercase())
    /// }
    ///
    /// let activities = Activities::new().register(SHOUT, shout);
    /// assert!(activities.contains("shout"));
    /// ```
    ///
    /// Code of other types does not compile:
    ///
    /// ```compile_fail
    /// # use seriatim_activity::{Activities, ActivityContext};
    /// # use seriatim_workflow::{Activity, Failure};
    /// const SHOUT: Activity<String, String> = Activity::new("shout");
    ///
    /// async fn shout(_: ActivityContext, text: String) -> Result<usize, Failure> {
    ///     Ok(text.len())
    /// }
    ///
    /// let activities = Activities::new().register(SHOUT, shout);
    /// ```
    ///
    /// It may be run more than once: after a crash between its effect and the event of its end it is run again.
    ///
    /// # Panics
    ///
    /// If the name is taken.
    #[must_use]
    pub fn register<F, In, Fut, Out>(mut self, name: impl Into<Name<Activity<In, Out>>>, code: F) -> Self
    where
        F: Fn(ActivityContext, In) -> Fut + Send + Sync + 'static,
        In: DeserializeOwned,
        Fut: Future<Output = Result<Out, Failure>> + Send + 'static,
        Out: Serialize,
    {
        let name = name.into().into_string();
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

    /// Whether there is an activity of this name.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    /// Begins an attempt of the activity that the context's info names. A panic of the activity's code ends it with a
    /// failure that may be tried again; a name that is not registered, with one of the type `UnknownActivity`.
    #[must_use]
    pub fn attempt(&self, context: ActivityContext, input: Vec<Payload>) -> ActivityFuture {
        let Some(code) = self.by_name.get(&context.info().activity_type) else {
            let failure = self.unknown(&context.info().activity_type);
            return Box::pin(std::future::ready(Err(failure)));
        };
        match catch_unwind(AssertUnwindSafe(|| code(context, input))) {
            Err(panic) => Box::pin(std::future::ready(Err(panicked(&*panic)))),
            Ok(future) => {
                let mut attempt = Attempt(Some(future));
                Box::pin(poll_fn(move |context| {
                    let Some(future) = &mut attempt.0 else { return Poll::Pending };
                    let polled = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context)));
                    polled.unwrap_or_else(|panic| Poll::Ready(Err(panicked(&*panic))))
                }))
            }
        }
    }

    fn unknown(&self, name: &str) -> Failure {
        let known = list_names(self.names());
        let message = format!("no activity {name:?} is registered here; known: {known}");
        Failure::non_retryable("UnknownActivity", message)
    }
}

impl fmt::Debug for Activities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Activities").field("names", &self.by_name.keys().collect::<Vec<_>>()).finish()
    }
}

/// The activity's own future. A panic of its destructor is caught: the attempt's outcome is known by then, or not needed.
struct Attempt(Option<ActivityFuture>);

impl Drop for Attempt {
    fn drop(&mut self) {
        let future = self.0.take();
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(future))) {
            // The payload of a panic may panic again when it is dropped.
            std::mem::forget(panic);
        }
    }
}

/// The failure that a panic of an activity becomes.
fn panicked(panic: &(dyn std::any::Any + Send)) -> Failure {
    Failure::application("Panic", format!("the activity panicked: {}", panic_text(panic)))
}

#[cfg(test)]
mod tests {
    use seriatim_types::sync::Mutex;

    use seriatim_env::{Env, Shutdown, simulate};
    use seriatim_workflow::{FailureInfo, Headers, Time};

    use super::*;
    use crate::ActivityInfo;

    fn context(env: &Env, name: &str, heartbeats: &Arc<Mutex<Vec<Payload>>>) -> ActivityContext {
        let info = ActivityInfo {
            workflow_id: "w".to_owned(),
            run_id: "r".to_owned(),
            activity_id: "1".to_owned(),
            activity_type: name.to_owned(),
            attempt: 1,
            scheduled: Time::default(),
            headers: Headers::new(),
        };
        let heartbeats = heartbeats.clone();
        let sink = move |details| {
            heartbeats.lock().extend(details);
        };
        ActivityContext::new(info, env.clone(), Shutdown::new(), vec![Payload::json(&6).unwrap()], sink)
    }

    fn attempt(name: &'static str) -> (Result<Payload, Failure>, Vec<Payload>) {
        let activities = Activities::new()
            .register("continues", |ctx: ActivityContext, by: u32| async move {
                let done = ctx.heartbeat_details::<u32>()?.unwrap_or_default() + by;
                ctx.heartbeat(&done)?;
                Ok::<_, Failure>(done)
            })
            .register("panics", |_: ActivityContext, _: u32| async {
                panic!("the till is stuck") as Result<(), _>
            })
            .register(
                "panics at once",
                |_: ActivityContext, _: u32| -> std::future::Ready<Result<(), Failure>> {
                    panic!("the till is gone")
                },
            );
        simulate(1, |env| async move {
            let heartbeats = Arc::default();
            let input = vec![Payload::json(&4).unwrap()];
            let ended = activities.attempt(context(&env, name, &heartbeats), input).await;
            let heartbeats = heartbeats.lock().clone();
            (ended, heartbeats)
        })
    }

    #[test]
    fn an_attempt_continues_from_what_the_last_one_left() {
        let ten = Payload::json(&10).unwrap();
        assert_eq!(attempt("continues"), (Ok(ten.clone()), vec![ten]));
    }

    #[test]
    fn a_panic_is_a_failure_that_may_be_tried_again() {
        for (name, text) in [("panics", "the till is stuck"), ("panics at once", "the till is gone")] {
            let failure = attempt(name).0.unwrap_err();
            assert!(failure.message.contains(text), "{failure}");
            assert!(matches!(*failure.info, FailureInfo::Application { non_retryable: false, .. }));
        }
    }

    #[test]
    fn a_panic_of_an_attempts_destructor_stays_inside() {
        struct Loud;
        impl Drop for Loud {
            fn drop(&mut self) {
                panic!("dropped");
            }
        }
        let activities = Activities::new().register("loud", |_: ActivityContext, _: u32| {
            let loud = Loud;
            async move {
                std::future::pending::<()>().await;
                drop(loud);
                Ok::<_, Failure>(())
            }
        });
        simulate(1, |env| async move {
            let attempt = activities.attempt(context(&env, "loud", &Arc::default()), Vec::new());
            drop(attempt);
        });
    }

    #[test]
    fn an_unknown_name_is_told_with_those_that_are_known() {
        let failure = attempt("goes of").0.unwrap_err();
        assert!(failure.message.contains("continues, panics, panics at once"), "{failure}");
    }
}
