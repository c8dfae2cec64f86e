//! Temporal's own histories: read, inspected, and replayed on our code.
//!
//! They come in two forms: protobuf's JSON, as the UI, the CLI and the SDKs write it (either spelling of enums, 64-bit
//! numbers as texts, bytes in base64, unknown fields), and protobuf's binary form. Both are read without
//! generated code: the fields of a message are read by number or by name, through one interface.
//!
//! [`AnyHistory`] reads these and histories in our own form.

#![forbid(unsafe_code)]
#![allow(
    clippy::result_large_err,
    clippy::large_enum_variant,
    reason = "failures are rare, and their authors should not have to box them"
)]

mod any_history;
mod event;
mod failure;
mod inspect;
mod json;
mod message;
mod read;
mod replay;
mod tasks;
mod wire;

use bytes::Bytes;
use serde_json::Value;
use seriatim_types::ErrorKind;
use seriatim_workflow::Start;
use thiserror::Error;

use crate::json::Json;
use crate::message::{Message, Problem};
use crate::wire::Wire;

pub use any_history::AnyHistory;
pub use event::{AcceptedUpdate, EventKind, HistoryEvent, LocalActivityMarker, Marker};
pub use replay::replay_temporal;

/// A run's history as Temporal keeps it.
#[derive(Debug, Clone, PartialEq)]
pub struct TemporalHistory {
    events: Vec<HistoryEvent>,
    run_id: String,
}

/// Why something is not a history.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum HistoryError {
    /// Its form is not known.
    #[error("neither Temporal's JSON nor its binary form: {reason}")]
    Unreadable {
        /// What is wrong with it.
        reason: String,
    },
    /// It was read, and is not a whole history.
    #[error("the history is damaged: {reason}; fetch it again")]
    Damaged {
        /// What is wrong.
        reason: String,
    },
}

impl HistoryError {
    /// What a caller can do about it.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::Unreadable { .. } => ErrorKind::Invalid,
            Self::Damaged { .. } => ErrorKind::Corrupt,
        }
    }
}

impl TemporalHistory {
    /// Reads a history in either form.
    ///
    /// # Errors
    ///
    /// [`HistoryError`] if it is in neither form, or not a whole history from its first event.
    pub fn read(bytes: impl Into<Bytes>) -> Result<Self, HistoryError> {
        let bytes = bytes.into();
        // A binary history may look like JSON for its first two bytes, but no further.
        let json = match bytes.trim_ascii_start().first() {
            Some(b'{' | b'[') => Some(Self::from_json(&bytes)),
            _ => None,
        };
        match json {
            Some(Ok(history)) => Ok(history),
            Some(Err(error)) if bytes.first() != Some(&b'\n') => Err(error),
            Some(Err(_)) | None => Self::from_binary(bytes),
        }
    }

    /// Reads several histories in protobuf's binary form, one after the other and each after its length.
    ///
    /// # Errors
    ///
    /// [`HistoryError`] if the bytes are no such list, or one of them is no whole history from its first event.
    pub fn read_delimited(bytes: impl Into<Bytes>) -> Result<Vec<Self>, HistoryError> {
        let histories = wire::delimited(&bytes.into()).filter(|histories| !histories.is_empty());
        let no_list = || HistoryError::Unreadable {
            reason: "the lengths of the histories do not add up to the whole".to_owned(),
        };
        histories.ok_or_else(no_list)?.into_iter().map(Self::from_binary).collect()
    }

    /// Reads a history from JSON: an object with `events`, or the events themselves.
    ///
    /// # Errors
    ///
    /// [`HistoryError`] if it is not such JSON, or not a whole history from its first event.
    pub fn from_json(json: &[u8]) -> Result<Self, HistoryError> {
        let unreadable = |reason: String| HistoryError::Unreadable { reason };
        let value: Value = serde_json::from_slice(json).map_err(|error| unreadable(error.to_string()))?;
        let outer = value.get("history").unwrap_or(&value);
        let events = outer.get("events").unwrap_or(outer).as_array();
        let events = events.ok_or_else(|| unreadable("JSON without a list of events".to_owned()))?;
        let is_event = |value: &Value| value.get("eventId").or_else(|| value.get("event_id")).is_some();
        if !events.iter().all(is_event) {
            return Err(unreadable("JSON with a list of something else than events".to_owned()));
        }
        let problem = Problem::default();
        let events =
            events.iter().map(|event| read::read_event(&Json::new(event, &problem), &problem)).collect();
        Self::new(events, &problem)
    }

    /// Reads a history from protobuf's binary form.
    ///
    /// # Errors
    ///
    /// [`HistoryError`] if the bytes are no history, or not a whole one from its first event.
    pub fn from_binary(bytes: impl Into<Bytes>) -> Result<Self, HistoryError> {
        let problem = Problem::default();
        let history = Wire::new(&bytes.into(), &problem);
        let events =
            history.list((1, "events")).iter().map(|event| read::read_event(event, &problem)).collect();
        if let Some(reason) = problem.take() {
            return Err(HistoryError::Unreadable { reason });
        }
        Self::new(events, &problem)
    }

    fn new(mut events: Vec<HistoryEvent>, problem: &Problem) -> Result<Self, HistoryError> {
        let damaged = |reason: String| Err(HistoryError::Damaged { reason });
        if let Some(reason) = problem.take() {
            return damaged(reason);
        }
        if !matches!(events.first(), Some(HistoryEvent { kind: EventKind::Started(_), .. })) {
            return damaged("it does not begin with the start of a run".to_owned());
        }
        if let Some(at) = events.windows(2).position(|pair| pair[0].id + 1 != pair[1].id) {
            return damaged(format!("event {} is followed by event {}", events[at].id, events[at + 1].id));
        }
        let rules = rules(&events);
        if let EventKind::Started(start) = &mut events[0].kind {
            start.rules = rules;
        }
        let run_id = match &events[0].kind {
            EventKind::Started(start) if !start.first_run_id.is_empty() => start.first_run_id.clone(),
            _ => "run".to_owned(),
        };
        Ok(Self { events, run_id })
    }

    /// The events.
    #[must_use]
    pub fn events(&self) -> &[HistoryEvent] {
        &self.events
    }

    /// How the run began.
    #[must_use]
    pub fn start(&self) -> Start {
        match &self.events[0].kind {
            EventKind::Started(start) => (**start).clone(),
            _ => Start::default(),
        }
    }

    /// The first of the runs that continued as one another: a history does not have its own run's id.
    #[must_use]
    pub fn run_id(&self) -> &str {
        &self.run_id
    }
}

/// The name that our workers give for their SDK.
const OUR_SDK: &str = "temporal-core";

/// The rules of the runtime that the run was recorded with. Other SDKs follow the present rules; our workers set a flag.
fn rules(events: &[HistoryEvent]) -> u32 {
    let (mut is_ours, mut is_marked) = (false, false);
    for event in events {
        if let EventKind::TaskCompleted { sdk_name, lang_flags } = &event.kind {
            is_ours |= sdk_name == OUR_SDK;
            is_marked |= lang_flags.contains(&i64::from(Start::RULES_FLAG));
        }
    }
    if is_ours && !is_marked { 0 } else { Start::RULES }
}
