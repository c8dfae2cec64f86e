//! What goes over the wire, made of what the engine knows.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value, json};
use seriatim_engine::definition::Schema;
use seriatim_engine::{
    Answer, Argument, EventChange, Fields, Found, PartitionState, PartitionStatus, Placed, Record, Row,
    SequenceState, Workspace, moment,
};
use seriatim_types::{PartitionId, RecordId};

/// A workspace.
#[derive(Debug, Serialize)]
pub(crate) struct WorkspaceView {
    id: u64,
    kind: Box<str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
}

impl WorkspaceView {
    pub(crate) fn new(schema: &Schema, workspace: Workspace) -> Self {
        let kind = schema.kind(workspace.kind).map_or_else(|| "?".into(), |kind| kind.name.clone());
        Self { id: workspace.id.get(), kind, name: workspace.name }
    }
}

/// The answer to a command.
#[derive(Debug, Serialize)]
pub(crate) struct AnswerView {
    partition: u16,
    partition_offset: u64,
    workspace_offset: u64,
    ids: BTreeMap<u16, u64>,
    numbers: BTreeMap<u16, BTreeMap<Box<str>, i64>>,
    result: Option<Value>,
    repeated: bool,
}

impl From<Answer> for AnswerView {
    fn from(answer: Answer) -> Self {
        Self {
            partition: answer.partition.get(),
            partition_offset: answer.partition_offset.get(),
            workspace_offset: answer.workspace_offset.get(),
            ids: answer.ids.into_iter().map(|(raw, id)| (raw, id.get())).collect(),
            numbers: answer
                .numbers
                .into_iter()
                .map(|(raw, fields)| (raw, fields.into_iter().collect()))
                .collect(),
            result: answer.result,
            repeated: answer.repeated,
        }
    }
}

fn document(schema: &Schema, row: &Row) -> Value {
    schema.document(row.document).map_or(Value::Null, |document| json!(document.name))
}

fn fields(
    schema: &Schema,
    document: seriatim_engine::definition::TypeId,
    fields: &Fields,
) -> Map<String, Value> {
    let document = schema.document(document);
    let name = |id| {
        let field = document.and_then(|document| document.field_by_id(id));
        field.map_or_else(|| id.to_string(), |field| field.name.to_string())
    };
    fields.iter().map(|(id, value)| (name(*id), value.to_json())).collect()
}

fn row(schema: &Schema, row: &Row, verb: &str) -> Map<String, Value> {
    let mut object = Map::new();
    if verb == "update" {
        object.insert("update".to_owned(), json!(row.id.get()));
    } else {
        object.insert("create".to_owned(), document(schema, row));
        object.insert("id".to_owned(), json!(row.id.get()));
    }
    if let Some(parent) = row.parent {
        object.insert("parent".to_owned(), json!(parent.get()));
    }
    object.insert("fields".to_owned(), Value::Object(fields(schema, row.document, &row.fields)));
    object
}

/// A document with its children, from rows that stand depth first.
fn tree(schema: &Schema, rows: &[Row], id: RecordId) -> Value {
    let Some(own) = rows.iter().find(|row| row.id == id) else { return Value::Null };
    let children = rows.iter().filter(|row| row.parent == Some(id)).map(|row| tree(schema, rows, row.id));
    let children: Vec<Value> = children.collect();
    let mut object = row(schema, own, "create");
    object.remove("parent");
    object.insert("children".to_owned(), Value::Array(children));
    Value::Object(object)
}

/// An event.
pub(crate) fn event(schema: &Schema, partition: PartitionId, placed: &Placed) -> Value {
    let Placed { place, event } = placed;
    let args = match &event.argument {
        Argument::None => Value::Null,
        Argument::Document(rows) => rows.first().map_or(Value::Null, |root| tree(schema, rows, root.id)),
        Argument::Json(_) => event.json_argument().unwrap_or(Value::Null),
    };
    let changes: Vec<Value> = event
        .changes
        .iter()
        .map(|change| match change {
            EventChange::Create(created) => Value::Object(row(schema, created, "create")),
            EventChange::Update(updated) => Value::Object(row(schema, updated, "update")),
        })
        .collect();
    let mut object = json!({
        "partition": partition.get(),
        "partition_offset": place.partition_offset.get(),
        "workspace": place.workspace.get(),
        "workspace_offset": place.workspace_offset.get(),
        "at": moment(place.time),
        "command": event.command,
        "args": args,
        "changes": changes,
    });
    if event.unlogged {
        object["unlogged_args"] = json!("***");
    }
    if let Some(result) = event.json_result() {
        object["result"] = result;
    }
    if let Some(idempotency) = &event.idempotency {
        object["idempotency_key"] = json!(idempotency.key);
    }
    object
}

/// A record.
pub(crate) fn record(schema: &Schema, record: &Record) -> Value {
    let document = schema.document(record.document).map(|document| document.name.clone());
    let mut object = json!({
        "id": record.id.get(),
        "type": document,
        "fields": fields(schema, record.document, &record.fields),
    });
    if let Some(parent) = record.parent {
        object["parent"] = json!(parent.get());
    }
    object
}

/// What an id leads to.
pub(crate) fn found(schema: &Schema, found: &Found) -> Value {
    match found {
        Found::Record(found) => record(schema, found),
        Found::InEvent { row, place } => {
            let mut object = json!({
                "id": row.id.get(),
                "type": document(schema, row),
                "fields": fields(schema, row.document, &row.fields),
                "workspace_offset": place.workspace_offset.get(),
            });
            if let Some(parent) = row.parent {
                object["parent"] = json!(parent.get());
            }
            object
        }
    }
}

/// A sequence of a workspace.
pub(crate) fn sequence(state: &SequenceState) -> Value {
    json!({
        "name": state.name,
        "next": state.next.map(seriatim_types::Number::get),
        "first": state.first.get(),
        "last": state.last.get(),
        "remaining": state.remaining,
    })
}

/// A partition.
pub(crate) fn partition(state: &PartitionState) -> Value {
    let mut object = json!({
        "partition": state.partition.id.get(),
        "next_offset": state.next_offset,
        "checkpoint": state.checkpoint,
        "unflushed": state.unflushed,
        "owner": "this server",
    });
    match &state.status {
        PartitionStatus::Ready => object["status"] = json!("ready"),
        PartitionStatus::Recovering { from, at, tail } => {
            object["status"] = json!("recovering");
            object["recovery"] = json!({"from": from, "at": at, "tail": tail});
        }
        PartitionStatus::Stopped(reason) => {
            object["status"] = json!("stopped");
            object["reason"] = json!(reason);
        }
    }
    object
}
