//! The task that owns a partition: it collects commands, numbers them as a group, appends it, publishes and answers.

use std::pin::pin;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use futures_util::future::{Either, select};
use seriatim_env::Task;
use seriatim_sequencer::{Busy, LoadError, Loaded, Pin, Sealed, Sequencer, StopReason};
use seriatim_storage::{LogError, StoreError};
use seriatim_types::{ErrorKind, Timestamp, TrustLevel};
use tokio::sync::{mpsc, oneshot};

use super::Shared;
use super::append::{answer, answer_again};
use super::flusher;
use super::queue_budget::Permit;
use super::stage::{Outcome, Stage};
use super::taken::{self, NewKey};
use crate::derive::{Base, Draft, Fetched, Fetching, Round, Values, lock};
use crate::error::{SubmitError, stopped};
use crate::limits::{
    COMMAND_DERIVED_BYTES_MAX, GROUP_BYTES_MAX, GROUP_COMMANDS_MAX, LOAD_BYTES_MAX, READ_ROUNDS_MAX,
};
use crate::prepare::Prepared;
use crate::request::Answer;

/// What a usual command writes: room for it is made at once.
const KEYS_OF_A_COMMAND: usize = 4;

/// A command and whoever waits for it.
#[derive(Debug)]
pub(crate) struct Submission {
    prepared: Prepared,
    pub(super) answer: oneshot::Sender<Result<Answer, SubmitError>>,
    /// How often something had to be read that nobody had foreseen.
    rounds: usize,
    /// Its room in the queue, until it is answered.
    _permit: Permit,
}

impl Submission {
    pub(crate) fn new(
        prepared: Prepared,
        answer: oneshot::Sender<Result<Answer, SubmitError>>,
        permit: Permit,
    ) -> Self {
        Self { prepared, answer, rounds: 0, _permit: permit }
    }

    /// Where it is answered. Its room in the queue is free.
    pub(super) fn into_answer(self) -> oneshot::Sender<Result<Answer, SubmitError>> {
        self.answer
    }
}

/// Whoever wants the partition to stand still.
#[derive(Debug)]
pub(crate) struct Hold {
    /// Told when everything is flushed.
    pub(crate) ready: oneshot::Sender<Result<(), SubmitError>>,
    /// Ends it by being dropped; by a message it asks for a recovery, whose beginning is told.
    pub(crate) release: oneshot::Receiver<oneshot::Sender<()>>,
}

/// What the task is asked to do.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly every message is a command")]
pub(crate) enum Message {
    /// Do a command.
    Command(Submission),
    /// Flush everything, say so, and do nothing until released.
    Hold(Hold),
    /// Do what was queued before, then end.
    Stop,
}

/// What was read for commands, and why the first of them can never be staged, if it wants too much.
type ReadValues = (Fetched, Option<SubmitError>);

/// Commands whose workspaces are loaded, with what was read for them.
#[derive(Debug, Default)]
struct Batch {
    commands: Vec<(Submission, Pin)>,
    fetched: Fetched,
}

/// A load under way.
type Loading = Task<(Vec<Submission>, Loaded, Result<ReadValues, StoreError>)>;

/// A staged command that waits for its group.
pub(super) struct Pending {
    pub(super) submission: Submission,
    pub(super) answer: Box<Answer>,
    /// Callers with the same idempotency key, in the same group.
    pub(super) followers: Vec<Submission>,
}

/// A command that was refused in its turn, by what it saw: perhaps by what its own group does, which may turn out not to be
/// in the log. It is answered when that is known.
pub(super) struct Held {
    pub(super) submission: Submission,
    pub(super) error: SubmitError,
}

/// A group, closed and on its way.
pub(super) struct Staged {
    pub(super) sealed: Sealed,
    pub(super) pending: Vec<Pending>,
    pub(super) held: Vec<Held>,
}

pub(crate) struct Worker {
    pub(super) shared: Arc<Shared>,
    pub(super) sequencer: Sequencer<Shared>,
    queue: mpsc::Receiver<Message>,
    flusher: Task<()>,
    /// Commands that are not loaded yet.
    pub(super) waiting: Vec<Submission>,
    /// Commands that can be staged.
    batch: Batch,
    /// Commands whose workspaces are being read.
    loading: Option<Loading>,
    /// A hold that was asked for.
    hold: Option<Hold>,
    ending: bool,
    /// The time of the last event: time does not go back in a partition.
    last_time: Timestamp,
    /// The recovery after which it was read from the log.
    timed: Option<Round>,
    draft: Draft,
    body: Vec<u8>,
}

impl Worker {
    pub(crate) fn new(
        shared: Arc<Shared>,
        sequencer: Sequencer<Shared>,
        queue: mpsc::Receiver<Message>,
        flusher: Task<()>,
    ) -> Self {
        Self {
            shared,
            sequencer,
            queue,
            flusher,
            waiting: Vec::new(),
            batch: Batch::default(),
            loading: None,
            hold: None,
            ending: false,
            last_time: Timestamp::from_millis(0),
            timed: None,
            draft: Draft::default(),
            body: Vec::new(),
        }
    }

    /// Until it is stopped, or stops because something is wrong.
    pub(crate) async fn run(mut self) {
        let (shared, stop) = (self.shared.clone(), self.shared.stop.clone());
        let worked = shared.guard("the partition's task", stop.run_until_cancelled(self.work())).await;
        let end = match worked {
            Ok(Some(Ok(())) | None) => SubmitError::Closed,
            Ok(Some(Err(reason))) => {
                tracing::error!(partition = %shared.partition, %reason, "the partition has stopped");
                match &reason {
                    SubmitError::Stopped { reason, .. } => shared.halt(reason),
                    other => shared.halt(&other.to_string()),
                }
                reason
            }
            Err(panic) => self.defect(&panic),
        };
        self.queue.close();
        self.give_up_loading().await;
        while let Ok(message) = self.queue.try_recv() {
            self.take(message);
        }
        // None of them was staged: nothing of them was done.
        self.refuse_all(&end);
        if let Some(hold) = self.hold.take() {
            // The caller may have gone.
            let _ = hold.ready.send(Err(end));
        }
        self.flusher.cancel();
        // What is committed and not flushed is in the log; writing it now just makes the next start quick. Not after a stop:
        // another owner may have written to the store by now.
        if shared.halted().is_none() {
            // An error was logged, and the next recovery will find everything.
            let _ = flusher::flush_all(&shared).await;
        }
    }

    async fn work(&mut self) -> Result<(), SubmitError> {
        loop {
            self.renew().await?;
            // A hold that came while commands were under way is not to wait for another message.
            if self.is_idle() && self.hold.is_none() {
                if self.ending {
                    return Ok(());
                }
                let next = match select(pin!(self.queue.recv()), pin!(self.shared.renewed.notified())).await {
                    Either::Left((message, _)) => message,
                    Either::Right(_) => continue,
                };
                match next {
                    Some(message) => self.take(message),
                    None => return Ok(()),
                }
            }
            // Whoever was just answered is ready to run, and may have the next command: a group of all of them costs one
            // write, where the first of them alone would make the others wait for a write of its own.
            tokio::task::yield_now().await;
            self.drain();
            if self.hold.is_some() && self.is_idle() {
                self.stand_still().await?;
                continue;
            }
            if let Err(busy) = self.wait().await {
                if let Busy::Stopped(reason) = &busy {
                    return Err(stopped(self.shared.partition, reason));
                }
                self.give_up_loading().await;
                self.refuse_all(&SubmitError::Busy(busy));
                continue;
            }
            self.load().await?;
            let Some(staged) = self.stage().await? else { continue };
            self.append(staged).await?;
        }
    }

    fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.batch.commands.is_empty() && self.loading.is_none()
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::Command(submission) => self.waiting.push(submission),
            Message::Hold(hold) => self.hold = Some(hold),
            Message::Stop => self.ending = true,
        }
    }

    /// Takes what has come, up to what fits a group. Nothing behind a hold or a stop.
    pub(super) fn drain(&mut self) {
        while self.hold.is_none()
            && !self.ending
            && self.waiting.len() + self.batch.commands.len() < GROUP_COMMANDS_MAX
        {
            match self.queue.try_recv() {
                Ok(message) => self.take(message),
                Err(_) => return,
            }
        }
    }

    pub(super) fn refuse_all(&mut self, error: &SubmitError) {
        let waiting =
            self.waiting.drain(..).chain(self.batch.commands.drain(..).map(|(submission, _)| submission));
        for submission in waiting {
            self.shared.metrics.refused.increment(1);
            answer(submission, Err(error.clone()));
        }
    }

    /// Takes commands back that are being loaded.
    pub(super) async fn give_up_loading(&mut self) {
        let Some(loading) = self.loading.take() else { return };
        // An error is a panic of the load, which has taken its commands with it.
        if let Ok((commands, ..)) = loading.await {
            self.waiting.extend(commands);
        }
    }

    /// Waits until a group can be opened.
    async fn wait(&mut self) -> Result<(), Busy> {
        let mut changes = self.shared.changes.subscribe();
        let deadline = self.shared.env.instant() + self.shared.options.begin_wait;
        loop {
            changes.mark_unchanged();
            if let Some(reason) = self.shared.halted() {
                return Err(Busy::Stopped(StopReason::Internal(reason)));
            }
            let busy = match self.sequencer.wait(Duration::ZERO).await {
                Ok(()) => return Ok(()),
                Err(busy @ (Busy::Recovering | Busy::Backlogged { .. })) => busy,
                Err(busy) => return Err(busy),
            };
            let left = deadline.saturating_duration_since(self.shared.env.instant());
            if self.shared.env.timeout(left, changes.changed()).await.is_err() {
                return Err(busy);
            }
        }
    }

    /// Flushes everything and waits to be released.
    async fn stand_still(&mut self) -> Result<(), SubmitError> {
        let Some(Hold { ready, release }) = self.hold.take() else { return Ok(()) };
        // Before the flush: what is swept after it would change what is stored.
        lock(&self.shared.overlay).hold(true);
        let settled = match self.wait().await {
            Ok(()) | Err(Busy::Backlogged { .. }) => {
                flusher::flush_all(&self.shared).await.map_err(SubmitError::Store)
            }
            Err(busy) => Err(SubmitError::Busy(busy)),
        };
        let begun = if ready.send(settled).is_ok() { release.await.ok() } else { None };
        lock(&self.shared.overlay).hold(false);
        if let Some(begun) = begun {
            self.recover().await?;
            // Whoever asked may have gone.
            let _ = begun.send(());
        }
        Ok(())
    }

    /// Forgets everything and begins again from the checkpoint, because what is stored was changed from outside.
    async fn recover(&mut self) -> Result<(), SubmitError> {
        let owner = loop {
            match self.shared.log.take(self.shared.partition).await {
                Ok(owner) => break owner,
                Err(error) if error.kind() == ErrorKind::Unavailable => {
                    tracing::warn!(partition = %self.shared.partition, %error, "a recovery waits for the log");
                    self.shared.env.sleep(self.shared.env.jitter(self.shared.options.retry)).await;
                }
                Err(error) => return Err(error.into()),
            }
        };
        // The commands stay: their pins are stale now, so they are loaded again.
        self.batch.fetched = Fetched::default();
        self.sequencer.recover(owner).map_err(|error| self.defect(&error.to_string()))
    }

    /// Recovers if the store was opened again, unless a recovery is under way, which begins again by itself.
    async fn renew(&mut self) -> Result<(), SubmitError> {
        if !self.shared.is_store_renewed() {
            return Ok(());
        }
        // Takes in a recovery that has ended; what it says does not matter here.
        let _ = self.sequencer.wait(Duration::ZERO).await;
        if self.sequencer.next_offset().is_none() {
            return Ok(());
        }
        let partition = self.shared.partition;
        tracing::warn!(%partition, "the store was opened again; the partition recovers from its checkpoint");
        self.recover().await
    }

    /// Finds out what has to be read for the waiting commands. Those that need nothing can be staged at once; for the
    /// others a task reads, while the last group is on its way to the log.
    pub(super) fn start_loading(&mut self) {
        if self.waiting.is_empty() || self.loading.is_some() {
            return;
        }
        // What did not fit the last group keeps what was read for it.
        if !self.batch.commands.is_empty() && self.batch.fetched.bytes() >= LOAD_BYTES_MAX {
            return;
        }
        let commands = std::mem::take(&mut self.waiting);
        let wanted: Vec<_> =
            commands.iter().map(|command| (command.prepared.kind, command.prepared.workspace)).collect();
        let Ok(loading) = self.sequencer.loading(&wanted) else {
            self.waiting = commands;
            return;
        };
        let reads = commands.iter().flat_map(|command| &command.prepared.reads);
        let fetching = Fetching::begin(&self.shared.overlay, reads);
        let loading = if fetching.is_empty() {
            match loading.complete() {
                Ok(loaded) => return self.admit(commands, loaded, ReadValues::default()),
                Err(loading) => loading,
            }
        } else {
            loading
        };
        let shared = self.shared.clone();
        let load = async move {
            let loaded = loading.read().await;
            let fetched = load_values(&shared, fetching, &commands).await;
            (commands, loaded, fetched)
        };
        self.loading = Some(self.shared.env.spawn(load));
    }

    /// Has at least one command ready to be staged, unless none can be.
    async fn load(&mut self) -> Result<(), SubmitError> {
        if let Some(loading) = self.loading.take() {
            let (commands, loaded, fetched) =
                loading.await.map_err(|error| self.defect(&error.to_string()))?;
            match fetched {
                Ok(read) => self.admit(commands, loaded, read),
                Err(error) => {
                    for submission in commands {
                        answer(submission, Err(SubmitError::Store(error.clone())));
                    }
                }
            }
        }
        self.start_loading();
        if self.batch.commands.is_empty() && self.loading.is_some() {
            // Nothing else to do: one more round through here.
            Box::pin(self.load()).await?;
        }
        Ok(())
    }

    pub(super) fn defect(&self, reason: &str) -> SubmitError {
        SubmitError::Stopped { partition: self.shared.partition.to_string(), reason: reason.to_owned() }
    }

    fn admit(&mut self, commands: Vec<Submission>, loaded: Loaded, (fetched, mut refused): ReadValues) {
        for (submission, pin) in commands.into_iter().zip(self.sequencer.admit(loaded)) {
            if let Some(error) = refused.take() {
                self.shared.metrics.refused.increment(1);
                answer(submission, Err(error));
                continue;
            }
            match pin {
                Ok(pin) => self.batch.commands.push((submission, pin)),
                Err(LoadError::Busy(Busy::Recovering)) => self.waiting.push(submission),
                Err(error) => answer(submission, Err(SubmitError::Load(error))),
            }
        }
        self.batch.fetched.extend(fetched);
    }

    /// The time of the next events: not before the last event of the log, also after a restart.
    async fn event_time(&mut self) -> Result<Timestamp, LogError> {
        let (round, next) = {
            let overlay = lock(&self.shared.overlay);
            (overlay.caught_up(), overlay.next())
        };
        if round.is_none() || self.timed != round {
            self.last_time = self.shared.time_before(next).await?.max(self.last_time);
            self.timed = round;
        }
        self.last_time = self.shared.clock.now().max(self.last_time);
        Ok(self.last_time)
    }

    /// Stages the batch as one group and closes it. `None` if nothing of it was staged.
    async fn stage(&mut self) -> Result<Option<Staged>, SubmitError> {
        let now = match self.event_time().await {
            Ok(now) => now,
            Err(error) => {
                self.refuse_all(&SubmitError::Log(error));
                return Ok(None);
            }
        };
        let mut batch = std::mem::take(&mut self.batch);
        loop {
            let Some(attempt) = self.stage_group(&mut batch, now)? else { return Ok(None) };
            match taken::find(&self.shared.store, &attempt.new_keys).await {
                Ok(None) => return Ok(Some(self.close_group(batch, attempt))),
                // The group was dropped, which is free: none of its numbers was used. The guilty command goes, the
                // others are staged again.
                Ok(Some(place)) => {
                    let (key, command, what) = attempt.new_keys.into_iter().nth(place).expect("found there");
                    self.sequencer.discard(attempt.sealed);
                    lock(&self.shared.overlay).drop_group();
                    let (submission, _) = batch.commands.remove(command);
                    answer(submission, Err(SubmitError::Taken { what, key }));
                }
                Err(error) => {
                    self.sequencer.discard(attempt.sealed);
                    lock(&self.shared.overlay).drop_group();
                    for (submission, _) in batch.commands {
                        answer(submission, Err(SubmitError::Store(error.clone())));
                    }
                    return Ok(None);
                }
            }
        }
    }

    /// Numbers the commands of the batch, as far as they fit one group. `None` if nothing was staged.
    fn stage_group(&mut self, batch: &mut Batch, now: Timestamp) -> Result<Option<Attempt>, SubmitError> {
        let mut values = Values::with_capacity(batch.commands.len() * KEYS_OF_A_COMMAND);
        let mut outcomes = Vec::with_capacity(batch.commands.len());
        let mut new_keys = Vec::with_capacity(batch.commands.len() * KEYS_OF_A_COMMAND);
        let mut group = match self.sequencer.group() {
            Ok(group) => group,
            Err(busy) => {
                for (submission, _) in batch.commands.drain(..) {
                    answer(submission, Err(SubmitError::Busy(busy.clone())));
                }
                return Ok(None);
            }
        };
        // Bytes of keys and values: a small change of a large record writes all of it.
        let (mut bytes, mut full) = (0, false);
        for (place, (submission, pin)) in batch.commands.iter().enumerate() {
            if full || group.bytes() >= GROUP_BYTES_MAX {
                break;
            }
            let base = Base { group: &values, overlay: &self.shared.overlay, fetched: &batch.fetched };
            let mut stage = Stage { shared: &self.shared, base, now, body: &mut self.body };
            let outcome = stage.run(&submission.prepared, &mut group, pin, &mut self.draft);
            if matches!(outcome, Outcome::Staged(_)) {
                note_new_keys(self.shared.options.trust_level, &self.draft, place, &mut new_keys);
                for (key, value) in self.draft.writes.drain(..) {
                    let (key_bytes, value_bytes) = (key.size(), value.len());
                    match values.insert(key, value) {
                        None => bytes += key_bytes + value_bytes,
                        Some(old) => bytes = bytes + value_bytes - old.len(),
                    }
                }
                full = lock(&self.shared.overlay).closes_group(values.len(), bytes);
            }
            outcomes.push(outcome);
        }
        if group.is_empty() {
            drop(group);
            self.dispose(batch, outcomes);
            return Ok(None);
        }
        Ok(Some(Attempt { sealed: group.seal(), values, outcomes, new_keys }))
    }

    /// Sorts out what became of each command of a closed group.
    fn close_group(&mut self, mut batch: Batch, attempt: Attempt) -> Staged {
        let Attempt { sealed, values, outcomes, .. } = attempt;
        *self.shared.sealed.lock().unwrap_or_else(PoisonError::into_inner) = values;
        let mut pending: Vec<Pending> = Vec::with_capacity(sealed.entries().len());
        let (mut held, mut left) = (Vec::new(), Vec::new());
        let staged = outcomes.len();
        for (outcome, (submission, pin)) in outcomes.into_iter().zip(batch.commands.drain(..staged)) {
            match outcome {
                Outcome::Staged(answer) => {
                    pending.push(Pending { submission, answer, followers: Vec::new() });
                }
                Outcome::Repeated(used) if used.offset >= sealed.at() => {
                    let place = used.offset.since(sealed.at()).and_then(|place| usize::try_from(place).ok());
                    match place.and_then(|place| pending.get_mut(place)) {
                        Some(first) => first.followers.push(submission),
                        None => answer(
                            submission,
                            Err(self.defect("a key was used by an event that is not there")),
                        ),
                    }
                }
                Outcome::Refused(error) => held.push(Held { submission, error }),
                outcome => left.push((outcome, submission, pin)),
            }
        }
        for (outcome, submission, _pin) in left {
            self.dispose_one(outcome, submission);
        }
        // What did not fit goes into the next group.
        self.batch.commands.append(&mut batch.commands);
        if !self.batch.commands.is_empty() {
            self.batch.fetched = batch.fetched;
        }
        Staged { sealed, pending, held }
    }

    fn dispose(&mut self, batch: &mut Batch, outcomes: Vec<Outcome>) {
        let staged = outcomes.len();
        let commands: Vec<_> = batch.commands.drain(..staged).collect();
        for (outcome, (submission, _)) in outcomes.into_iter().zip(commands) {
            self.dispose_one(outcome, submission);
        }
    }

    /// Ends a command that is not part of a group, or sends it round again.
    fn dispose_one(&mut self, outcome: Outcome, mut submission: Submission) {
        match outcome {
            // Only a group has those.
            Outcome::Staged(_) => answer(submission, Err(self.defect("a staged command without a group"))),
            Outcome::Repeated(used) => {
                self.shared.metrics.repeated.increment(1);
                drop(self.shared.env.spawn(answer_again(self.shared.clone(), used, submission)));
            }
            Outcome::Refused(error) => {
                self.shared.metrics.refused.increment(1);
                answer(submission, Err(error));
            }
            Outcome::Unread(keys) => {
                let asked = &mut submission.prepared.reads;
                let before = asked.len();
                for key in keys {
                    // What was asked for before was fetched, and a flush has ended since, or it was left for later
                    // because others are large: that is no new round.
                    if !asked.contains(&key) {
                        asked.push(key);
                    }
                }
                submission.rounds += usize::from(asked.len() > before);
                if submission.rounds > READ_ROUNDS_MAX {
                    let error = self.defect("a command reads one thing after another without end");
                    return answer(submission, Err(error));
                }
                self.waiting.push(submission);
            }
            Outcome::Stale => self.waiting.push(submission),
        }
    }
}

/// Reads what commands want, within bounds; the first of them gets all that it wants, so that one can always be staged. It
/// is refused if it wants more than may follow from a command.
async fn load_values(
    shared: &Shared,
    fetching: Fetching,
    commands: &[Submission],
) -> Result<ReadValues, StoreError> {
    let (mut fetched, is_all) = shared.read_fetching_within(fetching, LOAD_BYTES_MAX).await?;
    if !is_all && let Some(first) = commands.first() {
        let left = first.prepared.reads.iter().filter(|key| !fetched.has_asked(key));
        let left = Fetching::begin(&shared.overlay, left);
        let (rest, is_all) = shared.read_fetching_within(left, COMMAND_DERIVED_BYTES_MAX).await?;
        if !is_all {
            let (what, max) = ("what the command reads".to_owned(), COMMAND_DERIVED_BYTES_MAX);
            let refused = SubmitError::TooLarge { what, max, found: rest.bytes() };
            // What was read for it serves nothing else.
            return Ok((fetched, Some(refused)));
        }
        fetched.extend(rest);
    }
    Ok((fetched, None))
}

/// A group as it was staged, before its new keys were looked at.
struct Attempt {
    sealed: Sealed,
    values: Values,
    outcomes: Vec<Outcome>,
    /// Keys that must be new.
    new_keys: Vec<NewKey>,
}

/// Remembers the keys that a trust level wants to be looked at.
fn note_new_keys(level: TrustLevel, draft: &Draft, place: usize, new_keys: &mut Vec<NewKey>) {
    if level.verifies_events()
        && let Some(event) = draft.new_event
    {
        new_keys.push((draft.writes[event].0.clone(), place, "event of the workspace's log"));
    }
    if level.verifies_records() {
        let records = draft.new_records.iter();
        new_keys.extend(records.map(|write| (draft.writes[*write].0.clone(), place, "record")));
    }
}
