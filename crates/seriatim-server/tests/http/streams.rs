//! Streams whose clients read slowly or not at all.

use serde_json::json;
use tokio::io::AsyncWriteExt;

use crate::server::{Server, read_until};

#[tokio::test]
async fn a_slow_client_receives_every_event() {
    const EVENTS: u64 = 400;
    let server = Server::start().await;
    let workspace = server.shop().await;
    let mut stream = server.connect().await;
    let follow =
        format!("GET {workspace}/events HTTP/1.1\r\nHost: test\r\nAccept: text/event-stream\r\n\r\n");
    stream.write_all(follow.as_bytes()).await.unwrap();
    // Larger than all buffers of the sockets: the stream has to pause, and to continue from the log.
    let fields = json!({"name": "x".repeat(50_000)});
    let customer = json!({"changes": [{"create": "Customer", "id": 1, "fields": fields}]});
    for _ in 0..EVENTS {
        assert_eq!(server.post(&format!("{workspace}/commands"), &customer).await.status, 201);
    }
    let text = read_until(&mut stream, &format!("id: {EVENTS}\n")).await;
    let ids: Vec<u64> = text.lines().filter_map(|line| line.strip_prefix("id: ")?.parse().ok()).collect();
    assert_eq!(ids, (1..=EVENTS).collect::<Vec<_>>());
    server.stop().await;
}

#[tokio::test]
async fn a_server_stops_although_a_client_does_not_read() {
    let mut setup = crate::server::Setup::new();
    setup.options.stop_patience = std::time::Duration::from_millis(100);
    let server = setup.start().await;
    let workspace = server.shop().await;
    let fields = json!({"name": "x".repeat(100_000)});
    let customer = json!({"changes": [{"create": "Customer", "id": 1, "fields": fields}]});
    for _ in 0..100 {
        server.post(&format!("{workspace}/commands"), &customer).await;
    }
    let mut stream = server.connect().await;
    let follow =
        format!("GET {workspace}/events HTTP/1.1\r\nHost: test\r\nAccept: text/event-stream\r\n\r\n");
    stream.write_all(follow.as_bytes()).await.unwrap();
    read_until(&mut stream, "id: 1\n").await;
    server.stop().await;
    drop(stream);
}
