//! What callers do with workflows.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use seriatim_activity::Activities;
use seriatim_engine::limits::IDEMPOTENCY_KEY_BYTES_MAX;
use seriatim_engine::{Engine, RequestError, SubmitError};
use seriatim_env::Env;
use seriatim_storage::Digest;
use seriatim_types::WorkspaceId;
use seriatim_workflow::{Failure, Headers, Job, Payload, Registry, Start};

use crate::application::{RunRow, Workflows};
use crate::calls::serving;
use crate::entry::Begins;
use crate::error::HostError;
use crate::inner::Inner;
use crate::messages::KEY_PREFIX;
use crate::moving::InMemory;
use crate::options::HostOptions;
use crate::start::{StartRequest, Started};
use crate::workflow::ending::{Outcome, terminated};
use crate::workflow::{Key, StartAs, Written, run_id};

/// Runs workflows on an engine: the one host that drives its application `workflows`. Cheap to clone; close it once,
/// before the engine.
///
/// Of several engines on one log, each has a host. It drives the workflows of the partitions that its engine owns at the moment;
/// requests to others go to the host of their owner. If that cannot be reached, they are refused with [`HostError::NotHere`].
#[derive(Clone)]
pub struct WorkflowHost {
    pub(crate) inner: Arc<Inner>,
}

impl fmt::Debug for WorkflowHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = &self.inner;
        f.debug_struct("WorkflowHost")
            .field("registry", &inner.registry)
            .field("activities", &inner.activities)
            .finish()
    }
}

/// A request to a run is in its history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepted {
    /// The run.
    pub run_id: String,
    /// Whether it was sent before, with the same idempotency key.
    pub repeated: bool,
}

impl WorkflowHost {
    /// Continues every open run, and takes new ones. Returns at once; open runs are found in the background.
    ///
    /// The engine has to be opened with [`app`](crate::app): otherwise the host does nothing, and refuses everything with
    /// [`HostError::NoApplication`]. While another host of this engine is open it refuses everything with
    /// [`HostError::SecondHost`].
    #[must_use]
    pub fn open(
        env: Env,
        engine: Engine,
        workflows: Registry,
        activities: Activities,
        options: HostOptions,
    ) -> Self {
        let inner = Arc::new(Inner::new(engine, env, workflows, activities, options));
        match &inner.claim {
            Ok(_) => {
                // It exists: the host has a claim to it.
                let _ = Workflows::new(&inner.engine).answer_calls(serving(&inner));
                drop(inner.env.spawn(inner.clone().run()));
            }
            Err(error) => tracing::error!(%error, "this host of workflows does nothing"),
        }
        Self { inner }
    }

    /// The types of workflow that can be started, in order.
    pub fn workflow_types(&self) -> impl Iterator<Item = &str> {
        self.inner.registry.names()
    }

    /// Bytes of payloads that the runs hold whose code is kept in memory, by estimate.
    #[must_use]
    pub fn cached_bytes(&self) -> usize {
        self.inner.instances().bytes()
    }

    /// Bytes of large inputs that are kept for pending activities.
    #[must_use]
    pub fn pending_bytes(&self) -> usize {
        self.inner.inputs.kept_bytes()
    }

    /// How many threads for workflow code do not return, if no other can take their place: then runs wait.
    #[must_use]
    pub fn exhausted_threads(&self) -> Option<usize> {
        self.inner.threads.exhausted()
    }

    /// What it has in memory. It has nothing of a partition that has left its engine.
    #[must_use]
    pub fn in_memory(&self) -> InMemory {
        self.inner.in_memory()
    }

    /// Ends everything. No request is taken and no attempt of an activity begins; those that run have
    /// [`HostOptions::close_grace`] to end, and are cut off then. What is being written is finished.
    pub async fn close(&self) {
        self.inner.close().await;
    }

    fn refuse_when_closed(&self) -> Result<(), HostError> {
        if let Err(error) = &self.inner.claim {
            return Err(error.clone());
        }
        if self.inner.draining.is_cancelled() { Err(HostError::Closed) } else { Ok(()) }
    }

    /// Starts a workflow. Durable when it answers: the run will be carried on until it ends.
    ///
    /// # Errors
    ///
    /// [`HostError::Running`] while a run with the id is open and the request has no signal; [`HostError::Used`];
    /// [`HostError::UnknownType`].
    pub async fn start(&self, request: StartRequest) -> Result<Started, HostError> {
        self.refuse_when_closed()?;
        self.refuse_too_large("the workflow's input", &request.input)?;
        self.refuse_too_large("the workflow's memo", &request.memo)?;
        self.refuse_too_large("the signal's input", &request.signal)?;
        request.check()?;
        let id = match (&request.id, &request.idempotency_key) {
            (Some(id), _) => id.clone(),
            // The same key has to lead to the same workflow.
            (None, Some(key)) => {
                let digest = Digest::of(key.as_bytes());
                let hex: String = digest.as_bytes()[..10].iter().map(|byte| format!("{byte:02x}")).collect();
                format!("{}-{hex}", request.workflow_type)
            }
            (None, None) => format!("{}-{:016x}", request.workflow_type, self.inner.env.random()),
        };
        let key = request.idempotency_key.as_deref().map(|key| self.key(key, request.identity(&id)));
        let key = key.transpose()?;
        let now = self.inner.now();
        let due = request.start_delay.map(|delay| now.after(delay));
        let deadline = request.execution_timeout.map(|timeout| due.unwrap_or(now).after(timeout));
        let signal = request.signal.map(|signal| signal_job(signal.name, signal.input));
        let start = Start {
            random_seed: self.inner.env.random(),
            execution_timeout: request.execution_timeout,
            run_timeout: request.run_timeout,
            retry_policy: request.retry_policy,
            memo: request.memo,
            ..Start::new(request.workflow_type, id.clone(), request.input)
        };
        let begins = Begins { parent: None, deadline };
        let how = StartAs { reuse: request.id_reuse_policy, key, due, signal };
        let (workspace, written) = self.inner.start_run(start, begins, how).await?;
        let Written { run, repeated, begins: started } = written;
        Ok(Started { id, run_id: run_id(workspace, run), started, repeated })
    }

    fn key(&self, key: &str, identity: String) -> Result<Key, HostError> {
        if key.starts_with(KEY_PREFIX) {
            return Err(HostError::Invalid(format!("an idempotency key may not begin with {KEY_PREFIX:?}")));
        }
        // Before a name is registered: a start that is refused leaves no workflow.
        let (max, found) = (IDEMPOTENCY_KEY_BYTES_MAX, key.len());
        if found == 0 || found > max {
            return Err(SubmitError::from(RequestError::BadKey { max, found }).into());
        }
        Ok(Key { key: key.to_owned(), identity })
    }

    pub(crate) async fn workspace(&self, id: &str) -> Result<WorkspaceId, HostError> {
        let found = Workflows::new(&self.inner.engine).find(id).await?;
        found.ok_or_else(|| HostError::UnknownWorkflow(id.to_owned()))
    }

    /// The newest run of a workflow.
    pub(crate) async fn newest(&self, id: &str) -> Result<(WorkspaceId, RunRow), HostError> {
        let workspace = self.workspace(id).await?;
        let row = self.inner.row(workspace, None).await?;
        let row = row.ok_or_else(|| HostError::UnknownWorkflow(id.to_owned()))?;
        Ok((workspace, row))
    }

    /// Refuses what does not fit into an event.
    fn refuse_too_large(&self, what: &'static str, input: &impl Serialize) -> Result<(), HostError> {
        let (bytes, limit) = (crate::size::size_of(input), self.inner.options.answer_bytes_max);
        if bytes > limit { Err(HostError::TooLarge { what, bytes, limit }) } else { Ok(()) }
    }

    async fn request(&self, id: &str, job: Job, key: Option<&str>) -> Result<Accepted, HostError> {
        self.refuse_when_closed()?;
        let workspace = self.workspace(id).await?;
        let key =
            key.map(|key| self.key(key, serde_json::to_string(&job).unwrap_or_default())).transpose()?;
        let answer = self.inner.request(workspace, None, job, key);
        let Written { run, repeated, .. } = answer.await.map_err(|error| error.of(id))?;
        Ok(Accepted { run_id: run_id(workspace, run), repeated })
    }

    /// Sends a signal to the open run of a workflow. Durable when it answers.
    ///
    /// # Errors
    ///
    /// [`HostError::NotRunning`] if no run is open.
    pub async fn signal(
        &self,
        id: &str,
        name: &str,
        input: Vec<Payload>,
        idempotency_key: Option<&str>,
    ) -> Result<Accepted, HostError> {
        self.refuse_too_large("the signal's input", &input)?;
        self.request(id, signal_job(name.to_owned(), input), idempotency_key).await
    }

    /// Asks the open run of a workflow to stop.
    ///
    /// # Errors
    ///
    /// [`HostError::NotRunning`] if no run is open.
    pub async fn cancel(
        &self,
        id: &str,
        reason: &str,
        idempotency_key: Option<&str>,
    ) -> Result<Accepted, HostError> {
        self.request(id, Job::Cancel { reason: reason.to_owned() }, idempotency_key).await
    }

    /// Ends the open run of a workflow without asking it, also one that is stuck.
    ///
    /// # Errors
    ///
    /// [`HostError::NotRunning`] if no run is open.
    pub async fn terminate(
        &self,
        id: &str,
        reason: &str,
        idempotency_key: Option<&str>,
    ) -> Result<Accepted, HostError> {
        self.refuse_when_closed()?;
        let workspace = self.workspace(id).await?;
        let key = idempotency_key.map(|key| self.key(key, format!("terminate {reason}"))).transpose()?;
        let ended = Box::new(terminated(reason, self.inner.now()));
        let answer = self.inner.end(workspace, None, ended, key);
        let Written { run, repeated, .. } = answer.await.map_err(|error| error.of(id))?;
        Ok(Accepted { run_id: run_id(workspace, run), repeated })
    }

    /// Tries the open run of a workflow again, if its code could not continue: its log is read again, and the jobs
    /// that the code could not react to are sent to it again. `repeated` says that it was not stuck.
    ///
    /// # Errors
    ///
    /// [`HostError::Stuck`] if its code does still not do what its history says; [`HostError::NotRunning`].
    pub async fn retry(&self, id: &str) -> Result<Accepted, HostError> {
        self.refuse_when_closed()?;
        let workspace = self.workspace(id).await?;
        let answer = self.inner.retry(workspace);
        let Written { run, repeated, .. } = answer.await.map_err(|error| error.of(id))?;
        Ok(Accepted { run_id: run_id(workspace, run), repeated })
    }

    /// Asks the newest run of a workflow about its state. Nothing is written.
    ///
    /// # Errors
    ///
    /// [`HostError::Query`] if the run's code does not answer it.
    pub async fn query(&self, id: &str, name: &str, input: Vec<Payload>) -> Result<Payload, HostError> {
        self.refuse_when_closed()?;
        let workspace = self.workspace(id).await?;
        let job =
            Job::Query { id: "query".to_owned(), name: name.to_owned(), input, headers: Headers::new() };
        let answer = self.inner.query(workspace, job);
        answer.await.map_err(|error| error.of(id))
    }

    /// Changes the state of a workflow's open run, and waits for what its code says to that.
    ///
    /// # Errors
    ///
    /// [`HostError::Rejected`] if the run's code refuses it, or fails to carry it out.
    pub async fn update(
        &self,
        id: &str,
        name: &str,
        input: Vec<Payload>,
        idempotency_key: Option<&str>,
    ) -> Result<Payload, HostError> {
        self.refuse_when_closed()?;
        self.refuse_too_large("the update's input", &input)?;
        let workspace = self.workspace(id).await?;
        let update_id = match idempotency_key {
            Some(key) => key.to_owned(),
            None => format!("{:016x}", self.inner.env.random()),
        };
        let identity = format!("update {name} {}", serde_json::to_string(&input).unwrap_or_default());
        let key = idempotency_key.map(|key| self.key(key, identity)).transpose()?;
        let job = Job::Update {
            id: update_id.clone(),
            protocol_id: update_id.clone(),
            name: name.to_owned(),
            input,
            headers: Headers::new(),
            identity: String::new(),
            run_validator: true,
        };
        let answer = self.inner.update(workspace, update_id, job, key);
        answer.await.map_err(|error| error.of(id))
    }

    /// Waits until the newest run of a workflow, and those that continue it, have ended, and returns its result.
    ///
    /// # Errors
    ///
    /// [`HostError::Failed`] if it ended without one.
    pub async fn result<T: DeserializeOwned>(&self, id: &str) -> Result<T, HostError> {
        let (workspace, row) = self.newest(id).await?;
        let ended = self.inner.wait_outcome(workspace, row.run).await?;
        match ended.map(|(_, outcome)| outcome) {
            Some(Outcome::Completed(result)) => {
                let result = result.unwrap_or_else(Payload::null);
                result.decode().map_err(|error| HostError::Invalid(error.to_string()))
            }
            Some(Outcome::Failed(failure)) => Err(HostError::Failed(failure.into())),
            Some(Outcome::Cancelled) => {
                let failure = Failure::cancelled("the run was cancelled");
                Err(HostError::Failed(failure.into()))
            }
            None => Err(HostError::Invalid(format!("workflow {id} has ended without a last event"))),
        }
    }
}

fn signal_job(name: String, input: Vec<Payload>) -> Job {
    Job::Signal { name, input, headers: Headers::new(), identity: String::new() }
}
