//! Converts values of the engine into types of the API.

use serde_json::{Map, Value, json};
use seriatim_api::{self as api, EventChange, Recovery};
use seriatim_engine::definition::{Schema, TypeId};
use seriatim_engine::{
    Answer, Argument, EventChange as Changed, Fields, Found, PartitionState, PartitionStatus, Placed, Record,
    Row, SequenceState, Workspace, moment,
};
use seriatim_types::{Number, PartitionId, RecordId};

pub(crate) fn workspace(schema: &Schema, workspace: Workspace) -> api::Workspace {
    let kind = schema.kind(workspace.kind).map_or_else(|| "?".to_owned(), |kind| kind.name.to_string());
    api::Workspace { id: workspace.id.get(), kind, name: workspace.name }
}

pub(crate) fn answer(answer: Answer) -> api::Answer {
    let numbers = answer.numbers.into_iter().map(|(raw, fields)| {
        let fields = fields.into_iter().map(|(name, number)| (name.into(), number));
        (raw, fields.collect())
    });
    api::Answer {
        partition: answer.partition.get(),
        partition_offset: answer.partition_offset.get(),
        workspace_offset: answer.workspace_offset.get(),
        ids: answer.ids.into_iter().map(|(raw, id)| (raw, id.get())).collect(),
        numbers: numbers.collect(),
        result: answer.result,
        repeated: answer.repeated,
    }
}

fn document(schema: &Schema, id: TypeId) -> Option<String> {
    schema.document(id).map(|document| document.name.to_string())
}

fn fields(schema: &Schema, document: TypeId, fields: &Fields) -> Map<String, Value> {
    let document = schema.document(document);
    let name = |id| {
        let field = document.and_then(|document| document.field_by_id(id));
        field.map_or_else(|| id.to_string(), |field| field.name.to_string())
    };
    fields.iter().map(|(id, value)| (name(*id), value.to_json())).collect()
}

fn change(schema: &Schema, change: &Changed) -> EventChange {
    match change {
        Changed::Create(row) => EventChange {
            create: Some(document(schema, row.document).unwrap_or_else(|| row.document.to_string())),
            update: None,
            id: Some(row.id.get()),
            parent: row.parent.map(RecordId::get),
            fields: fields(schema, row.document, &row.fields),
        },
        Changed::Update(row) => EventChange {
            create: None,
            update: Some(row.id.get()),
            id: None,
            parent: row.parent.map(RecordId::get),
            fields: fields(schema, row.document, &row.fields),
        },
    }
}

/// A document with its children, from rows in depth-first order.
fn tree(schema: &Schema, rows: &[Row], id: RecordId) -> Value {
    let Some(own) = rows.iter().find(|row| row.id == id) else { return Value::Null };
    let children = rows.iter().filter(|row| row.parent == Some(id)).map(|row| tree(schema, rows, row.id));
    json!({
        "create": document(schema, own.document),
        "id": own.id.get(),
        "fields": fields(schema, own.document, &own.fields),
        "children": children.collect::<Vec<_>>(),
    })
}

pub(crate) fn event(schema: &Schema, partition: PartitionId, placed: &Placed) -> api::Event {
    let Placed { place, event } = placed;
    let args = match &event.argument {
        Argument::None => Value::Null,
        Argument::Document(rows) => rows.first().map_or(Value::Null, |root| tree(schema, rows, root.id)),
        Argument::Json(_) => event.json_argument().unwrap_or(Value::Null),
    };
    api::Event {
        partition: partition.get(),
        partition_offset: place.partition_offset.get(),
        workspace: place.workspace.get(),
        workspace_offset: place.workspace_offset.get(),
        at: moment(place.time),
        command: event.command.to_string(),
        args,
        changes: event.changes.iter().map(|changed| change(schema, changed)).collect(),
        unlogged_args: event.unlogged.then(|| "***".to_owned()),
        result: event.json_result(),
        idempotency_key: event.idempotency.as_ref().map(|idempotency| idempotency.key.to_string()),
    }
}

pub(crate) fn record(schema: &Schema, record: &Record) -> api::Record {
    api::Record {
        id: record.id.get(),
        document: document(schema, record.document),
        fields: fields(schema, record.document, &record.fields),
        parent: record.parent.map(RecordId::get),
        workspace_offset: None,
    }
}

/// The record with an id: stored by itself, or in its event.
pub(crate) fn found(schema: &Schema, found: &Found) -> api::Record {
    match found {
        Found::Record(found) => record(schema, found),
        Found::InEvent { row, place } => api::Record {
            id: row.id.get(),
            document: document(schema, row.document),
            fields: fields(schema, row.document, &row.fields),
            parent: row.parent.map(RecordId::get),
            workspace_offset: Some(place.workspace_offset.get()),
        },
    }
}

pub(crate) fn sequence(state: &SequenceState) -> api::Sequence {
    api::Sequence {
        name: state.name.to_string(),
        next: state.next.map(Number::get),
        first: state.first.get(),
        last: state.last.get(),
        remaining: state.remaining,
    }
}

/// The state of a partition. `fenced`: it belongs to a restored copy that is not unfenced.
pub(crate) fn partition(state: &PartitionState, fenced: bool) -> api::PartitionState {
    let (status, recovery, reason) = match &state.status {
        PartitionStatus::Ready if fenced => (api::PartitionStatus::Fenced, None, None),
        PartitionStatus::Ready => (api::PartitionStatus::Ready, None, None),
        PartitionStatus::Recovering { from, at, tail } => {
            let recovery = Recovery { from: *from, at: *at, tail: *tail };
            (api::PartitionStatus::Recovering, Some(recovery), None)
        }
        PartitionStatus::Standby => (api::PartitionStatus::Standby, None, None),
        PartitionStatus::Elsewhere { .. } => (api::PartitionStatus::Elsewhere, None, None),
        PartitionStatus::Stopped(reason) => (api::PartitionStatus::Stopped, None, Some(reason.clone())),
    };
    let owner = match &state.status {
        PartitionStatus::Standby => "another server".to_owned(),
        PartitionStatus::Elsewhere { holder } => {
            holder.as_ref().map_or_else(|| "another server".to_owned(), ToString::to_string)
        }
        _ => "this server".to_owned(),
    };
    api::PartitionState {
        partition: state.partition.id.get(),
        status,
        next_offset: state.next_offset,
        checkpoint: state.checkpoint,
        unflushed: state.unflushed as u64,
        owner,
        recovery,
        reason,
    }
}
