//! Carrying out what a run has asked for, once that is durable.

use std::sync::Arc;

use seriatim_env::Shutdown;
use seriatim_types::WorkspaceId;
use seriatim_workflow::{Command, CommandSeq, Job, Kind};

use crate::attempt::Execution;
use crate::clock::Alarm;
use crate::driver::Driver;
use crate::workflow::ending;
use crate::entry::Turn;
use crate::inner::Inner;
use crate::inputs::KeptInput;
use crate::workflow::pending::ActivityTask;
use crate::workflow::{Item, State, UnderWay};

impl Driver {
    /// Begins what a turn has asked for, and ends what it has settled or called off.
    pub(crate) fn carry_out(&self, state: &mut State, turn: &Turn, is_last: bool) {
        let Some(run) = state.known.as_ref().and_then(|known| known.open.as_ref()).map(|open| open.row.run)
        else {
            return;
        };
        for job in &turn.jobs {
            if let Some(operation) = job.answers() {
                state.under_way.remove(&operation);
            }
        }
        if is_last {
            return;
        }
        for command in &turn.commands {
            let Some((kind, seq)) = command.seq() else { continue };
            match command {
                Command::CancelTimer { .. } => {
                    if let Some(UnderWay::Timer(due)) = state.under_way.remove(&(kind, seq)) {
                        self.inner.clock.unset(due, self.workflow.workspace, run, Alarm::Timer(seq));
                    }
                }
                Command::CancelActivity { .. } | Command::CancelLocalActivity { .. } => {
                    // It hears of it, and may answer; whether anybody listens, the pending table knows.
                    if let Some(UnderWay::Task(token)) = state.under_way.get(&(kind, seq)) {
                        token.cancel();
                    }
                }
                Command::CancelChild { .. } => self.cancel_child(state, run, seq),
                Command::CancelSignal { .. } => drop(state.under_way.remove(&(kind, seq))),
                _ => self.begin_operation(state, run, kind, seq),
            }
        }
    }

    /// Begins local activities, before they are written.
    pub(crate) fn begin_local(&self, turn: &Turn) {
        let mut state = self.workflow.lock();
        let Some(run) = state.known.as_ref().and_then(|known| known.open.as_ref()).map(|open| open.row.run)
        else {
            return;
        };
        for command in &turn.commands {
            if let Command::ScheduleLocalActivity { seq, .. } = command {
                self.begin_operation(&mut state, run, Kind::LocalActivity, seq.get());
            }
        }
    }

    /// Ends what is under way for a run before this one. That run has ended, and its end was in doubt when it was written.
    fn drop_older(&self, state: &mut State, run: u64) {
        let older = std::mem::replace(&mut state.under_way_of, run);
        if older == run {
            return;
        }
        for (seq, due) in state.drop_under_way() {
            self.inner.clock.unset(due, self.workflow.workspace, older, Alarm::Timer(seq));
        }
    }

    /// Begins an operation that is pending and not under way.
    fn begin_operation(&self, state: &mut State, run: u64, kind: Kind, seq: u32) {
        self.drop_older(state, run);
        if state.under_way.contains_key(&(kind, seq)) {
            return;
        }
        let workspace = self.workflow.workspace;
        let generation = state.generation;
        let Some(open) = state.known.as_mut().and_then(|known| known.open.as_mut()) else { return };
        let (pending, id) = (&mut open.pending, open.row.id.clone());
        let token = Shutdown::new();
        let under_way = match kind {
            Kind::Timer => {
                let Some(timer) = pending.timers.get(&seq) else { return };
                self.inner.clock.set(timer.due, workspace, run, Alarm::Timer(seq));
                UnderWay::Timer(timer.due)
            }
            Kind::Activity | Kind::LocalActivity => {
                if kind == Kind::Activity && pending.arrived.contains_key(&seq) {
                    return;
                }
                let tasks = match kind {
                    Kind::Activity => &mut pending.activities,
                    _ => &mut pending.local_activities,
                };
                let Some(task) = tasks.get_mut(&seq) else { return };
                let input = self.inner.take_input(Arc::make_mut(task));
                let task = task.clone();
                if task.is_cancelled {
                    token.cancel();
                }
                let cancel = token.clone();
                let carried = CarriedOut { workspace, run, seq, id, task, input, generation, cancel };
                drop(self.inner.env.spawn(self.inner.clone().run_activity(carried)));
                UnderWay::Task(token)
            }
            Kind::ChildWorkflow => {
                let Some(child) = pending.children.get(&seq).cloned() else { return };
                self.inner.watch_child(workspace, run, id, seq, child, &token);
                UnderWay::Task(token)
            }
            Kind::ExternalSignal | Kind::ExternalCancel => {
                let messages = if kind == Kind::ExternalSignal { &pending.signals } else { &pending.cancels };
                let Some(message) = messages.get(&seq).cloned() else { return };
                self.inner.send_message(workspace, run, kind, seq, message, &token);
                UnderWay::Task(token)
            }
        };
        state.under_way.insert((kind, seq), under_way);
    }

    fn cancel_child(&self, state: &mut State, run: u64, seq: u32) {
        let open = state.known.as_mut().and_then(|known| known.open.as_mut());
        let Some(child) = open.and_then(|open| open.pending.children.get(&seq).cloned()) else { return };
        self.inner.cancel_child(self.workflow.workspace, run, seq, child);
    }

    /// Begins everything that is pending and not under way.
    pub(crate) fn resume(&self) {
        let mut state = self.workflow.lock();
        self.resume_open(&mut state);
    }

    pub(crate) fn resume_open(&self, state: &mut State) {
        let Some(open) = state.known.as_ref().and_then(|known| known.open.as_ref()) else {
            state.drop_under_way();
            return;
        };
        let (run, due, workspace) = (open.row.run, open.due, self.workflow.workspace);
        let cancelled: Vec<u32> = {
            let children = open.pending.children.iter();
            children.filter(|(_, child)| child.cancelled.is_some()).map(|(seq, _)| *seq).collect()
        };
        let operations: Vec<(Kind, u32)> = open.pending.operations().collect();
        let arrived = open.pending.arrived.values().cloned();
        let arrived = arrived.map(|job| Item::Answer { run, job, generation: 0 });
        state.inbox.extend(arrived.collect::<Vec<_>>());
        self.drop_older(state, run);
        if let Some(due) = due {
            self.inner.clock.set(due, workspace, run, Alarm::Begin);
        }
        self.set_deadline(state);
        for (kind, seq) in operations {
            self.begin_operation(state, run, kind, seq);
        }
        for seq in cancelled {
            self.cancel_child(state, run, seq);
        }
    }

    /// Sets the alarm for when the open run has to be over.
    pub(crate) fn set_deadline(&self, state: &mut State) {
        let Some(open) = state.known.as_ref().and_then(|known| known.open.as_ref()) else { return };
        if let Some(deadline) = ending::deadline(open.begins.deadline, &open.start) {
            self.inner.clock.set(deadline, self.workflow.workspace, open.row.run, Alarm::Deadline);
        }
    }
}

/// An activity that is carried out.
struct CarriedOut {
    workspace: WorkspaceId,
    run: u64,
    seq: u32,
    id: String,
    task: Arc<ActivityTask>,
    input: Option<KeptInput>,
    generation: u64,
    cancel: Shutdown,
}

impl Inner {
    async fn run_activity(self: Arc<Self>, carried: CarriedOut) {
        let CarriedOut { workspace, run, seq, id, task, input, generation, cancel } = carried;
        let is_local = task.is_local;
        let execution = Execution {
            inner: &self,
            workspace,
            run,
            task,
            input,
            seq,
            workflow_id: id,
            run_id: crate::workflow::run_id(workspace, run),
            cancel,
        };
        let ended = self.stop.run_until_cancelled(execution.run()).await;
        let Some(resolution) = ended else { return };
        self.metrics.activities.increment(1);
        let job = if is_local {
            Job::ResolveLocalActivity { seq: CommandSeq::new(seq), resolution }
        } else {
            Job::ResolveActivity { seq: CommandSeq::new(seq), resolution }
        };
        self.push(workspace, Item::Answer { run, job, generation });
    }
}
