//! The handle through which callers use series.

use std::borrow::Cow;

use serde_json::Value as Json;
use seriatim_types::{Number, Timestamp, WorkspaceId, WorkspaceKind};

use super::commands::{
    COUNTS_VIEW, CountsRow, NEXT, NextArgs, NextResult, RAISE, RaiseArgs, SETTINGS, SETTINGS_VIEW, Settings,
    SettingsArgs, SettingsResult, VOID, VOIDS_VIEW, VoidArgs, VoidRow, check_first, check_next, check_raise,
    counts_key, settings_key,
};
use super::{KIND, NAME, SEQUENCE, SeriesFormat, Voided, check_name};
use crate::command::prepare::check_key;
use crate::command::request::{Answer, Request};
use crate::command::view::{self, BadRow, KeyPart};
use crate::engine::Engine;
use crate::engine::running::Running;
use crate::error::{RequestError, SubmitError};

/// Series: gap-free numbers by name. A series is created when it is first used.
///
/// A number that was taken is never given to another caller. Numbers follow each other without a gap, except where a number
/// was marked as void or the series was raised; both have a reason that is kept.
///
/// ```
/// use seriatim_engine::{Engine, NextRequest, Options};
/// use seriatim_storage::{Log, Store, memory::{MemoryLog, MemoryStore}};
///
/// # seriatim_env::simulate(1, |env| async move {
/// let (log, store) = (Log::new(MemoryLog::new()), Store::new(MemoryStore::new()));
/// let engine = Engine::open(env, log, store, [], Options::default()).await?;
/// let series = engine.series();
///
/// let request = NextRequest { idempotency_key: Some("order-7".to_owned()), ..NextRequest::default() };
/// assert_eq!(series.next("invoices", &request).await?.number, 1);
/// // The repeated request gets the same number. Another request gets the next one.
/// assert_eq!(series.next("invoices", &request).await?.number, 1);
/// assert_eq!(series.next("invoices", &NextRequest::default()).await?.number, 2);
///
/// series.void("invoices", 2, "the order was cancelled", None).await?;
/// assert_eq!(series.who("invoices", 1).await?.idempotency_key.as_deref(), Some("order-7"));
/// engine.close().await;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Series<'a> {
    pub(super) engine: &'a Engine,
}

/// A request for the next numbers of a series.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NextRequest {
    /// How many consecutive numbers.
    pub count: u64,
    /// A note that is kept with the numbers: what they are for.
    pub note: Option<String>,
    /// A second request with the same key takes no numbers, and gets those of the first request.
    pub idempotency_key: Option<String>,
}

impl Default for NextRequest {
    /// One number.
    fn default() -> Self {
        Self { count: 1, note: None, idempotency_key: None }
    }
}

/// Numbers that were taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TakenNumbers {
    /// The series.
    pub series: String,
    /// The first number.
    pub number: u64,
    /// How many consecutive numbers.
    pub count: u64,
    /// The text of the first number, in the format of the series.
    pub text: String,
    /// Whether an earlier request with the same idempotency key took them.
    pub repeated: bool,
}

/// The state of a series.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeriesState {
    /// Its name.
    pub name: String,
    /// Its workspace.
    pub workspace: WorkspaceId,
    /// Its first number.
    pub first: u64,
    /// The format of its numbers.
    pub format: SeriesFormat,
    /// The number that is taken next; `None` if the series is used up.
    pub next: Option<u64>,
    /// How many numbers are left.
    pub remaining: u64,
    /// How many numbers are void.
    pub voided: u64,
    /// How many times it was raised.
    pub raised: u64,
}

impl Engine {
    /// Series: gap-free numbers by name.
    ///
    /// ```
    /// use seriatim_engine::{Engine, NextRequest, Options};
    /// use seriatim_storage::{Log, Store, memory::{MemoryLog, MemoryStore}};
    ///
    /// # seriatim_env::simulate(1, |env| async move {
    /// let (log, store) = (Log::new(MemoryLog::new()), Store::new(MemoryStore::new()));
    /// let engine = Engine::open(env, log, store, [], Options::default()).await?;
    /// let invoices = engine.series();
    /// invoices.put("invoices.2026", 1, "INV-{number:06}").await?;
    /// let taken = invoices.next("invoices.2026", &NextRequest::default()).await?;
    /// assert_eq!((taken.number, &*taken.text), (1, "INV-000001"));
    /// engine.close().await;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    #[must_use]
    pub fn series(&self) -> Series<'_> {
        Series { engine: self }
    }
}

impl Series<'_> {
    pub(super) fn running(&self) -> Result<(&Running, WorkspaceKind), SubmitError> {
        let running = self.engine.running(NAME)?;
        let kind = running.schema.kind_by_name(KIND);
        let kind = kind.ok_or_else(|| SubmitError::UnknownApplication(NAME.to_owned()))?;
        Ok((running, kind.id))
    }

    /// The workspace of a series, if there is one.
    async fn find(&self, name: &str) -> Result<Option<WorkspaceId>, SubmitError> {
        check_name("series", name)?;
        self.engine.hosted(NAME)?.find(name).await
    }

    /// The workspace of a series. Fails if the series does not exist.
    pub(super) async fn existing(&self, name: &str) -> Result<WorkspaceId, SubmitError> {
        let found = self.find(name).await?;
        found.ok_or_else(|| SubmitError::NotFound(format!("series {name} does not exist")))
    }

    /// The workspace of a series, created if there is none.
    async fn find_or_create(&self, name: &str) -> Result<WorkspaceId, SubmitError> {
        check_name("series", name)?;
        let (workspace, _) = self.engine.hosted(NAME)?.register(KIND, name).await?;
        Ok(workspace)
    }

    async fn submit(&self, workspace: WorkspaceId, request: Request) -> Result<Answer, SubmitError> {
        let (running, kind) = self.running()?;
        running.submit(workspace, kind, Cow::Owned(request)).await
    }

    /// Takes the next numbers of a series, and creates the series if it does not exist. When it returns, the numbers are
    /// taken durably. They follow the numbers before them without a gap.
    ///
    /// # Errors
    ///
    /// [`SubmitError`]. If its kind is `InDoubt`, numbers may have been taken: repeat the request with its idempotency key.
    /// With any other kind no number was taken.
    pub async fn next(&self, name: &str, request: &NextRequest) -> Result<TakenNumbers, SubmitError> {
        // All checks come before the look-up that creates the series: a request that is refused creates none.
        check_next(request.count, request.note.as_deref())?;
        check_idempotency(request.idempotency_key.as_deref())?;
        let workspace = self.find_or_create(name).await?;
        let args = NextArgs { count: request.count, note: request.note.clone() };
        let command = with_key(Request::typed(NEXT, &args), request.idempotency_key.as_deref());
        taken(name, self.submit(workspace, command).await?)
    }

    /// Creates a series with settings, and returns whether it is new. If the series exists with the same settings, nothing
    /// happens.
    ///
    /// # Errors
    ///
    /// [`SubmitError::Conflict`] if the series has other settings, or is in use without settings. It does not change.
    pub async fn put(&self, name: &str, first: u64, format: &str) -> Result<bool, SubmitError> {
        let format: SeriesFormat = match format.parse() {
            Ok(format) => format,
            Err(error) => return Err(RequestError::Refused(format!("{error}")).into()),
        };
        check_first(first)?;
        if let Some(workspace) = self.find(name).await?
            && let asked = (Settings { first, format: format.clone() })
            && self.settings(workspace).await? == Some(asked)
        {
            return Ok(false);
        }
        let workspace = self.find_or_create(name).await?;
        let args = SettingsArgs { first, format: format.to_string() };
        let answer = self.submit(workspace, Request::typed(SETTINGS, &args)).await?;
        Ok(answer.result_as::<SettingsResult>()?.created)
    }

    /// Marks a number that was taken as void, with a reason. The number is not given out again.
    ///
    /// # Errors
    ///
    /// [`SubmitError::NotFound`] if the number was not taken, [`SubmitError::Conflict`] if it is void already.
    pub async fn void(
        &self,
        name: &str,
        number: u64,
        reason: &str,
        idempotency_key: Option<&str>,
    ) -> Result<(), SubmitError> {
        // A number that was taken remains taken, so this check is still true when the command has its turn.
        self.who(name, number).await?;
        let workspace = self.existing(name).await?;
        let command = Request::typed(VOID, &VoidArgs { number, reason: reason.to_owned() });
        self.submit(workspace, with_key(command, idempotency_key)).await?;
        Ok(())
    }

    /// Makes a series continue from `next`, with a reason. For example, to continue the numbers of another system.
    ///
    /// # Errors
    ///
    /// [`SubmitError::Conflict`] if `next` is lower than the next number of the series. The series does not change.
    pub async fn raise(
        &self,
        name: &str,
        next: u64,
        reason: &str,
        idempotency_key: Option<&str>,
    ) -> Result<(), SubmitError> {
        check_raise(next, reason)?;
        check_idempotency(idempotency_key)?;
        let workspace = self.find_or_create(name).await?;
        let command = Request::typed(RAISE, &RaiseArgs { next, reason: reason.to_owned() });
        self.submit(workspace, with_key(command, idempotency_key)).await?;
        Ok(())
    }

    /// The settings of a series; `None` before its first event.
    async fn settings(&self, workspace: WorkspaceId) -> Result<Option<Settings>, SubmitError> {
        let (running, _) = self.running()?;
        let found: Option<Settings> = running.read_row(workspace, SETTINGS_VIEW, &settings_key()).await?;
        if found.is_none() && self.last_event(workspace).await?.is_none() {
            return Ok(None);
        }
        Ok(Some(found.unwrap_or_default()))
    }

    /// The state of a series.
    ///
    /// # Errors
    ///
    /// [`SubmitError::NotFound`] if it does not exist.
    pub async fn state(&self, name: &str) -> Result<SeriesState, SubmitError> {
        let workspace = self.existing(name).await?;
        self.state_of(name, workspace).await
    }

    async fn state_of(&self, name: &str, workspace: WorkspaceId) -> Result<SeriesState, SubmitError> {
        let (running, _) = self.running()?;
        let settings: Option<Settings> = running.read_row(workspace, SETTINGS_VIEW, &settings_key()).await?;
        let counts: Option<CountsRow> = running.read_row(workspace, COUNTS_VIEW, &counts_key()).await?;
        let (settings, counts) = (settings.unwrap_or_default(), counts.unwrap_or_default());
        let sequences = self.engine.sequence_states(running, workspace).await?;
        let sequence = sequences.into_iter().find(|sequence| &*sequence.name == SEQUENCE);
        Ok(SeriesState {
            name: name.to_owned(),
            workspace,
            first: settings.first,
            format: settings.format,
            next: sequence.as_ref().and_then(|sequence| sequence.next).map(Number::get),
            remaining: sequence.map_or(0, |sequence| sequence.remaining),
            voided: counts.voided,
            raised: counts.raised,
        })
    }

    /// Up to `limit` series after a name, ascending by name.
    ///
    /// # Errors
    ///
    /// [`SubmitError`] if they cannot be read.
    pub async fn list(&self, after: Option<&str>, limit: usize) -> Result<Vec<SeriesState>, SubmitError> {
        let mut states = Vec::new();
        for (name, workspace) in self.engine.registry().names(NAME, after, limit).await? {
            states.push(self.state_of(&name, workspace).await?);
        }
        Ok(states)
    }

    /// Up to `limit` void numbers of a series, after a number, ascending.
    ///
    /// # Errors
    ///
    /// [`SubmitError::NotFound`] if the series does not exist.
    pub async fn voids(
        &self,
        name: &str,
        after: Option<u64>,
        limit: usize,
    ) -> Result<Vec<Voided>, SubmitError> {
        let workspace = self.existing(name).await?;
        let after = after.map(super::commands::void_key);
        let rows = self
            .engine
            .view(NAME, workspace, VOIDS_VIEW, &[], after.as_ref().map(|key| &key[..]), limit)
            .await?;
        let read = |(key, row): (Vec<KeyPart>, Json)| {
            let number =
                if let [KeyPart::Integer(number)] = key[..] { u64::try_from(number).ok() } else { None };
            let number = number.ok_or_else(|| BadRow::new(VOIDS_VIEW, &key, "its key is not a number"))?;
            Ok(Voided::of(number, view::read_row(VOIDS_VIEW, &key, row)?))
        };
        rows.into_iter().map(read).collect()
    }
}

impl Voided {
    pub(super) fn of(number: u64, row: VoidRow) -> Self {
        Self { number, reason: row.reason, time: Timestamp::from_millis(row.at) }
    }
}

/// The numbers in an answer to `Next`. The engine has compared the requests, so the key was not used for another command.
fn taken(series: &str, answer: Answer) -> Result<TakenNumbers, SubmitError> {
    let (series, repeated) = (series.to_owned(), answer.repeated);
    let NextResult { number, count, text } = answer.result_as()?;
    Ok(TakenNumbers { series, number, count, text, repeated })
}

fn check_idempotency(key: Option<&str>) -> Result<(), RequestError> {
    key.map_or(Ok(()), check_key)
}

fn with_key(request: Request, key: Option<&str>) -> Request {
    match key {
        Some(key) => request.idempotency_key(key),
        None => request,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use seriatim_types::{ErrorKind, PartitionId, PartitionOffset, WorkspaceOffset};

    use super::*;

    #[test]
    fn an_answer_without_a_number_is_damage_and_not_a_reused_key() {
        for result in [None, Some(json!({"count": 1, "text": "1"})), Some(json!({"number": 1, "count": 1}))] {
            let answer = Answer {
                partition: PartitionId::new(0),
                partition_offset: PartitionOffset::FIRST,
                workspace_offset: WorkspaceOffset::FIRST,
                ids: Vec::new(),
                numbers: Vec::new(),
                result,
                repeated: true,
            };
            assert_eq!(taken("s", answer).unwrap_err().kind(), ErrorKind::Corrupt);
        }
    }
}
