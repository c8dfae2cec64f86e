//! The host as a test uses it.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use serde::de::DeserializeOwned;
use seriatim_activity::Activities;
use seriatim_env::Env;
use seriatim_env::watch;
use seriatim_storage_testing::faulty::Operation;
use seriatim_types::ErrorKind;
use seriatim_types::sync::Mutex;
use seriatim_workflow::{Arguments, History, Payload, Policy, Registry, replay};

use super::life::{Chances, Disk, Life};
use super::simulation::Crash;
use crate::application::RunStatus;
use crate::{Description, HostError, HostOptions, StartRequest, WorkflowHost};

/// How long a request is retried that the host has refused for now.
const RETRY: Duration = Duration::from_millis(50);

/// How long the end of a run is waited for, in simulated time.
const END_WITHIN: Duration = Duration::from_secs(400 * 86_400);

/// How many workflows are listed at once.
const PAGE: usize = 100;

/// A host in a [`Simulation`](super::Simulation). Clones are the same host.
///
/// A request is retried if a fault of the test has refused it, and after a crash; its effect happens
/// once. A request that is wrong panics, with what the host says about it; [`TestHost::update`] and
/// [`TestHost::outcome`] return errors, since a refusal may be what the test wants.
#[derive(Clone)]
pub struct TestHost {
    inner: Arc<Inner>,
}

struct Inner {
    env: Env,
    disk: Disk,
    code: Mutex<(Registry, Activities)>,
    options: HostOptions,
    chances: Chances,
    life: watch::Sender<Arc<Life>>,
    keys: AtomicU64,
    crashes: AtomicUsize,
    injected: AtomicU64,
}

impl TestHost {
    pub(super) async fn open(
        env: &Env,
        code: (Registry, Activities),
        options: HostOptions,
        chances: Chances,
        crash: Option<Crash>,
    ) -> Self {
        let disk = Disk::new();
        let life = Life::begin(env, &disk, code.clone(), options.clone(), chances).await;
        if let Some(Crash { at, fault }) = crash {
            life.faults.crash_at(Operation::Append, at, fault);
        }
        let inner = Inner {
            env: env.clone(),
            disk,
            code: Mutex::new(code),
            options,
            chances,
            life: watch::Sender::new(Arc::new(life)),
            keys: AtomicU64::new(0),
            crashes: AtomicUsize::new(0),
            injected: AtomicU64::new(0),
        };
        let host = Self { inner: Arc::new(inner) };
        host.watch();
        host
    }

    /// Starts the host again when it has crashed by a fault.
    fn watch(&self) {
        let (this, life) = (self.clone(), self.life());
        drop(self.inner.env.spawn(async move {
            let crashed = life.over.run_until_cancelled(life.faults.crashed()).await;
            if crashed.is_some() {
                this.replace(&life, true).await;
            }
        }));
    }

    fn life(&self) -> Arc<Life> {
        self.inner.life.borrow().clone()
    }

    /// Ends a life and begins the next one. Returns when that has begun; two calls end a life once.
    async fn replace(&self, life: &Arc<Life>, is_crash: bool) {
        let inner = &self.inner;
        if life.is_ended.swap(true, Ordering::Relaxed) {
            let mut lives = inner.life.subscribe();
            // The channel is open as long as this host is.
            let _ = lives.wait_for(|present| !Arc::ptr_eq(present, life)).await;
            return;
        }
        if is_crash {
            inner.crashes.fetch_add(1, Ordering::Relaxed);
            life.crash();
        } else {
            life.stop().await;
        }
        inner.injected.fetch_add(life.faults.injected(), Ordering::Relaxed);
        let code = inner.code.lock().clone();
        let next = Life::begin(&inner.env, &inner.disk, code, inner.options.clone(), inner.chances).await;
        inner.life.send_replace(Arc::new(next));
        self.watch();
    }

    /// Crashes the host at this moment, and starts it again: activities that run are cut off, and what was not written is
    /// gone.
    pub async fn crash(&self) {
        self.replace(&self.life(), true).await;
    }

    /// Stops the host cleanly, and starts it again.
    pub async fn restart(&self) {
        self.replace(&self.life(), false).await;
    }

    /// As [`TestHost::restart`], with other code: as a new version is deployed while runs are open.
    pub async fn restart_with(&self, workflows: Registry, activities: Activities) {
        *self.inner.code.lock() = (workflows, activities);
        self.restart().await;
    }

    /// How many times the host has crashed.
    #[must_use]
    pub fn crashes(&self) -> usize {
        self.inner.crashes.load(Ordering::Relaxed)
    }

    /// How many faults the log has had: a test that relies on chance can check that there were some.
    #[must_use]
    pub fn faults(&self) -> u64 {
        self.inner.injected.load(Ordering::Relaxed) + self.life().faults.injected()
    }

    /// The simulated clock, and chance from the seed.
    #[must_use]
    pub fn env(&self) -> &Env {
        &self.inner.env
    }

    /// The host itself, for everything that has no method here. It ends with the next crash or restart.
    #[must_use]
    pub fn host(&self) -> WorkflowHost {
        self.life().host.clone()
    }

    /// Lets so much simulated time pass.
    pub async fn skip(&self, duration: Duration) {
        self.inner.env.sleep(duration).await;
    }

    fn key(&self) -> String {
        format!("test-{}", self.inner.keys.fetch_add(1, Ordering::Relaxed))
    }

    /// Asks the present host, and the next one if this one has crashed.
    async fn ask<T, F, Fut>(&self, ask: F) -> Result<T, HostError>
    where
        F: Fn(WorkflowHost) -> Fut,
        Fut: Future<Output = Result<T, HostError>>,
    {
        let mut lives = self.inner.life.subscribe();
        loop {
            let life = lives.borrow_and_update().clone();
            match life.over.run_until_cancelled(ask(life.host.clone())).await {
                // The next life is announced when it has begun.
                None => drop(lives.changed().await),
                Some(Err(error)) if is_for_now(&error) => self.skip(RETRY).await,
                Some(answer) => return answer,
            }
        }
    }

    /// Starts a workflow with an argument, or with several ([`args`](seriatim_workflow::args)).
    ///
    /// # Panics
    ///
    /// If it cannot be started: a run with the id is open, or no workflow has this type.
    pub async fn start<T: Arguments + ?Sized>(&self, workflow_type: &str, id: &str, input: &T) {
        let input = payloads(&format!("start {id}"), input);
        let request = StartRequest { input, ..StartRequest::new(workflow_type) };
        let request = request.id(id).idempotency_key(self.key());
        let started = self.ask(|host| {
            let request = request.clone();
            async move { host.start(request).await }
        });
        expect(started.await, || format!("start {id}"));
    }

    /// Sends a signal.
    ///
    /// # Panics
    ///
    /// If no run of the workflow is open.
    pub async fn signal<T: Arguments + ?Sized>(&self, id: &str, name: &str, input: &T) {
        let (input, key) = (payloads(&format!("signal {name} to {id}"), input), self.key());
        let answer = self.ask(|host| {
            let (input, key) = (input.clone(), key.clone());
            async move { host.signal(id, name, input, Some(&key)).await }
        });
        expect(answer.await, || format!("signal {name} to {id}"));
    }

    /// Asks the open run to stop.
    ///
    /// # Panics
    ///
    /// If no run of the workflow is open.
    pub async fn cancel(&self, id: &str, reason: &str) {
        let key = self.key();
        let answer = self.ask(|host| {
            let key = key.clone();
            async move { host.cancel(id, reason, Some(&key)).await }
        });
        expect(answer.await, || format!("cancel {id}"));
    }

    /// Asks a run about its state.
    ///
    /// # Panics
    ///
    /// If its code does not answer, or with something else than a `T`.
    pub async fn query<T: DeserializeOwned>(&self, id: &str, name: &str) -> T {
        let answer = self.ask(|host| async move { host.query(id, name, Vec::new()).await }).await;
        let answer = expect(answer, || format!("query {name} of {id}"));
        answer.decode().unwrap_or_else(|error| panic!("query {name} of {id}: {error}"))
    }

    /// Sends an update to an open run, and waits for its outcome.
    ///
    /// # Errors
    ///
    /// [`HostError::Rejected`] if its code refuses it or fails to carry it out, and what else the host says.
    ///
    /// # Panics
    ///
    /// If the code answers with something else than an `Out`.
    pub async fn update<In, Out>(&self, id: &str, name: &str, input: &In) -> Result<Out, HostError>
    where
        In: Arguments + ?Sized,
        Out: DeserializeOwned,
    {
        let (input, key) = (payloads(&format!("update {name} of {id}"), input), self.key());
        let answer = self.ask(|host| {
            let (input, key) = (input.clone(), key.clone());
            async move { host.update(id, name, input, Some(&key)).await }
        });
        let answer = answer.await?;
        Ok(answer.decode().unwrap_or_else(|error| panic!("update {name} of {id}: {error}")))
    }

    /// Describes a workflow.
    ///
    /// # Panics
    ///
    /// If there is no such workflow.
    pub async fn describe(&self, id: &str) -> Description {
        let described = self.ask(|host| async move { host.describe(id, None).await });
        expect(described.await, || format!("describe {id}"))
    }

    /// Waits for the end of a workflow and returns its result. Time passes at once while everything waits.
    ///
    /// # Panics
    ///
    /// If it ends without a result; if its code is stuck, with the reason; and if it does not end within 400 days.
    pub async fn result<T: DeserializeOwned>(&self, id: &str) -> T {
        expect(self.outcome(id).await, || format!("the result of {id}"))
    }

    /// As [`TestHost::result`], with the failure of a workflow that ended without a result.
    ///
    /// # Errors
    ///
    /// [`HostError::Failed`].
    ///
    /// # Panics
    ///
    /// If its code is stuck, with the reason; and if it does not end within 400 days.
    pub async fn outcome<T: DeserializeOwned>(&self, id: &str) -> Result<T, HostError> {
        let (mut waited, mut wait) = (Duration::ZERO, Duration::from_secs(60));
        loop {
            let described = self.ask(|host| async move { host.describe(id, Some(wait)).await }).await?;
            if let Some(reason) = described.stuck {
                panic!("workflow {id} is stuck: {reason}");
            }
            // A run that continues as new is followed by the next one.
            if !matches!(described.row.status, RunStatus::Running | RunStatus::ContinuedAsNew) {
                return self.ask(|host| async move { host.result(id).await }).await;
            }
            waited += wait;
            assert!(waited < END_WITHIN, "workflow {id} has not ended: it waits for {:?}", described.blocked);
            wait *= 2;
        }
    }

    /// The histories of all runs, each with the workflow's id.
    ///
    /// # Panics
    ///
    /// If they cannot be read.
    pub async fn histories(&self) -> Vec<(String, History)> {
        let (mut histories, mut after) = (Vec::new(), None);
        loop {
            let page = self.ask(|host| async move { host.list(None, after, PAGE).await }).await;
            let page = expect(page, || "the list of workflows".to_owned());
            let Some(last) = page.last() else { return histories };
            after = Some(last.cursor);
            for workflow in &page {
                histories.extend(self.histories_of(&workflow.row.id).await);
            }
        }
    }

    async fn histories_of(&self, id: &str) -> Vec<(String, History)> {
        let runs = self.ask(|host| async move { host.runs(id, None, usize::MAX).await }).await;
        let mut histories = Vec::new();
        for run in expect(runs, || format!("the runs of {id}")) {
            let timeline = self.ask(|host| async move { host.history(id, Some(run.row.run)).await }).await;
            let timeline = expect(timeline, || format!("the history of {id}"));
            histories.push((id.to_owned(), timeline.history()));
        }
        histories
    }

    /// Ends the simulation: every history replays on the code.
    pub(super) async fn end(self) {
        let registry = self.inner.code.lock().0.clone();
        let registry = Arc::new(registry);
        let histories = self.histories().await;
        let reports = histories.iter().map(|(id, history)| (id, replay(&registry, history, Policy::Fail)));
        let different = reports.filter(|(_, report)| !report.is_same());
        let different: Vec<String> = different.map(|(id, report)| format!("{id}: {report}")).collect();
        assert!(
            different.is_empty(),
            "histories of this simulation do not replay:\n{}",
            different.join("\n")
        );
        let life = self.life();
        life.faults.heal();
        life.stop().await;
    }

    /// How many appends the log has had in this life.
    pub(super) fn writes(&self) -> u64 {
        self.life().faults.count(Operation::Append)
    }
}

/// Whether the same request may be answered later.
fn is_for_now(error: &HostError) -> bool {
    if matches!(error, HostError::Stuck { .. }) {
        return false;
    }
    matches!(
        error.kind(),
        ErrorKind::Busy | ErrorKind::Unavailable | ErrorKind::InDoubt | ErrorKind::Closed | ErrorKind::Fenced
    )
}

fn payloads<T: Arguments + ?Sized>(what: &str, input: &T) -> Vec<Payload> {
    input.to_payloads().unwrap_or_else(|error| panic!("{what}: {error}"))
}

fn expect<T>(answer: Result<T, HostError>, what: impl FnOnce() -> String) -> T {
    answer.unwrap_or_else(|error| panic!("{}: {error}", what()))
}
