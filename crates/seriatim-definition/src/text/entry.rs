//! A value of the text, with the subject and the key that it belongs to.

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::Places;
use crate::Subject;
use crate::fault::Fault;

/// A value of the text, with the subject and the key that it belongs to.
#[derive(Debug, Clone)]
pub(super) struct Entry<'t> {
    pub(super) subject: Subject,
    /// Empty if the value is the subject itself.
    key: &'static str,
    value: &'t Spanned<DeValue<'t>>,
}

/// An item of a table.
#[derive(Debug)]
pub(super) struct Item<'t> {
    pub(super) name: &'t str,
    /// The position of its name, in bytes.
    pub(super) at: usize,
    pub(super) value: &'t Spanned<DeValue<'t>>,
}

impl<'t> Entry<'t> {
    pub(super) fn new(subject: Subject, key: &'static str, value: &'t Spanned<DeValue<'t>>) -> Self {
        Self { subject, key, value }
    }

    pub(super) fn value(&self) -> &'t DeValue<'t> {
        self.value.get_ref()
    }

    /// A fault at this value.
    pub(super) fn fault(&self, problem: impl Into<String>, places: &mut Places) -> Fault {
        if !self.key.is_empty() {
            places.put(&self.subject, self.key, self.value.span().start);
        }
        Fault::new(self.subject.clone(), self.key, problem)
    }

    fn expected(&self, what: &str, example: &str, places: &mut Places) -> Fault {
        let found = match self.value() {
            DeValue::String(_) => "a text",
            DeValue::Integer(_) => "an integer",
            DeValue::Float(_) => "a number with a point",
            DeValue::Boolean(_) => "true or false",
            DeValue::Datetime(_) => "a date",
            DeValue::Array(_) => "a list",
            DeValue::Table(_) => "a table",
        };
        let name = if self.key.is_empty() { "it" } else { self.key };
        self.fault(format!("{name} must be {what}, as in {example}, not {found}"), places)
    }

    pub(super) fn text(&self, places: &mut Places) -> Result<String, Fault> {
        match self.value() {
            DeValue::String(text) => Ok(text.to_string()),
            _ => Err(self.expected("a text", &format!("{} = \"…\"", self.key), places)),
        }
    }

    pub(super) fn boolean(&self, places: &mut Places) -> Result<bool, Fault> {
        match self.value() {
            DeValue::Boolean(value) => Ok(*value),
            _ => Err(self.expected("true or false", &format!("{} = true", self.key), places)),
        }
    }

    pub(super) fn integer(&self, places: &mut Places) -> Result<u64, Fault> {
        match self.value() {
            DeValue::Integer(digits) => u64::from_str_radix(digits.as_str(), digits.radix()).map_err(|_| {
                let problem = format!("{} is {digits}: use a whole number from 0 to {}", self.key, u64::MAX);
                self.fault(problem, places)
            }),
            _ => Err(self.expected("a whole number", &format!("{} = 1", self.key), places)),
        }
    }

    /// A list of names. The position of each is kept.
    pub(super) fn names(&self, places: &mut Places) -> Result<Vec<String>, Fault> {
        let example = format!("{} = [\"…\"]", self.key);
        let DeValue::Array(items) = self.value() else {
            return Err(self.expected("a list of names", &example, places));
        };
        let mut names = Vec::new();
        for item in items {
            let DeValue::String(name) = item.get_ref() else {
                let item = Self { value: item, ..self.clone() };
                return Err(item.expected("a list of names", &example, places));
            };
            // Of two equal names, the position of the later one is kept: that one is the fault.
            places.put(&self.subject, &format!("{}/{name}", self.key), item.span().start);
            names.push(name.to_string());
        }
        Ok(names)
    }

    /// A list of pairs of numbers.
    pub(super) fn ranges(&self, places: &mut Places) -> Result<Vec<(u64, u64)>, Fault> {
        let example = format!("{} = [[1000, 1999], [5000, 9999]]", self.key);
        let DeValue::Array(items) = self.value() else {
            return Err(self.expected("a list of pairs", &example, places));
        };
        let mut ranges = Vec::new();
        for item in items {
            let pair = Self { value: item, ..self.clone() };
            let DeValue::Array(ends) = item.get_ref() else {
                return Err(pair.expected("a list of pairs", &example, places));
            };
            let ends = ends.iter().map(|end| Self { value: end, ..self.clone() }.integer(places));
            match ends.collect::<Result<Vec<_>, _>>()?.as_slice() {
                [first, last] => ranges.push((*first, *last)),
                other => {
                    let problem =
                        format!("a range has two numbers, its first and its last, not {}", other.len());
                    return Err(pair.fault(problem, places));
                }
            }
        }
        Ok(ranges)
    }

    /// The value as a table.
    pub(super) fn table(&self, places: &mut Places) -> Result<&'t DeTable<'t>, Fault> {
        match (self.value(), &self.subject) {
            (DeValue::Table(table), _) => Ok(table),
            (_, Subject::Application) => {
                Err(self.expected("a table", &format!("[{}.NAME]", self.key), places))
            }
            (_, Subject::Document(_)) if self.key == "fields" => {
                Err(self.expected("a table", "fields.NAME = \"text\"", places))
            }
            _ => Err(self.expected("a table", "{ KEY = VALUE }", places)),
        }
    }

    /// The items of the value as a table, in the order of the text.
    pub(super) fn items(&self, places: &mut Places) -> Result<Vec<Item<'t>>, Fault> {
        let item = |(key, value): (&'t Spanned<DeString<'t>>, &'t Spanned<DeValue<'t>>)| Item {
            name: key.get_ref().as_ref(),
            at: key.span().start,
            value,
        };
        let mut items: Vec<_> = self.table(places)?.iter().map(item).collect();
        items.sort_by_key(|item| item.at);
        Ok(items)
    }
}
