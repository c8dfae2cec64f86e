//! Limits: bodies, heads, time, connections.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use seriatim_env::Env;
use seriatim_server::ServerOptions;
use seriatim_storage::Log;
use seriatim_storage::memory::MemoryLog;
use seriatim_storage_testing::faulty::{Faults, FaultyLog, Operation};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::server::{Server, Setup, exchange, read_until, request};

fn with(options: ServerOptions) -> Setup {
    Setup { options, ..Setup::new() }
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused() {
    let server = with(ServerOptions { body_bytes_max: 100, ..ServerOptions::default() }).start().await;
    let refused = server.post("/v1/series/a/next", &json!({"note": "x".repeat(100)})).await;
    let text = "the body is larger than the server accepts: send less at once";
    refused.is_problem(413, "too_large", text);
    assert_eq!(server.post("/v1/series/a/next", &json!({"note": "x"})).await.body["number"], 1);
    server.stop().await;
}

#[tokio::test]
async fn a_head_that_is_too_large_is_refused() {
    let server = with(ServerOptions { header_bytes_max: 8_192, ..ServerOptions::default() }).start().await;
    let long = "x".repeat(20_000);
    let refused = server.send("GET", "/livez", &[("Long", &long)], None).await;
    assert_eq!(refused.status, 431, "{refused:?}");
    assert_eq!(server.get("/livez").await.status, 200);
    server.stop().await;
}

/// Headers that make a head of exactly this size, as it is sent, including the empty line at its end.
fn head_of(bytes: usize) -> Vec<(String, String)> {
    let plain = request("GET", "/livez", &[("Long", "")], None).len();
    vec![("Long".to_owned(), "x".repeat(bytes - plain))]
}

#[tokio::test]
async fn the_limit_of_a_head_is_the_one_that_was_set() {
    let server = with(ServerOptions { header_bytes_max: 10_000, ..ServerOptions::default() }).start().await;
    let send = async |bytes| {
        let headers = head_of(bytes);
        let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (&**name, &**value)).collect();
        server.send("GET", "/livez", &headers, None).await
    };
    assert_eq!(send(10_000).await.status, 200);
    let refused = send(10_001).await;
    let text = "the head of the request has 10001 bytes, but the server accepts at most 10000: use shorter headers or a shorter address";
    refused.is_problem(431, "too_large", text);
    server.stop().await;
}

#[tokio::test]
async fn a_head_has_at_most_a_hundred_headers() {
    let server = Server::start().await;
    let names: Vec<String> = (0..99).map(|number| format!("H{number}")).collect();
    let headers: Vec<(&str, &str)> = names.iter().map(|name| (&**name, "x")).collect();
    // Two more are sent with every request.
    assert_eq!(server.send("GET", "/livez", &headers[..98], None).await.status, 200);
    assert_eq!(server.send("GET", "/livez", &headers, None).await.status, 431);
    server.stop().await;
}

#[tokio::test]
async fn a_head_that_does_not_arrive_ends_the_connection() {
    let header_timeout = Duration::from_millis(50);
    let server = with(ServerOptions { header_timeout, ..ServerOptions::default() }).start().await;
    let mut stream = server.connect().await;
    stream.write_all(b"GET /livez HTTP/1.1\r\nHost: te").await.unwrap();
    let mut text = String::new();
    // The server ends the connection.
    stream.read_to_string(&mut text).await.unwrap();
    assert!(!text.contains("200"), "{text}");
    server.stop().await;
}

#[tokio::test]
async fn a_request_that_takes_too_long_is_in_doubt_and_a_stream_is_not_cut() {
    let env = Env::real();
    let faults = Faults::new(&env);
    let log = Log::new(FaultyLog::new(Arc::new(MemoryLog::new()), &faults));
    let request_timeout = Duration::from_millis(100);
    let options = ServerOptions { request_timeout, ..ServerOptions::default() };
    let server = Setup { log, storage: None, options, ..Setup::new() }.start().await;
    let workspace = server.shop().await;
    let invoice = json!({"changes": [{"create": "Invoice", "id": 1}]});
    let mut stream = server.connect().await;
    let follow =
        format!("GET {workspace}/events HTTP/1.1\r\nHost: test\r\nAccept: text/event-stream\r\n\r\n");
    stream.write_all(follow.as_bytes()).await.unwrap();
    server.post(&format!("{workspace}/commands"), &invoice).await;
    read_until(&mut stream, "id: 1\n").await;

    let hold = faults.hold(Operation::Append);
    let late = server.post(&format!("{workspace}/commands"), &invoice).await;
    let text = "there was no answer within 0.1 s, and it is not known whether the request was carried out: repeat it with the same \
                idempotency key";
    late.is_problem(503, "in_doubt", text);
    hold.release();
    let text = read_until(&mut stream, "id: 2\n").await;
    assert!(!text.contains("event: end"), "{text}");
    server.stop().await;
}

#[tokio::test]
async fn connections_above_the_limit_wait_to_be_accepted() {
    let server = with(ServerOptions { connections_max: 1, ..ServerOptions::default() }).start().await;
    let mut first = server.connect().await;
    first.write_all(b"GET /livez HTTP/1.1\r\nHost: test\r\n\r\n").await.unwrap();
    read_until(&mut first, "alive").await;
    let (address, text) = (server.address, request("GET", "/livez", &[], None));
    let second = server
        .env
        .spawn(async move { exchange(tokio::net::TcpStream::connect(address).await.unwrap(), &text).await });
    // The first connection is kept alive, and requests on it are still answered.
    first.write_all(b"GET /livez HTTP/1.1\r\nHost: test\r\n\r\n").await.unwrap();
    read_until(&mut first, "alive").await;
    assert!(!second.is_finished());
    drop(first);
    assert_eq!(second.await.unwrap().status, 200);
    server.stop().await;
}

#[tokio::test]
async fn a_stop_finishes_requests_in_progress() {
    let env = Env::real();
    let faults = Faults::new(&env);
    let log = Log::new(FaultyLog::new(Arc::new(MemoryLog::new()), &faults));
    let server = Setup { log, storage: None, ..Setup::new() }.start().await;
    server.post("/v1/series/a/next", &json!({})).await;
    let mut idle = server.connect().await;
    idle.write_all(b"GET /livez HTTP/1.1\r\nHost: test\r\n\r\n").await.unwrap();
    read_until(&mut idle, "alive").await;
    let hold = faults.hold(Operation::Append);
    let waiting = server.post_later("/v1/series/a/next", &json!({}));
    hold.reached(1).await;
    server.stop.cancel();
    // No other connection is accepted, and idle connections are ended.
    let mut rest = Vec::new();
    idle.read_to_end(&mut rest).await.unwrap();
    assert!(!server.served.is_finished());
    hold.release();
    assert_eq!(waiting.await.unwrap().body["number"], 2);
    server.stop().await;
}

#[tokio::test]
async fn an_answer_has_the_id_that_the_request_chose() {
    let server = Server::start().await;
    let reply = server.send("GET", "/livez", &[("X-Request-Id", "till-7")], None).await;
    assert_eq!(reply.header("x-request-id"), Some("till-7"));
    let long = "x".repeat(200);
    for chosen in [&[][..], &[("X-Request-Id", &*long)][..]] {
        let reply = server.send("GET", "/livez", chosen, None).await;
        assert_eq!(reply.header("x-request-id").unwrap().len(), 16);
    }
    server.stop().await;
}
