//! Finds the event that took a number.

use serde::Deserialize;
use seriatim_storage::{LogError, ReadLimit};
use seriatim_types::{PartitionOffset, SequenceId, Timestamp, WorkspaceId, WorkspaceOffset};

use super::commands::{RAISE, SETTINGS, VOIDS_VIEW, VoidRow, void_key};
use super::{NAME, SEQUENCE, Series};
use crate::command::apply::{ApplyError, decode_offset};
use crate::command::event::{Event, Place};
use crate::command::value::moment;
use crate::error::SubmitError;

/// The event that took a number: when, and with which key and note.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issued {
    /// The number.
    pub number: u64,
    /// The first of the consecutive numbers that the same event took.
    pub first: u64,
    /// How many consecutive numbers the event took.
    pub count: u64,
    /// When it was taken.
    pub time: Timestamp,
    /// The event's offset in the log of the series.
    pub workspace_offset: WorkspaceOffset,
    /// The event's offset in the partition log.
    pub partition_offset: PartitionOffset,
    /// The idempotency key that it was taken with.
    pub idempotency_key: Option<String>,
    /// The note of the request.
    pub note: Option<String>,
    /// Why it is void; `None` if it is not.
    pub void: Option<Voided>,
}

/// A number that is void.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Voided {
    /// The number.
    pub number: u64,
    /// Why.
    pub reason: String,
    /// When it was marked.
    pub time: Timestamp,
}

/// The note in an argument. Only `Next` has one.
#[derive(Debug, Default, Deserialize)]
struct Note {
    #[serde(default)]
    note: Option<String>,
}

/// The reason in an argument: why an event skipped numbers.
#[derive(Debug, Default, Deserialize)]
struct Reason {
    #[serde(default)]
    reason: String,
}

/// The next number in the result of an event that neither drew nor raised.
#[derive(Debug, Deserialize)]
struct Position {
    next: u64,
}

/// An event of a series, with the numbers that it took or skipped.
struct Probe {
    place: Place,
    event: Event,
    /// The draws from the series: first number and count.
    draws: Vec<(u64, u64)>,
    /// After the event, every number before this one was taken or skipped.
    reached: u64,
}

impl Probe {
    fn issued(&self, number: u64) -> Option<Issued> {
        let holds = |(first, count): &&(u64, u64)| (*first..*first + *count).contains(&number);
        let (first, count) = *self.draws.iter().find(holds)?;
        Some(Issued {
            number,
            first,
            count,
            time: self.place.time,
            workspace_offset: self.place.workspace_offset,
            partition_offset: self.place.partition_offset,
            idempotency_key: self.event.idempotency.as_ref().map(|idempotency| idempotency.key.to_string()),
            note: self.event.argument_as::<Note>().unwrap_or_default().note,
            void: None,
        })
    }

    /// The message for a number that this event skipped.
    fn skipped(&self, number: u64) -> String {
        let given = self.event.argument_as::<Reason>().unwrap_or_default().reason;
        let reason = match &*self.event.command {
            SETTINGS => "the series begins after it",
            RAISE | crate::operate::unfence::RAISE => &*given,
            // Any event of a restored copy may have to skip numbers that were given out after the backup.
            _ => {
                "it may have been given out after the backup that this was restored from, or in an event that the log has lost"
            }
        };
        let (command, at) = (&self.event.command, moment(self.place.time));
        format!("number {number} was not given out: {command} at {at} skipped it: {reason}")
    }
}

impl Series<'_> {
    /// The offset of the last event of a series in its log.
    pub(super) async fn last_event(&self, workspace: WorkspaceId) -> Result<Option<u64>, SubmitError> {
        let (running, _) = self.running()?;
        let numbers = running.partition_of(workspace).numbers(workspace).await?;
        Ok(numbers.map(|numbers| numbers.next_offset().get() - 1).filter(|last| *last > 0))
    }

    /// The event that took a number: when, and with which key and note. Numbers ascend in the log, so a binary search reads few
    /// events.
    ///
    /// # Errors
    ///
    /// [`SubmitError::NotFound`] if no event took it. The text says why.
    pub async fn who(&self, name: &str, number: u64) -> Result<Issued, SubmitError> {
        let workspace = self.existing(name).await?;
        if number == 0 {
            return Err(SubmitError::NotFound(format!("series {name} has no number 0")));
        }
        let not_yet = || SubmitError::NotFound(format!("number {number} of series {name} was not taken yet"));
        // [ events before it | low .. high | events that have reached it ]
        let (mut low, mut high) = (1, self.last_event(workspace).await?.unwrap_or(0));
        let mut found = None;
        while low <= high {
            let middle = low + (high - low) / 2;
            let probe = self.probe(workspace, middle).await?;
            if probe.reached > number {
                high = middle - 1;
                found = Some(probe);
            } else {
                low = middle + 1;
            }
        }
        let probe = found.ok_or_else(not_yet)?;
        let mut issued = probe.issued(number).ok_or_else(|| SubmitError::NotFound(probe.skipped(number)))?;
        let (running, _) = self.running()?;
        let row: Option<VoidRow> = running.read_row(workspace, VOIDS_VIEW, &void_key(number)).await?;
        issued.void = row.map(|row| Voided::of(number, row));
        Ok(issued)
    }

    /// Reads one event of a series.
    async fn probe(&self, workspace: WorkspaceId, offset: u64) -> Result<Probe, SubmitError> {
        let (running, _) = self.running()?;
        let handle = running.partition_of(workspace);
        let corrupt = |problem: String| {
            SubmitError::Log(LogError::Corrupt(format!("event {offset} of workspace {workspace}: {problem}")))
        };
        let offset = WorkspaceOffset::new(offset).ok_or_else(|| corrupt("offsets begin at 1".to_owned()))?;
        let key = running.keys(workspace).event(offset);
        let found = handle.read(std::slice::from_ref(&key)).await?.into_iter().next().flatten();
        let found = found.ok_or_else(|| corrupt("the workspace's log does not have it".to_owned()))?;
        let at =
            decode_offset(&found).map_err(|problem| SubmitError::Apply(ApplyError::Bad { key, problem }))?;
        let read = self.engine.log().read(handle.partition, at, ReadLimit::entries(1)).await?;
        let (_, entry) = read.iter().next().ok_or_else(|| corrupt(format!("the log has nothing at {at}")))?;
        let event = Event::decode(entry.body()).map_err(|problem| corrupt(problem.to_string()))?;
        let sequence = self.sequence()?;
        let draws = entry.draws().filter(|draw| draw.sequence == sequence);
        let draws: Vec<_> = draws.map(|draw| (draw.first.get(), draw.count)).collect();
        let raises = entry.raises().filter(|raise| raise.sequence == sequence).map(|raise| raise.next.get());
        let ends = draws.iter().map(|(first, count)| first.saturating_add(*count));
        // An event that neither draws nor raises has the next number in its result.
        let said = || event.result_as::<Position>().ok().map(|position| position.next);
        let reached = ends.chain(raises).max().or_else(said);
        let reached =
            reached.ok_or_else(|| corrupt("it does not contain the next number of the series".to_owned()))?;
        Ok(Probe { place: Place::of(at, &entry), event, draws, reached })
    }

    fn sequence(&self) -> Result<SequenceId, SubmitError> {
        let (running, _) = self.running()?;
        let sequence = running.schema.sequence_by_name(SEQUENCE);
        Ok(sequence.ok_or_else(|| SubmitError::UnknownApplication(NAME.to_owned()))?.id)
    }
}
