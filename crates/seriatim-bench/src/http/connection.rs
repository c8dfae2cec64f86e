//! A connection that stays open, with only as much HTTP as the load needs. The client uses the same cores as the server, so it has
//! to be cheap.

use std::net::SocketAddr;

use anyhow::{Context, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// An answer's status and body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: String,
}

/// A connection. It sends one request at a time.
#[derive(Debug)]
pub(super) struct Connection {
    stream: TcpStream,
    received: Vec<u8>,
}

/// The bytes of a request with a JSON body.
pub(super) fn post(path: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

/// The bytes of a request that follows a log.
pub(super) fn follow(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\n\r\n").into_bytes()
}

impl Connection {
    pub(super) async fn open(address: SocketAddr) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, received: Vec::with_capacity(1 << 10) })
    }

    /// Sends a request and waits for its answer.
    pub(super) async fn send(&mut self, request: &[u8]) -> anyhow::Result<Answer> {
        self.stream.write_all(request).await?;
        let (status, end) = self.head().await?;
        let head = std::str::from_utf8(&self.received[..end])?;
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>())
        });
        let end_of_body = end + length.context("an answer without a length")??;
        while self.received.len() < end_of_body {
            self.receive().await?;
        }
        let body = std::str::from_utf8(&self.received[end..end_of_body])?.to_owned();
        self.received.drain(..end_of_body);
        Ok(Answer { status, body })
    }

    /// Sends a request whose answer has no end; returns when the answer begins.
    pub(super) async fn begin(&mut self, request: &[u8]) -> anyhow::Result<u16> {
        self.stream.write_all(request).await?;
        let (status, end) = self.head().await?;
        self.received.drain(..end);
        Ok(status)
    }

    /// Reads until this text has arrived.
    pub(super) async fn until(&mut self, text: &str) -> anyhow::Result<()> {
        while !self.received.windows(text.len()).any(|window| window == text.as_bytes()) {
            self.receive().await?;
        }
        Ok(())
    }

    /// The status of the next answer, and where its head ends.
    async fn head(&mut self) -> anyhow::Result<(u16, usize)> {
        let end = loop {
            if let Some(place) = self.received.windows(4).position(|window| window == b"\r\n\r\n") {
                break place + 4;
            }
            self.receive().await?;
        };
        let status = self.received.get(9..12).context("an answer without a status")?;
        Ok((std::str::from_utf8(status)?.parse()?, end))
    }

    async fn receive(&mut self) -> anyhow::Result<()> {
        if self.stream.read_buf(&mut self.received).await? == 0 {
            bail!("the server closed the connection");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn answers_are_parsed_in_pieces_of_any_size() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let answers = b"HTTP/1.1 201 Created\r\nContent-Length: 3\r\n\r\noneHTTP/1.1 503 x\r\ncontent-length: 0\r\n\r\n";
            for byte in answers {
                stream.write_all(&[*byte]).await.unwrap();
                stream.flush().await.unwrap();
            }
            stream
        });
        let mut connection = Connection::open(address).await.unwrap();
        let first = connection.send(b"a").await.unwrap();
        assert_eq!(first, Answer { status: 201, body: "one".to_owned() });
        assert_eq!(connection.send(b"b").await.unwrap(), Answer { status: 503, body: String::new() });
        drop(server.await.unwrap());
        assert!(connection.send(b"c").await.is_err());
    }
}
