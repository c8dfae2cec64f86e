//! An audit that a third party can verify offline: one line of JSON per event, enough to compute the workspace's chain
//! again.
//!
//! ```text
//! {"seriatim_audit":1,"application":…,"workspace":…,"name":…,"kind":…,"sequences":[{"id":…,"name":…,"first":…,"ranges":[[…,…]]}]}
//! {"offset":1,"time":…,"epoch":…,"counter":…,"body":"…","draws":[[sequence,first,count]],"raises":[[sequence,next]],"chain":"…"}
//! …
//! {"events":…,"head":"…"}
//! ```
//!
//! The file is not a signature: a person who can write the whole file can write another one. It proves something only together
//! with a head that was published earlier, or that another party has kept.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::{BufRead, Read as _};
use std::ops::ControlFlow;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use seriatim_sequencer::Sequence;
use seriatim_storage::{Digest, Draw, Entry, Header, Raise, chain_head};
use seriatim_types::{
    AppendId, Epoch, ErrorKind, Number, SequenceId, Timestamp, WorkspaceId, WorkspaceKind, WorkspaceOffset,
};

use super::tally::{Completeness, Tally};
use crate::engine::Engine;
use crate::engine::running::Running;
use crate::error::SubmitError;

const VERSION: u32 = 1;
/// Events that are written together.
const PAGE: u64 = 1_024;
/// Bytes of one line: 4,096 draws and as many raises fit.
const LINE_BYTES_MAX: u64 = 1 << 20;

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FirstLine {
    seriatim_audit: u32,
    application: String,
    workspace: u64,
    /// The workspace's name, if it has one. Files of earlier versions do not have this field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    kind: u16,
    sequences: Vec<SequenceLine>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SequenceLine {
    id: u16,
    name: String,
    first: u64,
    ranges: Vec<(u64, u64)>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct EventLine {
    offset: u64,
    time: u64,
    epoch: u64,
    counter: u64,
    body: String,
    draws: Vec<(u16, u64, u64)>,
    raises: Vec<(u16, u64)>,
    chain: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LastLine {
    events: u64,
    head: String,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Line {
    Event(EventLine),
    Last(LastLine),
}

impl EventLine {
    fn of(entry: &Entry<'_>) -> Self {
        let append = entry.append_id();
        Self {
            offset: entry.workspace_offset().get(),
            time: entry.time().as_millis(),
            epoch: append.epoch.get(),
            counter: append.counter,
            body: entry.body_digest().to_string(),
            draws: entry.draws().map(|draw| (draw.sequence.get(), draw.first.get(), draw.count)).collect(),
            raises: entry.raises().map(|raise| (raise.sequence.get(), raise.next.get())).collect(),
            chain: entry.chain().to_string(),
        }
    }

    fn draws(&self) -> Vec<Draw> {
        let draw = |(sequence, first, count): &(u16, u64, u64)| Draw {
            sequence: SequenceId::new(*sequence),
            first: Number::new(*first),
            count: *count,
        };
        self.draws.iter().map(draw).collect()
    }

    fn raises(&self) -> Vec<Raise> {
        let raise = |(sequence, next): &(u16, u64)| Raise {
            sequence: SequenceId::new(*sequence),
            next: Number::new(*next),
        };
        self.raises.iter().map(raise).collect()
    }
}

/// An audit file that is being written: text, page by page.
#[derive(Debug)]
pub struct AuditFile {
    engine: Engine,
    running: Arc<Running>,
    workspace: WorkspaceId,
    name: Option<String>,
    kind: WorkspaceKind,
    at: WorkspaceOffset,
    end: WorkspaceOffset,
    head: Digest,
    part: Part,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    First,
    Events,
    Done,
}

impl Engine {
    /// The audit file of a workspace, up to the event that is its last when this is called.
    ///
    /// # Errors
    ///
    /// [`SubmitError`].
    pub async fn audit_file(
        &self,
        application: &str,
        workspace: WorkspaceId,
    ) -> Result<AuditFile, SubmitError> {
        let running = self.running(application)?.clone();
        let kind = self.kind_of(&running, workspace).await?;
        let name = self.workspace(application, workspace).await?.name;
        let end = self.next_offset(&running, workspace).await?;
        let at = WorkspaceOffset::FIRST;
        Ok(AuditFile {
            engine: self.clone(),
            running,
            workspace,
            name,
            kind,
            at,
            end,
            head: Digest::ZERO,
            part: Part::First,
        })
    }
}

fn line(text: &mut String, line: &impl Serialize) {
    // Neither writing JSON to memory nor adding to a string can fail.
    let _ = writeln!(text, "{}", serde_json::to_string(line).unwrap_or_default());
}

impl AuditFile {
    /// The next lines; `None` after the last one.
    ///
    /// # Errors
    ///
    /// [`SubmitError`]. The next call continues at the same line.
    pub async fn next(&mut self) -> Result<Option<String>, SubmitError> {
        let mut text = String::new();
        match self.part {
            Part::First => {
                line(&mut text, &self.first_line());
                self.part = Part::Events;
            }
            Part::Events if self.at < self.end => {
                let to = self.at.advance(PAGE).map_or(self.end, |to| to.min(self.end));
                let head = &mut self.head;
                let mut visit = |_, entry: &Entry<'_>| {
                    line(&mut text, &EventLine::of(entry));
                    *head = entry.chain();
                    ControlFlow::Continue(())
                };
                let at = self.engine.walk(&self.running, self.workspace, (self.at, to), &mut visit).await?;
                // If the workspace's log ends early, the last line says how many there are.
                self.end = if at < to { at } else { self.end };
                self.at = at;
            }
            Part::Events => {
                let events = self.at.get() - WorkspaceOffset::FIRST.get();
                line(&mut text, &LastLine { events, head: self.head.to_string() });
                self.part = Part::Done;
            }
            Part::Done => return Ok(None),
        }
        Ok(Some(text))
    }

    /// All of it. For workspaces that are known to be small.
    ///
    /// # Errors
    ///
    /// As [`AuditFile::next`].
    pub async fn all(mut self) -> Result<String, SubmitError> {
        let mut all = String::new();
        while let Some(lines) = self.next().await? {
            all.push_str(&lines);
        }
        Ok(all)
    }

    fn first_line(&self) -> FirstLine {
        let schema = &self.running.schema;
        let sequences = schema.sequences().kind(self.kind).map(|kind| kind.sequences()).unwrap_or_default();
        let sequence = |sequence: &Sequence| SequenceLine {
            id: sequence.id().get(),
            name: schema
                .sequence(sequence.id())
                .map_or_else(|| sequence.id().to_string(), |known| known.name.to_string()),
            first: sequence.first().get(),
            ranges: sequence.ranges().iter().map(|range| (range.first.get(), range.last.get())).collect(),
        };
        FirstLine {
            seriatim_audit: VERSION,
            application: schema.name().to_owned(),
            workspace: self.workspace.get(),
            name: self.name.clone(),
            kind: self.kind.get(),
            sequences: sequences.iter().map(sequence).collect(),
        }
    }
}

/// What an audit file proves, if the head is one that was published earlier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// The application.
    pub application: String,
    /// The workspace.
    pub workspace: WorkspaceId,
    /// Its name, if it has one and the file says it. The chain does not cover it.
    pub name: Option<String>,
    /// How many events it has.
    pub events: u64,
    /// The head of the chain after the last event.
    pub head: Digest,
    /// The offset of the expected head: everything up to there is unchanged since the head was published.
    pub published_at: Option<WorkspaceOffset>,
    /// Each sequence by name, and how complete it is. First numbers and ranges are only stated by the file: the chain does not
    /// cover them.
    pub sequences: Vec<(String, Completeness)>,
}

/// Why an audit file proves nothing.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// It could not be read.
    #[error("the audit file could not be read: {0}")]
    Io(#[from] std::io::Error),
    /// A line is not what it should be.
    #[error("line {line} of the audit file: {problem}")]
    Line {
        /// Which one, from 1.
        line: u64,
        /// What is wrong.
        problem: String,
    },
    /// A newer Seriatim wrote it.
    #[error("the audit file has version {found}, and this program reads up to {VERSION}: use a newer one")]
    Newer {
        /// The version that it has.
        found: u32,
    },
    /// An event is missing, or comes twice.
    #[error("the audit file has event {found} where event {expected} must be: a line is missing or repeated")]
    Order {
        /// What had to come.
        expected: WorkspaceOffset,
        /// What came.
        found: u64,
    },
    /// An event does not continue the chain: it, or one before it, was changed.
    #[error(
        "event {offset} does not continue the chain: it is {found}, and what the line says gives {expected}"
    )]
    Link {
        /// The event.
        offset: WorkspaceOffset,
        /// What its line gives.
        expected: Digest,
        /// What its line says.
        found: Digest,
    },
    /// An event draws from or raises a sequence that the first line does not list. So it cannot be determined whether its numbers
    /// are complete. The first line was changed.
    #[error("event {offset} has numbers of sequence {sequence}, which the first line does not list")]
    Unlisted {
        /// The event.
        offset: WorkspaceOffset,
        /// The sequence.
        sequence: SequenceId,
    },
    /// The last line contradicts the others.
    #[error("the last line says {said}, and the events give {found}")]
    LastLine {
        /// What it says.
        said: String,
        /// What the events give.
        found: String,
    },
    /// The last line is missing: the file was cut off.
    #[error("the audit file ends without its last line: it was cut off")]
    CutOff,
    /// The expected head is nowhere in the chain.
    #[error(
        "the head {expected} is nowhere in this chain, whose head is {head}: it is not the chain that was published"
    )]
    OtherChain {
        /// The head that was published.
        expected: Digest,
        /// The head of this one.
        head: Digest,
    },
}

impl VerifyError {
    /// What the caller can do about it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Io(_) => ErrorKind::Unavailable,
            Self::Line { .. } | Self::Newer { .. } | Self::CutOff => ErrorKind::Invalid,
            Self::Order { .. }
            | Self::Link { .. }
            | Self::Unlisted { .. }
            | Self::LastLine { .. }
            | Self::OtherChain { .. } => ErrorKind::Corrupt,
        }
    }
}

/// Reads lines, each with its number.
struct Lines<R> {
    reader: R,
    number: u64,
    bytes: Vec<u8>,
}

impl<R: BufRead> Lines<R> {
    /// The next line; `None` at the end.
    fn next<T: for<'de> Deserialize<'de>>(&mut self) -> Result<Option<T>, VerifyError> {
        self.bytes.clear();
        self.number += 1;
        let read = self.reader.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut self.bytes)?;
        if read == 0 {
            return Ok(None);
        }
        serde_json::from_slice(&self.bytes).map(Some).map_err(|error| self.wrong(error.to_string()))
    }

    fn wrong(&self, problem: impl Into<String>) -> VerifyError {
        VerifyError::Line { line: self.number, problem: problem.into() }
    }

    fn digest(&self, text: &str) -> Result<Digest, VerifyError> {
        text.parse::<Digest>().map_err(|error| self.wrong(error.to_string()))
    }
}

/// Verifies an audit file: computes the chain again, and searches it for a head that was published earlier. Needs no engine and
/// no storage.
///
/// The file is not a signature. Without an expected head this proves only that the file does not contradict itself.
///
/// # Errors
///
/// [`VerifyError`] names the first contradiction.
pub fn verify(reader: impl BufRead, expected_head: Option<Digest>) -> Result<Verified, VerifyError> {
    let mut lines = Lines { reader, number: 0, bytes: Vec::new() };
    let first: FirstLine = lines.next()?.ok_or(VerifyError::CutOff)?;
    if first.seriatim_audit != VERSION {
        return Err(VerifyError::Newer { found: first.seriatim_audit });
    }
    let mut tallies: Vec<(String, Tally)> = Vec::with_capacity(first.sequences.len());
    let mut listed = BTreeSet::new();
    for sequence in first.sequences {
        let is_new = listed.insert(SequenceId::new(sequence.id));
        if !is_new || tallies.iter().any(|(name, _)| *name == sequence.name) {
            let problem = format!("sequence {} with id {} is listed twice", sequence.name, sequence.id);
            return Err(lines.wrong(problem));
        }
        let ranges: Vec<_> = sequence.ranges.iter().map(|(first, last)| *first..=*last).collect();
        let known = Sequence::with_ranges(SequenceId::new(sequence.id), &ranges).starting_at(sequence.first);
        tallies.push((sequence.name, Tally::new(known)));
    }
    let (workspace, kind) = (WorkspaceId::new(first.workspace), WorkspaceKind::new(first.kind));
    let (mut next, mut head, mut published_at) = (WorkspaceOffset::FIRST, Digest::ZERO, None);
    let last = loop {
        let event = match lines.next()?.ok_or(VerifyError::CutOff)? {
            Line::Event(event) => event,
            Line::Last(last) => break last,
        };
        if event.offset != next.get() {
            return Err(VerifyError::Order { expected: next, found: event.offset });
        }
        head = verify_event(&lines, workspace, kind, head, &event)?;
        if expected_head == Some(head) {
            published_at = Some(next);
        }
        let (time, draws, raises) = (Timestamp::from_millis(event.time), event.draws(), event.raises());
        let mut named =
            draws.iter().map(|draw| draw.sequence).chain(raises.iter().map(|raise| raise.sequence));
        if let Some(sequence) = named.find(|sequence| !listed.contains(sequence)) {
            return Err(VerifyError::Unlisted { offset: next, sequence });
        }
        for (_, tally) in &mut tallies {
            tally.take(next, time, draws.iter().copied(), raises.iter().copied());
        }
        next = next.next().ok_or_else(|| lines.wrong("the offsets end here"))?;
    };
    let events = next.get() - WorkspaceOffset::FIRST.get();
    if last.events != events || lines.digest(&last.head)? != head {
        let said = format!("{} events with head {}", last.events, last.head);
        return Err(VerifyError::LastLine { said, found: format!("{events} events with head {head}") });
    }
    if lines.next::<serde_json::Value>()?.is_some() {
        return Err(lines.wrong("there is more text after the last line"));
    }
    if let Some(expected) = expected_head.filter(|expected| published_at.is_none() && *expected != head) {
        return Err(VerifyError::OtherChain { expected, head });
    }
    let sequences = tallies.into_iter().map(|(name, tally)| (name, tally.completeness)).collect();
    let (application, name) = (first.application, first.name);
    Ok(Verified { application, workspace, name, events, head, published_at, sequences })
}

/// The chain head after an event, if the line has the same.
fn verify_event<R: BufRead>(
    lines: &Lines<R>,
    workspace: WorkspaceId,
    kind: WorkspaceKind,
    previous: Digest,
    event: &EventLine,
) -> Result<Digest, VerifyError> {
    let offset = WorkspaceOffset::new(event.offset).ok_or_else(|| lines.wrong("no offset"))?;
    let epoch = Epoch::new(event.epoch).ok_or_else(|| lines.wrong("no epoch"))?;
    let header = Header {
        workspace,
        kind,
        workspace_offset: offset,
        time: Timestamp::from_millis(event.time),
        body_digest: lines.digest(&event.body)?,
        draws: &event.draws(),
        raises: &event.raises(),
    };
    let append = AppendId { epoch, counter: event.counter };
    let expected = chain_head(append, &header, previous).map_err(|error| lines.wrong(error.to_string()))?;
    let found = lines.digest(&event.chain)?;
    if expected == found { Ok(found) } else { Err(VerifyError::Link { offset, expected, found }) }
}
