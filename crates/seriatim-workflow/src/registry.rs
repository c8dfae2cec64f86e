//! The workflows that a host knows, by name.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{ActivationFailure, Context, Exit, Failure, Name, Payload, Workflow};

pub(crate) type RunFuture = Pin<Box<dyn Future<Output = Result<Payload, Exit>> + Send>>;
pub(crate) type Code = Arc<dyn Fn(Context, Vec<Payload>) -> RunFuture + Send + Sync>;

/// The workflows that a host knows, by name.
///
/// ```
/// use seriatim_workflow::{Context, Exit, Registry};
/// use std::time::Duration;
///
/// async fn nap(ctx: Context, seconds: u64) -> Result<(), Exit> {
///     ctx.timer(Duration::from_secs(seconds)).await?;
///     Ok(())
/// }
///
/// let registry = Registry::new().workflow("nap", nap);
/// assert_eq!(registry.names().collect::<Vec<_>>(), ["nap"]);
/// ```
#[derive(Default, Clone)]
pub struct Registry {
    workflows: BTreeMap<String, Code>,
}

impl Registry {
    /// A registry without workflows.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers the code of a workflow. Its input and output are JSON; several arguments are a tuple, none is `()`.
    ///
    /// The name is a text or a [`Workflow`], which fixes the types.
    ///
    /// # Panics
    ///
    /// If the name is taken.
    #[must_use]
    pub fn workflow<F, In, Fut, Out>(mut self, name: impl Into<Name<Workflow<In, Out>>>, code: F) -> Self
    where
        F: Fn(Context, In) -> Fut + Send + Sync + 'static,
        In: DeserializeOwned,
        Fut: Future<Output = Result<Out, Exit>> + Send + 'static,
        Out: Serialize,
    {
        let name = name.into().into_string();
        let code: Code = Arc::new(move |ctx, input| match Payload::decode_all(&input) {
            Ok(input) => {
                let future = code(ctx, input);
                Box::pin(async move { Ok(Payload::json(&future.await?)?) })
            }
            Err(error) => {
                let failure =
                    Failure::non_retryable("Input", format!("the workflow's input is wrong: {error}"));
                Box::pin(std::future::ready(Err(Exit::Failed(failure))))
            }
        });
        assert!(self.workflows.insert(name.clone(), code).is_none(), "workflow {name:?} is registered twice");
        self
    }

    /// The names of the workflows, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.workflows.keys().map(String::as_str)
    }

    /// Whether there is a workflow of this name.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.workflows.contains_key(name)
    }

    pub(crate) fn find(&self, name: &str) -> Result<Code, ActivationFailure> {
        self.workflows.get(name).cloned().ok_or_else(|| ActivationFailure::UnknownWorkflow {
            workflow_type: name.to_owned(),
            known: list_names(self.names()),
        })
    }
}

/// The names that are known, for an error about one that is not; `none` if there are no names.
pub fn list_names<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry").field("workflows", &self.names().collect::<Vec<_>>()).finish()
    }
}
