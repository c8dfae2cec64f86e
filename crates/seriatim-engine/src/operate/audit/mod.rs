//! Audits: whether a sequence is complete, who got a number, when the numbers run out; and the same for a third party,
//! offline.
//!
//! Everything here comes from the headers of the log's entries: draws, raises and the workspace's chain.

mod file;
mod tally;
mod walk;

use std::ops::ControlFlow;

use seriatim_sequencer::Sequence;
use seriatim_storage::{Digest, Draw, Entry};
use seriatim_types::{Number, Timestamp, WorkspaceId, WorkspaceKind, WorkspaceOffset};

pub use file::{AuditFile, Verified, VerifyError, verify};
pub use tally::{Completeness, KEPT, Kept, Raised, Run};

use crate::engine::Engine;
use crate::engine::running::Running;
use crate::error::SubmitError;
use crate::read::Placed;
use tally::Tally;

/// How many of the last events a forecast reads.
const RECENT_EVENTS: u64 = 1_000;

/// A link of a workspace's chain that does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Broken {
    /// Where: the place in the workspace's log.
    pub offset: WorkspaceOffset,
    /// What is wrong there.
    pub problem: &'static str,
}

/// Whether a sequence of a workspace is complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Audit {
    /// What was drawn, and what was passed over.
    pub numbers: Completeness,
    /// The head of the workspace's chain. With it a later audit can determine whether anything before it was changed.
    pub digest: Digest,
    /// How many events the workspace has.
    pub events: u64,
    /// Links of the chain that do not hold.
    pub broken: Kept<Broken>,
}

impl Audit {
    /// Whether every number from the first to the last was given once, or is explained by an event, in an unbroken
    /// chain.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.numbers.gaps.is_empty() && self.numbers.duplicates.is_empty() && self.broken.is_empty()
    }
}

/// When a sequence runs out, if it continues at its recent rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Forecast {
    /// How many numbers are left.
    pub remaining: u64,
    /// How many were drawn in the last events.
    pub drawn: u64,
    /// Since when they are counted; `None` if there was no event.
    pub since: Option<Timestamp>,
    /// How many a day that makes.
    pub per_day: u64,
    /// When none will be left. `None` if none was drawn recently, or if the time does not fit 64 bits.
    pub runs_out: Option<Timestamp>,
}

/// Follows a workspace's chain.
#[derive(Debug)]
struct Chain {
    workspace: WorkspaceId,
    next: WorkspaceOffset,
    head: Digest,
    broken: Kept<Broken>,
}

impl Chain {
    fn new(workspace: WorkspaceId) -> Self {
        Self { workspace, next: WorkspaceOffset::FIRST, head: Digest::ZERO, broken: Kept::default() }
    }

    fn take(&mut self, entry: &Entry<'_>) {
        let problem = if entry.workspace() != self.workspace {
            Some("the event is of another workspace")
        } else if entry.workspace_offset() != self.next {
            Some("the event has another place in the workspace's log")
        } else if !entry.continues(self.head) {
            Some("the event does not continue the chain")
        } else if !entry.body_is_intact() {
            Some("the event's body does not match the digest in its header")
        } else {
            None
        };
        if let Some(problem) = problem {
            self.broken.push(Broken { offset: self.next, problem });
        }
        self.head = entry.chain();
        self.next = self.next.next().unwrap_or(self.next);
    }
}

impl Engine {
    /// Whether a sequence of a workspace is complete, up to the event that is the workspace's last when this is called.
    ///
    /// # Errors
    ///
    /// [`SubmitError`].
    pub async fn audit(
        &self,
        application: &str,
        workspace: WorkspaceId,
        sequence: &str,
    ) -> Result<Audit, SubmitError> {
        let running = self.running(application)?;
        let (_, sequence) = self.sequence_of(running, workspace, sequence).await?;
        let end = self.next_offset(running, workspace).await?;
        let (mut tally, mut chain) = (Tally::new(sequence.clone()), Chain::new(workspace));
        let mut visit = |_, entry: &Entry<'_>| {
            tally.take(entry.workspace_offset(), entry.time(), entry.draws(), entry.raises());
            chain.take(entry);
            ControlFlow::Continue(())
        };
        let at = self.walk(running, workspace, (WorkspaceOffset::FIRST, end), &mut visit).await?;
        if at < end {
            chain.broken.push(Broken { offset: at, problem: "the workspace's log ends early" });
        }
        let events = chain.next.get() - WorkspaceOffset::FIRST.get();
        Ok(Audit { numbers: tally.completeness, digest: chain.head, events, broken: chain.broken })
    }

    /// The event that a number was drawn for; `None` if it was not.
    ///
    /// Numbers rise with the workspace's log, so this is a binary search. Events that do not draw from the sequence are read one
    /// by one.
    ///
    /// # Errors
    ///
    /// [`SubmitError`].
    pub async fn who_got(
        &self,
        application: &str,
        workspace: WorkspaceId,
        sequence: &str,
        number: Number,
    ) -> Result<Option<Placed>, SubmitError> {
        let running = self.running(application)?;
        let id = self.sequence_of(running, workspace, sequence).await?.1.id();
        let (mut low, mut high) = (WorkspaceOffset::FIRST, self.next_offset(running, workspace).await?);
        while let Some(between) = high.since(low).filter(|between| *between > 0) {
            let middle = low.advance(between / 2).unwrap_or(low);
            let mut drawn: Vec<Draw> = Vec::new();
            let mut visit = |_, entry: &Entry<'_>| {
                drawn.extend(entry.draws().filter(|draw| draw.sequence == id));
                if drawn.is_empty() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            };
            let behind = self.walk(running, workspace, (middle, high), &mut visit).await?;
            if drawn.iter().all(|draw| draw.first > number) {
                high = middle;
                continue;
            }
            let has = |draw: &Draw| {
                number.get().checked_sub(draw.first.get()).is_some_and(|place| place < draw.count)
            };
            if drawn.iter().any(has) {
                // The walk has stopped after it.
                let offset = WorkspaceOffset::new(behind.get() - 1).unwrap_or(middle);
                return Ok(self.events(application, workspace, offset, 1).await?.pop());
            }
            low = behind;
        }
        Ok(None)
    }

    /// When a sequence runs out, if it continues at the rate of the workspace's last events.
    ///
    /// # Errors
    ///
    /// [`SubmitError`].
    pub async fn forecast(
        &self,
        application: &str,
        workspace: WorkspaceId,
        sequence: &str,
    ) -> Result<Forecast, SubmitError> {
        let running = self.running(application)?;
        let id = self.sequence_of(running, workspace, sequence).await?.1.id();
        let states = self.sequence_states(running, workspace).await?;
        let remaining = states.iter().find(|state| state.id == id).map_or(0, |state| state.remaining);
        let end = self.next_offset(running, workspace).await?;
        let from =
            WorkspaceOffset::new(end.get().saturating_sub(RECENT_EVENTS)).unwrap_or(WorkspaceOffset::FIRST);
        let (mut since, mut drawn) = (None, 0_u64);
        let mut visit = |_, entry: &Entry<'_>| {
            since = since.or(Some(entry.time()));
            let draws = entry.draws().filter(|draw| draw.sequence == id);
            drawn = draws.fold(drawn, |drawn, draw| drawn.saturating_add(draw.count));
            ControlFlow::Continue(())
        };
        self.walk(running, workspace, (from, end), &mut visit).await?;
        Ok(Forecast::new(remaining, drawn, since, self.env().now()))
    }

    /// A sequence that a workspace has.
    async fn sequence_of<'a>(
        &self,
        running: &'a Running,
        workspace: WorkspaceId,
        name: &str,
    ) -> Result<(WorkspaceKind, &'a Sequence), SubmitError> {
        let kind = self.kind_of(running, workspace).await?;
        let id = running.schema.sequence_by_name(name).map(|sequence| sequence.id);
        let sequences =
            running.schema.sequences().kind(kind).map(|kind| kind.sequences()).unwrap_or_default();
        let sequence = sequences.iter().find(|sequence| Some(sequence.id()) == id);
        let missing = || SubmitError::NotFound(format!("workspace {workspace} has no sequence {name}"));
        Ok((kind, sequence.ok_or_else(missing)?))
    }

    /// Where the workspace's next event goes.
    async fn next_offset(
        &self,
        running: &Running,
        workspace: WorkspaceId,
    ) -> Result<WorkspaceOffset, SubmitError> {
        let numbers = running.partition_of(workspace).numbers(workspace).await?;
        Ok(numbers.map_or(WorkspaceOffset::FIRST, |numbers| numbers.next_offset()))
    }
}

impl Forecast {
    fn new(remaining: u64, drawn: u64, since: Option<Timestamp>, now: Timestamp) -> Self {
        // Idle time up to now counts: a sequence that is not used does not run out.
        let elapsed = since.map_or(0, |since| now.as_millis().saturating_sub(since.as_millis())).max(1);
        let (elapsed, wide) = (u128::from(elapsed), u128::from(drawn));
        let day = u128::from(24 * 60 * 60 * 1_000_u32);
        let per_day = u64::try_from(wide * day / elapsed).unwrap_or(u64::MAX);
        let left = (u128::from(remaining) * elapsed).checked_div(wide);
        let end =
            left.and_then(|left| u64::try_from(left).ok()).and_then(|left| now.as_millis().checked_add(left));
        Self { remaining, drawn, since, per_day, runs_out: end.map(Timestamp::from_millis) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forecast_divides_what_is_left_by_the_present_rate() {
        let (since, now) = (Timestamp::from_millis(1_000), Timestamp::from_millis(11_000));
        let forecast = Forecast::new(500, 10, Some(since), now);
        assert_eq!((forecast.per_day, forecast.runs_out), (86_400, Some(Timestamp::from_millis(511_000))));
        assert_eq!(Forecast::new(500, 0, None, now).runs_out, None);
        assert_eq!(Forecast::new(0, 3, Some(since), now).runs_out, Some(now));
        assert_eq!(Forecast::new(u64::MAX, 1, Some(since), now).runs_out, None);
        assert_eq!(Forecast::new(500, 10, Some(now), now).per_day, 864_000_000);
    }
}
