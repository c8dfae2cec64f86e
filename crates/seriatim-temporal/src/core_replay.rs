//! Histories replayed by Temporal's core itself, with our code: a check of our own replay.

use std::sync::Arc;
use std::time::Duration;

use prost::Message as _;
use seriatim_env::Env;
use seriatim_workflow::{Instance, InstanceOptions, Job, Numbering, Policy, Registry};
use temporalio_common::protos::coresdk::workflow_activation::remove_from_cache::EvictionReason;
use temporalio_common::protos::coresdk::workflow_activation::workflow_activation_job::Variant;
use temporalio_common::protos::coresdk::workflow_activation::{WorkflowActivation, WorkflowActivationJob};
use temporalio_common::protos::coresdk::workflow_completion::WorkflowActivationCompletion;
use temporalio_common::protos::temporal::api::history::v1::History;
use temporalio_sdk_core::replay::{HistoryFeeder, HistoryForReplay, ReplayWorkerInput};
use temporalio_sdk_core::{PollError, Worker as Core, init_replay_worker};

use crate::activation::{Home, read_activation};
use crate::completion::{Defaults, untranslatable, write_completion};
use crate::{TemporalError, WorkerOptions};

/// No history takes longer to replay; of some, which have ended before their first task, the core never says that they
/// are over.
const REPLAY_MAX: Duration = Duration::from_secs(60);

/// What the core reports about a history and our code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CoreReport {
    /// How many activations were replayed.
    pub activations: usize,
    /// Why the core gave the run up, if it did.
    pub problem: Option<String>,
}

impl CoreReport {
    /// Whether the code does what the history says, as far as the core compares: kind, id and type of each command.
    #[must_use]
    pub const fn is_same(&self) -> bool {
        self.problem.is_none()
    }
}

/// Replays a history, in Temporal's binary form, on the registered code, driven and compared by Temporal's core.
///
/// The core compares less than [`replay_temporal`](seriatim_temporal_history::replay_temporal), which compares inputs and
/// durations too. On a cluster, the core's comparison decides.
///
/// # Errors
///
/// [`TemporalError`] if the bytes are no history, or the core does not replay it.
pub async fn replay_on_core(
    env: &Env,
    registry: &Arc<Registry>,
    workflow_id: &str,
    history: &[u8],
) -> Result<CoreReport, TemporalError> {
    let history = History::decode(history)
        .map_err(|error| TemporalError::Options(format!("this is no history in binary form: {error}")))?;
    if history.extract_run_id_from_start().is_err() {
        return Err(TemporalError::Options("the history does not begin with the start of a run".to_owned()));
    }
    let defect = |error: &dyn std::fmt::Display| TemporalError::Defect(error.to_string());
    let (feeder, histories) = HistoryFeeder::new(1);
    let fed = feeder.feed(HistoryForReplay::new(history, workflow_id)).await;
    fed.map_err(|error| defect(&error))?;
    // There are no more.
    drop(feeder);
    let options = WorkerOptions::new("replay");
    let core = init_replay_worker(ReplayWorkerInput::new(options.to_core()?, histories));
    let core = core.map_err(|error| defect(&error))?;
    let home = Home { namespace: options.namespace, task_queue: options.task_queue };
    let mut replay = Replay {
        registry,
        home,
        activity_timeout: options.activity_timeout,
        run: None,
        report: CoreReport { activations: 0, problem: None },
    };
    let driven = env.timeout(REPLAY_MAX, replay.drive(&core)).await;
    driven.map_err(|_| defect(&"the core did not come to an end with the history"))??;
    core.shutdown().await;
    core.finalize_shutdown().await;
    Ok(replay.report)
}

struct Replay<'a> {
    registry: &'a Arc<Registry>,
    home: Home,
    activity_timeout: Duration,
    /// The run, between its first activation and its eviction, with its type.
    run: Option<(Instance, String)>,
    report: CoreReport,
}

impl Replay<'_> {
    async fn drive(&mut self, core: &Core) -> Result<(), TemporalError> {
        loop {
            let activation = match core.poll_workflow_activation().await {
                Ok(activation) => activation,
                Err(PollError::ShutDown) => return Ok(()),
                Err(PollError::TonicError(status)) => return Err(TemporalError::Poll(Box::new(status))),
            };
            let completion = self.answer(activation);
            let taken = core.complete_workflow_activation(completion).await;
            taken.map_err(|error| TemporalError::Defect(error.to_string()))?;
        }
    }

    fn answer(&mut self, wire: WorkflowActivation) -> WorkflowActivationCompletion {
        let run_id = wire.run_id.clone();
        if let [WorkflowActivationJob { variant: Some(Variant::RemoveFromCache(eviction)) }] = &wire.jobs[..]
        {
            self.run = None;
            if is_problem(eviction.reason()) {
                self.report.problem.get_or_insert_with(|| eviction.message.clone());
            }
            return WorkflowActivationCompletion::empty(run_id);
        }
        self.report.activations += 1;
        let activation = match read_activation(wire, &self.home) {
            Ok(activation) => activation,
            Err(wrong) => {
                self.report.problem.get_or_insert_with(|| wrong.to_string());
                return untranslatable(run_id, &wrong);
            }
        };
        let started = activation.jobs.iter().find_map(|job| match job {
            Job::Start(start) => Some(start.workflow_type.clone()),
            _ => None,
        });
        let (instance, workflow_type) = self.run.get_or_insert_with(|| {
            let options = InstanceOptions { numbering: Numbering::ByCallOrder, policy: Policy::Fail };
            (Instance::new(Arc::clone(self.registry), options), started.unwrap_or_default())
        });
        let completion = instance.activate(activation);
        if let Err(failure) = &completion.outcome {
            self.report.problem.get_or_insert_with(|| failure.to_string());
        }
        let (home, activity_timeout) = (&self.home, self.activity_timeout);
        write_completion(completion, Defaults { home, workflow_type, activity_timeout })
    }
}

/// Whether the core has dropped a run because something is wrong with it.
const fn is_problem(reason: EvictionReason) -> bool {
    match reason {
        EvictionReason::Nondeterminism
        | EvictionReason::LangFail
        | EvictionReason::Fatal
        | EvictionReason::CacheMiss
        | EvictionReason::PaginationOrHistoryFetch
        | EvictionReason::UnhandledCommand
        | EvictionReason::TaskNotFound
        | EvictionReason::Unspecified => true,
        // Every run is dropped when it has been replayed.
        EvictionReason::LangRequested
        | EvictionReason::CacheFull
        | EvictionReason::WorkflowExecutionEnding => false,
    }
}
