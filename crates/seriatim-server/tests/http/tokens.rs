//! Tokens over HTTP: what each of them allows.

use serde_json::json;
use tokio::io::AsyncWriteExt;

use crate::server::{Server, read_until};

async fn create(server: &Server, bearer: &[(&str, &str)], scopes: &[&str]) -> (String, String) {
    let body = json!({"scopes": scopes, "note": "a test"}).to_string();
    let created = server.send("POST", "/v1/tokens", bearer, Some(&body)).await;
    assert_eq!(created.status, 201, "{created:?}");
    assert_eq!(created.header("cache-control"), Some("no-store"));
    assert_eq!((&created.body["scopes"], &created.body["note"]), (&json!(scopes), &json!("a test")));
    let text = |name: &str| created.body[name].as_str().unwrap().to_owned();
    (text("id"), format!("Bearer {}", text("secret")))
}

const NEEDED: &str = "the request needs a token: send Authorization: Bearer TOKEN";

#[tokio::test]
async fn after_the_first_token_every_request_needs_one() {
    let server = Server::start().await;
    assert_eq!(server.get("/v1/apps").await.status, 200, "no token is needed while there is none");
    let refused = server.post("/v1/tokens", &json!({"scopes": ["shop:write"]})).await;
    let text = "the first token needs the scope *:admin: without it no token could be created or revoked";
    refused.is_problem(400, "invalid", text);
    let (id, admin) = create(&server, &[], &["*:admin"]).await;
    for (method, path) in [
        ("GET", "/v1/apps"),
        ("GET", "/v1/apps/shop"),
        ("POST", "/v1/series/a/next"),
        ("GET", "/metrics"),
        ("GET", "/v1/tokens"),
        ("DELETE", "/v1/tokens/1"),
        ("POST", "/v1/backup"),
        ("GET", "/v1/nothing"),
    ] {
        let refused = server.send(method, path, &[], None).await;
        refused.is_problem(401, "unauthorized", NEEDED);
        assert_eq!(refused.header("www-authenticate"), Some("bearer"));
        let wrong = format!("Bearer seriatim_{id}_00");
        for wrong in ["Bearer x", "Basic abc", &*wrong] {
            assert_eq!(server.send(method, path, &[("Authorization", wrong)], None).await.status, 401);
        }
    }
    for path in ["/livez", "/readyz", "/openapi.json"] {
        assert_eq!(server.get(path).await.status, 200, "{path}");
    }
    let bearer = [("Authorization", &*admin)];
    assert_eq!(server.send("POST", "/v1/series/a/next", &bearer, None).await.body["number"], 1);
    let lower = admin.replace("Bearer", "bearer");
    assert_eq!(server.send("GET", "/metrics", &[("Authorization", &lower)], None).await.status, 200);
    server.stop().await;
}

#[tokio::test]
async fn a_token_allows_what_its_scopes_include_and_nothing_else() {
    let server = Server::start().await;
    let workspace = server.shop().await;
    let (_, admin) = create(&server, &[], &["*:admin"]).await;
    let admin = [("Authorization", &*admin)];
    let (_, till) = create(&server, &admin, &["shop:write", "series:read"]).await;
    let (_, blind) = create(&server, &admin, &["other:admin"]).await;
    let till = [("Authorization", &*till)];
    let invoice = json!({"changes": [{"create": "Invoice", "id": 1}]}).to_string();
    let commands = format!("{workspace}/commands");
    assert_eq!(server.send("POST", &commands, &till, Some(&invoice)).await.status, 201);
    assert_eq!(server.send("GET", &format!("{workspace}/events"), &till, None).await.status, 200);
    assert_eq!(server.send("GET", "/v1/series", &till, None).await.status, 200);
    for (method, path, scope) in [
        ("POST", "/v1/series/a/next", "series:write"),
        ("PUT", "/v1/blocks/a", "blocks:write"),
        ("GET", "/v1/blocks", "blocks:read"),
        ("GET", "/v1/apps/sh%6Fp", "sh%6Fp:read"),
        ("GET", "/metrics", "*:read"),
        ("GET", "/v1/tokens", "*:admin"),
        ("POST", "/v1/doctor", "*:admin"),
        ("POST", "/v1/unfence", "*:admin"),
    ] {
        let refused = server.send(method, path, &till, Some("{}")).await;
        refused.is_problem(403, "forbidden", &format!("the token lacks the scope {scope}"));
    }
    let seen = server.send("GET", "/v1/apps", &till, None).await;
    assert_eq!(seen.body[0]["name"], "shop");
    for (token, expected) in
        [(&admin, &["sys", "series", "workflows", "shop"][..]), (&till, &["series", "shop"][..])]
    {
        let seen = server.send("GET", "/v1/partitions", token, None).await.body;
        let mut apps: Vec<&str> =
            seen.as_array().unwrap().iter().map(|partition| partition["app"].as_str().unwrap()).collect();
        apps.dedup();
        assert_eq!(apps, expected);
    }
    let seen = server.send("GET", "/v1/apps", &[("Authorization", &blind)], None).await;
    assert_eq!((seen.status, seen.body), (200, json!([])), "the token may read none of them");
    server.stop().await;
}

#[tokio::test]
async fn a_revoked_token_is_refused_at_once_and_its_stream_ends() {
    let server = Server::start().await;
    let workspace = server.shop().await;
    let (_, admin) = create(&server, &[], &["*:admin"]).await;
    let admin = [("Authorization", &*admin)];
    let (id, till) = create(&server, &admin, &["shop:write"]).await;
    let invoice = json!({"changes": [{"create": "Invoice", "id": 1}]}).to_string();
    let commands = format!("{workspace}/commands");
    server.send("POST", &commands, &[("Authorization", &till)], Some(&invoice)).await;
    let mut stream = server.connect().await;
    let follow = format!(
        "GET {workspace}/events HTTP/1.1\r\nHost: test\r\nAccept: text/event-stream\r\nAuthorization: {till}\r\n\r\n"
    );
    stream.write_all(follow.as_bytes()).await.unwrap();
    read_until(&mut stream, "id: 1\n").await;

    assert_eq!(server.send("DELETE", &format!("/v1/tokens/{id}"), &admin, None).await.status, 204);
    let refused = server.send("POST", &commands, &[("Authorization", &till)], Some(&invoice)).await;
    refused.is_problem(401, "unauthorized", "the token is not known, or it was revoked");
    server.send("POST", &commands, &admin, Some(&invoice)).await;
    let text = read_until(&mut stream, "event: end").await;
    assert!(!text.contains("id: 2\n"), "{text}");
    let again = server.send("DELETE", &format!("/v1/tokens/{id}"), &admin, None).await;
    again.is_problem(404, "not_found", &format!("token {id} does not exist"));

    let listed = server.send("GET", "/v1/tokens", &admin, None).await;
    let tokens = listed.body["tokens"].as_array().unwrap();
    assert_eq!((tokens.len(), &tokens[0]["scopes"]), (1, &json!(["*:admin"])));
    assert!(!listed.text.contains("seriatim_"), "no secret in a list");
    let last = tokens[0]["id"].as_str().unwrap();
    assert_eq!(server.send("DELETE", &format!("/v1/tokens/{last}"), &admin, None).await.status, 204);
    assert_eq!(
        server.get("/v1/apps").await.status,
        200,
        "without tokens, requests from this machine need none"
    );
    server.stop().await;
}

#[tokio::test]
async fn the_error_for_an_invalid_scope_says_how_one_is_written() {
    let server = Server::start().await;
    for (body, detail) in [
        (
            json!({"scopes": ["shop"]}),
            "\"shop\" is not a scope: write APPLICATION:read, APPLICATION:write or APPLICATION:admin; APPLICATION \
             is a name, or * for every application",
        ),
        (json!({"scopes": []}), "a token has 1 to 100 scopes, not 0"),
    ] {
        server.post("/v1/tokens", &body).await.is_problem(400, "invalid", detail);
    }
    server.stop().await;
}

#[tokio::test]
async fn while_there_are_no_tokens_cross_origin_requests_are_refused() {
    let server = Server::start().await;
    let refused = server.send("POST", "/v1/series/a/next", &[("Origin", "https://evil.example")], None).await;
    let text = "there are no tokens, so the server refuses requests of pages from https://evil.example";
    refused.is_problem(403, "forbidden", text);
    let own = server.send("POST", "/v1/series/a/next", &[("Origin", "http://test")], None).await;
    assert_eq!(own.body["number"], 1, "pages of the console may");
    server.stop().await;
}

#[tokio::test]
async fn without_tokens_the_server_does_not_listen_to_other_machines() {
    let server = Server::start().await;
    let listener = tokio::net::TcpListener::bind("0.0.0.0:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let runner = seriatim_server::Server::new(server.engine.clone());
    let error = runner.serve(listener, server.stop.clone()).await.unwrap_err();
    let text = format!(
        "there are no tokens, so the server listens on loopback only, not on {address}: listen on 127.0.0.1, or make a \
         token first"
    );
    assert_eq!(error.to_string(), text);
    server.stop().await;
}
