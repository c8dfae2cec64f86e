//! The OpenAPI document, the routes and the documentation agree.

use std::collections::BTreeSet;

use crate::server::Server;

/// Every method and path of a table in the documentation.
fn documented(text: &str) -> BTreeSet<String> {
    let cells = text.lines().filter(|line| line.starts_with("| `")).filter_map(|line| line.split('|').nth(1));
    let quoted = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    let routes = quoted.filter(|text| text.contains(" /")).map(|text| {
        let (method, path) = text.split_once(' ').unwrap();
        format!("{method} {}", path.split('?').next().unwrap())
    });
    routes.collect()
}

#[tokio::test]
async fn the_document_describes_every_route_that_is_documented() {
    let server = Server::start().await;
    let document = server.get("/openapi.json").await;
    assert_eq!(document.header("content-type"), Some("application/json"));
    let paths = document.body["paths"].as_object().unwrap();
    let described: BTreeSet<String> = paths
        .iter()
        .flat_map(|(path, item)| {
            item.as_object().unwrap().keys().map(move |method| format!("{} {path}", method.to_uppercase()))
        })
        .collect();
    assert_eq!(described, documented(include_str!("../../../../docs/http.md")));
    for path in &described {
        let (method, path) = path.split_once(' ').unwrap();
        let operation = &document.body["paths"][path][method.to_lowercase()];
        assert!(operation["summary"].is_string(), "{method} {path}");
        if path.starts_with("/v1/") {
            assert_eq!(operation["responses"]["default"]["$ref"], "#/components/responses/Problem", "{path}");
            assert!(operation["security"][0]["bearer"].is_array(), "{path}");
        }
    }
    let busy = &document.body["components"]["responses"]["Unavailable"];
    assert!(
        busy["headers"]["Retry-After"].is_object() && busy["content"]["application/problem+json"].is_object()
    );
    server.stop().await;
}

/// Each operation of the document, with its method and path.
fn operations(document: &serde_json::Value) -> Vec<(String, &serde_json::Value)> {
    let paths = document["paths"].as_object().unwrap();
    let operations = paths.iter().flat_map(|(path, item)| {
        let methods = item.as_object().unwrap().iter();
        methods.map(move |(method, operation)| (format!("{method} {path}"), operation))
    });
    operations.collect()
}

#[tokio::test]
async fn every_operation_has_a_unique_id() {
    let server = Server::start().await;
    let document = server.get("/openapi.json").await.body;
    let mut seen = BTreeSet::new();
    for (name, operation) in operations(&document) {
        let id = operation["operationId"].as_str().unwrap_or_default();
        assert!(!id.is_empty() && seen.insert(id), "{name}: {id:?} is the id of another operation too");
    }
    server.stop().await;
}

#[tokio::test]
async fn every_answer_in_the_document_is_described() {
    let server = Server::start().await;
    let document = server.get("/openapi.json").await.body;
    for (name, operation) in operations(&document) {
        for (status, answer) in operation["responses"].as_object().unwrap() {
            let described = answer["description"].as_str().is_some_and(|text| !text.is_empty());
            assert!(described || answer["$ref"].is_string(), "{name} {status}: {answer}");
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn every_reference_in_the_document_resolves() {
    let server = Server::start().await;
    let document = server.get("/openapi.json").await;
    let text = &document.text;
    for (at, _) in text.match_indices("\"#/") {
        let pointer = text[at + 2..].split('"').next().unwrap();
        assert!(document.body.pointer(pointer).is_some(), "{pointer}");
    }
    server.stop().await;
}
