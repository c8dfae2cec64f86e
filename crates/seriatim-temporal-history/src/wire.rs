//! Protobuf's binary form: fields by number, read without a schema.

use std::time::Duration;

use bytes::Bytes;

use seriatim_workflow::{Metadata, Payload, Time};

use crate::message::{Field, Message, Problem};

/// A message of which the fields are known by number.
pub(crate) struct Wire {
    fields: Vec<(u32, Value)>,
    problem: Problem,
}

#[derive(Clone)]
enum Value {
    Integer(u64),
    Bytes(Bytes),
}

/// Reads a number of up to ten bytes, seven bits each, the lowest first, and moves `at` past it.
fn varint(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = *bytes.get(*at)?;
        *at += 1;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// Reads so many bytes, and moves `at` past them.
fn fixed<const N: usize>(bytes: &[u8], at: &mut usize) -> Option<[u8; N]> {
    let found = bytes.get(*at..at.checked_add(N)?)?.try_into().ok()?;
    *at += N;
    Some(found)
}

fn fields(bytes: &Bytes) -> Option<Vec<(u32, Value)>> {
    let mut fields = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let key = varint(bytes, &mut at)?;
        let value = match key & 7 {
            0 => Value::Integer(varint(bytes, &mut at)?),
            1 => Value::Integer(u64::from_le_bytes(fixed(bytes, &mut at)?)),
            2 => {
                let len = usize::try_from(varint(bytes, &mut at)?).ok()?;
                let end = at.checked_add(len).filter(|end| *end <= bytes.len())?;
                let value = Value::Bytes(bytes.slice(at..end));
                at = end;
                value
            }
            5 => Value::Integer(u64::from(u32::from_le_bytes(fixed(bytes, &mut at)?))),
            _ => return None,
        };
        fields.push((u32::try_from(key >> 3).ok()?, value));
    }
    Some(fields)
}

/// Messages one after the other, each after its length: as programs write several of them into one file. None if the
/// lengths do not add up to the whole.
pub(crate) fn delimited(bytes: &Bytes) -> Option<Vec<Bytes>> {
    let (mut messages, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let len = usize::try_from(varint(bytes, &mut at)?).ok()?;
        let end = at.checked_add(len).filter(|end| *end <= bytes.len())?;
        messages.push(bytes.slice(at..end));
        at = end;
    }
    Some(messages)
}

impl Wire {
    pub(crate) fn new(bytes: &Bytes, problem: &Problem) -> Self {
        let fields = fields(bytes).unwrap_or_else(|| {
            problem.note(|| "a message is cut off or damaged".to_owned());
            Vec::new()
        });
        Self { fields, problem: problem.clone() }
    }

    /// The field's value; of several the last, as protobuf specifies.
    fn get(&self, number: u32) -> Option<&Value> {
        self.fields.iter().rev().find(|(field, _)| *field == number).map(|(_, value)| value)
    }

    fn bytes(&self, number: u32) -> Option<Bytes> {
        match self.get(number)? {
            Value::Bytes(bytes) => Some(bytes.clone()),
            Value::Integer(_) => None,
        }
    }

    fn string(&self, bytes: &[u8]) -> String {
        String::from_utf8(bytes.to_vec()).unwrap_or_else(|_| {
            self.problem.note(|| "a text is not UTF-8".to_owned());
            String::new()
        })
    }

    fn all(&self, number: u32) -> impl Iterator<Item = &Bytes> {
        self.fields.iter().filter_map(move |(field, value)| match value {
            Value::Bytes(bytes) if *field == number => Some(bytes),
            _ => None,
        })
    }

    fn below(&self, bytes: &Bytes) -> Self {
        Self::new(bytes, &self.problem)
    }

    /// Seconds and nanoseconds, as durations and times have them.
    fn seconds(&self, field: Field) -> Option<(u64, u32)> {
        let message = self.message(field)?;
        let seconds = u64::try_from(message.int((1, "seconds"))).unwrap_or(0);
        Some((seconds, u32::try_from(message.int((2, "nanos"))).unwrap_or(0)))
    }
}

impl Message for Wire {
    fn text(&self, (number, _): Field) -> String {
        self.bytes(number).map(|bytes| self.string(&bytes)).unwrap_or_default()
    }

    fn int(&self, (number, _): Field) -> i64 {
        match self.get(number) {
            Some(Value::Integer(value)) => value.cast_signed(),
            _ => 0,
        }
    }

    fn ints(&self, (number, _): Field) -> Vec<i64> {
        let mut found = Vec::new();
        for (_, value) in self.fields.iter().filter(|(field, _)| *field == number) {
            match value {
                Value::Integer(value) => found.push(value.cast_signed()),
                // Packed: one after the other.
                Value::Bytes(bytes) => {
                    let mut at = 0;
                    while let Some(value) = varint(bytes, &mut at) {
                        found.push(value.cast_signed());
                    }
                }
            }
        }
        found
    }

    fn float(&self, field: Field) -> f64 {
        f64::from_bits(self.int(field).cast_unsigned())
    }

    fn choice(&self, field: Field, _: &str, _: &[&str]) -> usize {
        usize::try_from(self.int(field)).unwrap_or(0)
    }

    fn message(&self, (number, _): Field) -> Option<Self> {
        self.bytes(number).map(|bytes| self.below(&bytes))
    }

    fn list(&self, (number, _): Field) -> Vec<Self> {
        self.all(number).map(|bytes| self.below(bytes)).collect()
    }

    fn texts(&self, (number, _): Field) -> Vec<String> {
        self.all(number).map(|bytes| self.string(bytes)).collect()
    }

    fn entries(&self, field: Field) -> Vec<(String, Self)> {
        let entries = self.list(field).into_iter();
        entries
            .map(|entry| (entry.text((1, "key")), entry.below(&entry.bytes(2).unwrap_or_default())))
            .collect()
    }

    fn duration(&self, field: Field) -> Option<Duration> {
        self.seconds(field).map(|(seconds, nanos)| Duration::new(seconds, nanos))
    }

    fn time(&self, field: Field) -> Option<Time> {
        let (seconds, nanos) = self.seconds(field)?;
        Some(Time::from_micros(seconds.saturating_mul(1_000_000).saturating_add(u64::from(nanos / 1000))))
    }

    fn payload(&self) -> Payload {
        let entries = self.list((1, "metadata")).into_iter();
        let metadata: Metadata =
            entries.map(|entry| (entry.text((1, "key")), entry.bytes(2).unwrap_or_default())).collect();
        Payload { metadata, data: self.bytes(2).unwrap_or_default() }
    }

    fn attributes(&self) -> Option<Self> {
        let attributes = self.fields.iter().find(|(number, _)| (6..300).contains(number));
        match &attributes?.1 {
            Value::Bytes(bytes) => Some(self.below(bytes)),
            Value::Integer(_) => None,
        }
    }
}
