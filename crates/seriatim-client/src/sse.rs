//! Server-sent events, read from bytes in pieces of any size.

/// The largest message in bytes: the largest event fits, and a line without an end is detected.
const MESSAGE_BYTES_MAX: usize = 64 << 20;

/// A message that is complete.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Message {
    /// Its kind; empty: the default kind.
    pub(crate) event: String,
    pub(crate) id: Option<String>,
    pub(crate) data: String,
}

/// A message is longer than [`MESSAGE_BYTES_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooLong;

/// Reads messages.
#[derive(Debug, Default)]
pub(crate) struct Parser {
    /// Bytes that are not read yet.
    bytes: Vec<u8>,
    /// Bytes before this position contain no end of a line.
    searched: usize,
    message: Message,
    has_data: bool,
}

impl Parser {
    /// Adds a piece.
    pub(crate) fn push(&mut self, piece: &[u8]) -> Result<(), TooLong> {
        if self.bytes.len() + self.message.data.len() + piece.len() > MESSAGE_BYTES_MAX {
            return Err(TooLong);
        }
        self.bytes.extend_from_slice(piece);
        Ok(())
    }

    /// The next message, if it is complete.
    pub(crate) fn next(&mut self) -> Option<Message> {
        let mut read = 0;
        let mut complete = None;
        while let Some(length) = self.bytes[read.max(self.searched)..].iter().position(|byte| *byte == b'\n')
        {
            let end = read.max(self.searched) + length;
            let line = String::from_utf8_lossy(&self.bytes[read..end]).into_owned();
            read = end + 1;
            complete = self.take(line.strip_suffix('\r').unwrap_or(&line));
            if complete.is_some() {
                break;
            }
        }
        self.bytes.drain(..read);
        self.searched = if complete.is_some() { 0 } else { self.bytes.len() };
        complete
    }

    fn take(&mut self, line: &str) -> Option<Message> {
        if line.is_empty() {
            let message = std::mem::take(&mut self.message);
            let complete = std::mem::take(&mut self.has_data) || !message.event.is_empty();
            return complete.then_some(message);
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.message.event),
            "id" => self.message.id = Some(value.to_owned()),
            "data" => {
                if self.has_data {
                    self.message.data.push('\n');
                }
                self.message.data.push_str(value);
                self.has_data = true;
            }
            // A comment is a sign of life of the server; other fields are for browsers.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &[u8] =
        b": hello\n\nid: 1\ndata: {\"a\":1}\n\nid:2\r\ndata: x\r\ndata: y\r\n\r\nretry: 5\n\nevent: end\ndata: 3\n\nid: 4\ndata";

    fn all(parser: &mut Parser) -> Vec<(String, Option<String>, String)> {
        std::iter::from_fn(|| parser.next())
            .map(|message| (message.event, message.id, message.data))
            .collect()
    }

    #[test]
    fn messages_come_out_whole_however_the_bytes_are_cut() {
        let expected = [("", Some("1"), "{\"a\":1}"), ("", Some("2"), "x\ny"), ("end", None, "3")]
            .map(|(event, id, data)| (event.to_owned(), id.map(str::to_owned), data.to_owned()));
        for size in 1..=STREAM.len() {
            let mut parser = Parser::default();
            let mut found = Vec::new();
            for piece in STREAM.chunks(size) {
                parser.push(piece).unwrap();
                found.extend(all(&mut parser));
            }
            assert_eq!(found, expected, "in pieces of {size}");
        }
    }

    #[test]
    fn a_line_without_end_is_refused() {
        let mut parser = Parser::default();
        let piece = vec![b'x'; 1 << 20];
        let pushed = (0..=64).map(|_| parser.push(&piece)).find(Result::is_err);
        assert_eq!(pushed, Some(Err(TooLong)));
    }
}
