//! Every route over a real socket, with valid and invalid input.

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::server::{Reply, Server, read_until};

const FIRST_W: u64 = 322_680_000_131_072;

async fn shop_with_invoice(server: &Server) -> (String, Reply) {
    let created = server.post("/v1/apps/shop/workspaces", &json!({"kind": "store", "name": "corner"})).await;
    assert_eq!(created.status, 201);
    let workspace = format!("/v1/apps/shop/workspaces/{}", created.body["id"]);
    let invoice = json!({"changes": [
        {"create": "Invoice", "id": 1, "fields": {"total": "99.50"}},
        {"create": "InvoiceLine", "id": 2, "parent": 1, "fields": {"text": "tea", "amount": "99.50"}},
    ]});
    let answer = server.post(&format!("{workspace}/commands"), &invoice).await;
    (workspace, answer)
}

#[tokio::test]
async fn an_invoice_has_its_number_and_can_be_read_in_every_way() {
    let server = Server::start().await;
    let (workspace, answer) = shop_with_invoice(&server).await;
    assert_eq!(answer.status, 201);
    assert_eq!(answer.body["workspace_offset"], 1);
    assert_eq!(answer.body["ids"], json!({"1": FIRST_W, "2": FIRST_W + 1}));
    assert_eq!(answer.body["numbers"], json!({"1": {"number": 1}}));
    assert_eq!((&answer.body["result"], &answer.body["repeated"]), (&Value::Null, &json!(false)));

    let again = server.post("/v1/apps/shop/workspaces", &json!({"kind": "store", "name": "corner"})).await;
    assert_eq!(again.status, 200, "the same name again");

    let events = server.get(&format!("{workspace}/events?from=1&limit=10")).await.body;
    assert_eq!(events["next"], 2);
    let event = &events["events"][0];
    assert_eq!((&event["command"], &event["args"]), (&json!("sys.Change"), &Value::Null));
    assert_eq!(event["changes"][0]["id"], FIRST_W);
    assert_eq!(event["changes"][1]["parent"], FIRST_W);
    let partition = event["partition"].as_u64().unwrap();
    let same = server.get(&format!("/v1/apps/shop/partitions/{partition}/events")).await.body;
    assert_eq!(same["events"][0], *event);

    let record = server.get(&format!("{workspace}/records/{FIRST_W}")).await.body;
    assert_eq!(record["type"], "Invoice");
    assert_eq!(record["fields"], json!({"total": "99.50", "number": 1}));
    let lines = server.get(&format!("{workspace}/records?type=InvoiceLine")).await.body;
    assert_eq!(lines["records"][0]["fields"]["text"], "tea");
    let sequences = server.get(&format!("{workspace}/sequences")).await.body;
    let mut sequences = sequences.as_array().unwrap().iter();
    let numbers = sequences.find(|sequence| sequence["name"] == "InvoiceNumber").unwrap();
    assert_eq!((&numbers["next"], &numbers["first"]), (&json!(2), &json!(1)));
    let audit = server.get(&format!("{workspace}/sequences/InvoiceNumber/audit")).await.body;
    assert_eq!((&audit["count"], &audit["gaps"], &audit["complete"]), (&json!(1), &json!([]), &json!(true)));
    let who = server.get(&format!("{workspace}/sequences/InvoiceNumber/numbers/1")).await.body;
    assert_eq!(who, *event);
    let undrawn = server.get(&format!("{workspace}/sequences/InvoiceNumber/numbers/9")).await;
    assert_eq!((undrawn.status, &undrawn.body["code"]), (404, &json!("not_found")));
    server.stop().await;
}

#[tokio::test]
async fn all_c_records_of_a_workspace_are_one_list() {
    let server = Server::start().await;
    let (workspace, _) = shop_with_invoice(&server).await;
    let list = format!("{workspace}/records?kind=C");
    assert_eq!(server.get(&list).await.body, json!({"records": [], "next": null}));
    let changes = json!({"changes": [
        {"create": "Customer", "id": 1, "fields": {"name": "Ada"}},
        {"create": "Settings", "id": 2, "fields": {"currency": "EUR"}},
        {"create": "Invoice", "id": 3, "fields": {"total": "1"}},
        {"create": "Customer", "id": 4, "fields": {"name": "Grace"}},
    ]});
    let ids = server.post(&format!("{workspace}/commands"), &changes).await.body["ids"].clone();
    let found = server.get(&list).await.body;
    let records = found["records"].as_array().unwrap();
    let seen: Vec<(&Value, &Value)> = records.iter().map(|one| (&one["id"], &one["type"])).collect();
    let (customer, settings) = (json!("Customer"), json!("Settings"));
    assert_eq!(seen, [(&ids["2"], &settings), (&ids["1"], &customer), (&ids["4"], &customer)]);
    assert_eq!(found["next"], Value::Null);
    let first = server.get(&format!("{list}&limit=2")).await.body;
    assert_eq!((&first["records"][1], &first["next"]), (&records[1], &ids["1"]));
    let second = server.get(&format!("{list}&limit=2&after={}", ids["1"])).await.body;
    assert_eq!(second, json!({"records": [records[2]], "next": null}));
    for wrong in ["", "kind=W", "kind=C&type=Customer"] {
        let answer = server.get(&format!("{workspace}/records?{wrong}")).await;
        assert_eq!((answer.status, &answer.body["code"]), (400, &json!("invalid")), "{wrong}");
    }
    server.stop().await;
}

#[tokio::test]
async fn an_order_is_a_document_tree_that_is_stored_in_its_event() {
    let server = Server::start().await;
    let (workspace, _) = shop_with_invoice(&server).await;
    let order = json!({"command": "PlaceOrder", "args": {"id": 1, "fields": {"note": "soon"}, "children": [
        {"create": "OrderLine", "id": 2, "fields": {"item": "tea", "quantity": 3}, "children": []}]}});
    let answer = server.post(&format!("{workspace}/commands"), &order).await;
    assert_eq!(answer.status, 201, "{}", answer.body);
    let id = answer.body["ids"]["1"].as_u64().unwrap();
    let found = server.get(&format!("{workspace}/records/{id}")).await.body;
    assert_eq!((&found["type"], &found["workspace_offset"]), (&json!("Order"), &json!(2)));
    let events = server.get(&format!("{workspace}/events?from=2")).await.body;
    assert_eq!(events["events"][0]["args"]["children"][0]["fields"]["quantity"], 3);
    server.stop().await;
}

#[tokio::test]
async fn with_a_key_a_command_is_done_once_and_with_if_match_only_at_its_offset() {
    let server = Server::start().await;
    let (workspace, _) = shop_with_invoice(&server).await;
    let commands = format!("{workspace}/commands");
    let body = json!({"changes": [{"create": "Invoice", "id": 1, "fields": {}}]}).to_string();
    let key = [("Idempotency-Key", "order-7")];
    let first = server.send("POST", &commands, &key, Some(&body)).await;
    let mut again = server.send("POST", &commands, &key, Some(&body)).await;
    assert_eq!(again.body["repeated"], true);
    again.body["repeated"] = json!(false);
    assert_eq!(again.body, first.body);
    let other = json!({"changes": [{"create": "Customer", "id": 1, "fields": {}}]}).to_string();
    let reused = server.send("POST", &commands, &key, Some(&other)).await;
    assert_eq!((reused.status, &reused.body["code"]), (409, &json!("conflict")));

    let stale = server.send("POST", &commands, &[("If-Match", "\"1\"")], Some(&body)).await;
    assert_eq!((stale.status, &stale.body["expected"], &stale.body["found"]), (409, &json!(1), &json!(2)));
    let fresh = server.send("POST", &commands, &[("If-Match", "\"2\"")], Some(&body)).await;
    assert_eq!(fresh.status, 201);
    let wrong = server.send("POST", &commands, &[("If-Match", "2")], Some(&body)).await;
    assert_eq!(wrong.status, 400);
    server.stop().await;
}

#[tokio::test]
async fn a_series_exists_from_its_first_use() {
    let server = Server::start().await;
    let first = server.send("POST", "/v1/series/acme.invoices/next", &[], None).await;
    assert_eq!(first.status, 201);
    let expected =
        json!({"series": "acme.invoices", "number": 1, "count": 1, "text": "1", "repeated": false});
    assert_eq!(first.body, expected);
    let more = json!({"count": 3, "note": "a batch"});
    let more = server.post("/v1/series/acme.invoices/next", &more).await.body;
    assert_eq!((&more["number"], &more["count"]), (&json!(2), &json!(3)));
    let settings = json!({"first": 100, "format": "INV-{number:06}"});
    assert_eq!(server.put("/v1/series/new", &settings).await.status, 201);
    assert_eq!(server.put("/v1/series/new", &settings).await.status, 200);
    assert_eq!(server.put("/v1/series/new", &json!({"first": 1, "format": "x"})).await.status, 400);
    assert_eq!(server.put("/v1/series/new", &json!({"first": 1})).await.status, 409);
    let hundred = server.send("POST", "/v1/series/new/next", &[], None).await.body;
    assert_eq!(hundred["text"], "INV-000100");
    let void = server.post("/v1/series/new/numbers/100/void", &json!({"reason": "misprint"})).await;
    assert_eq!(void.status, 201, "{}", void.body);
    let raise = server.post("/v1/series/new/raise", &json!({"next": 200, "reason": "import"})).await;
    assert_eq!(raise.status, 201, "{}", raise.body);
    let back = server.post("/v1/series/new/raise", &json!({"next": 5, "reason": "back"})).await;
    assert_eq!(back.status, 409, "{}", back.body);
    assert_eq!(server.send("POST", "/v1/series/new/next", &[], None).await.body["number"], 200);
    let audit = server.get("/v1/series/new/audit").await.body;
    assert_eq!((&audit["voids"][0]["number"], &audit["gaps"]), (&json!(100), &json!([])), "{audit}");
    let who = server.get("/v1/series/acme.invoices/numbers/3").await.body;
    assert_eq!((&who["note"], &who["first"]), (&json!("a batch"), &json!(2)));
    assert_eq!(server.get("/v1/series").await.body["series"].as_array().unwrap().len(), 2);
    assert_eq!(server.get("/v1/series/none").await.status, 404);
    assert_eq!(server.send("POST", "/v1/series/a%20b/next", &[], None).await.status, 400);
    server.stop().await;
}

#[tokio::test]
async fn allocated_blocks_are_contiguous_and_have_names() {
    let server = Server::start().await;
    let settings = json!({"first": 1, "block_size": 100});
    assert_eq!(server.put("/v1/blocks/orders", &settings).await.status, 201);
    assert_eq!(server.put("/v1/blocks/orders", &settings).await.status, 200);
    assert_eq!(server.put("/v1/blocks/orders", &json!({"first": 2, "block_size": 100})).await.status, 409);
    let first = server.post("/v1/blocks/orders/allocate", &json!({"count": 30})).await.body;
    let second = server.post("/v1/blocks/orders/allocate", &json!({"count": 200})).await.body;
    assert_eq!((first, second), (json!({"first": 1, "count": 30}), json!({"first": 31, "count": 200})));
    assert_eq!(server.post("/v1/blocks/none/allocate", &json!({"count": 1})).await.status, 404);
    assert_eq!(server.get("/v1/blocks/orders").await.body["next"], 231);
    assert_eq!(server.get("/v1/blocks").await.body["blocks"][0]["name"], "orders");
    server.stop().await;
}

#[tokio::test]
async fn workspaces_and_blocks_are_created_once_per_key() {
    let server = Server::start().await;
    let once = async |path: &str, key: &str, body: Value| {
        let body = body.to_string();
        server.send("POST", path, &[("Idempotency-Key", key)], Some(&body)).await
    };

    let workspaces = "/v1/apps/shop/workspaces";
    let made = once(workspaces, "k", json!({"kind": "store"})).await;
    let again = once(workspaces, "k", json!({"kind": "store"})).await;
    assert_eq!((made.status, again.status), (201, 200));
    assert_eq!(made.body, again.body);
    let named = once(workspaces, "k", json!({"kind": "store", "name": "corner"})).await;
    assert_eq!((named.status, &named.body["code"]), (409, &json!("conflict")));
    let other = once(workspaces, "l", json!({"kind": "store", "name": "corner"})).await;
    let by_name = server.post(workspaces, &json!({"kind": "store", "name": "corner"})).await;
    let by_both = once(workspaces, "m", json!({"kind": "store", "name": "corner"})).await;
    assert_eq!((other.status, by_name.status, by_both.status), (201, 200, 200));
    assert_eq!(once(workspaces, "", json!({"kind": "store", "name": "corner"})).await.status, 400);
    assert_eq!((&other.body, &other.body), (&by_name.body, &by_both.body));
    assert_eq!(server.get(workspaces).await.body["workspaces"].as_array().unwrap().len(), 2);

    server.put("/v1/blocks/orders", &json!({"first": 1, "block_size": 100})).await;
    let allocate = "/v1/blocks/orders/allocate";
    let made = once(allocate, "k", json!({"count": 3})).await;
    let again = once(allocate, "k", json!({"count": 3})).await;
    assert_eq!((made.status, &made.body), (200, &json!({"first": 1, "count": 3})));
    assert_eq!((again.status, again.body), (200, made.body));
    assert_eq!(once(allocate, "k", json!({"count": 4})).await.status, 409);
    assert_eq!(server.post(allocate, &json!({"count": 1})).await.body["first"], 4);
    assert_eq!(once(allocate, "", json!({"count": 4})).await.status, 400);
    server.stop().await;
}

#[tokio::test]
async fn invalid_input_is_answered_with_a_problem_that_names_it() {
    let server = Server::start().await;
    let (workspace, _) = shop_with_invoice(&server).await;
    let commands = format!("{workspace}/commands");
    for (changes, detail) in [
        (json!([]), "the command changes nothing: send at least one change"),
        (json!([{"create": "Invoise", "id": 1}]), "document Invoise is not defined"),
        (
            json!([{"create": "Invoice", "id": 1, "fields": {"totl": 1}}]),
            "document Invoice has no field totl",
        ),
        (
            json!([{"create": "Invoice", "id": 70_000}]),
            "a create takes a raw id from 1 to 65535, not 70000: the real one is in the answer",
        ),
        (
            json!([{"create": "Invoice", "id": 1, "fields": {"number": 7}}]),
            "field number of document Invoice is drawn from a sequence: leave it out",
        ),
        (json!([{"update": 7, "fields": {}}]), "record 7 does not exist in this workspace"),
    ] {
        let reply = server.post(&commands, &json!({ "changes": changes })).await;
        assert_eq!((reply.status, reply.body["detail"].as_str().unwrap()), (400, detail));
        assert!(reply.head.contains("content-type: application/problem+json"), "{}", reply.head);
        assert_eq!((&reply.body["code"], &reply.body["retryable"]), (&json!("invalid"), &json!(false)));
    }
    for (method, path, body, status) in [
        ("GET", "/nothing", None, 404),
        ("DELETE", "/v1/apps", None, 405),
        ("GET", "/v1/apps/none", None, 404),
        ("GET", "/v1/apps/shop/workspaces/1", None, 404),
        ("GET", "/v1/apps/shop/workspaces/x", None, 400),
        ("GET", "/v1/apps/shop/workspaces?limit=0", None, 400),
        ("GET", "/v1/apps/shop/workspaces?limit=5000", None, 400),
        ("GET", "/v1/apps/shop/workspaces?colour=red", None, 400),
        ("GET", "/v1/apps/shop/partitions/99/events", None, 404),
        ("GET", "/v1/apps/shop/partitions/0/events?from=0", None, 400),
        ("POST", "/v1/apps/shop/workspaces", Some("{\"kind\": \"castle\"}"), 400),
        ("POST", "/v1/apps/shop/workspaces", Some("{"), 400),
        ("POST", &*commands, Some("{\"changes\": 1}"), 400),
        ("POST", &*commands, Some("{\"unknown\": 1}"), 400),
    ] {
        let reply = server.send(method, path, &[], body).await;
        assert_eq!(reply.status, status, "{method} {path} {}", reply.body);
        assert!(reply.body["detail"].is_string(), "{method} {path} {}", reply.body);
    }
    let after = server.post(&commands, &json!({"changes": [{"create": "Invoice", "id": 1}]})).await.body;
    assert_eq!(after["numbers"]["1"]["number"], 2, "none of them took a number");
    server.stop().await;
}

#[tokio::test]
async fn health_and_partitions_are_reported() {
    let server = Server::start().await;
    assert_eq!(server.get("/livez").await.body["status"], "alive");
    assert_eq!(server.get("/readyz").await.body["status"], "ready");
    let partitions = server.get("/v1/apps/shop/partitions").await.body;
    assert_eq!(partitions.as_array().unwrap().len(), 4);
    assert_eq!((&partitions[0]["status"], &partitions[0]["next_offset"]), (&json!("ready"), &json!(1)));
    let apps = server.get("/v1/apps").await.body;
    assert_eq!((&apps[0]["name"], &apps[0]["partitions"]), (&json!("shop"), &json!(4)));
    server.stop().await;
}

/// Requests a stream of a log.
async fn follow(server: &Server, path: &str, headers: &str) -> TcpStream {
    let mut stream = server.connect().await;
    let head = format!("GET {path} HTTP/1.1\r\nHost: test\r\nAccept: text/event-stream\r\n{headers}\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    stream
}

#[tokio::test]
async fn a_log_is_followed_and_resumed_as_server_sent_events() {
    let server = Server::start().await;
    let (workspace, _) = shop_with_invoice(&server).await;
    let events = format!("{workspace}/events");
    let mut stream = follow(&server, &format!("{events}?from=1"), "").await;
    read_until(&mut stream, "id: 1\n").await;
    let body = json!({"changes": [{"create": "Invoice", "id": 1}]});
    server.post(&format!("{workspace}/commands"), &body).await;
    let text = read_until(&mut stream, "id: 2\n").await;
    assert!(text.contains("\"workspace_offset\":2"), "{text}");

    let mut resumed = follow(&server, &events, "Last-Event-ID: 1\r\n").await;
    let text = read_until(&mut resumed, "id: 2\n").await;
    assert!(!text.contains("id: 1\n"), "{text}");

    // A stop ends both streams, and each says where to resume.
    server.stop.cancel();
    read_until(&mut stream, "event: end\ndata: 3\n").await;
    read_until(&mut resumed, "event: end\ndata: 3\n").await;
    drop((stream, resumed));
    server.served.await.unwrap().unwrap();
}
