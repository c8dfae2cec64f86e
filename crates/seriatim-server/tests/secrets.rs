//! Secrets do not appear in logs. This test has its own process, because subscribers of other tests change what is logged.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "http/server.rs"]
#[allow(dead_code, reason = "this test uses a part of it")]
mod server;

use std::sync::{Arc, Mutex};

use serde_json::json;

use crate::server::Server;

/// What is logged, as text.
#[derive(Debug, Clone, Default)]
struct LogText(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for LogText {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_secret_does_not_appear_in_the_log() {
    let logged = LogText::default();
    let own = logged.clone();
    tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_writer(move || own.clone()).init();
    let server = Server::start().await;
    let created = server.post("/v1/tokens", &json!({"scopes": ["*:admin"]})).await;
    let secret = created.body["secret"].as_str().unwrap();
    let bearer = format!("Bearer {secret}");
    assert_eq!(server.send("GET", "/v1/tokens", &[("Authorization", &bearer)], None).await.status, 200);
    let wrong = [("Authorization", "Bearer wrong-secret")];
    assert_eq!(server.send("GET", "/v1/tokens", &wrong, None).await.status, 401);
    server.stop().await;
    let text = String::from_utf8(logged.0.lock().unwrap().clone()).unwrap();
    assert!(text.contains("/v1/tokens") && text.contains("answered"), "something is logged: {text}");
    let (_, secret) = secret.rsplit_once('_').unwrap();
    assert!(!text.contains(secret) && !text.contains("wrong-secret"), "{text}");
}
