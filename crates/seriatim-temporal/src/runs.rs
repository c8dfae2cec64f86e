//! The workflow side of a worker: activations in, completions out.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use seriatim_env::{Env, Shutdown};
use seriatim_types::sync::{Mutex, MutexGuard};
use seriatim_workflow::{
    Activation, ActivationFailure, Completion, Instance, InstanceOptions, Job, Numbering, Policy, Registry,
    Start,
};
use temporalio_common::protos::coresdk::workflow_activation::remove_from_cache::EvictionReason;
use temporalio_common::protos::coresdk::workflow_activation::workflow_activation_job::Variant;
use temporalio_common::protos::coresdk::workflow_activation::{
    RemoveFromCache, WorkflowActivation, WorkflowActivationJob,
};
use temporalio_common::protos::coresdk::workflow_completion::WorkflowActivationCompletion;
use temporalio_sdk_core::{PollError, Worker as Core};
use tokio_util::task::TaskTracker;

use crate::activation::{Home, read_activation};
use crate::completion::{Defaults, untranslatable, write_completion};
use crate::explain::Explainer;
use crate::logged::write_log;

/// The one job of an activation that drops a run.
fn eviction(wire: &WorkflowActivation) -> Option<&RemoveFromCache> {
    match &wire.jobs[..] {
        [WorkflowActivationJob { variant: Some(Variant::RemoveFromCache(eviction)) }] => Some(eviction),
        _ => None,
    }
}

/// A run in memory.
struct Run {
    instance: Instance,
    workflow_type: String,
    workflow_id: String,
}

/// The runs of a worker.
pub(crate) struct Runs {
    pub(crate) env: Env,
    pub(crate) core: Arc<Core>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) home: Home,
    pub(crate) activity_timeout: Duration,
    pub(crate) explainer: Explainer,
    /// The worker stops.
    pub(crate) stopping: Shutdown,
    /// Everything that is under way.
    pub(crate) tasks: TaskTracker,
    /// The runs that the core has cached, by run id; not those that are being activated. The core bounds their number,
    /// and says which of them are dropped.
    pub(crate) cached: Cache,
}

/// Runs between two activations.
#[derive(Default)]
pub(crate) struct Cache(Mutex<HashMap<String, Run>>);

impl Cache {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Run>> {
        self.0.lock()
    }
}

impl Runs {
    /// Asks for activations until there are no more. Each is answered by a task of its own, so that a run that computes
    /// for long does not delay others; the core gives out no second activation of a run before the first is answered.
    pub(crate) async fn poll(self: Arc<Self>) -> Result<(), PollError> {
        let mut first_error = None;
        loop {
            let activation = match self.core.poll_workflow_activation().await {
                Ok(activation) => activation,
                Err(PollError::ShutDown) => return first_error.map_or(Ok(()), Err),
                Err(error) => {
                    self.stopping.cancel();
                    self.core.initiate_shutdown();
                    first_error.get_or_insert(error);
                    continue;
                }
            };
            let runs = Arc::clone(&self);
            self.env.spawn(self.tasks.track_future(async move { runs.answer(activation).await }));
        }
    }

    async fn answer(&self, activation: WorkflowActivation) {
        let run_id = activation.run_id.clone();
        // A defect here fails the workflow task of this run, and nothing else.
        let completion = catch_unwind(AssertUnwindSafe(|| self.activate(activation)));
        let completion = completion.unwrap_or_else(|_| self.broken(run_id));
        let run_id = completion.run_id.clone();
        if let Err(error) = self.core.complete_workflow_activation(completion).await {
            tracing::error!(run_id, %error, "the core does not take a run's answer");
        }
    }

    /// Activates a run. When this returns the run is in the cache again, and may be activated again.
    fn activate(&self, wire: WorkflowActivation) -> WorkflowActivationCompletion {
        if let Some(eviction) = eviction(&wire) {
            self.evict(&wire.run_id, eviction);
            return WorkflowActivationCompletion::empty(wire.run_id);
        }
        let run_id = wire.run_id.clone();
        let activation = match read_activation(wire, &self.home) {
            Ok(activation) => activation,
            Err(wrong) => {
                tracing::warn!(run_id, %wrong, "an activation cannot be understood");
                self.cached.lock().remove(&run_id);
                return untranslatable(run_id, &wrong);
            }
        };
        let cached = self.cached.lock().remove(&run_id);
        let Some(mut run) = cached.or_else(|| self.begin(&activation)) else {
            let reason = "the run is not in memory, and the activation does not begin it".to_owned();
            let outcome = Err(ActivationFailure::Protocol { reason });
            return write_completion(Completion { run_id, outcome }, self.defaults(""));
        };
        let is_marked = activation.jobs.iter().any(|job| matches!(job, Job::Start(start) if start.rules > 0));
        let completion = run.instance.activate(activation);
        if let Err(failure) = &completion.outcome {
            tracing::warn!(run_id, workflow_type = run.workflow_type, %failure, "a workflow task fails");
        }
        let mut completion = write_completion(completion, self.defaults(&run.workflow_type));
        if is_marked {
            completion.add_internal_flags(Start::RULES_FLAG);
        }
        self.cached.lock().insert(run_id, run);
        completion
    }

    fn begin(&self, activation: &Activation) -> Option<Run> {
        let start = activation.jobs.iter().find_map(|job| match job {
            Job::Start(start) => Some(start),
            _ => None,
        })?;
        let options = InstanceOptions { numbering: Numbering::ByCallOrder, policy: Policy::Fail };
        let instance = Instance::new(Arc::clone(&self.registry), options).log_to(write_log);
        let (workflow_type, workflow_id) = (start.workflow_type.clone(), start.workflow_id.clone());
        Some(Run { instance, workflow_type, workflow_id })
    }

    /// The core drops a run from its cache, and so do we.
    fn evict(&self, run_id: &str, eviction: &RemoveFromCache) {
        let run = self.cached.lock().remove(run_id);
        let reason = eviction.reason();
        tracing::debug!(run_id, ?reason, eviction.message, "the core drops a run from its cache");
        if let Some(run) = run
            && reason == EvictionReason::Nondeterminism
        {
            self.explainer.explain(run.workflow_id, run_id.to_owned());
        }
    }

    fn defaults<'a>(&'a self, workflow_type: &'a str) -> Defaults<'a> {
        Defaults { home: &self.home, workflow_type, activity_timeout: self.activity_timeout }
    }

    fn broken(&self, run_id: String) -> WorkflowActivationCompletion {
        self.cached.lock().remove(&run_id);
        let (branch, message) = ("outside the run's own".to_owned(), "see the worker's log".to_owned());
        let outcome = Err(ActivationFailure::Panicked { branch, message });
        write_completion(Completion { run_id, outcome }, self.defaults(""))
    }
}
