//! Reading an application from TOML.
//!
//! It reads the TOML tree itself instead of using serde, so that every message has line, column and what to do.

mod entry;
mod part;
mod table;

use seriatim_types::PartitionCount;
use toml::de::DeTable;

use self::entry::Entry;
use self::table::Table;
use super::fault::Fault;
use super::{Application, DefinitionError, Position, RecordScheme, Subject, check, limits};

const KEYS: &[&str] = &["name", "partitions", "records", "sequences", "documents", "commands", "workspaces"];

/// Reads and checks an application.
pub(super) fn read(text: &str) -> Result<Application, DefinitionError> {
    if text.len() > limits::TEXT_BYTES_MAX {
        let (found, limit) = (text.len(), limits::TEXT_BYTES_MAX);
        return Err(Fault::too_many(Subject::Application, "", "bytes", found, limit).into_error(None));
    }
    let root = DeTable::parse(text).map_err(|error| syntax(text, &error))?;
    let mut places = Places::default();
    let read = read_application(root.get_ref(), &mut places);
    let checked = read.and_then(|application| check::check(&application).map(|()| application));
    checked.map_err(|fault| {
        let at = places.position(text, &fault);
        fault.into_error(Some(at))
    })
}

fn syntax(text: &str, error: &toml::de::Error) -> DefinitionError {
    let at = Position::of(text, error.span().map_or(0, |span| span.start));
    let problem = error.message().lines().map(str::trim).collect::<Vec<_>>().join(", ");
    DefinitionError::Syntax { at, problem }
}

/// The positions of subjects and their keys in the text, in bytes.
#[derive(Debug, Default)]
struct Places(std::collections::BTreeMap<(Subject, String), usize>);

impl Places {
    fn put(&mut self, subject: &Subject, key: &str, byte: usize) {
        self.0.insert((subject.clone(), key.to_owned()), byte);
    }

    /// The most exact position that is known: of the item of a list, of the key, of the subject, or the start of the text.
    fn position(&self, text: &str, fault: &Fault) -> Position {
        let key = fault.key.as_str();
        let list = key.split_once('/').map_or(key, |(list, _)| list);
        let mut known = [key, list, ""].into_iter();
        let byte = known.find_map(|key| self.0.get(&(fault.subject.clone(), key.to_owned())));
        Position::of(text, byte.copied().unwrap_or(0))
    }
}

fn read_application(root: &DeTable<'_>, places: &mut Places) -> Result<Application, Fault> {
    let table = Table::new(Subject::Application, root, KEYS, places)?;
    let name = table.required("name", "give the application a name, as in name = \"shop\"")?;
    let name = name.text(places)?;
    let why = "set the number of partitions that workspaces are distributed over, as in partitions = 4; it can never be changed";
    let count = table.required("partitions", why)?.integer(places)?;
    let count = u16::try_from(count).ok().and_then(PartitionCount::new);
    let records = table.optional("records").map(|entry| read_scheme(&entry, places)).transpose()?;
    Ok(Application {
        name,
        partitions: count.ok_or_else(check::partitions_fault)?,
        records: records.unwrap_or_default(),
        sequences: read_named(table.optional("sequences"), Subject::Sequence, part::sequence, places)?,
        documents: read_named(table.optional("documents"), Subject::Document, part::document, places)?,
        commands: read_named(table.optional("commands"), Subject::Command, part::command, places)?,
        kinds: read_named(table.optional("workspaces"), Subject::Kind, part::kind, places)?,
    })
}

fn read_scheme(entry: &Entry<'_>, places: &mut Places) -> Result<RecordScheme, Fault> {
    match entry.text(places)?.as_str() {
        "split" => Ok(RecordScheme::Split),
        "single" => Ok(RecordScheme::Single),
        other => Err(entry.fault(format!("records is {other:?}: use \"split\" or \"single\""), places)),
    }
}

/// Reads a table of named items, in the order of the text.
fn read_named<'t, T>(
    entry: Option<Entry<'t>>,
    subject: impl Fn(String) -> Subject,
    read: impl Fn(&str, &Entry<'t>, &mut Places) -> Result<T, Fault>,
    places: &mut Places,
) -> Result<Vec<T>, Fault> {
    let Some(entry) = entry else { return Ok(Vec::new()) };
    let mut things = Vec::new();
    for item in entry.items(places)? {
        let subject = subject(item.name.to_owned());
        places.put(&subject, "", item.at);
        things.push(read(item.name, &Entry::new(subject, "", item.value), places)?);
    }
    Ok(things)
}

#[cfg(test)]
mod tests;
