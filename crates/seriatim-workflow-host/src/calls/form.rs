//! The form in which hosts ask each other: JSON, with a version.
//!
//! ```text
//! {"v":1,"call":{"end":{"workspace":…,"run":3,"ended":{…},"key":{…}}}}
//! {"v":1,"answer":{"written":{"run":3,"repeated":false,"begins":false}}}      carried out
//! {"v":1,"error":{"not_running":{"id":"o-1","status":"completed"}}}           refused: nothing was done
//! ```
//!
//! What a host does not know, because another version has sent it, it answers with the error `unknown`: nothing was done. That the
//! partition is not here is not said in this form: it is [`SubmitError::NotHere`](seriatim_engine::SubmitError::NotHere).

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};
use seriatim_types::WorkspaceId;
use seriatim_workflow::{Blocked, Failure, Headers, Job, Payload, Start, Warning};

use super::error_form::ErrorForm;
use crate::application::{RunRow, RunStatus};
use crate::describe::{Description, PendingOperation};
use crate::entry::{Begins, Ended, Entry};
use crate::error::HostError;
use crate::timeline::Timeline;
use crate::workflow::ending::Outcome;
use crate::workflow::{Key, StartAs, Written};

/// The version of this form.
const VERSION: u64 = 1;

/// A workspace, by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Of(u64);

impl From<WorkspaceId> for Of {
    fn from(workspace: WorkspaceId) -> Self {
        Self(workspace.get())
    }
}

impl From<Of> for WorkspaceId {
    fn from(of: Of) -> Self {
        Self::new(of.0)
    }
}

/// What a host asks of the one that drives a workflow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Call {
    /// Start a run.
    Start { workspace: Of, start: Box<Start>, begins: Begins, how: Box<StartAs> },
    /// Give a signal, or a request to stop, to the open run, or to this one.
    Request { workspace: Of, run: Option<u64>, job: Box<Job>, key: Option<Key> },
    /// Give an update to the open run, and wait for its outcome for so long. It has a key: it is sent again until there is one.
    Update { workspace: Of, job: Box<Job>, key: Key, within: Duration },
    /// End the open run, or this one.
    End { workspace: Of, run: Option<u64>, ended: Box<Ended>, key: Option<Key> },
    /// Try a stuck run again.
    Retry { workspace: Of },
    /// Ask the newest run's code.
    Query { workspace: Of, job: Box<Job> },
    /// Wait for so long until a run and those that continue it have ended.
    Wait { workspace: Of, run: u64, within: Duration },
    /// The row of a run; of the newest, if none is named.
    Row { workspace: Of, run: Option<u64> },
    /// The row of the last run that continues this one.
    LastOf { workspace: Of, run: u64 },
    /// What is known of the open run in memory.
    Inspect { workspace: Of },
    /// Describe the newest run.
    Describe { workspace: Of, id: String },
    /// Up to so many runs below a number, the newest first.
    Runs { workspace: Of, before: Option<u64>, limit: u64 },
    /// A part of the history of a run.
    History { workspace: Of, id: String, run: Option<u64>, after: Option<u64>, limit: u64, bytes_max: u64 },
    /// Workflows of a partition whose newest run has one of these statuses.
    List { partition: u16, statuses: Vec<RunStatus>, after: Option<Of>, limit: u64 },
    /// Workflows of a partition whose run is stuck.
    Stuck { partition: u16, after: Option<Of>, limit: u64 },
}

/// The answer to a [`Call`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    Written(Written),
    Payload(Payload),
    /// The update has no outcome yet, or the run has not ended yet: ask again.
    Later,
    Ended(Box<(RunRow, Outcome)>),
    Row(Option<Box<RunRow>>),
    Rows(Vec<RunRow>),
    Inspected(Box<Inspected>),
    Described(Box<Described>),
    History(Box<HistoryPart>),
    Listed(Vec<(Of, RunRow)>),
}

/// What only the host that drives a run knows of it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct Inspected {
    pub(crate) stuck: Option<String>,
    pub(crate) pending: Vec<PendingOperation>,
    pub(crate) blocked: Vec<Blocked>,
    pub(crate) warnings: Vec<Warning>,
}

/// A [`Description`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Described {
    row: RunRow,
    run_id: String,
    input: Vec<Payload>,
    memo: Headers,
    result: Option<Payload>,
    failure: Option<Failure>,
    inspected: Inspected,
}

impl From<Description> for Described {
    fn from(description: Description) -> Self {
        let Description { row, run_id, input, memo, result, failure, stuck, pending, blocked, warnings } =
            description;
        let inspected = Inspected { stuck, pending, blocked, warnings };
        Self { row, run_id, input, memo, result, failure, inspected }
    }
}

impl From<Described> for Description {
    fn from(described: Described) -> Self {
        let Described { row, run_id, input, memo, result, failure, inspected } = described;
        let Inspected { stuck, pending, blocked, warnings } = inspected;
        Self { row, run_id, input, memo, result, failure, stuck, pending, blocked, warnings }
    }
}

/// A [`Timeline`], without what follows from its events.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct HistoryPart {
    row: RunRow,
    run_id: String,
    events: Vec<(u64, u64, Entry)>,
    turns_before: u64,
    next: Option<u64>,
}

impl From<Timeline> for HistoryPart {
    fn from(timeline: Timeline) -> Self {
        let Timeline { row, run_id, events, turns_before, next, .. } = timeline;
        Self { row, run_id, events, turns_before: turns_before as u64, next }
    }
}

impl From<HistoryPart> for Timeline {
    fn from(part: HistoryPart) -> Self {
        let HistoryPart { row, run_id, events, turns_before, next } = part;
        let entries = crate::timeline::timeline(&events);
        Self { row, run_id, entries, events, turns_before: as_usize(turns_before), next }
    }
}

/// A number of the wire as a limit here.
pub(crate) fn as_usize(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// A call as it is sent.
pub(crate) fn to_call(call: &Call) -> Result<Json, HostError> {
    let call = serde_json::to_value(call);
    let invalid = |error| HostError::Invalid(format!("the request cannot be sent to its owner: {error}"));
    Ok(json!({ "v": VERSION, "call": call.map_err(invalid)? }))
}

/// A call as it was received; otherwise the message that answers it.
pub(crate) fn read_call(mut message: Json) -> Result<Call, Json> {
    let version = message.get("v").and_then(Json::as_u64);
    if version != Some(VERSION) {
        let found = version.map_or_else(|| "none".to_owned(), |version| version.to_string());
        return Err(unknown(format!("version {found} of calls is not known here, but {VERSION}")));
    }
    let call = message.get_mut("call").map(Json::take).unwrap_or_default();
    serde_json::from_value(call).map_err(|error| unknown(format!("the call is not known here: {error}")))
}

fn unknown(text: String) -> Json {
    json!({ "v": VERSION, "error": ErrorForm::Unknown { text } })
}

/// What was carried out, or why it was not, as it is sent.
pub(crate) fn to_reply(answer: Result<Answer, HostError>) -> Json {
    let reply = match answer {
        Ok(answer) => serde_json::to_value(answer).map(|answer| json!({ "v": VERSION, "answer": answer })),
        Err(error) => {
            serde_json::to_value(ErrorForm::from(error)).map(|error| json!({ "v": VERSION, "error": error }))
        }
    };
    reply.unwrap_or_else(|error| unknown(format!("the answer cannot be sent: {error}")))
}

/// A reply as it was received.
pub(crate) fn read_reply(mut reply: Json) -> Result<Answer, HostError> {
    if let Some(error) = reply.get_mut("error") {
        let form = serde_json::from_value::<ErrorForm>(error.take());
        return Err(form.map_or_else(|error| unreadable(&error.to_string()), HostError::from));
    }
    let answer = reply.get_mut("answer").map(Json::take).unwrap_or_default();
    serde_json::from_value(answer).map_err(|error| unreadable(&error.to_string()))
}

/// The error of a reply that is not one to its call. It may have been carried out.
pub(crate) fn unreadable(text: &str) -> HostError {
    let text = format!("the engine that owns the workflow answered something else: {text}");
    seriatim_engine::SubmitError::InDoubt(text).into()
}

#[cfg(test)]
mod tests {
    use seriatim_types::ErrorKind;
    use seriatim_workflow::Time;

    use super::*;

    fn of(number: u64) -> Of {
        Of(number)
    }

    /// Processes of different versions send these to each other.
    #[test]
    fn the_form_does_not_change() {
        let key = || Some(Key { key: "k".into(), identity: "i".into() });
        let job = Job::Cancel { reason: "late".to_owned() };
        let call = Call::Request { workspace: of(7), run: Some(1), job: Box::new(job), key: key() };
        let sent = to_call(&call).unwrap();
        let text = r#"{"v":1,"call":{"request":{"workspace":7,"run":1,"job":{"job":"cancel","reason":"late"},"key":{"key":"k","identity":"i"}}}}"#;
        assert_eq!(sent, serde_json::from_str::<Json>(text).unwrap());
        assert_eq!(read_call(sent).unwrap(), call);
        let written = Written { run: 2, repeated: false, begins: true };
        let reply = to_reply(Ok(Answer::Written(written)));
        let text = r#"{"v":1,"answer":{"written":{"run":2,"repeated":false,"begins":true}}}"#;
        assert_eq!(reply, serde_json::from_str::<Json>(text).unwrap());
        assert_eq!(read_reply(reply).unwrap(), Answer::Written(written));
    }

    #[test]
    fn every_call_is_read_as_it_was_sent() {
        let job = || Box::new(Job::Cancel { reason: "late".to_owned() });
        let key = || Key { key: "k".into(), identity: "i".into() };
        let within = Duration::from_millis(1_500);
        let failure = Failure::cancelled("why");
        let ended = Ended { status: RunStatus::Terminated, failure, time: Time::from_micros(5) };
        let how = StartAs { due: Some(Time::from_micros(9)), key: Some(key()), ..StartAs::default() };
        let start = Box::new(Start::new("t", "id", Vec::new()));
        let (id, workspace) = ("w".to_owned(), of(1));
        let calls = [
            Call::Start { workspace, start, begins: Begins::default(), how: Box::new(how) },
            Call::Request { workspace, run: None, job: job(), key: None },
            Call::Update { workspace, job: job(), key: key(), within },
            Call::End { workspace, run: None, ended: Box::new(ended), key: Some(key()) },
            Call::Retry { workspace },
            Call::Query { workspace, job: job() },
            Call::Wait { workspace, run: 3, within },
            Call::Row { workspace, run: None },
            Call::LastOf { workspace, run: 3 },
            Call::Inspect { workspace },
            Call::Describe { workspace, id: id.clone() },
            Call::Runs { workspace, before: Some(3), limit: 4 },
            Call::History { workspace, id, run: None, after: None, limit: u64::MAX, bytes_max: 1 },
            Call::List { partition: 3, statuses: RunStatus::ALL.to_vec(), after: Some(of(2)), limit: 1 },
            Call::Stuck { partition: 3, after: None, limit: 1 },
        ];
        for call in calls {
            assert_eq!(read_call(to_call(&call).unwrap()).unwrap(), call);
        }
    }

    #[test]
    fn what_is_not_known_is_answered_with_an_error_and_may_be_sent_again() {
        let unknown = [
            json!({ "v": 2, "call": { "retry": { "workspace": 1 } } }),
            json!({ "call": { "retry": { "workspace": 1 } } }),
            json!({ "v": 1, "call": { "pause": { "workspace": 1 } } }),
            json!({ "v": 1, "call": { "retry": {} } }),
            json!({ "v": 1 }),
            json!("hello"),
        ];
        for message in unknown {
            let reply = read_call(message.clone()).unwrap_err();
            let error = read_reply(reply).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{message}: {error}");
            assert!(error.to_string().contains("not known here"), "{error}");
        }
        let error = read_reply(json!({ "v": 3, "reply": 1 })).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InDoubt, "{error}");
    }
}
