//! Turns a prepared command into an event of the open group.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use seriatim_sequencer::{Event as NewEvent, Group, Pin, Transaction};
use seriatim_types::{ApplicationId, RecordId, SequenceId, Timestamp, WorkspaceOffset};

use super::Shared;
use crate::apply::{KeyUse, Pass, panic_text};
use crate::codec::BadBytes;
use crate::command::{CommandError, Context, draw_fields};
use crate::derive::{Base, Draft, State};
use crate::doctor::describe;
use crate::error::{RequestError, SubmitError};
use crate::event::{Argument, Change, Event, Place, Row};
use crate::fence::{FenceState, sequence_key};
use crate::keys::{StoreKey, WorkspaceKeys};
use crate::limits::{COMMAND_DERIVED_BYTES_MAX, DERIVED_VALUE_BYTES_MAX, ROW_KEY_BYTES_MAX};
use crate::prepare::Prepared;
use crate::request::Answer;
use crate::value::Value;

/// What became of a command in its turn.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// It is part of the group; this is its answer, once the group is committed.
    Staged(Box<Answer>),
    /// It was done before: the event says what to answer.
    Repeated(KeyUse),
    /// It cannot be done.
    Refused(SubmitError),
    /// These have to be read first.
    Unread(Vec<StoreKey>),
    /// Its workspace was loaded before the last recovery.
    Stale,
}

/// What staging needs besides the command.
pub(crate) struct Stage<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) base: Base<'a>,
    pub(crate) now: Timestamp,
    /// Memory for bodies, kept from command to command.
    pub(crate) body: &'a mut Vec<u8>,
}

impl From<CommandError> for SubmitError {
    fn from(error: CommandError) -> Self {
        match error {
            CommandError::Invalid(text) => Self::Request(RequestError::Refused(text)),
            CommandError::NotFound(text) => Self::NotFound(text),
            CommandError::Conflict(text) => Self::Conflict(text),
            CommandError::Fenced(what) => Self::Fenced(what),
            CommandError::Draw(error) => Self::Draw(error),
            CommandError::Damaged { key, problem } => damaged(key, problem),
            CommandError::BadRow(bad) => Self::BadRow(bad),
            CommandError::Unread => {
                Self::Request(RequestError::Refused("it swallowed an error of its context".into()))
            }
        }
    }
}

fn damaged(key: StoreKey, problem: BadBytes) -> SubmitError {
    SubmitError::Apply(crate::apply::ApplyError::Bad { key, problem })
}

impl Stage<'_> {
    /// Stages a command. What it changes is in the draft if it was staged, and counts for nothing otherwise.
    pub(crate) fn run(
        &mut self,
        prepared: &Prepared,
        group: &mut Group<'_>,
        pin: &Pin,
        draft: &mut Draft,
    ) -> Outcome {
        draft.clear();
        let application = self.shared.derivation.schema.id();
        let fence = if prepared.unfencing { None } else { self.shared.fence.look(application) };
        if let Some(fence) = &fence
            && !fence.admits_workspace(application, prepared.workspace)
        {
            let workspace = format!("numbers of workspace {}", prepared.workspace);
            return Outcome::Refused(SubmitError::Fenced(workspace));
        }
        let keys = WorkspaceKeys::new(application, prepared.workspace);
        match self.repeated(prepared, keys, draft) {
            Ok(None) => {}
            Ok(Some(outcome)) => return outcome,
            Err(error) => return Outcome::Refused(error),
        }
        if !draft.unread.is_empty() {
            return Outcome::Unread(std::mem::take(&mut draft.unread));
        }
        let Ok(mut transaction) = group.begin(pin) else {
            return Outcome::Stale;
        };
        let place = Place {
            partition_offset: transaction.partition_offset(),
            workspace: prepared.workspace,
            kind: prepared.kind,
            workspace_offset: transaction.workspace_offset(),
            time: self.now,
        };
        if let Some(expected) = prepared.expected {
            let found = place.workspace_offset.get() - WorkspaceOffset::FIRST.get();
            if found != expected {
                let workspace = prepared.workspace;
                return Outcome::Refused(SubmitError::Moved { workspace, expected, found });
            }
        }
        let skip = fence
            .as_ref()
            .map_or(0, |fence| fence.skip(self.shared.partition, prepared.workspace, transaction.folded()));
        if skip > 0
            && let Err(error) = transaction.skip(skip, &[])
        {
            return Outcome::Refused(error.into());
        }
        let event = self.decide(prepared, keys, place, &mut transaction, draft);
        if let Some(fence) = &fence
            && let Some(sequence) = fenced_draw(fence, application, &transaction)
        {
            let name = self.shared.derivation.schema.sequence(sequence).map(|sequence| sequence.name.clone());
            let name = name.unwrap_or_else(|| sequence.to_string().into());
            let what = format!("numbers of sequence {name} of workspace {}", prepared.workspace);
            return Outcome::Refused(SubmitError::Fenced(what));
        }
        if !draft.unread.is_empty() {
            return Outcome::Unread(std::mem::take(&mut draft.unread));
        }
        let answer = event.and_then(|event| self.finish(place, &event, transaction, draft));
        // First of all: a projector that has not seen a row may have refused the event for that alone.
        if !draft.unread.is_empty() {
            return Outcome::Unread(std::mem::take(&mut draft.unread));
        }
        match answer {
            Ok(answer) => Outcome::Staged(Box::new(answer)),
            Err(error) => Outcome::Refused(error),
        }
    }

    /// Whether the command's key was used before.
    fn repeated(
        &self,
        prepared: &Prepared,
        keys: WorkspaceKeys,
        draft: &mut Draft,
    ) -> Result<Option<Outcome>, SubmitError> {
        let Some(idempotency) = &prepared.idempotency else { return Ok(None) };
        let key = keys.idempotency(&idempotency.key);
        let Ok(found) = (State { base: self.base, draft }).find(&key) else {
            return Ok(None);
        };
        let Some(bytes) = found.into_value() else { return Ok(None) };
        let used = KeyUse::decode(&bytes).map_err(|problem| damaged(key, problem))?;
        let window = self.shared.options.idempotency_window;
        if window.is_some_and(|window| used.time.after(window) < self.now) {
            return Ok(None);
        }
        if used.request != idempotency.request {
            return Err(SubmitError::KeyReused(idempotency.key.to_string()));
        }
        Ok(Some(Outcome::Repeated(used)))
    }

    /// Draws ids and numbers, rewrites what refers to them, and lets the application's code decide.
    fn decide(
        &self,
        prepared: &Prepared,
        keys: WorkspaceKeys,
        place: Place,
        transaction: &mut Transaction<'_>,
        draft: &mut Draft,
    ) -> Result<Event, SubmitError> {
        let mut argument = prepared.argument.clone();
        let mut changes = prepared.changes.clone();
        let mut real = BTreeMap::new();
        let mut state = State { base: self.base, draft };
        if let Argument::Document(rows) = &mut argument {
            for row in rows {
                self.draw_row(keys, row, transaction, &mut state, &mut real)?;
            }
        }
        for change in &mut changes {
            if let Change::Create(row) = change {
                self.draw_row(keys, row, transaction, &mut state, &mut real)?;
            }
        }
        if !real.is_empty() {
            if let Argument::Document(rows) = &mut argument {
                rows.iter_mut().for_each(|row| rewrite(row, &real));
            }
            for change in &mut changes {
                let (Change::Create(row) | Change::Update(row)) = change;
                rewrite(row, &real);
            }
        }
        let mut result = None;
        if let Some(handler) = &prepared.handler {
            let mut context = Context {
                schema: &self.shared.derivation.schema,
                place,
                transaction,
                state: state.reborrow(),
                args: &prepared.args,
                unlogged: prepared.unlogged.as_ref(),
                argument: &argument,
                changes: &mut changes,
            };
            // A panic of the application's code ends this command, not the partition: nothing of it is staged.
            let ran = catch_unwind(AssertUnwindSafe(|| handler.run(&mut context)));
            let value = ran.map_err(|panic| SubmitError::Panicked {
                command: prepared.command.to_string(),
                reason: panic_text(&*panic).to_owned(),
            })??;
            result = (!value.is_null()).then(|| value.to_string().into());
        }
        Ok(Event {
            command: prepared.command.clone(),
            argument,
            unlogged: prepared.unlogged.is_some(),
            changes,
            result,
            idempotency: prepared.idempotency.clone(),
        })
    }

    /// Gives a new row its real id and its numbers.
    fn draw_row(
        &self,
        keys: WorkspaceKeys,
        row: &mut Row,
        transaction: &mut Transaction<'_>,
        state: &mut State<'_>,
        real: &mut BTreeMap<u64, RecordId>,
    ) -> Result<(), SubmitError> {
        let schema = &self.shared.derivation.schema;
        let unknown = || RequestError::UnknownDocument(row.document.to_string());
        let document = schema.document(row.document).ok_or_else(unknown)?;
        match document.singleton {
            Some(id) => {
                let exists = state.find(&keys.id(id)).is_ok_and(|found| found.into_value().is_some());
                let twice = real.values().any(|taken| *taken == id);
                if exists || twice {
                    let document = document.name.to_string();
                    return Err(SubmitError::SingletonExists { document, id });
                }
                row.id = id;
            }
            None => row.id = RecordId::new(transaction.draw(document.record_sequence)?.get()),
        }
        if let Some(raw) = row.raw {
            real.insert(u64::from(raw), row.id);
        }
        draw_fields(document, transaction, &mut row.fields)?;
        Ok(())
    }

    /// Derives what follows, and makes the event part of the group.
    fn finish(
        &mut self,
        place: Place,
        event: &Event,
        transaction: Transaction<'_>,
        draft: &mut Draft,
    ) -> Result<Answer, SubmitError> {
        let derivation = &self.shared.derivation;
        let mut state = State { base: self.base, draft };
        derivation.apply(place, event, Pass::First, &mut state)?;
        let partition = self.shared.partition.id;
        let answer = Answer::of(&derivation.schema, partition, place, event, false);
        let answer =
            answer.map_err(|problem| SubmitError::Request(RequestError::Refused(problem.to_string())))?;
        if draft.unread.is_empty() {
            self.check_sizes(draft)?;
        }
        if draft.unread.is_empty() {
            self.body.clear();
            event.encode(self.body);
            transaction.stage(&NewEvent::new(place.time, self.body))?;
        }
        Ok(answer)
    }

    /// Refuses what would be too large to be stored. What is too large already, because it comes from a log without this
    /// limit, may be written again as long as it does not grow. If that has to be read first, the draft says so.
    fn check_sizes(&self, draft: &mut Draft) -> Result<(), SubmitError> {
        let (mut all, mut unread) = (0, Vec::new());
        for (place, (key, value)) in draft.writes.iter().enumerate() {
            // One that is larger than allowed does not grow here, and counts as if it were not.
            all += key.size() + value.len().min(DERIVED_VALUE_BYTES_MAX);
            let (key_bytes, value_bytes) = (key.clustering().len(), value.len());
            if key_bytes <= ROW_KEY_BYTES_MAX && value_bytes <= DERIVED_VALUE_BYTES_MAX {
                continue;
            }
            if draft.writes[place + 1..].iter().any(|(later, _)| later == key) {
                continue;
            }
            let mut nothing = Draft::default();
            let Ok(before) = (State { base: self.base, draft: &mut nothing }).find(key) else {
                unread.push(key.clone());
                continue;
            };
            let before = before.into_value();
            let what = || shortened(describe(&self.shared.derivation.schema, key.as_key()));
            if before.is_none() && key_bytes > ROW_KEY_BYTES_MAX {
                let (what, max) = (format!("the key of {}", what()), ROW_KEY_BYTES_MAX);
                return Err(SubmitError::TooLarge { what, max, found: key_bytes });
            }
            if value_bytes > before.map_or(0, |before| before.len()).max(DERIVED_VALUE_BYTES_MAX) {
                let max = DERIVED_VALUE_BYTES_MAX;
                return Err(SubmitError::TooLarge { what: what(), max, found: value_bytes });
            }
        }
        draft.unread.append(&mut unread);
        if all > COMMAND_DERIVED_BYTES_MAX {
            let what = "what follows from the command".to_owned();
            return Err(SubmitError::TooLarge { what, max: COMMAND_DERIVED_BYTES_MAX, found: all });
        }
        Ok(())
    }
}

/// The beginning of a text that names something: a row's key may be long.
fn shortened(mut text: String) -> String {
    const CHARACTERS: usize = 200;
    if let Some((end, _)) = text.char_indices().nth(CHARACTERS) {
        text.truncate(end);
        text.push('…');
    }
    text
}

/// A sequence that was drawn from although it is fenced.
fn fenced_draw(
    fence: &FenceState,
    application: ApplicationId,
    transaction: &Transaction<'_>,
) -> Option<SequenceId> {
    let workspace = transaction.workspace();
    transaction.drawn().find(|sequence| !fence.admits_draw(sequence_key(application, workspace, *sequence)))
}

/// Replaces raw ids by real ones.
fn rewrite(row: &mut Row, real: &BTreeMap<u64, RecordId>) {
    let replace = |id: &mut RecordId| {
        if let Some(found) = id.is_raw().then(|| real.get(&id.get())).flatten() {
            *id = *found;
        }
    };
    if let Some(parent) = &mut row.parent {
        replace(parent);
    }
    for (_, value) in &mut row.fields {
        if let Value::Reference(id) = value {
            replace(id);
        }
    }
}
