//! A worker: polls a cluster for work until it is stopped.

use std::sync::Arc;
use std::time::Duration;

use seriatim_activity::Activities;
use seriatim_env::{Env, Shutdown, TaskError};
use seriatim_workflow::{Registry, SIDE_EFFECT_ACTIVITY};
use temporalio_common::telemetry::TelemetryOptions;
use temporalio_sdk_core::{
    CoreRuntime, PollError, RuntimeOptions, Worker as Core, WorkerValidationError, init_worker,
};
use tokio_util::task::TaskTracker;

use crate::activation::Home;
use crate::attempts::{Attempts, HAND_BACK_AFTER, UnderWay};
use crate::explain::Explainer;
use crate::meter::Meter;
use crate::runs::{Cache, Runs};
use crate::{Connection, TemporalError, WorkerOptions};

/// How long the core may take to report to the server, after everything has ended or was handed back.
const LINGER: Duration = Duration::from_secs(5);
/// Names that begin so are the server's own.
const SERVERS_OWN: &str = "__temporal_";

/// Runs workflows and activities of a task queue.
///
/// ```no_run
/// use seriatim_workflow_host::demo;
/// use seriatim_env::{Env, Shutdown};
/// use seriatim_temporal::{ConnectOptions, Connection, Worker, WorkerOptions};
///
/// # async fn work(stop: Shutdown) -> Result<(), Box<dyn std::error::Error>> {
/// let env = Env::real();
/// let connection = Connection::connect(&env, &ConnectOptions::new("127.0.0.1:7233")).await?;
/// let options = WorkerOptions::new("orders");
/// let worker = Worker::new(env, connection, demo::workflows(), demo::activities(), options)?;
/// worker.run(stop).await?;
/// # Ok(()) }
/// ```
pub struct Worker {
    env: Env,
    core: Arc<Core>,
    /// The core's runtime, for its metrics and logs; it exists as long as the worker.
    runtime: CoreRuntime,
    runs: Arc<Runs>,
    attempts: Arc<Attempts>,
    stopping: Shutdown,
    grace: Duration,
    tasks: TaskTracker,
}

impl Worker {
    /// A worker that has not begun to work.
    ///
    /// # Errors
    ///
    /// [`TemporalError`] if the options are wrong, a name is reserved, or there is no tokio runtime.
    pub fn new(
        env: Env,
        connection: Connection,
        registry: Registry,
        activities: Activities,
        options: WorkerOptions,
    ) -> Result<Self, TemporalError> {
        if env.is_simulated() || tokio::runtime::Handle::try_current().is_err() {
            return Err(TemporalError::NoRuntime);
        }
        refuse_reserved("workflow", registry.names())?;
        refuse_reserved("activity", activities.names())?;
        let config = options.to_core()?;
        let wrong = |error: &dyn std::fmt::Display| TemporalError::Options(error.to_string());
        let telemetry =
            TelemetryOptions::builder().metrics(Meter::shared()).attach_service_name(false).build();
        let runtime =
            RuntimeOptions::builder().telemetry_options(telemetry).build().map_err(|e| wrong(&e))?;
        let runtime = CoreRuntime::new_assume_tokio(runtime).map_err(|e| wrong(&e))?;
        let core = init_worker(&runtime, config, connection.client().clone()).map_err(|e| wrong(&e))?;
        let (core, stopping, tasks) = (Arc::new(core), Shutdown::new(), TaskTracker::new());
        let registry = Arc::new(registry);
        let (of_explainer, namespace) = (Arc::clone(&registry), options.namespace.clone());
        let runs = Runs {
            env: env.clone(),
            core: Arc::clone(&core),
            registry,
            explainer: Explainer::new(env.clone(), connection, namespace, of_explainer),
            home: Home { namespace: options.namespace, task_queue: options.task_queue },
            activity_timeout: options.activity_timeout,
            stopping: stopping.clone(),
            tasks: tasks.clone(),
            cached: Cache::default(),
        };
        let attempts = Attempts {
            env: env.clone(),
            core: Arc::clone(&core),
            activities,
            stopping: stopping.clone(),
            grace: options.grace,
            tasks: tasks.clone(),
            under_way: UnderWay::default(),
        };
        let (runs, attempts) = (Arc::new(runs), Arc::new(attempts));
        Ok(Self { env, core, runtime, runs, attempts, stopping, grace: options.grace, tasks })
    }

    /// Works until `stop` is requested; then takes nothing new, ends what is under way, hands back what does not end
    /// within the options' grace, and returns a few seconds later at most.
    ///
    /// # Errors
    ///
    /// [`TemporalError`] if the namespace cannot be used, or the server refuses to give work. A run or an activity that
    /// fails is no error of the worker.
    pub async fn run(self, stop: Shutdown) -> Result<(), TemporalError> {
        let Self { env, core, runtime, runs, attempts, stopping, grace, tasks } = self;
        let validated = core.validate().await.map(|_| ()).map_err(invalid);
        if validated.is_err() {
            core.initiate_shutdown();
        }
        // The core shuts down only after it was polled until it answers that there is no more work, also if it never had any.
        let mut workflows = env.spawn(runs.poll());
        let mut activities = env.spawn(attempts.poll());
        let ended = {
            let mut loops = std::pin::pin!(async {
                let workflows = outcome((&mut workflows).await);
                workflows.and(outcome((&mut activities).await))
            });
            match stop.run_until_cancelled(&mut loops).await {
                Some(ended) => Ok(ended),
                None => {
                    stopping.cancel();
                    core.initiate_shutdown();
                    env.timeout(grace + HAND_BACK_AFTER + LINGER, loops).await
                }
            }
        };
        let Ok(ended) = ended else {
            tracing::warn!(
                "the worker stops before all workflow tasks have ended: other workers continue their runs"
            );
            workflows.cancel();
            activities.cancel();
            return validated;
        };
        tasks.close();
        tasks.wait().await;
        match Arc::try_unwrap(core) {
            Ok(core) => core.finalize_shutdown().await,
            Err(core) => core.shutdown().await,
        }
        drop(runtime);
        validated.and(ended)
    }
}

fn refuse_reserved<'a>(
    what: &'static str,
    names: impl Iterator<Item = &'a str>,
) -> Result<(), TemporalError> {
    for name in names {
        let reason = match name {
            SIDE_EFFECT_ACTIVITY => "side effects are recorded by it",
            name if name.starts_with(SERVERS_OWN) => "names that begin with __temporal_ are Temporal's own",
            _ => continue,
        };
        return Err(TemporalError::Reserved { what, name: name.to_owned(), reason });
    }
    Ok(())
}

fn outcome(ended: Result<Result<(), PollError>, TaskError>) -> Result<(), TemporalError> {
    match ended {
        Ok(Ok(()) | Err(PollError::ShutDown)) => Ok(()),
        Ok(Err(PollError::TonicError(status))) => Err(TemporalError::Poll(Box::new(status))),
        Err(error) => Err(TemporalError::Defect(error.to_string())),
    }
}

fn invalid(error: WorkerValidationError) -> TemporalError {
    match error {
        WorkerValidationError::NamespaceDescribeError { source, namespace } => {
            TemporalError::Namespace { namespace, status: Box::new(source) }
        }
    }
}
