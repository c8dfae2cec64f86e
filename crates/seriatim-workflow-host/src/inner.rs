//! What all parts of a host share.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use seriatim_activity::Activities;
use seriatim_engine::{Engine, HostClaim, SubmitError};
use seriatim_env::{Env, Shutdown};
use seriatim_types::WorkspaceId;
use seriatim_types::sync::{Mutex, MutexGuard};
use seriatim_workflow::{CommandSeq, Failure, Instance, Job, Registry, Start, Time, TimeoutType, list_names};
use tokio::sync::{Semaphore, oneshot};

use crate::alarms::{Alarm, Alarms};
use crate::application::{RunRow, RunStatus, Workflows};
use crate::attempt::to_time;
use crate::cache::Instances;
use crate::driver::Driver;
use crate::entry::{Begins, Ended};
use crate::error::HostError;
use crate::heartbeat::RunningAttempt;
use crate::histories::Histories;
use crate::homes::{Home, Homes};
use crate::inputs::Inputs;
use crate::metrics::HostMetrics;
use crate::options::HostOptions;
use crate::retention::Sweeper;
use crate::running::Running;
use crate::size;
use crate::table::WorkflowTable;
use crate::threads::Threads;
use crate::workflow::ending::Outcome;
use crate::workflow::{Effects, Item, Presence, StartAs, Starting, Workflow, Written};

pub(crate) struct Inner {
    pub(crate) env: Env,
    pub(crate) engine: Engine,
    pub(crate) registry: Arc<Registry>,
    pub(crate) activities: Activities,
    pub(crate) options: HostOptions,
    /// The partitions whose runs are driven here.
    pub(crate) homes: Homes,
    pub(crate) histories: Histories,
    pub(crate) inputs: Inputs,
    pub(crate) table: WorkflowTable,
    instances: Mutex<Instances<Instance>>,
    pub(crate) alarms: Alarms,
    pub(crate) threads: Threads,
    /// Shows that it is the one host of its engine; otherwise why it cannot be.
    pub(crate) claim: Result<HostClaim, HostError>,
    /// Held by a driver while it activates or writes.
    pub(crate) active: Semaphore,
    /// Held by an attempt of an activity while it runs.
    pub(crate) activity_permits: Semaphore,
    pub(crate) metrics: HostMetrics,
    /// Set before `stop`: no request is taken, no attempt begins; what runs may end.
    pub(crate) draining: Shutdown,
    pub(crate) stop: Shutdown,
    /// The attempts of activities that run.
    pub(crate) attempts: Arc<Running<Arc<RunningAttempt>>>,
    pub(crate) drivers: Arc<Running<()>>,
    /// What carries out operations of runs: activities, children that are waited for, messages.
    pub(crate) operations: Arc<Running<()>>,
}

impl Inner {
    pub(crate) fn new(
        engine: Engine,
        env: Env,
        registry: Registry,
        activities: Activities,
        options: HostOptions,
    ) -> Self {
        let stop = env.shutdown().child_token();
        let metrics = HostMetrics::new();
        Self {
            histories: Histories::new(engine.clone(), metrics.loaded_events.clone()),
            inputs: Inputs::new(engine.clone(), options.pending_bytes),
            table: WorkflowTable::new(metrics.open.clone()),
            instances: Mutex::new(Instances::new(options.cached_instances, options.cached_bytes)),
            active: Semaphore::new(options.active_max.max(1)),
            activity_permits: Semaphore::new(options.activities_max.max(1)),
            claim: claim(&engine),
            alarms: Alarms::default(),
            threads: Threads::new(
                options.workflow_threads,
                options.abandoned_threads_max,
                options.activation_timeout,
            ),
            registry: Arc::new(registry),
            attempts: Arc::new(Running::new()),
            drivers: Arc::new(Running::new()),
            operations: Arc::new(Running::new()),
            homes: Homes::default(),
            draining: stop.child_token(),
            metrics,
            env,
            engine,
            activities,
            options,
            stop,
        }
    }

    /// The time, as runs see it.
    pub(crate) fn now(&self) -> Time {
        to_time(self.env.now())
    }

    pub(crate) fn instances(&self) -> MutexGuard<'_, Instances<Instance>> {
        self.instances.lock()
    }

    /// Drops the code of a run. Its destructors are the user's: they run where its code does, and nothing waits for them.
    pub(crate) fn discard(self: &Arc<Self>, instance: Instance) {
        // One that has ended has dropped what it held.
        if instance.has_ended() || self.env.is_simulated() {
            return drop(instance);
        }
        let inner = self.clone();
        drop(self.env.spawn(async move {
            let dropped = inner.threads.run(&inner.env, move |progress| {
                progress.step(|| instance.watch());
                drop(instance);
            });
            if let Err(reason) = dropped.await {
                tracing::warn!(reason, "a destructor of a run's code does not return");
            }
        }));
    }

    /// Puts an item into a workflow's inbox, and starts a driver if there is none. If its partition is not here, the item is
    /// refused.
    pub(crate) fn push(self: &Arc<Self>, workspace: WorkspaceId, item: Item) {
        match self.home_of(workspace) {
            Ok(home) => self.push_at(&home, workspace, item),
            Err(error) => item.refuse(error),
        }
    }

    /// As [`Self::push`], for something that belongs to this home: it counts only while the home does.
    pub(crate) fn push_at(self: &Arc<Self>, home: &Arc<Home>, workspace: WorkspaceId, item: Item) {
        let item = self.fit(item);
        let (workflow, presence) = loop {
            let Some(workflow) = self.table.find_or_add(workspace, home, &self.alarms) else {
                return item.refuse(home.refusal());
            };
            let mut state = workflow.lock();
            if state.presence == Presence::Removed {
                continue;
            }
            if item.is_awaited() && state.inbox.awaited() >= self.options.inbox_max {
                drop(state);
                let waiting = self.options.inbox_max;
                item.refuse(HostError::Busy(format!("{waiting} requests wait for this workflow")));
                return;
            }
            state.inbox.push_back(item);
            let presence = std::mem::replace(&mut state.presence, Presence::Driven);
            drop(state);
            break (workflow, presence);
        };
        match presence {
            Presence::Driven => workflow.arrived.notify_one(),
            Presence::Idle | Presence::Removed => self.drive(workflow),
        }
    }

    /// The same item, with what is too large in it replaced by what says so.
    fn fit(&self, item: Item) -> Item {
        let limit = self.options.answer_bytes_max;
        match item {
            Item::Answer { run, job, generation } => {
                Item::Answer { run, job: size::fit(job, limit), generation }
            }
            Item::Retry { run, retry, is_kept } => {
                Item::Retry { run, retry: Box::new(size::fit_retry(*retry, limit)), is_kept }
            }
            other => other,
        }
    }

    /// Begins a driver.
    fn drive(self: &Arc<Self>, workflow: Arc<Workflow>) {
        let (inner, running) = (self.clone(), self.drivers.begin(()));
        drop(self.env.spawn(async move {
            let mut driving = Box::pin(Driver::new(inner.clone(), workflow.clone()).run());
            let ended = poll_fn(|cx| {
                let polled = catch_unwind(AssertUnwindSafe(|| driving.as_mut().poll(cx)));
                polled.map_or_else(|_| Poll::Ready(false), |polled| polled.map(|()| true))
            });
            if !ended.await {
                inner.driver_panicked(&workflow);
            }
            drop(running);
        }));
    }

    /// The driver of a workflow has panicked, which is a defect of the host: the run is stuck, and callers are answered.
    fn driver_panicked(&self, workflow: &Workflow) {
        let reason = "the host has a defect, and its log has the panic's message";
        let mut effects = Effects::new();
        let items = {
            let mut state = workflow.lock();
            if state.lifecycle.stuck().is_none() {
                self.metrics.stuck.increment(1.0);
            }
            state.mark_stuck(reason.to_owned(), &mut effects);
            state.drain()
        };
        for effect in effects {
            if let crate::workflow::Effect::Cancel(token) = effect {
                token.cancel();
            }
        }
        let error = HostError::Stuck { id: workflow.workspace.to_string(), reason: reason.to_owned() };
        items.into_iter().for_each(|item| item.refuse(error.clone()));
    }

    /// Puts something into a workflow's inbox and waits until it is answered.
    pub(crate) async fn ask<T>(
        self: &Arc<Self>,
        workspace: WorkspaceId,
        item: impl FnOnce(oneshot::Sender<Result<T, HostError>>) -> Item,
    ) -> Result<T, HostError> {
        self.ask_at(&self.home_of(workspace)?, workspace, item).await
    }

    /// As [`Self::ask`], for something that belongs to this home.
    pub(crate) async fn ask_at<T>(
        self: &Arc<Self>,
        home: &Arc<Home>,
        workspace: WorkspaceId,
        item: impl FnOnce(oneshot::Sender<Result<T, HostError>>) -> Item,
    ) -> Result<T, HostError> {
        let (reply, answer) = oneshot::channel();
        self.push_at(home, workspace, item(reply));
        answer.await.unwrap_or_else(|_| Err(home.no_answer()))
    }

    /// Starts a workflow of this engine, or finds that it was started with this key.
    pub(crate) async fn start_here(
        self: &Arc<Self>,
        workspace: WorkspaceId,
        start: Box<Start>,
        begins: Begins,
        how: StartAs,
        is_fresh: bool,
    ) -> Result<Written, HostError> {
        self.refuse_unknown(&start.workflow_type)?;
        if !self.table.has_room(workspace, self.options.open_runs_max) {
            return Err(HostError::Busy(format!("{} runs are open", self.options.open_runs_max)));
        }
        self.ask(workspace, |reply| Item::Start(Box::new(Starting { start, begins, how, is_fresh, reply })))
            .await
    }

    pub(crate) fn refuse_unknown(&self, workflow_type: &str) -> Result<(), HostError> {
        if self.registry.contains(workflow_type) {
            return Ok(());
        }
        let (workflow_type, known) = (workflow_type.to_owned(), list_names(self.registry.names()));
        Err(HostError::UnknownType { workflow_type, known })
    }

    /// Waits until a run of this engine, and those that continue it, have ended. Nothing, if there is no such run.
    async fn wait_ended_here(
        self: &Arc<Self>,
        workspace: WorkspaceId,
        mut run: u64,
    ) -> Result<Option<RunRow>, HostError> {
        loop {
            let home = self.home_of(workspace)?;
            let workflow = self.table.find(workspace);
            let ended = workflow.as_ref().map(|workflow| workflow.ended.notified());
            let mut ended = ended.map(Box::pin);
            if let Some(ended) = &mut ended {
                // From here on nothing is missed.
                ended.as_mut().enable();
            }
            let Some(row) = self.histories.last_of(workspace, run).await? else { return Ok(None) };
            if row.status != RunStatus::Running {
                return Ok(Some(row));
            }
            run = row.run;
            match ended {
                // It leaves memory with its partition, and those who wait are notified before, or after they have checked here.
                Some(_) if workflow.as_ref().is_some_and(|workflow| workflow.home.has_left()) => {}
                Some(ended) => ended.await,
                // It is open, and was not read yet.
                None => self.push_at(&home, workspace, Item::Wake),
            }
        }
    }

    /// As [`Self::wait_ended_here`], with how it ended. Nothing, if there is no such run.
    pub(crate) async fn wait_outcome_here(
        self: &Arc<Self>,
        workspace: WorkspaceId,
        run: u64,
    ) -> Result<Option<(RunRow, Outcome)>, HostError> {
        if let Some(found) = self.wait_in_memory(workspace, run).await {
            return Ok(Some(found));
        }
        let Some(row) = self.wait_ended_here(workspace, run).await? else { return Ok(None) };
        Ok(self.histories.outcome(workspace, &row).await?.map(|outcome| (row, outcome)))
    }

    /// Waits until a run that is open in memory has ended, and returns its end without reading the log. Returns `None` if
    /// memory does not know the end of this run: it is not open here, or another run has continued it.
    async fn wait_in_memory(&self, workspace: WorkspaceId, run: u64) -> Option<(RunRow, Outcome)> {
        let workflow = self.table.find(workspace)?;
        let mut ended = pin!(workflow.ended.notified());
        ended.as_mut().enable();
        let is_open = workflow.lock().run() == Some(run);
        if is_open && !workflow.home.has_left() {
            ended.await;
        }
        let found = workflow.lock().last_ended.clone();
        found.filter(|(row, _)| row.run == run)
    }

    /// An alarm rings.
    fn ring(self: &Arc<Self>, workspace: WorkspaceId, run: u64, alarm: Alarm) {
        match alarm {
            Alarm::Timer(seq) => {
                let job = Job::FireTimer { seq: CommandSeq::new(seq) };
                self.push(workspace, Item::Answer { run, job, generation: 0 });
            }
            Alarm::Wake => self.push(workspace, Item::Wake),
            Alarm::Begin => self.push(workspace, Item::Begin { run }),
            Alarm::Deadline => {
                let failure = Failure::timeout(
                    TimeoutType::StartToClose,
                    "the run took longer than its time-out allows",
                );
                let ended = Box::new(Ended { status: RunStatus::TimedOut, failure, time: self.now() });
                self.push(workspace, Item::End { run: Some(run), ended, key: None, reply: None });
            }
        }
    }

    /// Continues what was open, and handles alarms, until it is stopped.
    pub(crate) async fn run(self: Arc<Self>) {
        let (draining, following) = (self.draining.clone(), self.clone().follow_places());
        drop(self.env.spawn(async move { draining.run_until_cancelled(following).await }));
        if let Some(retention) = self.options.retention {
            let (draining, sweeper) = (self.draining.clone(), Sweeper { inner: self.clone(), retention });
            drop(self.env.spawn(async move { draining.run_until_cancelled(sweeper.run()).await }));
        }
        let ringing = self.alarms.run(&self.env, |workspace, run, alarm| self.ring(workspace, run, alarm));
        self.draining.run_until_cancelled(ringing).await;
    }

    /// Waits until nothing is fenced: a restored copy carries nothing out.
    pub(crate) async fn wait_unfenced(&self) {
        while self.engine.fenced().is_some() {
            self.env.sleep(Duration::from_secs(1)).await;
        }
    }

    /// Ends everything: what is being written is waited for, activities end at their next await and run again next time.
    pub(crate) async fn close(self: &Arc<Self>) {
        self.draining.cancel();
        if self.env.timeout(self.options.close_grace, self.attempts.below(1)).await.is_err() {
            tracing::info!("activities are cut off: they have not ended within the grace time");
            // What they have said last is for their next attempts.
            self.attempts.all().iter().for_each(|attempt| attempt.keep(self));
        }
        // What has ended is written before the host stops.
        let until = self.env.instant() + self.options.close_timeout;
        let is_written = self.env.timeout(self.options.close_timeout, self.drivers.below(1)).await.is_ok();
        self.stop.cancel();
        let left = until.saturating_duration_since(self.env.instant());
        if !is_written && self.env.timeout(left, self.drivers.below(1)).await.is_err() {
            tracing::warn!("the engine does not answer; the host of workflows closes without it");
        }
        // Updates that a run's code has not answered, or not received.
        for workflow in self.table.all() {
            let left = {
                let mut state = workflow.lock();
                if state.presence == Presence::Driven { Vec::new() } else { state.drain() }
            };
            left.into_iter().for_each(|item| item.refuse(HostError::Closed));
        }
        if let Ok(claim) = &self.claim {
            claim.release();
        }
    }
}

/// Claims the workflows of an engine for this host.
fn claim(engine: &Engine) -> Result<HostClaim, HostError> {
    match Workflows::new(engine).claim() {
        Ok(claim) => claim.ok_or(HostError::SecondHost),
        Err(SubmitError::UnknownApplication(_)) => Err(HostError::NoApplication),
        Err(error) => Err(error.into()),
    }
}
