//! Sequences, documents, commands and kinds of workspace in the text.

use seriatim_types::Number;
use toml::de::DeValue;

use super::Places;
use super::entry::Entry;
use super::table::Table;
use crate::fault::Fault;
use crate::{
    Argument, CommandDefinition, DocumentDefinition, DocumentKind, FieldDefinition, FieldType,
    KindDefinition, Place, SequenceDefinition, Subject,
};

const SEQUENCE_KEYS: &[&str] = &["first", "last", "ranges", "space"];
const DOCUMENT_KEYS: &[&str] = &["kind", "parent", "singleton", "fields"];
const FIELD_KEYS: &[&str] = &["type", "to", "draw", "required"];
const COMMAND_KEYS: &[&str] = &["argument", "unlogged", "sequences"];
const KIND_KEYS: &[&str] = &["documents", "commands", "sequences"];

fn table<'t>(
    entry: &Entry<'t>,
    keys: &'static [&'static str],
    places: &mut Places,
) -> Result<Table<'t>, Fault> {
    Table::new(entry.subject.clone(), entry.table(places)?, keys, places)
}

fn flag(table: &Table<'_>, key: &'static str, places: &mut Places) -> Result<bool, Fault> {
    table.optional(key).map_or(Ok(false), |entry| entry.boolean(places))
}

fn text(table: &Table<'_>, key: &'static str, places: &mut Places) -> Result<Option<String>, Fault> {
    table.optional(key).map(|entry| entry.text(places)).transpose()
}

fn names(table: &Table<'_>, key: &'static str, places: &mut Places) -> Result<Option<Vec<String>>, Fault> {
    table.optional(key).map(|entry| entry.names(places)).transpose()
}

pub(super) fn sequence(
    name: &str,
    entry: &Entry<'_>,
    places: &mut Places,
) -> Result<SequenceDefinition, Fault> {
    let table = table(entry, SEQUENCE_KEYS, places)?;
    let first = table.optional("first").map(|entry| entry.integer(places)).transpose()?;
    let last = table.optional("last");
    let ranges = match table.optional("ranges") {
        Some(ranges) => {
            if let Some(last) = last {
                return Err(last.fault(
                    "last is used with first only, and ranges have their own ends: remove last",
                    places,
                ));
            }
            ranges.ranges(places)?
        }
        None => {
            let last = last.map_or(Ok(Number::LAST_IN_JSON.get()), |entry| entry.integer(places))?;
            vec![(first.unwrap_or(1), last)]
        }
    };
    let start = ranges.first().map_or(0, |(start, _)| *start);
    Ok(SequenceDefinition {
        name: name.to_owned(),
        first: first.unwrap_or(start),
        ranges,
        space: text(&table, "space", places)?,
    })
}

pub(super) fn document(
    name: &str,
    entry: &Entry<'_>,
    places: &mut Places,
) -> Result<DocumentDefinition, Fault> {
    let table = table(entry, DOCUMENT_KEYS, places)?;
    let place = place(&table, places)?;
    let mut fields = Vec::new();
    if let Some(entry) = table.optional("fields") {
        for item in entry.items(places)? {
            let subject = Subject::Field { document: name.to_owned(), field: item.name.to_owned() };
            places.put(&subject, "", item.at);
            fields.push(field(item.name, &Entry::new(subject, "", item.value), places)?);
        }
    }
    Ok(DocumentDefinition { name: name.to_owned(), place, fields })
}

fn place(table: &Table<'_>, places: &mut Places) -> Result<Place, Fault> {
    let singleton = flag(table, "singleton", places)?;
    if let Some(parent) = table.optional("parent") {
        if let Some(kind) = table.optional("kind") {
            return Err(kind.fault("a child record has the kind of its parent: remove kind", places));
        }
        if let (true, Some(entry)) = (singleton, table.optional("singleton")) {
            return Err(entry.fault("a child record cannot be a singleton: remove singleton", places));
        }
        return Ok(Place::Child { parent: parent.text(places)? });
    }
    let kind = table
        .required("kind", "use \"C\", \"O\" or \"W\", or name the parent of a child record with parent")?;
    let kind = match kind.text(places)?.as_str() {
        "C" => DocumentKind::C,
        "O" => DocumentKind::O,
        "W" => DocumentKind::W,
        other => {
            let problem = format!("kind is {other:?}: use \"C\", \"O\" or \"W\"");
            return Err(kind.fault(problem, places));
        }
    };
    Ok(Place::Root { kind, singleton })
}

fn field(name: &str, entry: &Entry<'_>, places: &mut Places) -> Result<FieldDefinition, Fault> {
    if let DeValue::String(type_name) = entry.value() {
        let field_type = field_type(type_name);
        let field_type = field_type.ok_or_else(|| entry.fault(unknown_type(type_name), places))?;
        return Ok(FieldDefinition::new(name, field_type));
    }
    if !matches!(entry.value(), DeValue::Table(_)) {
        let problem =
            "it must be a type, as in \"text\", or a table, as in { type = \"text\", required = true }";
        return Err(entry.fault(problem, places));
    }
    let table = table(entry, FIELD_KEYS, places)?;
    let (to, draw) = (text(&table, "to", places)?, text(&table, "draw", places)?);
    let field_type = match table.optional("type") {
        Some(entry) => {
            let type_name = entry.text(places)?;
            field_type(&type_name).ok_or_else(|| entry.fault(unknown_type(&type_name), places))?
        }
        None if to.is_some() => FieldType::Reference(None),
        None if draw.is_some() => FieldType::Integer,
        None => {
            return Err(table.required("type", TYPES).err().unwrap_or_else(|| entry.fault(TYPES, places)));
        }
    };
    let field_type = match (field_type, to, table.optional("to")) {
        (FieldType::Reference(_), to, _) => FieldType::Reference(to),
        (other, Some(_), Some(entry)) => {
            let problem = format!("to is for references only, and the type is {other}: remove one of them");
            return Err(entry.fault(problem, places));
        }
        (other, ..) => other,
    };
    let required = flag(&table, "required", places)?;
    Ok(FieldDefinition { name: name.to_owned(), field_type, required, draw })
}

const TYPES: &str = "use text, integer, decimal, bool, timestamp, reference or json";

fn unknown_type(name: &str) -> String {
    format!("{name:?} is not a type: {TYPES}")
}

fn field_type(name: &str) -> Option<FieldType> {
    Some(match name {
        "text" => FieldType::Text,
        "integer" => FieldType::Integer,
        "decimal" => FieldType::Decimal,
        "bool" => FieldType::Bool,
        "timestamp" => FieldType::Timestamp,
        "reference" => FieldType::Reference(None),
        "json" => FieldType::Json,
        _ => return None,
    })
}

pub(super) fn command(
    name: &str,
    entry: &Entry<'_>,
    places: &mut Places,
) -> Result<CommandDefinition, Fault> {
    let table = table(entry, COMMAND_KEYS, places)?;
    let argument = match text(&table, "argument", places)?.as_deref() {
        None | Some("none") => Argument::None,
        Some("json") => Argument::Json,
        Some(document) => Argument::Document(document.to_owned()),
    };
    Ok(CommandDefinition {
        name: name.to_owned(),
        argument,
        unlogged: flag(&table, "unlogged", places)?,
        sequences: names(&table, "sequences", places)?.unwrap_or_default(),
    })
}

pub(super) fn kind(name: &str, entry: &Entry<'_>, places: &mut Places) -> Result<KindDefinition, Fault> {
    let table = table(entry, KIND_KEYS, places)?;
    Ok(KindDefinition {
        name: name.to_owned(),
        documents: names(&table, "documents", places)?,
        commands: names(&table, "commands", places)?,
        sequences: names(&table, "sequences", places)?.unwrap_or_default(),
    })
}
