//! Texts of answers use the words of the API, without Rust types and internal ids; every list ends in the same way.

use serde_json::{Value, json};
use seriatim_engine::definition::Application;
use seriatim_storage::{AppendError, StoreError};

use crate::server::{Server, Setup};

#[tokio::test]
async fn errors_use_the_words_of_the_api() {
    let server = Server::start().await;
    let workspace = server.shop().await;
    for (path, detail) in [
        ("/v1/series/s/numbers/abc".to_owned(), "in the path, number has to be a whole number, not \"abc\""),
        (
            "/v1/apps/shop/workspaces/x/events".to_owned(),
            "in the path, workspace has to be a whole number, not \"x\"",
        ),
        (format!("{workspace}/records/-1"), "in the path, id has to be a whole number, not \"-1\""),
        (
            "/v1/apps/shop/partitions/65536/events".to_owned(),
            "in the path, partition has to be a whole number up to 65535, not \"65536\"",
        ),
        ("/v1/series?limit=ten".to_owned(), "in the query, limit: it is not a whole number"),
        ("/v1/series?limit=99999999999".to_owned(), "in the query, limit: it is too large"),
        (
            "/v1/series?limt=1".to_owned(),
            "in the query, limt: unknown field `limt`, expected `after` or `limit`",
        ),
        (format!("{workspace}/records"), "say which records: type=DOCUMENT, or kind=C for all C records"),
        (format!("{workspace}/records?kind=W"), "in the query, kind: unknown variant `W`, expected `C`"),
    ] {
        server.get(&path).await.is_problem(400, "invalid", detail);
    }
    for (path, body, detail) in [
        (
            "/v1/series/s/next".to_owned(),
            json!({"count": "x"}),
            "in the body, count: invalid type: string \"x\", expected a whole number at line 1 column 12",
        ),
        (
            "/v1/series/s/next".to_owned(),
            json!({"count": -1}),
            "in the body, count: invalid value: integer `-1`, expected a whole number at line 1 column 11",
        ),
        (
            format!("{workspace}/commands"),
            json!({"changes": [1]}),
            "in the body, changes[0]: invalid type: integer `1`, expected an object at line 1 column 13",
        ),
    ] {
        server.post(&path, &body).await.is_problem(400, "invalid", detail);
    }
    server.stop().await;
}

#[tokio::test]
async fn the_error_of_an_exhausted_series_names_it() {
    let server = Server::start().await;
    let last = json!({"first": 9_007_199_254_740_990_u64});
    server.send("PUT", "/v1/series/end", &[], Some(&last.to_string())).await;
    let three = server.post("/v1/series/end/next", &json!({"count": 3})).await;
    let text = "series end has 2 numbers left, but 3 were requested: request fewer, or use another series";
    three.is_problem(422, "exhausted", text);
    assert_eq!(server.post("/v1/series/end/next", &json!({"count": 2})).await.status, 201);
    let text = "series end has no numbers left: it ends at 9007199254740991; use another series";
    server.post("/v1/series/end/next", &json!({})).await.is_problem(422, "exhausted", text);
    server.stop().await;
}

#[tokio::test]
async fn the_error_of_an_exhausted_sequence_names_it() {
    let text = "name = \"shop\"\npartitions = 1\n[sequences.Ticket]\nlast = 1\n[documents.Seat]\nkind = \"W\"\n\
                fields.number = { draw = \"Ticket\" }\n[workspaces.store]\n";
    let application = Application::from_toml(text).unwrap();
    let server = Setup { application, ..Setup::new() }.start().await;
    let workspace = server.shop().await;
    let seat = json!({"changes": [{"create": "Seat", "id": 1}]});
    assert_eq!(server.post(&format!("{workspace}/commands"), &seat).await.status, 201);
    let refused = server.post(&format!("{workspace}/commands"), &seat).await;
    let id = workspace.rsplit('/').next().unwrap();
    let text = format!(
        "sequence Ticket of workspace {id} has no numbers left: give it a later \"last\" in the definition"
    );
    refused.is_problem(422, "exhausted", &text);
    server.stop().await;
}

#[tokio::test]
async fn the_error_of_a_nearly_exhausted_block_sequence_says_how_many_numbers_are_left() {
    let server = Server::start().await;
    let last = json!({"first": 9_007_199_254_740_900_u64, "block_size": 10});
    server.send("PUT", "/v1/blocks/end", &[], Some(&last.to_string())).await;
    server.post("/v1/blocks/end/allocate", &json!({"count": 3})).await;
    let many = json!({"count": 200});
    let text = "200 consecutive numbers were requested, but at most 88 of block sequence end are left: request fewer, or use \
                another one";
    server.post("/v1/blocks/end/allocate", &many).await.is_problem(422, "exhausted", text);
    let keyed = [("Idempotency-Key", "k")];
    let keyed = server.send("POST", "/v1/blocks/end/allocate", &keyed, Some(&many.to_string())).await;
    let text = "200 consecutive numbers were requested, but 81 of block sequence end are left after those that are reserved \
                for calls without a key: request fewer, or use another one";
    keyed.is_problem(422, "exhausted", text);
    server.stop().await;
}

#[test]
fn a_disk_that_is_nearly_full_names_the_setting() {
    let (free_bytes, needed_bytes) = (1, 536_870_912);
    let of_log = AppendError::DiskNearlyFull { free_bytes, needed_bytes }.to_string();
    let of_store = StoreError::DiskNearlyFull { free_bytes, needed_bytes }.to_string();
    for text in [of_log, of_store] {
        assert!(
            text.ends_with("and 536870912 must stay free (free_bytes_min): free some disk space"),
            "{text}"
        );
    }
}

/// Reads a list page by page, one item on each, and returns the `next` of each page.
async fn pages(server: &Server, path: &str, name: &str) -> Vec<Value> {
    let mut seen = Vec::new();
    let mut after = String::new();
    loop {
        let mark = if path.contains('?') { '&' } else { '?' };
        let page = server.get(&format!("{path}{mark}limit=1{after}")).await.body;
        assert!(page[name].as_array().is_some_and(|things| things.len() == 1), "{path}: {page}");
        let next = page["next"].clone();
        seen.push(next.clone());
        match next {
            Value::Null => return seen,
            Value::String(key) => after = format!("&after={key}"),
            Value::Array(key) => after = format!("&after={}", json!(key).to_string().replace('"', "%22")),
            key => after = format!("&after={key}"),
        }
        assert!(seen.len() < 10, "{path} does not end: {seen:?}");
    }
}

#[tokio::test]
async fn next_is_null_on_the_last_page_of_every_list_and_only_there() {
    let server = Server::start().await;
    let workspace = server.shop().await;
    server.post("/v1/apps/shop/workspaces", &json!({"kind": "store", "name": "other"})).await;
    for total in ["1", "2"] {
        let invoice = json!({"changes": [{"create": "Invoice", "id": 1, "fields": {"total": total}}]});
        assert_eq!(server.post(&format!("{workspace}/commands"), &invoice).await.status, 201);
    }
    for name in ["a", "b"] {
        server.post(&format!("/v1/series/{name}/next"), &json!({})).await;
        server.send("PUT", &format!("/v1/blocks/{name}"), &[], Some("{}")).await;
    }
    let records = format!("{workspace}/records?type=Invoice");
    for (path, name) in [
        ("/v1/series", "series"),
        ("/v1/blocks", "blocks"),
        ("/v1/apps/shop/workspaces", "workspaces"),
        (&*records, "records"),
    ] {
        let nexts = pages(&server, path, name).await;
        assert_eq!(nexts.len(), 2, "{path}: {nexts:?}");
        let none =
            server.get(&format!("{path}{}limit=100", if path.contains('?') { '&' } else { '?' })).await;
        assert_eq!(none.body["next"], Value::Null, "{path}");
    }
    server.stop().await;
}

#[tokio::test]
async fn a_list_by_name_has_one_workspace_or_none() {
    let server = Server::start().await;
    let workspace = server.shop().await;
    let found = server.get("/v1/apps/shop/workspaces?name=corner").await.body;
    let id: u64 = workspace.rsplit('/').next().unwrap().parse().unwrap();
    assert_eq!(found, json!({"workspaces": [{"id": id, "kind": "store", "name": "corner"}], "next": null}));
    let none = server.get("/v1/apps/shop/workspaces?name=nowhere").await.body;
    assert_eq!(none, json!({"workspaces": [], "next": null}));
    assert_eq!(server.get("/v1/apps/none/workspaces?name=corner").await.status, 404);
    let empty = server.get("/v1/apps/shop/workspaces?name=").await;
    empty.is_problem(400, "invalid", "a workspace's name has 1 to 200 bytes");
    server.stop().await;
}

#[tokio::test]
async fn tokens_are_listed_in_pages() {
    let server = Server::start().await;
    let made = server.post("/v1/tokens", &json!({"scopes": ["*:admin"]})).await;
    let bearer = format!("Bearer {}", made.body["secret"].as_str().unwrap());
    let headers = [("Authorization", &*bearer)];
    let other = json!({"scopes": ["shop:read"]}).to_string();
    server.send("POST", "/v1/tokens", &headers, Some(&other)).await;
    let first = server.send("GET", "/v1/tokens?limit=1", &headers, None).await.body;
    let path = format!("/v1/tokens?limit=1&after={}", first["next"].as_str().unwrap());
    let second = server.send("GET", &path, &headers, None).await.body;
    assert_eq!((second["tokens"].as_array().unwrap().len(), &second["next"]), (1, &Value::Null));
    server.stop().await;
}
