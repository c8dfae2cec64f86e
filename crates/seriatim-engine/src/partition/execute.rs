//! Executes a prepared command: turns it into an event of the open group.

use std::panic::{AssertUnwindSafe, catch_unwind};

use serde_json::Value as Json;
use seriatim_sequencer::{Event as NewEvent, Group, Pin, Transaction};
use seriatim_types::{ApplicationId, RecordId, SequenceId, Timestamp, WorkspaceOffset, panic_text};

use super::RunningPartition;
use crate::command::apply::{KeyUse, Pass};
use crate::command::codec::BadBytes;
use crate::command::context::{CommandError, Context, draw_fields};
use crate::command::event::{Event, Place, Row};
use crate::command::prepared::Prepared;
use crate::command::request::Answer;
use crate::derive::keys::{Family, StoreKey, WorkspaceKeys};
use crate::derive::{Base, DerivedState, Draft};
use crate::error::{RequestError, SubmitError};
use crate::limits::{COMMAND_DERIVED_BYTES_MAX, DERIVED_VALUE_BYTES_MAX, ROW_KEY_BYTES_MAX};
use crate::operate::doctor::describe;
use crate::operate::fence::{FenceState, sequence_key};

/// The depth up to which a result is answered without being read back from its text. The JSON reader accepts more.
const RESULT_DEPTH: u8 = 100;

/// The result of executing a command.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The command's event is part of the group. This is its answer if the group is committed.
    Staged(Box<Answer>),
    /// The command was executed before. The event of that execution has the answer.
    Repeated(KeyUse),
    /// The command is refused.
    Refused(SubmitError),
    /// The command needs the values of these keys. They must be read before it is executed again.
    Unread(Vec<StoreKey>),
    /// The workspace was loaded before the last recovery and must be loaded again.
    Stale,
}

/// The surroundings of an execution: everything but the command itself and the open group.
pub(crate) struct Execution<'a> {
    pub(crate) shared: &'a RunningPartition,
    pub(crate) base: Base<'a>,
    pub(crate) now: Timestamp,
    /// Memory for bodies, reused for every command.
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
            CommandError::Unread => Self::Request(RequestError::Refused(
                "the command's code must return an error of its context and not ignore it".into(),
            )),
        }
    }
}

fn damaged(key: StoreKey, problem: BadBytes) -> SubmitError {
    SubmitError::Apply(crate::command::apply::ApplyError::Bad { key, problem })
}

impl Execution<'_> {
    /// Executes a command and stages its event.
    ///
    /// If the outcome is [`Outcome::Staged`], the draft has what the command changes. After every other outcome the transaction was
    /// dropped: no number was used, and the contents of the draft have no meaning.
    ///
    /// The order of the checks matters:
    ///
    /// 1. The fence of a restored copy: a fenced workspace accepts no command, not even a repeated one.
    /// 2. The idempotency key, before any number is drawn: a repeated command must not change anything.
    /// 3. The expected offset of the workspace, then the numbers that a restore skips.
    /// 4. Ids, numbers and the application's code ([`Self::decide`]), then what follows from the event ([`Self::finish`]), which
    ///    stages the event as its last action.
    ///
    /// The execution does no I/O. If it needs a value that is neither in memory nor fetched, the draft notes the key, and the whole
    /// command is executed again after that value was read. So [`Outcome::Unread`] always has precedence over a refusal: code
    /// that did not see a value may have refused for that reason alone.
    pub(crate) fn run(
        &mut self,
        prepared: &mut Prepared,
        group: &mut Group<'_>,
        pin: &Pin,
        draft: &mut Draft,
    ) -> Outcome {
        draft.clear();
        let application = self.shared.derivation.schema.id();
        let fence = if prepared.unfencing { None } else { self.shared.fence.state_for(application) };
        if let Some(fence) = &fence
            && !fence.admits_workspace(application, prepared.workspace)
        {
            let workspace = format!("numbers of workspace {}", prepared.workspace);
            return Outcome::Refused(SubmitError::Fenced(workspace));
        }
        let keys = WorkspaceKeys::new(self.shared.partition, prepared.workspace);
        match self.repeated(prepared, draft) {
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
        let result = self.decide(prepared, keys, place, &mut transaction, draft);
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
        let answer =
            result.and_then(|result| self.finish(place, &prepared.event, result, transaction, draft));
        // Before the answer: a projector that has not seen a row may have refused the event for that reason alone.
        if !draft.unread.is_empty() {
            return Outcome::Unread(std::mem::take(&mut draft.unread));
        }
        match answer {
            Ok(answer) => Outcome::Staged(Box::new(answer)),
            Err(error) => Outcome::Refused(error),
        }
    }

    /// Whether the command's idempotency key was used before, within the window. If the key has to be read first, the answer is
    /// `None` and the draft notes the key.
    fn repeated(&self, prepared: &Prepared, draft: &mut Draft) -> Result<Option<Outcome>, SubmitError> {
        let Some((idempotency, key)) = prepared.event.idempotency.as_ref().zip(prepared.key.as_ref()) else {
            return Ok(None);
        };
        let Ok(found) = (DerivedState { base: self.base, draft }).find(key) else {
            return Ok(None);
        };
        let Some(bytes) = found.into_value() else { return Ok(None) };
        let used = KeyUse::decode(&bytes).map_err(|problem| damaged(key.clone(), problem))?;
        let window = self.shared.options.idempotency_window;
        if window.is_some_and(|window| used.time.after(window) < self.now) {
            return Ok(None);
        }
        if used.request != idempotency.request {
            return Err(SubmitError::KeyReused(idempotency.key.to_string()));
        }
        Ok(Some(Outcome::Repeated(used)))
    }

    /// Draws ids and numbers, puts them into the event, and runs the application's code. Returns the result of that code.
    fn decide(
        &self,
        prepared: &mut Prepared,
        keys: WorkspaceKeys,
        place: Place,
        transaction: &mut Transaction<'_>,
        draft: &mut Draft,
    ) -> Result<Option<Json>, SubmitError> {
        prepared.begin_turn();
        let mut state = DerivedState { base: self.base, draft };
        let mut singletons = Vec::new();
        for row in prepared.event.created_mut() {
            self.draw_row(keys, row, transaction, &mut state, &mut singletons)?;
        }
        prepared.resolve_references();
        let Some(handler) = &prepared.handler else { return Ok(None) };
        let event = &mut prepared.event;
        let mut context = Context {
            schema: &self.shared.derivation.schema,
            place,
            keys,
            transaction,
            state: state.reborrow(),
            args: &prepared.args,
            unlogged: prepared.unlogged.as_ref(),
            argument: &event.argument,
            changes: &mut event.changes,
        };
        // A panic of the application's code refuses this command and does not stop the partition. Nothing was staged.
        let ran = catch_unwind(AssertUnwindSafe(|| handler.run(&mut context)));
        let value = ran.map_err(|panic| SubmitError::Panicked {
            command: event.command.to_string(),
            reason: panic_text(&*panic).to_owned(),
        })??;
        if value.is_null() {
            return Ok(None);
        }
        event.result = Some(value.to_string().into());
        if reads_back(&value, RESULT_DEPTH) {
            return Ok(Some(value));
        }
        event
            .read_result()
            .map_err(|problem| SubmitError::Request(RequestError::Refused(problem.to_string())))
    }

    /// Gives a new row its real id and its numbers.
    fn draw_row(
        &self,
        keys: WorkspaceKeys,
        row: &mut Row,
        transaction: &mut Transaction<'_>,
        state: &mut DerivedState<'_>,
        singletons: &mut Vec<RecordId>,
    ) -> Result<(), SubmitError> {
        let schema = &self.shared.derivation.schema;
        let unknown = || RequestError::UnknownDocument(row.document.to_string());
        let document = schema.document(row.document).ok_or_else(unknown)?;
        match document.singleton {
            Some(id) => {
                let exists = state.find(&keys.id(id)).is_ok_and(|found| found.into_value().is_some());
                if exists || singletons.contains(&id) {
                    let document = document.name.to_string();
                    return Err(SubmitError::SingletonExists { document, id });
                }
                singletons.push(id);
                row.id = id;
            }
            None => row.id = RecordId::new(transaction.draw(document.record_sequence)?.get()),
        }
        draw_fields(document, transaction, &mut row.fields)?;
        Ok(())
    }

    /// Derives what follows from the event, checks its size, and stages the event. Staging is the last action, and it is omitted
    /// if a value has to be read first.
    fn finish(
        &mut self,
        place: Place,
        event: &Event,
        result: Option<Json>,
        transaction: Transaction<'_>,
        draft: &mut Draft,
    ) -> Result<Answer, SubmitError> {
        let derivation = &self.shared.derivation;
        let mut state = DerivedState { base: self.base, draft };
        derivation.apply(self.shared.partition, place, event, Pass::First, &mut state)?;
        let partition = self.shared.partition.id;
        let answer = Answer::of(&derivation.schema, partition, place, event, result);
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

    /// Refuses values that are too large to be stored. A value that already exceeds the limit, because its log was written without
    /// the limit, may be written again if it does not grow. If its present size has to be read first, the draft notes the key.
    fn check_sizes(&self, draft: &mut Draft) -> Result<(), SubmitError> {
        let (mut all, mut unread) = (0, Vec::new());
        for (place, (key, value)) in draft.writes.iter().enumerate() {
            // A value above the limit is accepted only if it does not grow. It counts as a value of the largest allowed size.
            all += key.size() + value.len().min(DERIVED_VALUE_BYTES_MAX);
            let key_bytes = match Family::of(key.clustering()) {
                Some(Family::Row { key, .. }) => key.len(),
                _ => 0,
            };
            let value_bytes = value.len();
            if key_bytes <= ROW_KEY_BYTES_MAX && value_bytes <= DERIVED_VALUE_BYTES_MAX {
                continue;
            }
            if draft.writes[place + 1..].iter().any(|(later, _)| later == key) {
                continue;
            }
            let mut nothing = Draft::default();
            let Ok(before) = (DerivedState { base: self.base, draft: &mut nothing }).find(key) else {
                unread.push(key.clone());
                continue;
            };
            let before = before.into_value();
            let what = || shortened(describe(&self.shared.derivation.schema, key.clustering()));
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
            let what = "the sum of everything derived from the command".to_owned();
            return Err(SubmitError::TooLarge { what, max: COMMAND_DERIVED_BYTES_MAX, found: all });
        }
        Ok(())
    }
}

/// The beginning of a description. The key of a row may be long.
fn shortened(mut text: String) -> String {
    const CHARACTERS: usize = 200;
    if let Some((end, _)) = text.char_indices().nth(CHARACTERS) {
        text.truncate(end);
        text.push('…');
    }
    text
}

/// The first fenced sequence that the transaction has drawn from.
fn fenced_draw(
    fence: &FenceState,
    application: ApplicationId,
    transaction: &Transaction<'_>,
) -> Option<SequenceId> {
    let workspace = transaction.workspace();
    transaction.drawn().find(|sequence| !fence.admits_draw(sequence_key(application, workspace, *sequence)))
}

/// Whether a result is certainly the same after it was written as text and read back. The reader rejects a very deep result,
/// and the last digit of a fraction may change.
fn reads_back(json: &Json, depth: u8) -> bool {
    let inside = |json: &Json| depth > 0 && reads_back(json, depth - 1);
    match json {
        Json::Null | Json::Bool(_) | Json::String(_) => true,
        Json::Number(number) => !number.is_f64(),
        Json::Array(items) => items.iter().all(inside),
        Json::Object(fields) => fields.values().all(inside),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_result_that_text_may_change_is_read_back_before_it_is_answered() {
        let nested = |depth: u8| (1..depth).fold(json!([]), |inside, _| json!([inside]));
        let written = |json: &Json| serde_json::from_str::<Json>(&json.to_string()).ok();
        for plain in [json!(null), json!({"a": [u64::MAX, i64::MIN, "ä", true, {}]}), nested(RESULT_DEPTH)] {
            assert!(reads_back(&plain, RESULT_DEPTH), "{plain}");
            assert_eq!(written(&plain), Some(plain));
        }
        assert!(!reads_back(&json!({"a": [0.5]}), RESULT_DEPTH));
        let (deep, unreadable) = (nested(RESULT_DEPTH + 2), nested(u8::MAX));
        assert!(!reads_back(&deep, RESULT_DEPTH) && !reads_back(&unreadable, RESULT_DEPTH));
        assert_eq!(written(&unreadable), None);
    }
}
