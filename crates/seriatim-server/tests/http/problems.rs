//! Every route with invalid input: the exact problem document.

use axum::Router;
use axum::routing::get;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use crate::server::{Server, Setup, read_until};

/// Method, path, body, and the expected status, code and detail.
type Case<'a> = (&'a str, String, Option<Value>, u16, &'a str, &'a str);

#[expect(clippy::print_stdout, reason = "it names the case if one fails")]
async fn check(server: &Server, cases: impl IntoIterator<Item = Case<'_>>) {
    for (method, path, body, status, code, detail) in cases {
        let body = body.map(|body| body.to_string());
        let reply = server.send(method, &path, &[], body.as_deref()).await;
        println!("{method} {path}");
        reply.is_problem(status, code, detail);
    }
}

#[tokio::test]
async fn routes_of_applications_name_what_is_wrong() {
    let server = Server::start().await;
    let no_app = "application none does not exist";
    let cases = [
        ("GET", "/nothing".to_owned(), None, 404, "not_found", "this path does not exist"),
        ("DELETE", "/v1/apps".to_owned(), None, 405, "invalid", "this path does not support this method"),
        ("GET", "/v1/apps/none".to_owned(), None, 404, "not_found", no_app),
        ("GET", "/v1/apps/none/partitions".to_owned(), None, 404, "not_found", no_app),
        ("GET", "/v1/apps/none/partitions/0/events".to_owned(), None, 404, "not_found", no_app),
        (
            "GET",
            "/v1/apps/shop/partitions/0/events?from=0".to_owned(),
            None,
            400,
            "invalid",
            "offsets begin at 1",
        ),
        ("GET", "/v1/apps/none/workspaces".to_owned(), None, 404, "not_found", no_app),
        (
            "GET",
            "/v1/apps/shop/workspaces?limit=5000".to_owned(),
            None,
            400,
            "invalid",
            "limit is 5000, but it has to be from 1 to 1000",
        ),
        (
            "POST",
            "/v1/apps/shop/workspaces".to_owned(),
            Some(json!({"kind": "castle"})),
            400,
            "invalid",
            "application shop has no kind of workspace castle",
        ),
        (
            "POST",
            "/v1/apps/none/workspaces".to_owned(),
            Some(json!({"kind": "store"})),
            404,
            "not_found",
            no_app,
        ),
    ];
    check(&server, cases).await;
    let allowed = server.send("DELETE", "/v1/apps", &[], None).await;
    assert_eq!(allowed.header("allow"), Some("get,head"));
    server.stop().await;
}

#[tokio::test]
async fn routes_of_a_workspace_name_what_is_wrong() {
    let server = Server::start().await;
    let workspace = server.shop().await;
    let gone = "/v1/apps/shop/workspaces/1";
    let no_workspace = "workspace 1 does not exist in this application";
    let no_record = format!("record 7 does not exist in workspace {}", workspace.rsplit('/').next().unwrap());
    let cases = [
        ("GET", gone.to_owned(), None, 404, "not_found", no_workspace),
        ("GET", format!("{gone}/events"), None, 404, "not_found", no_workspace),
        ("GET", format!("{gone}/sequences"), None, 404, "not_found", no_workspace),
        ("GET", format!("{gone}/records/1"), None, 404, "not_found", no_workspace),
        ("GET", format!("{gone}/records?type=Invoice"), None, 404, "not_found", no_workspace),
        ("GET", format!("{gone}/sequences/InvoiceNumber/audit"), None, 404, "not_found", no_workspace),
        ("POST", format!("{gone}/commands"), Some(json!({})), 404, "not_found", no_workspace),
        ("GET", format!("{workspace}/records/7"), None, 404, "not_found", &no_record),
        (
            "GET",
            format!("{workspace}/views/none?prefix=7"),
            None,
            400,
            "invalid",
            "prefix has to be a JSON array of strings and whole numbers",
        ),
        (
            "GET",
            format!("{workspace}/sequences/InvoiceNumber/numbers/1"),
            None,
            404,
            "not_found",
            "number 1 of InvoiceNumber was not drawn",
        ),
    ];
    check(&server, cases).await;
    server.stop().await;
}

#[tokio::test]
async fn routes_of_series_and_blocks_name_what_is_wrong() {
    let server = Server::start().await;
    server.post("/v1/series/s/next", &json!({"count": 3})).await;
    let cases = [
        ("GET", "/v1/series/none".to_owned(), None, 404, "not_found", "series none does not exist"),
        ("GET", "/v1/series/none/audit".to_owned(), None, 404, "not_found", "series none does not exist"),
        ("GET", "/v1/blocks/none".to_owned(), None, 404, "not_found", "block sequence none does not exist"),
        (
            "POST",
            "/v1/blocks/none/allocate".to_owned(),
            Some(json!({"count": 1})),
            404,
            "not_found",
            "block sequence none does not exist",
        ),
        (
            "PUT",
            "/v1/blocks/b".to_owned(),
            Some(json!({"block_size": 0})),
            400,
            "invalid",
            "\"block_size\" must be from 1 to 4294967296, not 0",
        ),
        (
            "POST",
            "/v1/blocks/lots/allocate".to_owned(),
            Some(json!({"count": 4_294_967_297_u64})),
            400,
            "invalid",
            "4294967297 numbers were requested, and one call takes at most 4294967296: request fewer in one call",
        ),
        (
            "POST",
            "/v1/series/s/next".to_owned(),
            Some(json!([])),
            400,
            "invalid",
            "the body has to be a JSON object",
        ),
        (
            "POST",
            "/v1/series/s/next".to_owned(),
            Some(json!({"cuont": 1})),
            400,
            "invalid",
            "in the body, cuont: unknown field `cuont`, expected `count` or `note` at line 1 column 8",
        ),
    ];
    check(&server, cases).await;
    let void = json!({"reason": "misprint"});
    let missing = server.post("/v1/series/s/numbers/9/void", &void).await;
    missing.is_problem(404, "not_found", "number 9 of series s was not taken yet");
    let zero = server.post("/v1/series/s/numbers/0/void", &void).await;
    zero.is_problem(404, "not_found", "series s has no number 0");
    assert_eq!(
        server.post("/v1/series/s/next", &json!({})).await.body["number"],
        4,
        "none of them took a number"
    );
    server.stop().await;
}

#[tokio::test]
async fn routes_of_administration_name_what_is_wrong() {
    let server = Server::start().await;
    let cases = [
        ("DELETE", "/v1/tokens/none".to_owned(), None, 404, "not_found", "token none does not exist"),
        (
            "POST",
            "/v1/backup".to_owned(),
            Some(json!({"destination": "here"})),
            400,
            "invalid",
            "destination has to be an absolute path, not \"here\"",
        ),
        (
            "POST",
            "/v1/backup".to_owned(),
            Some(json!({"destination": "/never/there"})),
            400,
            "invalid",
            "this server keeps its data in memory, so there is nothing to back up",
        ),
        (
            "POST",
            "/v1/unfence".to_owned(),
            Some(json!({"complete": true})),
            409,
            "conflict",
            "nothing is fenced",
        ),
        (
            "POST",
            "/v1/unfence".to_owned(),
            Some(json!({"complete": true, "skip": 1})),
            400,
            "invalid",
            "send either \"complete\": true, or \"highest\", or \"skip\", or both \"highest\" and \"skip\"",
        ),
        (
            "POST",
            "/v1/doctor".to_owned(),
            Some(json!({"treatment": "cure"})),
            400,
            "invalid",
            "in the body, treatment: unknown variant `cure`, expected one of `check`, `repair`, `rebuild` at line 1 column 19",
        ),
    ];
    check(&server, cases).await;
    server.stop().await;
}

#[tokio::test]
async fn headers_that_are_wrong_are_named() {
    let server = Server::start().await;
    server.post("/v1/series/s/next", &json!({"count": 3})).await;
    let plain = [("Content-Type", "text/plain")];
    let reply = server.send("POST", "/v1/series/s/next", &plain, Some("{}")).await;
    reply.is_problem(415, "invalid", "the body has to be JSON: send Content-Type: application/json");
    let reply = server.send("POST", "/v1/series/s/next", &[("Idempotency-Key", "é")], None).await;
    reply.is_problem(400, "invalid", "the Idempotency-Key has to be plain ASCII");
    let two = [("Idempotency-Key", "a"), ("Idempotency-Key", "b")];
    let reply = server.send("POST", "/v1/series/s/next", &two, None).await;
    reply.is_problem(400, "invalid", "the request has several Idempotency-Key headers: send one");
    assert_eq!(server.post("/v1/series/s/next", &json!({})).await.body["number"], 4, "they took no number");
    server.stop().await;
}

async fn fail() -> &'static str {
    panic!("a test")
}

#[tokio::test]
async fn a_panic_is_answered_with_a_problem_and_the_server_continues() {
    let mut setup = Setup::new();
    setup.routes = Some(Router::new().route("/panic", get(fail)));
    let server = setup.start().await;
    let mut stream = server.connect().await;
    for _ in 0..2 {
        // All on one connection, which stays open.
        stream.write_all(b"GET /panic HTTP/1.1\r\nHost: test\r\n\r\n").await.unwrap();
        let text = read_until(&mut stream, "\"retryable\":false}").await;
        assert!(
            text.starts_with("HTTP/1.1 500")
                && text.contains("a defect of the server: its log has the details"),
            "{text}"
        );
    }
    assert_eq!(server.get("/livez").await.status, 200);
    server.stop().await;
}
