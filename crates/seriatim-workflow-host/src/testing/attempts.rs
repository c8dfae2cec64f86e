//! Activities that can be made to fail, and that end with the life of their host.

use std::future::pending;

use serde_json::value::RawValue;
use seriatim_activity::{Activities, ActivityContext};
use seriatim_env::{Env, Shutdown};
use seriatim_workflow::{Failure, Payload};

/// The same activities, with their attempts cut off when `over` is requested, and failing with this chance of a million.
pub(super) fn guarded(activities: &Activities, over: &Shutdown, failing: u64) -> Activities {
    let mut guarded = Activities::new();
    for name in activities.names() {
        let (activities, over) = (activities.clone(), over.clone());
        let attempt = move |context: ActivityContext, input: Box<RawValue>| {
            let (activities, over) = (activities.clone(), over.clone());
            async move {
                let attempt = attempt(&activities, context, input, failing);
                match over.run_until_cancelled(attempt).await {
                    Some(ended) => ended,
                    // A crashed host gets no answer.
                    None => pending().await,
                }
            }
        };
        guarded = guarded.register(name.to_owned(), attempt);
    }
    guarded
}

async fn attempt(
    activities: &Activities,
    context: ActivityContext,
    input: Box<RawValue>,
    failing: u64,
) -> Result<Box<RawValue>, Failure> {
    let env: Env = context.env().clone();
    let fails = env.random_below(1_000_000) < failing;
    // Half of them before the work, half of them after it.
    if fails && env.random_below(2) == 0 {
        return Err(Failure::application("Injected", "the test has failed this attempt before its work"));
    }
    let result = activities.attempt(context, vec![Payload::json(&input)?]).await?;
    if fails {
        return Err(Failure::application("Injected", "the test has failed this attempt after its work"));
    }
    Ok(if result.is_null() { RawValue::NULL.to_owned() } else { result.decode()? })
}
