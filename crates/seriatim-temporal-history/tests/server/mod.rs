//! A Temporal server as a history sees it: it writes the events, in JSON of either kind or in binary form.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut, BytesMut};
use serde_json::{Value, json};
use seriatim_workflow::*;

use crate::common::program::Chance;

/// A message with its fields' numbers and names.
#[derive(Debug, Clone, Default)]
pub(crate) struct Message(Vec<(u32, &'static str, Field)>);

#[derive(Debug, Clone)]
pub(crate) enum Field {
    Text(String),
    Int(i64),
    Bytes(Vec<u8>),
    Seconds(u64, u32, bool),
    Choice(i64, &'static str, &'static str),
    Message(Message),
    List(Vec<Message>),
    Map(BTreeMap<String, Field>),
}

/// How JSON is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// As the UI and the CLI do: camel case, enums in capitals, 64-bit numbers as texts.
    Canonical,
    /// As older programs do: snake case, enums in camel case, plain numbers.
    Snake,
}

impl Message {
    pub(crate) fn with(mut self, number: u32, name: &'static str, field: Field) -> Self {
        self.0.push((number, name, field));
        self
    }

    fn to_json(&self, style: Style) -> Value {
        let fields = self.0.iter().map(|(_, name, field)| (style.name(name), field.to_json(style)));
        Value::Object(fields.collect())
    }

    fn to_binary(&self) -> Vec<u8> {
        let mut bytes = BytesMut::new();
        self.0.iter().for_each(|(number, _, field)| field.write(*number, &mut bytes));
        bytes.to_vec()
    }
}

impl Style {
    fn name(self, name: &str) -> String {
        if self == Self::Snake {
            return name.to_owned();
        }
        let mut words = name.split('_');
        let first = words.next().unwrap().to_owned();
        words.fold(first, |camel, word| camel + &word[..1].to_uppercase() + &word[1..])
    }
}

fn base64(bytes: &[u8]) -> String {
    // The library writes payloads that are not text in base64: its own tests hold on to the alphabet.
    let payload = Payload { metadata: Metadata::default(), data: bytes.to_vec().into() };
    serde_json::to_value(payload).unwrap()["data"].as_str().unwrap().to_owned()
}

fn varint(mut value: u64, bytes: &mut BytesMut) {
    while value >= 0x80 {
        bytes.put_u8(u8::try_from(value & 0x7f).unwrap() | 0x80);
        value >>= 7;
    }
    bytes.put_u8(u8::try_from(value).unwrap());
}

fn delimited(number: u32, contents: &[u8], bytes: &mut BytesMut) {
    varint(u64::from(number) << 3 | 2, bytes);
    varint(contents.len() as u64, bytes);
    bytes.put_slice(contents);
}

impl Field {
    fn to_json(&self, style: Style) -> Value {
        match self {
            Self::Text(text) => json!(text),
            Self::Int(value) if style == Style::Canonical => json!(value.to_string()),
            Self::Int(value) => json!(value),
            Self::Bytes(bytes) => json!(base64(bytes)),
            Self::Seconds(seconds, nanos, false) => json!(format!("{seconds}.{nanos:09}s")),
            Self::Seconds(seconds, nanos, true) => {
                let (minutes, seconds) = (seconds / 60, seconds % 60);
                json!(format!(
                    "1970-01-{:02}T{:02}:{:02}:{seconds:02}.{nanos:09}Z",
                    1 + minutes / 1440,
                    minutes / 60 % 24,
                    minutes % 60
                ))
            }
            Self::Choice(_, prefix, name) if style == Style::Canonical => json!(format!("{prefix}{name}")),
            Self::Choice(_, _, name) => {
                let words = name.split('_').map(|word| word[..1].to_owned() + &word[1..].to_lowercase());
                json!(words.collect::<String>())
            }
            Self::Message(message) => message.to_json(style),
            Self::List(messages) => messages.iter().map(|message| message.to_json(style)).collect(),
            Self::Map(map) => Value::Object(map.iter().map(|(k, v)| (k.clone(), v.to_json(style))).collect()),
        }
    }

    fn write(&self, number: u32, bytes: &mut BytesMut) {
        match self {
            Self::Text(text) => delimited(number, text.as_bytes(), bytes),
            Self::Int(value) | Self::Choice(value, _, _) => {
                varint(u64::from(number) << 3, bytes);
                varint(value.cast_unsigned(), bytes);
            }
            Self::Bytes(contents) => delimited(number, contents, bytes),
            Self::Seconds(seconds, nanos, _) => {
                let message = Message::default()
                    .with(1, "seconds", Self::Int(i64::try_from(*seconds).unwrap()))
                    .with(2, "nanos", Self::Int(i64::from(*nanos)));
                delimited(number, &message.to_binary(), bytes);
            }
            Self::Message(message) => delimited(number, &message.to_binary(), bytes),
            Self::List(messages) => messages.iter().for_each(|m| delimited(number, &m.to_binary(), bytes)),
            Self::Map(map) => {
                for (key, value) in map {
                    let mut entry = BytesMut::new();
                    delimited(1, key.as_bytes(), &mut entry);
                    value.write(2, &mut entry);
                    delimited(number, &entry, bytes);
                }
            }
        }
    }
}

fn text(text: impl Into<String>) -> Field {
    Field::Text(text.into())
}

fn int(value: usize) -> Field {
    Field::Int(i64::try_from(value).unwrap())
}

fn name(name: &str) -> Field {
    Field::Message(Message::default().with(1, "name", text(name)))
}

fn payload(payload: &Payload) -> Message {
    let metadata = payload.metadata.iter().map(|(key, value)| (key.to_owned(), Field::Bytes(value.to_vec())));
    Message::default().with(1, "metadata", Field::Map(metadata.collect())).with(
        2,
        "data",
        Field::Bytes(payload.data.to_vec()),
    )
}

fn payloads(all: &[Payload]) -> Field {
    Field::Message(Message::default().with(1, "payloads", Field::List(all.iter().map(payload).collect())))
}

fn duration(duration: Duration) -> Field {
    Field::Seconds(duration.as_secs(), duration.subsec_nanos(), false)
}

fn execution(workflow_id: &str, run_id: &str) -> Field {
    Field::Message(Message::default().with(1, "workflow_id", text(workflow_id)).with(
        2,
        "run_id",
        text(run_id),
    ))
}

fn failure(message: &str) -> Field {
    let info = Message::default().with(1, "type", text("Test"));
    let failure = Message::default().with(1, "message", text(message));
    Field::Message(failure.with(5, "application_failure_info", Field::Message(info)))
}

/// The history of a run, as its server writes it.
#[derive(Default)]
pub(crate) struct Server {
    pub(crate) events: Vec<Message>,
    /// What has begun and not ended, by the event that began it.
    open: BTreeMap<usize, (Kind, u32, bool)>,
    began: BTreeMap<(Kind, u32), usize>,
    children: BTreeMap<u32, String>,
}

impl Server {
    pub(crate) fn event(
        &mut self,
        kind: (i64, &'static str),
        attributes: (u32, &'static str),
        message: Message,
    ) -> usize {
        let id = self.events.len() + 1;
        let event = Message::default()
            .with(1, "event_id", int(id))
            .with(2, "event_time", Field::Seconds(id as u64, 1000, true))
            .with(3, "event_type", Field::Choice(kind.0, "EVENT_TYPE_", kind.1))
            .with(
                301,
                "user_metadata",
                Field::Message(Message::default().with(99, "of_the_future", text("?"))),
            )
            .with(attributes.0, attributes.1, Field::Message(message));
        self.events.push(event);
        id
    }

    pub(crate) fn json(&self, style: Style) -> Vec<u8> {
        let events: Vec<Value> = self.events.iter().map(|event| event.to_json(style)).collect();
        serde_json::to_vec_pretty(&json!({ "events": events })).unwrap()
    }

    pub(crate) fn binary(&self) -> Vec<u8> {
        let mut bytes = BytesMut::new();
        self.events.iter().for_each(|event| delimited(1, &event.to_binary(), &mut bytes));
        bytes.to_vec()
    }

    fn task(&mut self) -> usize {
        self.event(
            (5, "WORKFLOW_TASK_SCHEDULED"),
            (10, "workflow_task_scheduled_event_attributes"),
            Message::default(),
        );
        self.event(
            (6, "WORKFLOW_TASK_STARTED"),
            (11, "workflow_task_started_event_attributes"),
            Message::default(),
        )
    }

    fn task_completed(&mut self) {
        self.event(
            (7, "WORKFLOW_TASK_COMPLETED"),
            (12, "workflow_task_completed_event_attributes"),
            Message::default(),
        );
    }

    fn task_failed(&mut self) {
        self.event(
            (9, "WORKFLOW_TASK_FAILED"),
            (14, "workflow_task_failed_event_attributes"),
            Message::default(),
        );
    }

    fn begin(&mut self, command: &Command, event: usize) {
        let (kind, seq) = command.seq().unwrap();
        self.open.insert(event, (kind, seq, false));
        self.began.insert((kind, seq), event);
    }

    fn command(&mut self, command: &Command) {
        let m = Message::default();
        let event = match command {
            Command::StartTimer { seq, duration: d, .. } => {
                let m = m.with(1, "timer_id", text(seq.get().to_string())).with(
                    2,
                    "start_to_fire_timeout",
                    duration(*d),
                );
                self.event((17, "TIMER_STARTED"), (20, "timer_started_event_attributes"), m)
            }
            Command::ScheduleActivity { seq, activity_type, input, .. } => {
                let m = m.with(1, "activity_id", text(seq.get().to_string())).with(
                    2,
                    "activity_type",
                    name(activity_type),
                );
                let m = m.with(4, "task_queue", name("queue")).with(6, "input", payloads(input));
                self.event(
                    (10, "ACTIVITY_TASK_SCHEDULED"),
                    (15, "activity_task_scheduled_event_attributes"),
                    m,
                )
            }
            Command::StartChild { seq, workflow_type, input, options, .. } => {
                self.children.insert(seq.get(), options.workflow_id.clone());
                let m = m.with(2, "workflow_id", text(&options.workflow_id)).with(
                    3,
                    "workflow_type",
                    name(workflow_type),
                );
                let kind = (29, "START_CHILD_WORKFLOW_EXECUTION_INITIATED");
                let attributes = (34, "start_child_workflow_execution_initiated_event_attributes");
                self.event(kind, attributes, m.with(5, "input", payloads(input)))
            }
            Command::SignalExternal { target: SignalTarget::Workflow(target), name, input, .. } => {
                let m = m.with(3, "workflow_execution", execution(&target.workflow_id, &target.run_id));
                let m = m.with(4, "signal_name", text(name)).with(5, "input", payloads(input));
                let kind = (37, "SIGNAL_EXTERNAL_WORKFLOW_EXECUTION_INITIATED");
                self.event(kind, (42, "signal_external_workflow_execution_initiated_event_attributes"), m)
            }
            Command::CancelExternal { target, .. } => {
                let m = m.with(3, "workflow_execution", execution(&target.workflow_id, &target.run_id));
                let kind = (22, "REQUEST_CANCEL_EXTERNAL_WORKFLOW_EXECUTION_INITIATED");
                self.event(
                    kind,
                    (30, "request_cancel_external_workflow_execution_initiated_event_attributes"),
                    m,
                )
            }
            other => return self.ending(other),
        };
        self.begin(command, event);
    }

    /// Commands that begin nothing.
    fn ending(&mut self, command: &Command) {
        let m = Message::default();
        let began = command.seq().and_then(|key| self.began.get(&key)).copied().unwrap_or(0);
        match command {
            Command::CancelTimer { .. } => {
                self.open.remove(&began);
                let m = m.with(2, "started_event_id", int(began));
                self.event((19, "TIMER_CANCELED"), (24, "timer_canceled_event_attributes"), m);
            }
            Command::CancelActivity { .. } => {
                let m = m.with(1, "scheduled_event_id", int(began));
                let kind = (15, "ACTIVITY_TASK_CANCEL_REQUESTED");
                self.event(kind, (22, "activity_task_cancel_requested_event_attributes"), m);
            }
            Command::CancelChild { seq, .. } => {
                let m = m.with(3, "workflow_execution", execution(&self.children[&seq.get()], ""));
                let kind = (22, "REQUEST_CANCEL_EXTERNAL_WORKFLOW_EXECUTION_INITIATED");
                let attributes =
                    (30, "request_cancel_external_workflow_execution_initiated_event_attributes");
                self.event(kind, attributes, m.with(5, "child_workflow_only", Field::Int(1)));
            }
            Command::SetPatch { id, deprecated, .. } => {
                let data = Payload::json(&json!({ "id": id, "deprecated": deprecated })).unwrap();
                self.marker(
                    "core_patch",
                    BTreeMap::from([("patch-data".to_owned(), payloads(&[data]))]),
                    None,
                );
            }
            Command::UpsertSearchAttributes { attributes, .. } => {
                let fields =
                    attributes.iter().map(|(key, value)| (key.to_owned(), Field::Message(payload(value))));
                let fields = Message::default().with(1, "indexed_fields", Field::Map(fields.collect()));
                let kind = (40, "UPSERT_WORKFLOW_SEARCH_ATTRIBUTES");
                let attributes = (45, "upsert_workflow_search_attributes_event_attributes");
                self.event(kind, attributes, m.with(2, "search_attributes", Field::Message(fields)));
            }
            Command::Complete { result } => {
                let m = m.with(1, "result", payloads(result.as_slice()));
                let kind = (2, "WORKFLOW_EXECUTION_COMPLETED");
                self.event(kind, (7, "workflow_execution_completed_event_attributes"), m);
            }
            Command::Cancelled => {
                let kind = (21, "WORKFLOW_EXECUTION_CANCELED");
                self.event(kind, (29, "workflow_execution_canceled_event_attributes"), m);
            }
            other => panic!("the server does not know {other:?}"),
        }
    }

    fn marker(&mut self, name: &str, details: BTreeMap<String, Field>, why: Option<&str>) {
        let m = Message::default().with(1, "marker_name", text(name)).with(2, "details", Field::Map(details));
        let m = match why {
            Some(why) => m.with(5, "failure", failure(why)),
            None => m,
        };
        self.event((25, "MARKER_RECORDED"), (25, "marker_recorded_event_attributes"), m);
    }

    /// Answers something that is open, at random. Returns what the core makes of it.
    fn answer(&mut self, chance: &mut Chance) -> Option<Job> {
        let at = (!self.open.is_empty()).then(|| chance.index(self.open.len()))?;
        let (began, (kind, seq, is_started)) =
            self.open.iter().nth(at).map(|(began, open)| (*began, *open)).unwrap();
        self.open.remove(&began);
        let value = chance.below(1000);
        let result = Payload::json(&value).unwrap();
        let m = Message::default();
        let is_failed = value.is_multiple_of(5);
        Some(match kind {
            Kind::Timer => {
                let m = m.with(1, "timer_id", text(seq.to_string())).with(2, "started_event_id", int(began));
                self.event((18, "TIMER_FIRED"), (21, "timer_fired_event_attributes"), m);
                Job::FireTimer { seq: CommandSeq::new(seq) }
            }
            Kind::Activity if is_failed => {
                let m = m.with(1, "failure", failure("no")).with(2, "scheduled_event_id", int(began));
                self.event((13, "ACTIVITY_TASK_FAILED"), (18, "activity_task_failed_event_attributes"), m);
                let resolution = ActivityResolution::Failed { failure: Failure::application("Test", "no") };
                Job::ResolveActivity { seq: CommandSeq::new(seq), resolution }
            }
            Kind::Activity => {
                let m = m.with(1, "result", payloads(std::slice::from_ref(&result))).with(
                    2,
                    "scheduled_event_id",
                    int(began),
                );
                self.event(
                    (12, "ACTIVITY_TASK_COMPLETED"),
                    (17, "activity_task_completed_event_attributes"),
                    m,
                );
                let resolution = ActivityResolution::Completed { result: Some(result) };
                Job::ResolveActivity { seq: CommandSeq::new(seq), resolution }
            }
            Kind::ChildWorkflow if !is_started => {
                self.open.insert(began, (kind, seq, true));
                let run_id = format!("r{value}");
                let m = m.with(2, "initiated_event_id", int(began)).with(
                    3,
                    "workflow_execution",
                    execution("x", &run_id),
                );
                let attributes = (36, "child_workflow_execution_started_event_attributes");
                self.event((31, "CHILD_WORKFLOW_EXECUTION_STARTED"), attributes, m);
                let resolution = ChildStartResolution::Started { run_id };
                Job::ResolveChildStart { seq: CommandSeq::new(seq), resolution }
            }
            Kind::ChildWorkflow => {
                let m = m.with(1, "result", payloads(std::slice::from_ref(&result))).with(
                    5,
                    "initiated_event_id",
                    int(began),
                );
                let attributes = (37, "child_workflow_execution_completed_event_attributes");
                self.event((32, "CHILD_WORKFLOW_EXECUTION_COMPLETED"), attributes, m);
                let resolution = ChildResolution::Completed { result: Some(result) };
                Job::ResolveChild { seq: CommandSeq::new(seq), resolution }
            }
            Kind::ExternalSignal => {
                let m = m.with(1, "initiated_event_id", int(began));
                let attributes = (44, "external_workflow_execution_signaled_event_attributes");
                self.event((39, "EXTERNAL_WORKFLOW_EXECUTION_SIGNALED"), attributes, m);
                Job::ResolveExternalSignal { seq: CommandSeq::new(seq), failure: None }
            }
            _ => {
                let m = m.with(1, "initiated_event_id", int(began));
                let attributes = (32, "external_workflow_execution_cancel_requested_event_attributes");
                self.event((24, "EXTERNAL_WORKFLOW_EXECUTION_CANCEL_REQUESTED"), attributes, m);
                Job::ResolveExternalCancel { seq: CommandSeq::new(seq), failure: None }
            }
        })
    }

    fn signal(&mut self, chance: &mut Chance) -> Job {
        let (signal, value) = (["s", "t"][chance.index(2)], chance.below(100));
        let input = vec![Payload::json(&value).unwrap()];
        let m = Message::default().with(1, "signal_name", text(signal)).with(2, "input", payloads(&input));
        self.event(
            (26, "WORKFLOW_EXECUTION_SIGNALED"),
            (26, "workflow_execution_signaled_event_attributes"),
            m,
        );
        crate::common::signal(signal, value)
    }
}

/// A core that runs a program on the server: what it tells the code, and what of the code's commands the server sees.
pub(crate) struct Core {
    pub(crate) server: Server,
    instance: Instance,
    local: Vec<(u32, String)>,
    /// What the code has asked for in the present task.
    issued: Vec<Issued>,
}

#[allow(clippy::large_enum_variant, reason = "a test")]
enum Issued {
    Command(Command),
    LocalActivity(BTreeMap<String, Field>, Option<&'static str>),
}

impl Core {
    fn activate(&mut self, at: usize, jobs: Vec<Job>) {
        let time = Time::from_micros(at as u64 * 1_000_000 + 1);
        let outcome = self.instance.activate(Activation::new("first-run", time, jobs)).outcome;
        let mut unsent = Vec::new();
        for command in outcome.unwrap_or_else(|failure| panic!("{failure}")) {
            let ends = |issued: &Issued| match issued {
                Issued::Command(begun) => begun.lineage().is_some() && begun.seq() == command.seq(),
                Issued::LocalActivity(..) => false,
            };
            match &command {
                Command::ScheduleLocalActivity { seq, activity_type, .. } => {
                    self.local.push((seq.get(), activity_type.clone()));
                }
                Command::CancelLocalActivity { seq, .. } => {
                    // It is marked as cancelled at once.
                    if let Some(at) = self.local.iter().position(|(local, _)| *local == seq.get()) {
                        let (seq, activity_type) = self.local.remove(at);
                        let details = local_details(seq, &activity_type);
                        self.issued.push(Issued::LocalActivity(details, Some("cancelled")));
                    }
                }
                Command::CancelTimer { .. }
                | Command::CancelActivity { .. }
                | Command::CancelChild { .. }
                    if self.issued.iter().any(ends) =>
                {
                    self.issued.retain(|begun| !ends(begun));
                    let failure = Failure::cancelled("not sent");
                    if let Command::CancelActivity { seq, .. } = &command {
                        let resolution = ActivityResolution::Cancelled { failure };
                        unsent.push(Job::ResolveActivity { seq: *seq, resolution });
                    } else if let Command::CancelChild { seq, .. } = &command {
                        let resolution = ChildStartResolution::Cancelled { failure };
                        unsent.push(Job::ResolveChildStart { seq: *seq, resolution });
                    }
                }
                Command::CancelSignal { .. } => self.issued.retain(|begun| !ends(begun)),
                _ => self.issued.push(Issued::Command(command)),
            }
        }
        if !unsent.is_empty() {
            self.activate(at, unsent);
        }
    }

    fn flush(&mut self) {
        for issued in std::mem::take(&mut self.issued) {
            match issued {
                Issued::Command(command) => self.server.command(&command),
                Issued::LocalActivity(details, why) => {
                    self.server.marker("core_local_activity", details, why);
                }
            }
        }
    }
}

fn local_details(seq: u32, activity_type: &str) -> BTreeMap<String, Field> {
    let data =
        json!({ "seq": seq, "attempt": 1, "activity_id": seq.to_string(), "activity_type": activity_type });
    BTreeMap::from([("data".to_owned(), payloads(&[Payload::json(&data).unwrap()]))])
}

/// Runs a program on a server, at random. The events are those of a real one, as far as the program goes.
pub(crate) fn serve(registry: &Arc<Registry>, seed: u64, tasks: usize) -> Server {
    let mut chance = Chance(seed);
    let options = InstanceOptions { numbering: Numbering::ByCallOrder, policy: Policy::Fail };
    let instance = Instance::new(Arc::clone(registry), options);
    let mut core = Core { server: Server::default(), instance, local: Vec::new(), issued: Vec::new() };
    let input = vec![Payload::json(&(seed >> 16)).unwrap()];
    let m = Message::default()
        .with(1, "workflow_type", name("program"))
        .with(5, "task_queue", name("queue"))
        .with(6, "input", payloads(&input))
        .with(14, "original_execution_run_id", text("first-run"))
        .with(16, "first_execution_run_id", text("first-run"))
        .with(18, "attempt", Field::Int(1))
        .with(28, "workflow_id", text("the-id"));
    core.server.event(
        (1, "WORKFLOW_EXECUTION_STARTED"),
        (6, "workflow_execution_started_event_attributes"),
        m,
    );
    // What the core draws from the run id "first-run": held on to here, so that histories stay replayable.
    let start = Start { random_seed: SEED_OF_FIRST_RUN, ..Start::new("program", "the-id", input) };
    let mut jobs = vec![Job::Start(Box::new(start))];
    for _ in 0..tasks {
        if core.instance.has_ended() {
            break;
        }
        if chance.one_in(6) {
            core.server.task();
            core.server.task_failed();
        }
        let started = core.server.task();
        core.activate(started, jobs);
        core.server.task_completed();
        // Each local activity ends now, or in a later task.
        while !core.local.is_empty() && !chance.one_in(4) && !core.instance.has_ended() {
            let (seq, activity_type) = core.local.remove(0);
            let value = chance.below(1000);
            let mut details = local_details(seq, &activity_type);
            let resolution = if value.is_multiple_of(5) {
                core.issued.push(Issued::LocalActivity(details, Some("no")));
                ActivityResolution::Failed { failure: Failure::application("Test", "no") }
            } else {
                let result = Payload::json(&value).unwrap();
                details.insert("result".to_owned(), payloads(std::slice::from_ref(&result)));
                core.issued.push(Issued::LocalActivity(details, None));
                ActivityResolution::Completed { result: Some(result) }
            };
            core.activate(started, vec![Job::ResolveLocalActivity { seq: CommandSeq::new(seq), resolution }]);
        }
        core.flush();
        let (mut signals, mut rest) = (Vec::new(), Vec::new());
        for _ in 0..1 + chance.below(4) {
            match core.server.answer(&mut chance) {
                Some(job) => rest.push(job),
                None => signals.push(core.server.signal(&mut chance)),
            }
        }
        signals.append(&mut rest);
        jobs = signals;
    }
    core.server
}

/// SipHash 1-3 of `first-run`, made by another program.
const SEED_OF_FIRST_RUN: u64 = 0x485d_9da8_d719_e3d1;
