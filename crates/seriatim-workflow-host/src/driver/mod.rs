//! The task that does what waits for one workflow, one thing after the other.
//!
//! ```text
//! inbox ──► jobs ──► activate ──► [ local activities ──► activate ]* ──► write ──► carry out, answer
//!                       │                                                  │
//!                       └── the code does not get on: stuck                └── not written: forget, read the log again
//! ```
//!
//! Only one driver is at work for a workflow, so that the workspace's log has one writer. What an activation changes in
//! memory counts when it is written; when it is not, everything is forgotten and read from the log.

mod inbox;
mod requests;
mod start;
mod turns;
mod writing;

use std::sync::{Arc, Mutex, PoisonError};

use seriatim_engine::SubmitError;
use seriatim_workflow::Instance;

use crate::error::HostError;
use crate::inner::Inner;
use crate::workflow::{Item, Known, State, Workflow};
use inbox::Step;

pub(crate) struct Driver {
    pub(crate) inner: Arc<Inner>,
    pub(crate) workflow: Arc<Workflow>,
    /// The open run's code, with its number. Nobody else has it; the lock lets the task go from thread to thread.
    instance: Mutex<Option<(u64, Instance)>>,
    /// The engine has refused something: the driver waits before it tries again.
    pauses: bool,
    /// The engine did not know whether the last event is written: what is read before it knows may be out of date.
    is_in_doubt: bool,
}

impl Driver {
    pub(crate) fn new(inner: Arc<Inner>, workflow: Arc<Workflow>) -> Self {
        Self { inner, workflow, instance: Mutex::new(None), pauses: false, is_in_doubt: false }
    }

    fn held(&mut self) -> &mut Option<(u64, Instance)> {
        self.instance.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    fn drop_instance(&mut self) {
        if let Some((_, instance)) = self.held().take() {
            self.inner.discard(instance);
        }
    }

    /// Does what waits, until nothing does.
    pub(crate) async fn run(mut self) {
        let inner = self.inner.clone();
        let Ok(mut permit) = inner.active.acquire().await else { return };
        loop {
            if std::mem::take(&mut self.pauses) {
                // Others go on meanwhile.
                drop(permit);
                self.pause().await;
                let Ok(again) = inner.active.acquire().await else { return };
                permit = again;
            }
            if inner.stop.is_cancelled() {
                self.stop();
                return;
            }
            if !self.load().await {
                continue;
            }
            let Some(step) = self.next() else { return };
            match step {
                Step::Start(starting) => self.start(*starting).await,
                Step::Jobs { jobs, told, key } => self.advance(jobs, told, key).await,
                Step::Keyed(told) => self.keyed(*told).await,
                Step::Retries(retries) => self.retry(retries).await,
                Step::Attempts { attempts, replies } => self.attempted(attempts, replies).await,
                Step::Arrived { jobs, told } => self.arrived(jobs, told, None).await,
                Step::Unstick { reply } => self.unstick(reply).await,
                Step::End { ended, key, reply } => self.end(ended, key, reply).await,
                Step::Begin => self.begin().await,
                Step::Delivered(run) => self.delivered(run).await,
                Step::Forget { runs, reply } => self.forget_runs(runs, reply).await,
                Step::Query { job, reply } => self.query(job, reply).await,
                Step::Look { reply } => self.look(reply).await,
            }
        }
    }

    /// The host is closing.
    fn stop(&mut self) {
        let items = self.workflow.lock().drain();
        items.into_iter().for_each(|item| item.refuse(HostError::Closed));
    }

    /// Reads what the log says, if it is not known. Says whether it is.
    async fn load(&mut self) -> bool {
        if self.workflow.lock().known.is_some() {
            return true;
        }
        let fresh = {
            let state = self.workflow.lock();
            matches!(state.inbox.front(), Some(Item::Start(starting)) if starting.is_fresh)
        };
        let known = if fresh { Ok(Known::default()) } else { self.read_known().await };
        match known {
            Ok(known) => {
                {
                    let mut state = self.workflow.lock();
                    // A stuck run whose end was in doubt has ended: the next one is not stuck.
                    if known.open.is_none() && state.stuck.take().is_some() {
                        self.inner.metrics.stuck.decrement(1.0);
                    }
                    state.known = Some(known);
                }
                self.resume();
                // What was written and not acknowledged may have ended a run.
                self.workflow.ended.notify_waiters();
                true
            }
            Err(error) => {
                let asked: Vec<Item> = {
                    let mut state = self.workflow.lock();
                    state.asked = state.held_back.len();
                    let (asked, rest): (Vec<Item>, Vec<Item>) =
                        state.inbox.drain(..).partition(Item::is_asked);
                    state.inbox = rest.into();
                    asked
                };
                asked.into_iter().for_each(|item| item.refuse(error.clone().into()));
                tracing::warn!(workspace = %self.workflow.workspace, %error, "a workflow cannot be read; it is tried again");
                self.pauses = true;
                false
            }
        }
    }

    /// What the log says, with every event that was in doubt and is written.
    async fn read_known(&mut self) -> Result<Known, SubmitError> {
        if self.is_in_doubt {
            // An event that says nothing: once it is written, it is known what became of those before it.
            self.inner.engine.workflows().settle(self.workflow.workspace).await?;
            self.is_in_doubt = false;
        }
        self.inner.read_known(self.workflow.workspace).await
    }

    async fn pause(&self) {
        let pause = self.inner.env.sleep(self.inner.env.jitter(self.inner.options.retry));
        self.inner.stop.run_until_cancelled(pause).await;
    }

    fn not_running(&self, state: &State) -> HostError {
        match state.known.as_ref().and_then(|known| known.newest.as_ref()) {
            Some(row) => HostError::NotRunning { id: row.id.clone(), status: row.status.to_string() },
            None => HostError::UnknownWorkflow(self.workflow.workspace.to_string()),
        }
    }

    fn stuck_error(&self, state: &State, reason: &str) -> HostError {
        let row = state.known.as_ref().and_then(|known| known.newest.as_ref());
        let id = row.map_or_else(|| self.workflow.workspace.to_string(), |row| row.id.clone());
        HostError::Stuck { id, reason: reason.to_owned() }
    }
}
