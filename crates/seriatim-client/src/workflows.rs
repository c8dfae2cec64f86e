//! Workflows: durable runs of code on the server.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use seriatim_api::{
    StartWorkflow, StartedWorkflow, StopWorkflow, Workflow as State, WorkflowAnswer, WorkflowDelivery,
    WorkflowHistory, WorkflowInput, WorkflowRuns, Workflows as Page,
};

use crate::call::Call;
use crate::client::Client;
use crate::error::ClientError;
use crate::url::escape;

/// How many seconds one request waits for the end of a run: less than the server allows.
const WAIT_SECONDS: u64 = 20;

/// The workflows of a server.
#[derive(Debug, Clone)]
pub struct Workflows {
    client: Client,
    key: Option<String>,
}

impl Workflows {
    pub(crate) fn new(client: Client) -> Self {
        Self { client, key: None }
    }

    /// With the caller's idempotency key, for one start: the same key gives the same run again.
    #[must_use]
    pub fn with_key(mut self, key: &str) -> Self {
        self.key = Some(key.to_owned());
        self
    }

    /// Starts a workflow: durable when this returns. Without an id the server makes one.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; its kind is `Conflict` while a run with the id is open and the start has no signal. Unless it is
    /// `InDoubt`, nothing was started.
    pub async fn start(&self, start: &StartWorkflow) -> Result<StartedWorkflow, ClientError> {
        let call = Call::post("/v1/workflows").body(start);
        call.key(&self.client, self.key.as_deref()).send(&self.client).await
    }

    /// A page of the workflows, each with a summary of its newest run: those after a cursor, which is the `next` of the previous
    /// page. A status is `running`, `completed`, `failed`, `cancelled`, `terminated`, `timed_out`, `continued_as_new` or `stuck`.
    ///
    /// # Errors
    ///
    /// [`ClientError`].
    pub async fn list(
        &self,
        status: Option<&str>,
        after: Option<u64>,
        limit: u32,
    ) -> Result<Page, ClientError> {
        let call = Call::get("/v1/workflows").query("status", status).query("after", after);
        call.query("limit", Some(limit)).send(&self.client).await
    }
}

/// A workflow, by its id.
///
/// ```
/// use std::time::Duration;
///
/// use seriatim_client::api::StartWorkflow;
/// use seriatim_client::{Client, ClientOptions};
/// use seriatim_env::Env;
///
/// # #[derive(serde::Deserialize)]
/// # struct Shipped { approved_by: String }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use seriatim_workflow_host::{HostOptions, WorkflowHost, demo};
/// # let (env, stop) = (Env::real(), seriatim_env::Shutdown::new());
/// # let log = seriatim_storage::Log::new(seriatim_storage::memory::MemoryLog::new());
/// # let store = seriatim_storage::Store::new(seriatim_storage::memory::MemoryStore::new());
/// # let apps = [seriatim_workflow_host::app()?];
/// # let engine = seriatim_engine::Engine::open(env.clone(), log, store, apps, Default::default()).await?;
/// # let options = HostOptions::default();
/// # let host = WorkflowHost::open(env.clone(), engine.clone(), demo::workflows(), demo::activities(), options);
/// # let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
/// # let address = format!("http://{}", listener.local_addr()?);
/// # let server = seriatim_server::Server::new(engine.clone()).workflows(host.clone());
/// # let served = env.spawn(server.serve(listener, stop.clone()));
/// let client = Client::connect(Env::real(), address.parse()?, ClientOptions::default())?;
/// let order = client.workflow("order-7");
/// let input = serde_json::json!({"item": "tea", "amount": 995, "patience_ms": 600_000});
/// let start = StartWorkflow {
///     run_timeout: Some(Duration::from_secs(3_600)),
///     ..StartWorkflow::new("order", &input)?
/// };
/// order.start(&start).await?;
///
/// let before: String = order.update("change_item", "coffee").await?;
/// assert_eq!(before, "tea");
/// order.signal("approve", &()).await?;
/// let shipped: Shipped = order.result().await?;
/// assert_eq!(shipped.approved_by, "signal");
/// # stop.cancel();
/// # served.await??;
/// # host.close().await;
/// # engine.close().await;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Workflow {
    client: Client,
    id: String,
    path: String,
    key: Option<String>,
}

impl Workflow {
    pub(crate) fn new(client: Client, id: &str) -> Self {
        Self { client, id: id.to_owned(), path: format!("/v1/workflows/{}", escape(id)), key: None }
    }

    /// With the caller's idempotency key, for one change: the same key gives the same answer again.
    #[must_use]
    pub fn with_key(mut self, key: &str) -> Self {
        self.key = Some(key.to_owned());
        self
    }

    /// Starts it: durable when this returns. The id in `start` is ignored: this workflow's id is used.
    ///
    /// # Errors
    ///
    /// As [`Workflows::start`].
    pub async fn start(&self, start: &StartWorkflow) -> Result<StartedWorkflow, ClientError> {
        let start = StartWorkflow { id: Some(self.id.clone()), ..start.clone() };
        Workflows { client: self.client.clone(), key: self.key.clone() }.start(&start).await
    }

    /// Sends a request that the server carries out once per key.
    async fn change<T: DeserializeOwned>(&self, what: &str, body: &impl Serialize) -> Result<T, ClientError> {
        let call = Call::post(format!("{}/{what}", self.path)).body(body);
        call.key(&self.client, self.key.as_deref()).send(&self.client).await
    }

    /// Sends a signal to the open run: durable when this returns. `()` means no argument.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; its kind is `Conflict` if no run is open.
    pub async fn signal(
        &self,
        name: &str,
        input: &(impl Serialize + ?Sized),
    ) -> Result<WorkflowDelivery, ClientError> {
        self.change(&format!("signals/{}", escape(name)), &workflow_input(input)?).await
    }

    /// Queries the state of the newest run. Nothing is written.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; its kind is `Invalid` if the run's code does not answer the query.
    pub async fn query<T: DeserializeOwned>(
        &self,
        name: &str,
        input: &(impl Serialize + ?Sized),
    ) -> Result<T, ClientError> {
        let call =
            Call::post(format!("{}/queries/{}", self.path, escape(name))).body(&workflow_input(input)?);
        let answer: WorkflowAnswer = call.repeatable().send(&self.client).await?;
        self.read(&format!("query {name}"), answer.result)
    }

    /// Changes the state of the open run, and waits for the answer of its code.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; its kind is `Invalid` if the run's code refuses the update, `Conflict` if no run is open.
    pub async fn update<T: DeserializeOwned>(
        &self,
        name: &str,
        input: &(impl Serialize + ?Sized),
    ) -> Result<T, ClientError> {
        let answer: WorkflowAnswer =
            self.change(&format!("updates/{}", escape(name)), &workflow_input(input)?).await?;
        self.read(&format!("update {name}"), answer.result)
    }

    /// Requests the cancellation of the open run.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; its kind is `Conflict` if no run is open.
    pub async fn cancel(&self, reason: &str) -> Result<WorkflowDelivery, ClientError> {
        self.change("cancel", &StopWorkflow { reason: reason.to_owned() }).await
    }

    /// Ends the open run without running its code again. This works for a stuck run too.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; its kind is `Conflict` if no run is open.
    pub async fn terminate(&self, reason: &str) -> Result<WorkflowDelivery, ClientError> {
        self.change("terminate", &StopWorkflow { reason: reason.to_owned() }).await
    }

    /// Tries the open run again, if its code could not continue. `repeated` is true if the run was not stuck.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; its kind is `Unavailable` if the run is still stuck.
    pub async fn retry(&self) -> Result<WorkflowDelivery, ClientError> {
        Call::post(format!("{}/retry", self.path)).repeatable().send(&self.client).await
    }

    /// The state of its newest run.
    ///
    /// # Errors
    ///
    /// [`ClientError`].
    pub async fn describe(&self) -> Result<State, ClientError> {
        Call::get(&self.path).send(&self.client).await
    }

    /// Waits until its newest run, and those that continue it, have ended, and returns the result. It waits without a time limit,
    /// also for a run that is stuck.
    ///
    /// # Errors
    ///
    /// [`ClientError::Ended`] if it ended without a result.
    pub async fn result<T: DeserializeOwned>(&self) -> Result<T, ClientError> {
        loop {
            let call = Call::get(&self.path).query("wait", Some(WAIT_SECONDS));
            let state: State = call.send(&self.client).await?;
            match &*state.summary.status {
                "running" => {}
                "completed" => return self.read("result", state.result),
                status => {
                    let (id, status) = (self.id.clone(), status.to_owned());
                    let failure = state.failure.unwrap_or_default();
                    return Err(ClientError::Ended { id, status, failure });
                }
            }
        }
    }

    /// A page of its runs, the newest first: those with a number below `before`.
    ///
    /// # Errors
    ///
    /// [`ClientError`].
    pub async fn runs(&self, before: Option<u64>, limit: u32) -> Result<WorkflowRuns, ClientError> {
        let call = Call::get(format!("{}/runs", self.path)).query("before", before);
        call.query("limit", Some(limit)).send(&self.client).await
    }

    /// A page of the history of a run, by default of the newest: the events after `after`, which is the `next` of the previous page.
    /// A page may be shorter than `limit`; the last one has no `next`.
    ///
    /// # Errors
    ///
    /// [`ClientError`].
    pub async fn history(
        &self,
        run: Option<u64>,
        after: Option<u64>,
        limit: u32,
    ) -> Result<WorkflowHistory, ClientError> {
        let call = Call::get(format!("{}/history", self.path)).query("run", run).query("after", after);
        call.query("limit", Some(limit)).send(&self.client).await
    }

    fn read<T: DeserializeOwned>(&self, what: &str, value: Value) -> Result<T, ClientError> {
        let what = format!("{what} of workflow {}", self.id);
        serde_json::from_value(value)
            .map_err(|error| ClientError::Unexpected { what, reason: error.to_string() })
    }
}

fn workflow_input(input: &(impl Serialize + ?Sized)) -> Result<WorkflowInput, ClientError> {
    let wrong = |error| ClientError::Options(format!("the input cannot be written as JSON: {error}"));
    Ok(WorkflowInput { input: serde_json::to_value(input).map_err(wrong)? })
}
