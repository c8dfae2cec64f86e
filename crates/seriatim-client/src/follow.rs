//! Following a log.

use std::fmt;

use futures_util::stream::StreamExt as _;
use http::header::HeaderName;
use seriatim_api::Event;

use crate::call::Call;
use crate::client::Client;
use crate::error::ClientError;
use crate::sse::{Message, Parser};
use crate::transport::Body;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// Follows a log: what is there, then what comes. When a connection breaks, is silent for too long, or the server restarts,
/// it goes on behind the last event that it has seen.
///
/// ```no_run
/// # async fn example(client: seriatim_client::Client) -> Result<(), seriatim_client::ClientError> {
/// let mut log = client.application("shop").workspace(140_737_488_486_400).follow(1);
/// loop {
///     let event = log.next().await?;
///     println!("{} {}", event.workspace_offset, event.command);
/// }
/// # }
/// ```
pub struct Follower {
    client: Client,
    path: String,
    /// The offset that comes next.
    next: u64,
    /// Connections since the last event.
    barren: u32,
    stream: Option<Body>,
    parser: Parser,
}

impl fmt::Debug for Follower {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Follower").field("path", &self.path).field("next", &self.next).finish_non_exhaustive()
    }
}

impl Follower {
    pub(crate) fn new(client: Client, path: String, from: u64) -> Self {
        Self { client, path, next: from, barren: 0, stream: None, parser: Parser::default() }
    }

    /// The offset that comes next: where to go on another time.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.next
    }

    /// The next event; waits until there is one. Cancel-safe: a dropped call loses no event.
    ///
    /// # Errors
    ///
    /// [`ClientError`], when the server refuses, or does not answer for longer than the client's patience. It can be asked
    /// again, and goes on where it was.
    pub async fn next(&mut self) -> Result<Event, ClientError> {
        loop {
            if let Some(message) = self.parser.next() {
                match self.read(&message)? {
                    Some(event) => return Ok(event),
                    None => continue,
                }
            }
            let Some(stream) = &mut self.stream else {
                self.connect().await?;
                continue;
            };
            let silence = self.client.options().silence_max;
            let piece = self.client.env().timeout(silence, stream.next()).await;
            let pushed = match piece {
                Ok(Some(Ok(piece))) => self.parser.push(&piece),
                // It has ended, broken or fallen silent: what was not complete comes again.
                Ok(Some(Err(_)) | None) | Err(_) => {
                    self.disconnect();
                    Ok(())
                }
            };
            if pushed.is_err() {
                self.disconnect();
                return Err(self.bad("a message without end"));
            }
        }
    }

    async fn connect(&mut self) -> Result<(), ClientError> {
        if self.barren > 0 {
            // A server that ends every stream at once is not asked all the time.
            let options = self.client.options();
            let wait =
                options.wait_first.saturating_mul(1 << (self.barren - 1).min(20)).min(options.wait_max);
            self.client.env().sleep(self.client.env().jitter(wait)).await;
        }
        let mut call = Call::get(&self.path).accept("text/event-stream");
        match self.next.checked_sub(1).filter(|last| *last > 0) {
            Some(last) => call.header(LAST_EVENT_ID, &last.to_string()),
            None => call = call.query("from", Some(self.next)),
        }
        self.stream = Some(call.open(&self.client).await?);
        self.barren = self.barren.saturating_add(1);
        self.parser = Parser::default();
        Ok(())
    }

    fn disconnect(&mut self) {
        self.stream = None;
        self.parser = Parser::default();
    }

    /// The event of a message, if it is one.
    fn read(&mut self, message: &Message) -> Result<Option<Event>, ClientError> {
        if message.event == "end" {
            self.disconnect();
            return Ok(None);
        }
        let offset = message.id.as_deref().and_then(|id| id.parse::<u64>().ok());
        let event = serde_json::from_str(&message.data);
        match (offset, event) {
            // Seen before.
            (Some(offset), Ok(_)) if offset < self.next => Ok(None),
            (Some(offset), Ok(event)) => {
                (self.next, self.barren) = (offset + 1, 0);
                Ok(Some(event))
            }
            _ => {
                self.disconnect();
                Err(self.bad("a message that is no event"))
            }
        }
    }

    fn bad(&self, reason: &str) -> ClientError {
        ClientError::BadAnswer { place: self.client.place(), reason: reason.to_owned() }
    }
}
