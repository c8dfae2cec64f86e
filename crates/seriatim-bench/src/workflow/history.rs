//! A history as a Temporal server stores it: protobuf, written field by field.

use seriatim_workflow::Payload;

/// A message that is being written.
#[derive(Debug, Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.0.push((value & 0x7f) as u8);
    }

    fn integer(mut self, field: u64, value: u64) -> Self {
        self.varint(field << 3);
        self.varint(value);
        self
    }

    fn bytes(mut self, field: u64, bytes: &[u8]) -> Self {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    fn text(self, field: u64, text: &str) -> Self {
        self.bytes(field, text.as_bytes())
    }

    fn message(self, field: u64, message: &Self) -> Self {
        self.bytes(field, &message.0)
    }

    /// A message that has only a name.
    fn named(self, field: u64, name: &str) -> Self {
        self.message(field, &Self::default().text(1, name))
    }

    /// One payload in a list of them.
    fn payload(self, field: u64, value: u64) -> anyhow::Result<Self> {
        let payload = Payload::json(&value)?;
        let mut written = Self::default();
        for (key, value) in payload.metadata.iter() {
            written = written.message(1, &Self::default().text(1, key).bytes(2, value));
        }
        let written = written.bytes(2, &payload.data);
        Ok(self.message(field, &Self::default().message(1, &written)))
    }
}

/// A history that grows event by event.
#[derive(Debug, Default)]
struct Writer {
    history: Message,
    events: u64,
}

impl Writer {
    /// Adds an event of this type, with its attributes in this field, and returns its id.
    fn event(&mut self, event_type: u64, field: u64, attributes: &Message) -> u64 {
        self.events += 1;
        let time = Message::default().integer(1, 1_700_000_000 + self.events);
        let event = Message::default()
            .integer(1, self.events)
            .message(2, &time)
            .integer(3, event_type)
            .message(field, attributes);
        self.history = std::mem::take(&mut self.history).message(1, &event);
        self.events
    }

    /// Adds a workflow task that is scheduled, started and completed, and returns the id of its completion.
    fn task(&mut self) -> u64 {
        let scheduled = self.event(5, 10, &Message::default().named(1, "bench").integer(3, 1));
        let started = self.event(6, 11, &Message::default().integer(1, scheduled));
        self.event(7, 12, &Message::default().integer(1, scheduled).integer(2, started))
    }

    fn activity(&mut self, seq: u64, completed: u64, start_to_close_s: u64) -> anyhow::Result<()> {
        let timeout = Message::default().integer(1, start_to_close_s);
        let scheduled = Message::default().text(1, &seq.to_string()).named(2, "double").named(4, "bench");
        let scheduled = scheduled.payload(6, seq - 1)?.message(9, &timeout).integer(11, completed);
        let scheduled = self.event(10, 15, &scheduled);
        let started = self.event(11, 16, &Message::default().integer(1, scheduled).integer(4, 1));
        let done = Message::default().payload(1, 2 * (seq - 1))?.integer(2, scheduled).integer(3, started);
        self.event(12, 17, &done);
        Ok(())
    }
}

/// The run of a workflow that doubles the numbers below `count`, one activity after the other, and adds them up.
pub(super) fn one_by_one(count: u64) -> anyhow::Result<Vec<u8>> {
    let mut writer = Writer::default();
    let start = Message::default().named(1, "one_by_one").named(5, "bench").payload(6, count)?;
    let start = start.text(14, "run").text(16, "run").integer(18, 1).text(28, "bench");
    writer.event(1, 6, &start);
    for seq in 1..=count {
        let completed = writer.task();
        writer.activity(seq, completed, super::core::ACTIVITY_S)?;
    }
    let completed = writer.task();
    let sum = count * count.saturating_sub(1);
    writer.event(2, 7, &Message::default().payload(1, sum)?.integer(2, completed));
    Ok(writer.history.0)
}
