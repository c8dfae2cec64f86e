//! A command that waits for its turn.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value as Json;
use seriatim_types::{RecordId, WorkspaceId, WorkspaceKind};

use crate::command::context::Command;
use crate::command::event::{Argument, Event, Row};
use crate::command::value::Value;
use crate::derive::keys::StoreKey;

/// A request that fits the definition.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) workspace: WorkspaceId,
    pub(crate) kind: WorkspaceKind,
    /// The event that it becomes. Each turn sets the ids and numbers of its rows again, in place.
    pub(crate) event: Event,
    /// The number of changes of the request. The application's code adds its changes after them.
    pub(crate) requested: usize,
    /// The places of the event that refer to records that it creates.
    pub(crate) references: Vec<RawReference>,
    /// The application's code. `None`: the command logs its argument and makes the changes of the request.
    pub(crate) handler: Option<Arc<dyn Command>>,
    /// The argument for the application's code.
    pub(crate) args: Json,
    pub(crate) unlogged: Option<Json>,
    /// The store key of its idempotency key.
    pub(crate) key: Option<StoreKey>,
    pub(crate) expected: Option<u64>,
    /// What staging the command reads.
    pub(crate) reads: Vec<StoreKey>,
    /// Whether it is part of unfencing, and passes the fence.
    pub(crate) unfencing: bool,
}

/// A place of an event that refers to one of its own rows by a raw id.
#[derive(Debug)]
pub(crate) struct RawReference {
    /// The row that contains it, in the order of [`Event::rows`].
    row: usize,
    /// The field of the row that contains it. `None`: it is the row's parent.
    field: Option<usize>,
    raw: RecordId,
}

impl RawReference {
    /// All such places of an event that has no real ids yet.
    pub(crate) fn all(event: &Event) -> Vec<Self> {
        let mut found = Vec::new();
        for (place, row) in event.rows().enumerate() {
            let parent = row.parent.map(|id| (None, id));
            let fields = row.fields.iter().enumerate().filter_map(|(field, (_, value))| match value {
                Value::Reference(id) => Some((Some(field), *id)),
                _ => None,
            });
            let raw = parent.into_iter().chain(fields).filter(|(_, id)| id.is_raw());
            found.extend(raw.map(|(field, raw)| Self { row: place, field, raw }));
        }
        found
    }
}

impl Prepared {
    /// Its approximate size in memory, in bytes.
    pub(crate) fn size(&self) -> usize {
        let row = |row: &Row| {
            size_of::<Row>() + row.fields.iter().map(|(_, value)| value.size_max()).sum::<usize>()
        };
        let rows = self.event.rows().map(row).sum::<usize>();
        let text = if let Argument::Json(text) = &self.event.argument { text.len() } else { 0 };
        let json = json_size(&self.args) + self.unlogged.as_ref().map_or(0, json_size);
        let reads = self.reads.iter().map(StoreKey::size).sum::<usize>();
        size_of::<Self>() + rows + text + json + reads
    }

    /// Removes what an earlier turn has added to the event.
    pub(crate) fn begin_turn(&mut self) {
        self.event.changes.truncate(self.requested);
        self.event.result = None;
    }

    /// Replaces raw ids by real ids in all references. Call it when all created rows have their ids.
    pub(crate) fn resolve_references(&mut self) {
        if self.references.is_empty() {
            return;
        }
        let created = self.event.created().filter_map(|row| Some((u64::from(row.raw?), row.id)));
        let real: BTreeMap<u64, RecordId> = created.collect();
        for RawReference { row, field, raw } in &self.references {
            let Some((row, id)) = self.event.row_mut(*row).zip(real.get(&raw.get())) else { continue };
            match field {
                None => row.parent = Some(*id),
                Some(field) => row.fields[*field].1 = Value::Reference(*id),
            }
        }
    }
}

fn json_size(json: &Json) -> usize {
    let inside = match json {
        Json::Null | Json::Bool(_) | Json::Number(_) => 0,
        Json::String(text) => text.len(),
        Json::Array(items) => items.iter().map(json_size).sum(),
        Json::Object(fields) => fields.iter().map(|(name, value)| name.len() + json_size(value)).sum(),
    };
    size_of::<Json>() + inside
}
