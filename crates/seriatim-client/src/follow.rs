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

/// Follows a log: first the events that exist, then each new event. When the connection breaks or is silent for too long, or the
/// server restarts, the follower connects again and continues after the last event that it returned.
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
    /// The offset of the next event.
    next: u64,
    /// Connections without an event since the last event.
    empty_connections: u32,
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
        Self { client, path, next: from, empty_connections: 0, stream: None, parser: Parser::default() }
    }

    /// The offset of the next event: a later follower can continue from it.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.next
    }

    /// The next event; waits until there is one. Cancel-safe: a dropped call loses no event.
    ///
    /// # Errors
    ///
    /// [`ClientError`] if the server refuses, or does not answer within the client's time limits. After an error this can be called
    /// again, and continues from the same offset.
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
                // The stream ended, broke or was silent: an incomplete message is discarded, and read again later.
                Ok(Some(Err(_)) | None) | Err(_) => {
                    self.disconnect();
                    Ok(())
                }
            };
            if pushed.is_err() {
                self.disconnect();
                return Err(self.bad("a message of the stream is too long"));
            }
        }
    }

    async fn connect(&mut self) -> Result<(), ClientError> {
        if self.empty_connections > 0 {
            // Waits longer each time, in case the server ends every stream immediately.
            let options = self.client.options();
            let wait = options
                .wait_first
                .saturating_mul(1 << (self.empty_connections - 1).min(20))
                .min(options.wait_max);
            self.client.env().sleep(self.client.env().jitter(wait)).await;
        }
        let mut call = Call::get(&self.path).accept("text/event-stream");
        match self.next.checked_sub(1).filter(|last| *last > 0) {
            Some(last) => call.header(LAST_EVENT_ID, &last.to_string()),
            None => call = call.query("from", Some(self.next)),
        }
        self.stream = Some(call.open(&self.client).await?);
        self.empty_connections = self.empty_connections.saturating_add(1);
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
            // This event was already returned.
            (Some(offset), Ok(_)) if offset < self.next => Ok(None),
            (Some(offset), Ok(event)) => {
                (self.next, self.empty_connections) = (offset + 1, 0);
                Ok(Some(event))
            }
            _ => {
                self.disconnect();
                Err(self.bad("a message of the stream is not an event"))
            }
        }
    }

    fn bad(&self, reason: &str) -> ClientError {
        ClientError::BadAnswer { place: self.client.place(), reason: reason.to_owned() }
    }
}
