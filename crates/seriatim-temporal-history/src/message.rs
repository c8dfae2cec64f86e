//! A message of Temporal's, from JSON or from bytes.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use seriatim_workflow::{Headers, Payload, Time};

/// A field: its number in protobuf, and its name, which JSON has in snake or camel case.
pub(crate) type Field = (u32, &'static str);

/// The first thing that could not be read; what is read after it does not count.
#[derive(Clone, Default)]
pub(crate) struct Problem(Rc<RefCell<Option<String>>>);

impl Problem {
    pub(crate) fn note(&self, problem: impl FnOnce() -> String) {
        self.0.borrow_mut().get_or_insert_with(problem);
    }

    pub(crate) fn take(&self) -> Option<String> {
        self.0.borrow_mut().take()
    }
}

/// A message, from JSON or from bytes. Fields that are absent have their defaults; unknown ones are skipped.
pub(crate) trait Message: Sized {
    fn text(&self, field: Field) -> String;
    fn int(&self, field: Field) -> i64;
    fn ints(&self, field: Field) -> Vec<i64>;
    fn float(&self, field: Field) -> f64;
    /// An enum's number. In JSON it may be spelled in either way, `TIMEOUT_TYPE_HEARTBEAT` or `Heartbeat`, or be a number.
    fn choice(&self, field: Field, prefix: &str, names: &[&str]) -> usize;
    fn message(&self, field: Field) -> Option<Self>;
    fn list(&self, field: Field) -> Vec<Self>;
    fn texts(&self, field: Field) -> Vec<String>;
    fn entries(&self, field: Field) -> Vec<(String, Self)>;
    fn duration(&self, field: Field) -> Option<Duration>;
    fn time(&self, field: Field) -> Option<Time>;
    fn payload(&self) -> Payload;
    /// The one part of an event that depends on its type.
    fn attributes(&self) -> Option<Self>;

    fn flag(&self, field: Field) -> bool {
        self.int(field) != 0
    }

    fn payloads(&self, field: Field) -> Vec<Payload> {
        let payloads = self.message(field).map(|payloads| payloads.list((1, "payloads")));
        payloads.unwrap_or_default().iter().map(Self::payload).collect()
    }

    /// Named payloads, below a message that has nothing else: header, memo, search attributes.
    fn named(&self, field: Field, inner: &'static str) -> Headers {
        let entries = self.message(field).map(|message| message.entries((1, inner))).unwrap_or_default();
        entries.into_iter().map(|(name, payload)| (name, payload.payload())).collect()
    }

    /// The name below a message that has nothing else: workflow type, activity type, task queue.
    fn name(&self, field: Field) -> String {
        self.message(field).map(|message| message.text((1, "name"))).unwrap_or_default()
    }
}

/// The number of an enum's value that JSON spells in one of two ways.
pub(crate) fn spelled(text: &str, prefix: &str, names: &[&str]) -> Option<usize> {
    fn letters(text: &str) -> impl Iterator<Item = u8> {
        text.bytes().filter(u8::is_ascii_alphanumeric).map(|letter| letter.to_ascii_lowercase())
    }
    let short = text.strip_prefix(prefix).unwrap_or(text);
    names.iter().position(|name| letters(name).eq(letters(short)))
}
