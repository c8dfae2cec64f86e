//! Checks a request against the definition, before it is queued.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde_json::{Map, Value as Json};
use seriatim_storage::Digest;
use seriatim_types::{RecordId, WorkspaceId};

use crate::command::context::Command;
use crate::command::event::{Argument, Change, Event, Fields, Idempotency, Row};
use crate::command::prepared::{Prepared, RawReference};
use crate::command::record::Registered;
use crate::command::request::{self, CHANGE, Request};
use crate::command::value::Value;
use crate::command::view::ViewKeys;
use crate::definition::{
    Argument as ArgumentKind, CommandSchema, DocumentKind, DocumentSchema, FieldKind, FieldSchema,
    KindSchema, Schema, TypeId,
};
use crate::derive::keys::{StoreKey, WorkspaceKeys};
use crate::error::RequestError;
use crate::limits::{ARGUMENT_ROWS_MAX, CHANGES_MAX, IDEMPOTENCY_KEY_BYTES_MAX};

/// The ids that were looked up, and what they refer to. `None`: no record has the id. An id that refers to a record does so
/// permanently.
pub(crate) type KnownIds = HashMap<RecordId, Option<Registered>>;

/// Why a request is not prepared.
#[derive(Debug, PartialEq)]
pub(crate) enum Unprepared {
    /// These ids have to be looked up first.
    Lookup(Vec<RecordId>),
    /// The request is not valid.
    Wrong(RequestError),
}

impl From<RequestError> for Unprepared {
    fn from(error: RequestError) -> Self {
        Self::Wrong(error)
    }
}

pub(crate) struct Preparation<'a> {
    pub(crate) schema: &'a Schema,
    pub(crate) workspace: WorkspaceId,
    pub(crate) kind: &'a KindSchema,
    pub(crate) known: &'a KnownIds,
    /// If set, two requests with the same idempotency key are the same request if this is the same; their contents are not
    /// compared.
    identity: Option<&'a str>,
    /// The types of the records that the command creates, by raw id.
    raw: BTreeMap<u64, TypeId>,
    lookups: Vec<RecordId>,
    reads: Vec<StoreKey>,
}

impl<'a> Preparation<'a> {
    pub(crate) fn new(
        schema: &'a Schema,
        workspace: WorkspaceId,
        kind: &'a KindSchema,
        known: &'a KnownIds,
        identity: Option<&'a str>,
    ) -> Self {
        let (raw, lookups, reads) = (BTreeMap::new(), Vec::new(), Vec::new());
        Self { schema, workspace, kind, known, identity, raw, lookups, reads }
    }

    fn keys(&self) -> WorkspaceKeys {
        WorkspaceKeys::new(self.schema.partition_of(self.workspace), self.workspace)
    }

    /// Checks everything that does not depend on the state in the command's turn. The caller moves the arguments for the
    /// application's code from the request afterwards.
    pub(crate) fn run(
        mut self,
        request: &Request,
        handler: Option<&Arc<dyn Command>>,
    ) -> Result<Prepared, Unprepared> {
        let command = self.command(request)?;
        if request.changes.len() > CHANGES_MAX {
            let found = request.changes.len();
            return Err(RequestError::TooMany { what: "changes", max: CHANGES_MAX, found }.into());
        }
        if request.command == CHANGE && request.changes.is_empty() {
            return Err(RequestError::Nothing.into());
        }
        let (idempotency, key) = self.idempotency(request)?.unzip();
        let tree = self.argument_tree(command, request)?;
        // All raw ids are collected before references are checked, because a reference may precede what it refers to.
        for row in tree.iter().flatten() {
            self.add_raw(row.raw, row.document.id)?;
        }
        for change in &request.changes {
            if let Some(name) = &change.create {
                let document = self.document(name)?;
                self.add_raw(change.id.unwrap_or(0), document.id)?;
            }
        }
        let argument = match tree {
            Some(rows) => Argument::Document(self.argument_rows(&rows)?),
            None => match &request.args {
                Some(json) => Argument::Json(json.to_string().into()),
                None => Argument::None,
            },
        };
        let mut changes = Vec::with_capacity(request.changes.len());
        for (place, change) in request.changes.iter().enumerate() {
            changes.extend(self.change(place, change)?);
        }
        if !self.lookups.is_empty() {
            return Err(Unprepared::Lookup(self.lookups));
        }
        let args = request.args.as_ref().unwrap_or(&Json::Null);
        for (view, key) in handler.map(|handler| handler.reads(args)).unwrap_or_default() {
            self.reads.push(ViewKeys::new(self.keys(), view).row(&key));
        }
        let event = Event {
            command: request.command.as_str().into(),
            argument,
            unlogged: request.unlogged_args.is_some(),
            changes,
            result: None,
            idempotency,
        };
        Ok(Prepared {
            workspace: self.workspace,
            kind: self.kind.id,
            requested: event.changes.len(),
            references: RawReference::all(&event),
            event,
            handler: handler.cloned(),
            args: Json::Null,
            unlogged: None,
            key,
            expected: request.expected_offset,
            reads: self.reads,
            unfencing: false,
        })
    }

    fn command(&self, request: &Request) -> Result<Option<&'a CommandSchema>, RequestError> {
        let name = &request.command;
        if name == CHANGE {
            if request.args.is_some() || request.unlogged_args.is_some() {
                let problem = "it takes no argument".to_owned();
                return Err(RequestError::Argument { command: name.clone(), problem });
            }
            return Ok(None);
        }
        let command = self.schema.command(name).ok_or_else(|| RequestError::UnknownCommand(name.clone()))?;
        if !self.kind.has_command(name) {
            let kind = self.kind.name.to_string();
            return Err(RequestError::CommandNotHere { command: name.clone(), kind });
        }
        if request.unlogged_args.is_some() && !command.unlogged {
            let problem = "it takes no unlogged argument".to_owned();
            return Err(RequestError::Argument { command: name.clone(), problem });
        }
        Ok(Some(command))
    }

    fn idempotency(&mut self, request: &Request) -> Result<Option<(Idempotency, StoreKey)>, RequestError> {
        let Some(key) = &request.idempotency_key else { return Ok(None) };
        check_key(key)?;
        let stored = self.keys().idempotency(key);
        self.reads.push(stored.clone());
        let digest =
            self.identity.map_or_else(|| request.digest(), |identity| Digest::of(identity.as_bytes()));
        Ok(Some((Idempotency { key: key.as_str().into(), request: digest }, stored)))
    }

    fn document(&self, name: &str) -> Result<&'a DocumentSchema, RequestError> {
        let document = self
            .schema
            .document_by_name(name)
            .ok_or_else(|| RequestError::UnknownDocument(name.to_owned()))?;
        if self.kind.has(document.id) {
            return Ok(document);
        }
        let kind = self.kind.name.to_string();
        Err(RequestError::DocumentNotHere { document: name.to_owned(), kind })
    }

    fn add_raw(&mut self, raw: u64, document: TypeId) -> Result<(), RequestError> {
        if !RecordId::RAW.contains(&raw) {
            return Err(RequestError::NotRaw(raw));
        }
        if self.raw.insert(raw, document).is_some() { Err(RequestError::RawTwice(raw)) } else { Ok(()) }
    }

    /// The type of the record that an id refers to: one of this command, or one that was looked up. `None`: it has to be
    /// looked up.
    fn type_of(&mut self, id: u64) -> Result<Option<TypeId>, RequestError> {
        if RecordId::RAW.contains(&id) {
            return self.raw.get(&id).copied().map(Some).ok_or(RequestError::DanglingRaw(id));
        }
        let id = RecordId::new(id);
        match self.known.get(&id) {
            Some(Some(registered)) => Ok(Some(registered.document)),
            Some(None) => Err(RequestError::UnknownRecord(id)),
            None => {
                self.lookups.push(id);
                Ok(None)
            }
        }
    }

    fn argument_tree<'r>(
        &self,
        command: Option<&CommandSchema>,
        request: &'r Request,
    ) -> Result<Option<Vec<TreeRow<'a, 'r>>>, RequestError> {
        let Some(command) = command else { return Ok(None) };
        let wrong = |problem: &str| RequestError::Argument {
            command: request.command.clone(),
            problem: problem.to_owned(),
        };
        match (&command.argument, &request.args) {
            (ArgumentKind::None, None) | (ArgumentKind::Json, _) => Ok(None),
            (ArgumentKind::None, Some(_)) => Err(wrong("it takes no argument")),
            (ArgumentKind::Document(_), None) => Err(wrong("it takes a document as its argument")),
            (ArgumentKind::Document(document), Some(json)) => {
                let document =
                    self.schema.document(*document).ok_or_else(|| wrong("its document is not defined"))?;
                let mut rows = Vec::new();
                self.tree(request, document, json, None, &mut rows)?;
                Ok(Some(rows))
            }
        }
    }

    /// Flattens a document tree, depth first.
    fn tree<'r>(
        &self,
        request: &Request,
        document: &'a DocumentSchema,
        json: &'r Json,
        parent: Option<u64>,
        rows: &mut Vec<TreeRow<'a, 'r>>,
    ) -> Result<(), RequestError> {
        let wrong = |problem: String| RequestError::Argument { command: request.command.clone(), problem };
        let Json::Object(object) = json else {
            return Err(wrong("a document is an object with \"id\", \"fields\" and \"children\"".to_owned()));
        };
        let allowed = |name: &str| {
            matches!(name, "id" | "fields" | "children") || (parent.is_some() && name == "create")
        };
        if let Some(name) = object.keys().find(|name| !allowed(name)) {
            return Err(wrong(format!("a document of the argument has no \"{name}\"")));
        }
        let raw = object.get("id").and_then(Json::as_u64).unwrap_or(0);
        let fields = match object.get("fields") {
            Some(Json::Object(fields)) => Some(fields),
            None => None,
            Some(_) => return Err(wrong("\"fields\" has to be an object".to_owned())),
        };
        rows.push(TreeRow { document, raw, parent, fields });
        if rows.len() > ARGUMENT_ROWS_MAX {
            let (max, found) = (ARGUMENT_ROWS_MAX, rows.len());
            return Err(RequestError::TooMany { what: "documents in its argument", max, found });
        }
        let children = match object.get("children") {
            Some(Json::Array(children)) => &children[..],
            None => &[],
            Some(_) => return Err(wrong("\"children\" has to be an array".to_owned())),
        };
        for child in children {
            let name = child.get("create").and_then(Json::as_str);
            let name =
                name.ok_or_else(|| wrong("a child needs \"create\" with its document's name".to_owned()))?;
            let child_document = self.document(name)?;
            self.tree(request, child_document, child, Some(raw), rows)?;
        }
        Ok(())
    }

    fn argument_rows(&mut self, tree: &[TreeRow<'a, '_>]) -> Result<Vec<Row>, RequestError> {
        let mut rows = Vec::with_capacity(tree.len());
        for row in tree {
            let empty = Map::new();
            rows.push(self.new_row(row.document, row.raw, row.parent, row.fields.unwrap_or(&empty))?);
        }
        Ok(rows)
    }

    fn change(&mut self, place: usize, change: &request::Change) -> Result<Option<Change>, RequestError> {
        match (&change.create, change.update) {
            (Some(name), None) => {
                let document = self.document(name)?;
                if document.kind == DocumentKind::O {
                    return Err(RequestError::OnlyAsArgument(name.clone()));
                }
                let row = self.new_row(document, change.id.unwrap_or(0), change.parent, &change.fields)?;
                Ok(Some(Change::Create(row)))
            }
            (None, Some(id)) if change.id.is_none() && change.parent.is_none() => {
                self.update(id, &change.fields)
            }
            _ => Err(RequestError::NoChange(place)),
        }
    }

    fn new_row(
        &mut self,
        document: &'a DocumentSchema,
        raw: u64,
        parent: Option<u64>,
        fields: &Map<String, Json>,
    ) -> Result<Row, RequestError> {
        match (document.parent, parent) {
            (None, None) => {}
            (None, Some(_)) => return Err(RequestError::NoParent(document.name.to_string())),
            (Some(expected), parent) => {
                let found = parent.map(|parent| self.type_of(parent)).transpose()?;
                if !matches!(found, Some(None)) && found.flatten() != Some(expected) {
                    let expected = self.name(expected);
                    return Err(RequestError::WrongParent { document: document.name.to_string(), expected });
                }
            }
        }
        let fields = self.fields(document, fields, true)?;
        let id = match document.singleton {
            Some(id) => {
                self.reads.push(self.keys().id(id));
                id
            }
            None => RecordId::new(raw),
        };
        let raw = u16::try_from(raw).map_err(|_| RequestError::NotRaw(raw))?;
        Ok(Row { document: document.id, id, raw: Some(raw), parent: parent.map(RecordId::new), fields })
    }

    fn update(&mut self, id: u64, fields: &Map<String, Json>) -> Result<Option<Change>, RequestError> {
        let id = RecordId::new(id);
        if id.is_raw() {
            return Err(RequestError::UnknownRecord(id));
        }
        let Some(document) = self.type_of(id.get())? else { return Ok(None) };
        let document = self.schema.document(document).ok_or(RequestError::UnknownRecord(id))?;
        if document.kind == DocumentKind::O {
            return Err(RequestError::NotUpdatable { id, document: document.name.to_string() });
        }
        let fields = self.fields(document, fields, false)?;
        self.reads.push(self.keys().record(document.kind, document.id, id));
        Ok(Some(Change::Update(Row { document: document.id, id, raw: None, parent: None, fields })))
    }

    fn name(&self, document: TypeId) -> String {
        self.schema
            .document(document)
            .map_or_else(|| document.to_string(), |document| document.name.to_string())
    }

    fn fields(
        &mut self,
        document: &DocumentSchema,
        fields: &Map<String, Json>,
        complete: bool,
    ) -> Result<Fields, RequestError> {
        let values = read_fields(document, fields, complete)?;
        for (id, value) in &values {
            let Value::Reference(to) = value else { continue };
            let Some(field) = document.field_by_id(*id) else { continue };
            let FieldKind::Reference(expected) = &field.kind else { continue };
            if let (Some(found), Some(expected)) = (self.type_of(to.get())?, *expected)
                && found != expected
            {
                return Err(RequestError::WrongReference {
                    document: document.name.to_string(),
                    field: field.name.to_string(),
                    expected: self.name(expected),
                    id: *to,
                    found: self.name(found),
                });
            }
        }
        Ok(values)
    }
}

/// Reads the fields that a client has sent. If `complete`, all required fields must be present.
pub(crate) fn read_fields(
    document: &DocumentSchema,
    fields: &Map<String, Json>,
    complete: bool,
) -> Result<Fields, RequestError> {
    let name = || document.name.to_string();
    let mut values = Vec::with_capacity(document.fields.len());
    for (field_name, json) in fields {
        let Some(field) = document.field(field_name) else {
            return Err(RequestError::UnknownField { document: name(), field: field_name.clone() });
        };
        if field.draw.is_some() {
            return Err(RequestError::DrawnField { document: name(), field: field_name.clone() });
        }
        if json.is_null() {
            if field.required {
                return Err(RequestError::MissingField { document: name(), field: field_name.clone() });
            }
            if !complete {
                values.push((field.id, Value::Null));
            }
            continue;
        }
        let value = Value::from_json(&field.kind, json).map_err(|expected| RequestError::WrongType {
            document: name(),
            field: field_name.clone(),
            expected,
            found: abbreviated(json),
        })?;
        values.push((field.id, value));
    }
    if complete {
        let given = |id| values.iter().any(|(given, _)| *given == id);
        let needed = |field: &&FieldSchema| field.required && !field.retired && !given(field.id);
        let missing = document.fields.iter().find(needed);
        if let Some(field) = missing {
            return Err(RequestError::MissingField { document: name(), field: field.name.to_string() });
        }
    }
    Ok(values)
}

/// JSON for an error message, shortened if it is long.
fn abbreviated(json: &Json) -> String {
    const SHOWN: usize = 60;
    let text = json.to_string();
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

struct TreeRow<'a, 'r> {
    document: &'a DocumentSchema,
    raw: u64,
    parent: Option<u64>,
    fields: Option<&'r Map<String, Json>>,
}

/// Refuses a text that cannot be an idempotency key.
pub(crate) fn check_key(key: &str) -> Result<(), RequestError> {
    let max = IDEMPOTENCY_KEY_BYTES_MAX;
    if key.is_empty() || key.len() > max {
        return Err(RequestError::BadKey { max, found: key.len() });
    }
    Ok(())
}
