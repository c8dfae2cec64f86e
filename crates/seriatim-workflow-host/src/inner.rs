//! What all parts of a host share.

use std::collections::{BTreeSet, HashMap};
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use seriatim_activity::Activities;
use seriatim_engine::{Engine, PartitionStatus, RunStatus, WorkflowsClaim};
use seriatim_env::{Env, Shutdown};
use seriatim_types::{ErrorKind, PartitionId, WorkspaceId};
use seriatim_workflow::{Failure, Instance, Job, Registry, TimeoutType};
use tokio::sync::{Notify, Semaphore};

use crate::attempt::{RunningAttempt, to_time};
use crate::cache::Instances;
use crate::clock::{Alarm, Clock};
use crate::driver::Driver;
use crate::entry::Ended;
use crate::error::HostError;
use crate::inputs::LastInputs;
use crate::metrics::HostMetrics;
use crate::options::HostOptions;
use crate::size;
use crate::threads::Threads;
use crate::workflow::wait::Asleep;
use crate::workflow::{Item, Workflow};

/// Open runs that are read together after a start.
const PAGE: usize = 256;
/// How long a page of open runs waits for those before it, at most.
const RESUME_WAIT: Duration = Duration::from_secs(1);
/// Histories that are read at once to know what open runs wait for. Bounds memory: each holds a page of events, of up to
/// some MiB.
const READ_AT_ONCE: usize = 32;

pub(crate) struct Inner {
    pub(crate) env: Env,
    pub(crate) engine: Engine,
    pub(crate) registry: Arc<Registry>,
    pub(crate) activities: Activities,
    pub(crate) options: HostOptions,
    /// Every workflow with an open run, and those that something is being done with.
    workflows: Mutex<HashMap<WorkspaceId, Arc<Workflow>>>,
    /// Open runs that only wait, and were not read since the host has started.
    pub(crate) asleep: Mutex<Asleep>,
    /// Held while the history of an open run is read to know what it waits for.
    pub(crate) reading: Semaphore,
    /// One for each byte of large inputs of pending activities that may be kept.
    pub(crate) input_bytes: Arc<Semaphore>,
    pub(crate) last_inputs: tokio::sync::Mutex<Option<LastInputs>>,
    pub(crate) instances: Mutex<Instances<Instance>>,
    pub(crate) clock: Clock,
    pub(crate) threads: Threads,
    /// That it is the one host of its engine; none if another one is.
    pub(crate) claim: Option<WorkflowsClaim>,
    pub(crate) active: Semaphore,
    pub(crate) activity_permits: Semaphore,
    pub(crate) metrics: HostMetrics,
    /// Set before `stop`: no request is taken, no attempt begins; what runs may end.
    pub(crate) draining: Shutdown,
    pub(crate) stop: Shutdown,
    /// The attempts of activities that run, by a number; `attempt_ended` is notified when one ends.
    attempts: Mutex<(u64, HashMap<u64, Arc<RunningAttempt>>)>,
    attempt_ended: Notify,
    /// How many drivers are at work; told when one ends.
    drivers: Mutex<usize>,
    driver_ended: Notify,
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
        Self {
            instances: Mutex::new(Instances::new(options.cached_instances, options.cached_bytes)),
            active: Semaphore::new(options.active_max.max(1)),
            activity_permits: Semaphore::new(options.activities_max.max(1)),
            workflows: Mutex::default(),
            asleep: Mutex::default(),
            reading: Semaphore::new(READ_AT_ONCE),
            last_inputs: tokio::sync::Mutex::default(),
            input_bytes: Arc::new(Semaphore::new(options.pending_bytes.min(Semaphore::MAX_PERMITS))),
            claim: engine.workflows().claim(),
            clock: Clock::default(),
            threads: Threads::new(
                options.workflow_threads,
                options.abandoned_threads_max,
                options.activation_timeout,
            ),
            metrics: HostMetrics::new(),
            registry: Arc::new(registry),
            drivers: Mutex::new(0),
            driver_ended: Notify::new(),
            draining: stop.child_token(),
            attempts: Mutex::default(),
            attempt_ended: Notify::new(),
            env,
            engine,
            activities,
            options,
            stop,
        }
    }

    pub(crate) fn workflows(&self) -> MutexGuard<'_, HashMap<WorkspaceId, Arc<Workflow>>> {
        self.workflows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn instances(&self) -> MutexGuard<'_, Instances<Instance>> {
        self.instances.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Drops the code of a run. Its destructors are the user's: they run where its code does, and no one waits for them.
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

    /// The workflow in memory, if it is there.
    pub(crate) fn find(&self, workspace: WorkspaceId) -> Option<Arc<Workflow>> {
        self.workflows().get(&workspace).cloned()
    }

    /// The workflow in memory, put there if it is not.
    pub(crate) fn workflow(&self, workspace: WorkspaceId) -> Arc<Workflow> {
        let mut workflows = self.workflows();
        let found = workflows.entry(workspace).or_insert_with(|| {
            if let Some((Some(until), run)) = self.asleep().remove(&workspace) {
                self.clock.unset(until, workspace, run, Alarm::Wake);
            }
            Arc::new(Workflow::new(workspace))
        });
        let found = found.clone();
        self.metrics.open.set((workflows.len() + self.asleep().len()) as f64);
        found
    }

    /// Workflows behind one whose run is known to be stuck, in order.
    pub(crate) fn stuck(&self, after: Option<u64>) -> Vec<WorkspaceId> {
        let workflows: Vec<Arc<Workflow>> = self.workflows().values().cloned().collect();
        let is_behind =
            |workflow: &&Arc<Workflow>| after.is_none_or(|after| workflow.workspace.get() > after);
        let found = workflows.iter().filter(is_behind).filter(|workflow| workflow.lock().stuck.is_some());
        let mut found: Vec<WorkspaceId> = found.map(|workflow| workflow.workspace).collect();
        found.sort_unstable();
        found
    }

    pub(crate) fn open_runs(&self) -> usize {
        self.workflows().len() + self.asleep().len()
    }

    /// Takes a workflow out of memory; its state is locked.
    pub(crate) fn remove(&self, workspace: WorkspaceId) {
        self.workflows().remove(&workspace);
        self.metrics.open.set(self.open_runs() as f64);
    }

    /// Puts something into a workflow's inbox, and has it looked at.
    pub(crate) fn push(self: &Arc<Self>, workspace: WorkspaceId, item: Item) {
        let item = match item {
            Item::Answer { run, job, generation } => {
                Item::Answer { run, job: size::fit(job, self.options.answer_bytes_max), generation }
            }
            Item::Retry { run, retry, is_kept } => {
                let retry = Box::new(size::fit_retry(*retry, self.options.answer_bytes_max));
                Item::Retry { run, retry, is_kept }
            }
            other => other,
        };
        let (workflow, begins) = loop {
            let workflow = self.workflow(workspace);
            let mut state = workflow.lock();
            if state.is_removed {
                continue;
            }
            if item.is_asked() && state.asked >= self.options.inbox_max {
                drop(state);
                let waiting = self.options.inbox_max;
                item.refuse(HostError::Busy(format!("{waiting} requests wait for this workflow")));
                return;
            }
            state.asked += usize::from(item.is_asked());
            state.inbox.push_back(item);
            let begins = !std::mem::replace(&mut state.is_driven, true);
            drop(state);
            break (workflow, begins);
        };
        if begins {
            *self.drivers.lock().unwrap_or_else(PoisonError::into_inner) += 1;
            let inner = self.clone();
            drop(self.env.spawn(async move {
                let mut driving = Box::pin(Driver::new(inner.clone(), workflow.clone()).run());
                let ended = poll_fn(|cx| {
                    let polled = catch_unwind(AssertUnwindSafe(|| driving.as_mut().poll(cx)));
                    polled.map_or_else(|_| Poll::Ready(false), |polled| polled.map(|()| true))
                });
                if !ended.await {
                    inner.broke(&workflow);
                }
                *inner.drivers.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
                inner.driver_ended.notify_waiters();
            }));
        } else {
            workflow.arrived.notify_one();
        }
    }

    /// The driver of a workflow has panicked, which is a defect of the host: the run is stuck, and no one waits in vain.
    fn broke(&self, workflow: &Workflow) {
        let reason = "the host has a defect, and its log has the panic's message";
        let items: Vec<Item> = {
            let mut state = workflow.lock();
            state.forget();
            if state.stuck.replace(reason.to_owned()).is_none() {
                self.metrics.stuck.increment(1.0);
            }
            state.drain()
        };
        let id = workflow.workspace.to_string();
        let error = HostError::Stuck { id, reason: reason.to_owned() };
        items.into_iter().for_each(|item| item.refuse(error.clone()));
    }

    /// An answer to an operation of a run.
    pub(crate) fn answer(self: &Arc<Self>, workspace: WorkspaceId, run: u64, job: Job) {
        self.push(workspace, Item::Answer { run, job, generation: 0 });
    }

    /// An alarm rings.
    fn ring(self: &Arc<Self>, workspace: WorkspaceId, run: u64, alarm: Alarm) {
        match alarm {
            Alarm::Timer(seq) => {
                self.answer(workspace, run, Job::FireTimer { seq: seriatim_workflow::CommandSeq::new(seq) });
            }
            Alarm::Wake => self.push(workspace, Item::Wake),
            Alarm::Begin => self.push(workspace, Item::Begin { run }),
            Alarm::Deadline => {
                let failure = Failure::timeout(
                    TimeoutType::StartToClose,
                    "the run took longer than its time-out allows",
                );
                let time = to_time(self.env.now());
                let ended = Box::new(Ended { status: RunStatus::TimedOut, failure, time });
                self.push(workspace, Item::End { run: Some(run), ended, key: None, reply: None });
            }
        }
    }

    /// Carries on with what was open, and rings alarms, until it is told to stop.
    pub(crate) async fn run(self: Arc<Self>) {
        let inner = self.clone();
        drop(self.env.spawn(async move {
            inner.draining.run_until_cancelled(inner.resume_all()).await;
        }));
        if let Some(retention) = self.options.retention {
            let inner = self.clone();
            drop(self.env.spawn(async move {
                inner.draining.run_until_cancelled(inner.forget_old(retention)).await;
            }));
        }
        let ringing = self.clock.run(&self.env, |workspace, run, alarm| self.ring(workspace, run, alarm));
        self.draining.run_until_cancelled(ringing).await;
    }

    /// Waits until nothing is fenced: a restored copy carries nothing out.
    pub(crate) async fn wait_unfenced(&self) {
        while self.engine.fenced().is_some() {
            self.env.sleep(Duration::from_secs(1)).await;
        }
    }

    /// Finds every open run, and has it looked at. A partition that is not ready, or cannot be read, keeps no other from
    /// that.
    async fn resume_all(self: &Arc<Self>) {
        self.wait_unfenced().await;
        let mut done = BTreeSet::new();
        loop {
            let states = match self.engine.partitions("workflows") {
                Ok(states) => states,
                Err(error) if error.kind() == ErrorKind::Closed => return,
                Err(error) => {
                    tracing::warn!(%error, "the partitions of workflows could not be read; it is tried again");
                    Vec::new()
                }
            };
            let (count, is_known) = (states.len(), !states.is_empty());
            for state in states {
                let partition = state.partition.id;
                if !matches!(state.status, PartitionStatus::Ready) || done.contains(&partition) {
                    continue;
                }
                match self.resume_partition(partition).await {
                    Ok(()) => drop(done.insert(partition)),
                    Err(error) if error.kind() == ErrorKind::Closed => return,
                    Err(error) => {
                        tracing::warn!(%partition, %error, "open runs could not be read; it is tried again");
                    }
                }
            }
            if is_known && done.len() == count {
                return;
            }
            self.env.sleep(self.env.jitter(self.options.retry)).await;
        }
    }

    async fn resume_partition(
        self: &Arc<Self>,
        partition: PartitionId,
    ) -> Result<(), seriatim_engine::SubmitError> {
        let workflows = self.engine.workflows();
        let mut after = None;
        loop {
            let page = workflows.open_runs(partition, after, PAGE).await?;
            for (workspace, _, waiting) in &page {
                match waiting {
                    Some(waiting) => self.let_sleep(*workspace, *waiting),
                    None => self.push(*workspace, Item::Wake),
                }
            }
            // Those of a partition that has stopped meanwhile do not end, and keep no other from being found.
            let below = self.drivers_below(2 * self.options.active_max.max(PAGE));
            let _ = self.env.timeout(RESUME_WAIT, below).await;
            match page.last() {
                Some((last, ..)) if page.len() == PAGE => after = Some(*last),
                _ => break,
            }
        }
        let mut after = None;
        loop {
            let page = workflows.owing(partition, after, PAGE).await?;
            let last = page.last().filter(|_| page.len() == PAGE).map(|(last, row)| (*last, row.run));
            for (workspace, row) in page {
                self.pay(workspace, row);
            }
            match last {
                Some(last) => after = Some(last),
                None => break,
            }
        }
        Ok(())
    }

    /// Waits until fewer drivers than this are at work.
    async fn drivers_below(&self, limit: usize) {
        loop {
            let mut ended = std::pin::pin!(self.driver_ended.notified());
            ended.as_mut().enable();
            if *self.drivers.lock().unwrap_or_else(PoisonError::into_inner) < limit {
                return;
            }
            ended.await;
        }
    }

    /// An attempt runs until what is returned is dropped.
    pub(crate) fn begin_attempt(&self, attempt: Arc<RunningAttempt>) -> Running<'_> {
        let mut attempts = self.attempts.lock().unwrap_or_else(PoisonError::into_inner);
        attempts.0 += 1;
        let number = attempts.0;
        attempts.1.insert(number, attempt);
        Running(self, number)
    }

    /// Waits until no attempt runs.
    async fn no_attempts(&self) {
        loop {
            let mut ended = std::pin::pin!(self.attempt_ended.notified());
            ended.as_mut().enable();
            if self.attempts.lock().unwrap_or_else(PoisonError::into_inner).1.is_empty() {
                return;
            }
            ended.await;
        }
    }

    /// Ends everything: what is being written is waited for, activities end at their next await and run again next time.
    pub(crate) async fn close(self: &Arc<Self>) {
        self.draining.cancel();
        if self.env.timeout(self.options.close_grace, self.no_attempts()).await.is_err() {
            tracing::info!("activities are cut off: they have not ended within the grace time");
            // What they have said last is for their next attempts.
            let running: Vec<_> = {
                let attempts = self.attempts.lock().unwrap_or_else(PoisonError::into_inner);
                attempts.1.values().cloned().collect()
            };
            running.iter().for_each(|attempt| attempt.keep(self));
        }
        // What has ended is written before the host stops.
        let until = self.env.instant() + self.options.close_patience;
        let is_written = self.env.timeout(self.options.close_patience, self.drivers_below(1)).await.is_ok();
        self.stop.cancel();
        let left = until.saturating_duration_since(self.env.instant());
        if !is_written && self.env.timeout(left, self.drivers_below(1)).await.is_err() {
            tracing::warn!("the engine does not answer; the host of workflows closes without it");
        }
        // Updates that a run's code has not answered, or not heard of.
        let workflows: Vec<Arc<Workflow>> = self.workflows().values().cloned().collect();
        for workflow in workflows {
            let left = {
                let mut state = workflow.lock();
                if state.is_driven { Vec::new() } else { state.drain() }
            };
            left.into_iter().for_each(|item| item.refuse(HostError::Closed));
        }
        if let Some(claim) = &self.claim {
            claim.release();
        }
    }
}

/// An attempt that runs.
pub(crate) struct Running<'a>(&'a Inner, u64);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let ended = self.0.attempts.lock().unwrap_or_else(PoisonError::into_inner).1.remove(&self.1);
        drop(ended);
        self.0.attempt_ended.notify_waiters();
    }
}
