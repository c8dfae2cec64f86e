//! A table in the text whose keys are known.

use toml::de::{DeTable, DeValue};

use super::Places;
use super::entry::Entry;
use crate::Subject;
use crate::fault::Fault;

/// A table whose keys are all known.
pub(super) struct Table<'t> {
    subject: Subject,
    table: &'t DeTable<'t>,
    keys: &'static [&'static str],
}

impl<'t> Table<'t> {
    /// The table, if it has no other keys than these. Their positions are kept.
    pub(super) fn new(
        subject: Subject,
        table: &'t DeTable<'t>,
        keys: &'static [&'static str],
        places: &mut Places,
    ) -> Result<Self, Fault> {
        let mut unknown = Vec::new();
        for (key, value) in table {
            let name = key.get_ref().as_ref();
            match keys.contains(&name) {
                true => places.put(&subject, name, value.span().start),
                false => unknown.push((key.span().start, name, value.get_ref())),
            }
        }
        match unknown.into_iter().min_by_key(|(at, ..)| *at) {
            None => Ok(Self { subject, table, keys }),
            Some((at, name, value)) => {
                places.put(&subject, name, at);
                let problem = unknown_key(&subject, name, value, keys);
                Err(Fault::new(subject, name, problem))
            }
        }
    }

    /// The value of a key.
    pub(super) fn optional(&self, key: &'static str) -> Option<Entry<'t>> {
        debug_assert!(self.keys.contains(&key), "{key} is not one of the known keys");
        self.table.get(key).map(|value| Entry::new(self.subject.clone(), key, value))
    }

    /// The value of a required key.
    pub(super) fn required(&self, key: &'static str, what_to_do: &str) -> Result<Entry<'t>, Fault> {
        let missing = || Fault::new(self.subject.clone(), "", format!("{key} is missing: {what_to_do}"));
        self.optional(key).ok_or_else(missing)
    }
}

fn unknown_key(subject: &Subject, key: &str, value: &DeValue<'_>, keys: &[&str]) -> String {
    let section = match subject {
        Subject::Sequence(name) => Some(("sequences", name)),
        Subject::Document(name) => Some(("documents", name)),
        Subject::Command(name) => Some(("commands", name)),
        Subject::Kind(name) => Some(("workspaces", name)),
        Subject::Application | Subject::Field { .. } => None,
    };
    let known = keys.join(", ");
    match (section, value) {
        (Some((section, name)), DeValue::Table(_)) => format!(
            "unknown key {key}: use {known}; a name with a dot is written in quotes, [{section}.\"{name}.{key}\"]"
        ),
        _ => format!("unknown key {key}: use {known}"),
    }
}
