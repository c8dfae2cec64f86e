//! The routes of workflows, over a real socket.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::result_large_err, reason = "handlers of workflows fail with a whole failure")]

#[path = "http/server.rs"]
#[allow(dead_code, reason = "these tests use a part of it")]
mod server;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use seriatim_engine::{Engine, Options};
use seriatim_env::{Env, Shutdown};
use seriatim_server::Server;
use seriatim_storage::memory::{MemoryLog, MemoryStore};
use seriatim_storage::{Log, Store};
use seriatim_workflow::{Context, Exit, Failure, History, Policy, Registry, replay};
use seriatim_workflow_host::{HostOptions, WorkflowHost, demo};
use tokio::net::{TcpListener, TcpStream};

use crate::server::{exchange, request};

struct TestServer {
    address: std::net::SocketAddr,
    stop: Shutdown,
    served: seriatim_env::Task<std::io::Result<()>>,
    host: WorkflowHost,
    engine: Engine,
}

fn workflows() -> Registry {
    demo::workflows().workflow("counter", |ctx: Context, (): ()| async move {
        let count = ctx.state(0);
        ctx.on_query("count", &count, |count, (): ()| Ok(*count));
        ctx.on_update(
            "add",
            &count,
            |_, number: &u32| match number {
                0 => Err(Failure::application("Zero", "not 0")),
                _ => Ok(()),
            },
            |count, number| {
                *count += number;
                Ok(*count)
            },
        );
        ctx.signals::<Value>("stop").next().await?;
        Ok::<_, Exit>(count.get())
    })
}

impl TestServer {
    async fn start() -> Self {
        Self::start_with(workflows(), HostOptions::default()).await
    }

    async fn start_with(workflows: Registry, options: HostOptions) -> Self {
        let env = Env::real();
        let (log, store) = (Log::new(MemoryLog::new()), Store::new(MemoryStore::new()));
        let apps = [seriatim_workflow_host::app().unwrap()];
        let engine = Engine::open(env.clone(), log, store, apps, Options::default()).await.unwrap();
        assert!(engine.wait_ready(Duration::from_secs(60)).await);
        let host = WorkflowHost::open(env.clone(), engine.clone(), workflows, demo::activities(), options);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, stop) = (listener.local_addr().unwrap(), Shutdown::new());
        let server = Server::new(engine.clone()).workflows(host.clone());
        let served = env.spawn(server.serve(listener, stop.clone()));
        Self { address, stop, served, host, engine }
    }

    async fn send(&self, method: &str, path: &str, key: Option<&str>, body: Option<&Value>) -> (u16, Value) {
        let headers: Vec<(&str, &str)> = key.map(|key| ("Idempotency-Key", key)).into_iter().collect();
        let request = request(method, path, &headers, body.map(Value::to_string).as_deref());
        let reply = exchange(TcpStream::connect(self.address).await.unwrap(), &request).await;
        (reply.status, reply.body)
    }

    async fn get(&self, path: &str) -> (u16, Value) {
        self.send("GET", path, None, None).await
    }

    async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        self.send("POST", path, None, Some(body)).await
    }

    async fn stop(self) {
        self.stop.cancel();
        self.served.await.unwrap().unwrap();
        self.host.close().await;
        self.engine.close().await;
    }
}

#[tokio::test]
async fn the_error_of_an_input_with_the_wrong_type_names_no_rust_type() {
    let served = TestServer::start().await;
    served.post("/v1/workflows", &json!({"type": "greet", "id": "g", "input": 5})).await;
    let (_, ended) = served.get("/v1/workflows/g?wait=20").await;
    assert_eq!(ended["status"], "failed");
    let failure = ended["failure"].to_string();
    assert!(
        failure.contains("the value does not fit: invalid type: integer `5`, expected a string"),
        "{failure}"
    );
    assert!(!failure.contains("String"), "{failure}");
    // The same holds for an update that is refused before it is written.
    served.post("/v1/workflows", &json!({"type": "counter", "id": "c"})).await;
    let (status, refused) = served.post("/v1/workflows/c/updates/add", &json!({"input": "five"})).await;
    let detail = refused["detail"].as_str().unwrap();
    assert_eq!(status, 400);
    assert!(detail.contains("invalid type: string \"five\", expected a whole number"), "{detail}");
    assert!(!detail.contains("u32"), "{detail}");
    served.stop().await;
}

#[tokio::test]
async fn the_error_for_a_missing_run_names_it() {
    let served = TestServer::start().await;
    served.post("/v1/workflows", &json!({"type": "counter", "id": "c"})).await;
    let (status, missing) = served.get("/v1/workflows/c/history?run=9").await;
    assert_eq!((status, &missing["code"]), (404, &json!("not_found")));
    assert_eq!(missing["detail"], "workflow c has no run 9: its newest is 1");
    served.stop().await;
}

#[tokio::test]
async fn a_start_takes_its_options_and_shows_its_memo() {
    let served = TestServer::start().await;
    let start = json!({
        "type": "counter", "id": "c", "execution_timeout": "7d", "run_timeout": "1h",
        "retry_policy": {"initial_interval": "10s", "maximum_attempts": 3, "non_retryable_error_types": ["Declined"]},
        "memo": {"customer": "Ada", "items": [1, 2]}, "id_reuse_policy": "reject_duplicate",
    });
    let (status, started) = served.send("POST", "/v1/workflows", Some("k"), Some(&start)).await;
    assert_eq!(
        (status, &started["started"], &started["repeated"]),
        (201, &json!(true), &json!(false)),
        "{started}"
    );
    let (_, shown) = served.get("/v1/workflows/c").await;
    assert_eq!(shown["memo"], json!({"customer": "Ada", "items": [1, 2]}), "{shown}");
    let (_, history) = served.get("/v1/workflows/c/history").await;
    let began = &history["entries"][0]["details"];
    assert_eq!(began["run_timeout"]["secs"], 3_600, "{began}");
    assert_eq!(began["execution_timeout"]["secs"], 604_800, "{began}");
    assert_eq!(began["retry_policy"]["maximum_attempts"], 3, "{began}");
    // The idempotency key covers every option.
    let mut other = start.clone();
    other["run_timeout"] = json!("2h");
    assert_eq!(served.send("POST", "/v1/workflows", Some("k"), Some(&other)).await.0, 409);
    let (status, again) = served.send("POST", "/v1/workflows", Some("k"), Some(&start)).await;
    assert_eq!((status, &again["repeated"]), (201, &json!(true)));
    served.post("/v1/workflows/c/signals/stop", &json!({})).await;
    served.get("/v1/workflows/c?wait=20").await;
    let (status, used) = served.send("POST", "/v1/workflows", Some("k2"), Some(&start)).await;
    assert_eq!(status, 409);
    assert!(used["detail"].as_str().unwrap().contains("has run before"), "{used}");
    served.stop().await;
}

#[tokio::test]
async fn a_start_with_a_signal_signals_the_open_run_or_starts_one() {
    let served = TestServer::start().await;
    let start = json!({"type": "counter", "id": "c", "signal": {"name": "other", "input": 1}});
    for (key, status, started) in [("a", 201, true), ("b", 200, false), ("a", 201, true), ("b", 200, false)] {
        let (found, answer) = served.send("POST", "/v1/workflows", Some(key), Some(&start)).await;
        assert_eq!((found, &answer["started"]), (status, &json!(started)), "{answer}");
    }
    let (_, history) = served.get("/v1/workflows/c/history").await;
    let entries = history["entries"].as_array().unwrap();
    assert_eq!(entries.iter().filter(|entry| entry["what"] == "signal").count(), 2, "{history}");
    served.stop().await;
}

#[tokio::test]
async fn a_delayed_start_exists_at_once_and_begins_later() {
    let served = TestServer::start().await;
    let start = json!({"type": "greet", "id": "g", "input": "Ada", "start_delay": "300ms"});
    assert_eq!(served.post("/v1/workflows", &start).await.0, 201);
    let (_, shown) = served.get("/v1/workflows/g?wait=20").await;
    assert_eq!((&shown["status"], &shown["result"]), (&json!("completed"), &json!("Hello, Ada!")), "{shown}");
    let far = json!({"type": "greet", "id": "far", "start_delay": "99999999d"});
    assert_eq!(served.post("/v1/workflows", &far).await.0, 201);
    let (status, shown) = served.get("/v1/workflows/far").await;
    assert_eq!(
        (status, &shown["status"], &shown["blocked"]),
        (200, &json!("running"), &json!([])),
        "{shown}"
    );
    served.stop().await;
}

#[tokio::test]
async fn the_error_of_each_invalid_start_option_names_it() {
    let served = TestServer::start().await;
    for (field, value, expected) in [
        ("run_timeout", json!("soon"), "in the body, run_timeout: \"soon\" is not a duration, such as 200ms"),
        ("run_timeout", json!(30), "in the body, run_timeout: invalid type: integer `30`, expected a string"),
        ("run_timeout", json!("0s"), "run_timeout is 0"),
        ("execution_timeout", json!("-1s"), "in the body, execution_timeout: \"-1s\" is not a duration"),
        ("start_delay", json!("1.5h"), "in the body, start_delay: \"1.5h\" is not a duration"),
        (
            "id_reuse_policy",
            json!("maybe"),
            "in the body, id_reuse_policy: unknown variant `maybe`, expected one of",
        ),
        ("memo", json!("note"), "in the body, memo: invalid type: string \"note\", expected an object"),
        ("retry_policy", json!({"initial_interval": "0s"}), "retry_policy: the first interval is 0"),
        (
            "retry_policy",
            json!({"backoff_coefficient": 0}),
            "retry_policy: backoff_coefficient is at least 1, not 0",
        ),
        (
            "retry_policy",
            json!({"maximum_attempts": -1}),
            "in the body, retry_policy.maximum_attempts: invalid value: integer `-1`, expected a whole number",
        ),
        (
            "retry_policy",
            json!({"attempts": 1}),
            "in the body, retry_policy.attempts: unknown field `attempts`",
        ),
        ("signal", json!({"input": 1}), "in the body, signal: missing field `name`"),
    ] {
        let (status, problem) = served.post("/v1/workflows", &json!({"type": "greet", field: value})).await;
        let detail = problem["detail"].as_str().unwrap_or_default();
        assert_eq!(status, 400, "{field} {value}: {detail}");
        assert!(detail.starts_with(expected), "{detail}");
    }
    let both = json!({"type": "greet", "signal": {"name": "a"}, "id_reuse_policy": "terminate_if_running"});
    assert_eq!(served.post("/v1/workflows", &both).await.0, 400);
    assert_eq!(
        served.get("/v1/workflows").await.1,
        json!({"workflows": [], "next": null}),
        "none was started"
    );
    served.stop().await;
}

/// A server whose workflow `fragile` panics and whose workflow `spin` does not return, while the flag is set.
async fn fragile(options: HostOptions) -> (TestServer, Arc<AtomicBool>) {
    let is_broken = Arc::new(AtomicBool::new(true));
    let (broken, spinning) = (is_broken.clone(), is_broken.clone());
    let workflows = workflows()
        .workflow("fragile", move |_: Context, (): ()| {
            assert!(!broken.load(Ordering::Relaxed), "it is broken");
            async move { Ok::<_, Exit>("whole") }
        })
        .workflow("spin", move |_: Context, (): ()| {
            while spinning.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
            async move { Ok::<_, Exit>(()) }
        });
    (TestServer::start_with(workflows, options).await, is_broken)
}

#[tokio::test]
async fn stuck_runs_are_listed_in_pages_and_not_retryable() {
    let (served, is_broken) = fragile(HostOptions::default()).await;
    for number in 0..3 {
        served.post("/v1/workflows", &json!({"type": "fragile", "id": format!("f{number}")})).await;
    }
    served.post("/v1/workflows", &json!({"type": "counter", "id": "c"})).await;
    let (_, first) = served.get("/v1/workflows?status=stuck&limit=2").await;
    assert_eq!(
        (&first["workflows"][0]["id"], &first["workflows"][0]["status"]),
        (&json!("f0"), &json!("running"))
    );
    let (_, rest) = served.get(&format!("/v1/workflows?status=stuck&limit=2&after={}", first["next"])).await;
    assert_eq!((&rest["workflows"][0]["id"], &rest["next"]), (&json!("f2"), &Value::Null), "{rest}");
    let (status, problem) = served.post("/v1/workflows/f0/signals/a", &json!({})).await;
    assert_eq!(
        (status, &problem["code"], &problem["retryable"]),
        (503, &json!("unavailable"), &json!(false))
    );
    is_broken.store(false, Ordering::Relaxed);
    assert_eq!(served.send("POST", "/v1/workflows/f0/retry", None, None).await.0, 200);
    assert_eq!(served.get("/v1/workflows/f0?wait=20").await.1["result"], "whole");
    let (_, left) = served.get("/v1/workflows?status=stuck").await;
    assert_eq!(left["workflows"].as_array().unwrap().len(), 2, "{left}");
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readiness_names_threads_that_do_not_return_until_they_do() {
    let options = HostOptions {
        workflow_threads: 1,
        abandoned_threads_max: 1,
        activation_timeout: Duration::from_millis(100),
        ..HostOptions::default()
    };
    let (served, is_broken) = fragile(options).await;
    assert_eq!(served.get("/readyz").await, (200, json!({"status": "ready"})));
    // More loops than threads: one runs, one takes the place of the abandoned thread, the third waits.
    for id in ["a", "b"] {
        served.post("/v1/workflows", &json!({"type": "spin", "id": id})).await;
    }
    let (status, ready) = served.get("/readyz").await;
    assert_eq!((status, ready), (503, json!({"status": "not ready", "troubles": ["workflow_threads"]})));
    assert_eq!(served.get("/livez").await.0, 200, "HTTP continues");
    is_broken.store(false, Ordering::Relaxed);
    while served.get("/readyz").await.0 != 200 {
        tokio::task::yield_now().await;
    }
    let greet = json!({"type": "greet", "id": "g", "input": "Ada"});
    assert_eq!(served.post("/v1/workflows", &greet).await.0, 201);
    assert_eq!(served.get("/v1/workflows/g?wait=20").await.1["result"], "Hello, Ada!");
    served.stop().await;
}

#[tokio::test]
async fn a_workflow_is_started_shown_and_listed() {
    let server = TestServer::start().await;
    let (status, started) =
        server.post("/v1/workflows", &json!({"type": "greet", "id": "g", "input": "Ada"})).await;
    assert_eq!((status, &started["id"]), (201, &json!("g")));
    let (status, shown) = server.get("/v1/workflows/g?wait=20").await;
    assert_eq!(
        (status, &shown["status"], &shown["result"]),
        (200, &json!("completed"), &json!("Hello, Ada!"))
    );
    assert_eq!((&shown["type"], &shown["input"]), (&json!("greet"), &json!("Ada")));
    assert_eq!(shown["run_id"], started["run_id"]);
    assert!(
        shown["started"].is_string() && shown["ended"].is_string() && shown["failure"].is_null(),
        "{shown}"
    );
    let (_, listed) = server.get("/v1/workflows?status=completed").await;
    assert_eq!(listed["workflows"][0]["id"], "g", "{listed}");
    let (_, listed) = server.get("/v1/workflows?status=running&limit=10").await;
    assert_eq!(listed, json!({"workflows": [], "next": null}));
    // Workflows that do not exist, and invalid parameters.
    for (path, expected) in [
        ("/v1/workflows/missing", 404),
        ("/v1/workflows/missing/history", 404),
        ("/v1/workflows/missing/runs", 404),
        ("/v1/workflows?status=happy", 400),
        ("/v1/workflows?limit=0", 400),
        ("/v1/workflows/g?wait=1000", 400),
    ] {
        assert_eq!(server.get(path).await.0, expected, "{path}");
    }
    let (status, unknown) = server.post("/v1/workflows", &json!({"type": "dance"})).await;
    assert_eq!(status, 400);
    assert!(unknown["detail"].as_str().unwrap().contains("known: counter, greet, order, ship"), "{unknown}");
    assert_eq!(server.post("/v1/workflows", &json!({"type": "greet", "inputs": 1})).await.0, 400);
    assert_eq!(server.post("/v1/workflows/g/signals/x", &json!(null)).await.0, 409, "it has ended");
    server.stop().await;
}

#[tokio::test]
async fn signals_queries_updates_and_cancellation() {
    let server = TestServer::start().await;
    let start = json!({"type": "counter", "id": "c"});
    assert_eq!(server.send("POST", "/v1/workflows", Some("k"), Some(&start)).await.0, 201);
    let (status, again) = server.send("POST", "/v1/workflows", Some("k"), Some(&start)).await;
    assert_eq!((status, &again["repeated"]), (201, &json!(true)));
    let (status, running) = server.post("/v1/workflows", &start).await;
    assert_eq!((status, &running["code"]), (409, &json!("conflict")));
    assert_eq!(
        server.post("/v1/workflows/c/updates/add", &json!({"input": 5})).await,
        (200, json!({"result": 5}))
    );
    assert_eq!(
        server.post("/v1/workflows/c/updates/add", &json!({"input": 6})).await,
        (200, json!({"result": 11}))
    );
    assert_eq!(server.post("/v1/workflows/c/updates/add", &json!({"input": 0})).await.0, 400);
    assert_eq!(server.post("/v1/workflows/c/updates/add", &json!(5)).await.0, 400, "not an object");
    assert_eq!(server.post("/v1/workflows/c/updates/add", &json!({"inptu": 5})).await.0, 400);
    let (status, answer) = server.send("POST", "/v1/workflows/c/queries/count", None, None).await;
    assert_eq!((status, answer), (200, json!({"result": 11})));
    assert_eq!(server.post("/v1/workflows/c/queries/nothing", &json!({})).await.0, 400);
    let (_, shown) = server.get("/v1/workflows/c").await;
    assert_eq!(shown["blocked"][0]["waits"][0], json!({"for": "signal", "name": "stop"}), "{shown}");
    for repeated in [false, true] {
        let stop = json!({"input": {"why": "enough"}});
        let (status, delivered) =
            server.send("POST", "/v1/workflows/c/signals/stop", Some("s"), Some(&stop)).await;
        assert_eq!((status, &delivered["repeated"]), (200, &json!(repeated)));
    }
    let (_, shown) = server.get("/v1/workflows/c?wait=20").await;
    assert_eq!((&shown["status"], &shown["result"]), (&json!("completed"), &json!(11)));

    let order = json!({"type": "order", "id": "o", "input": {"patience_ms": 3_600_000}});
    assert_eq!(server.post("/v1/workflows", &order).await.0, 201);
    assert_eq!(server.send("POST", "/v1/workflows/o/cancel", None, None).await.0, 200);
    let (_, shown) = server.get("/v1/workflows/o?wait=20").await;
    assert_eq!(shown["status"], "cancelled", "{shown}");
    assert_eq!(server.send("POST", "/v1/workflows/o/cancel", None, None).await.0, 409);
    server.stop().await;
}

#[tokio::test]
async fn a_history_is_a_timeline_and_can_be_replayed() {
    let server = TestServer::start().await;
    server
        .post("/v1/workflows", &json!({"type": "order", "id": "o", "input": {"patience_ms": 3_600_000}}))
        .await;
    let (_, shown) = server.get("/v1/workflows/o").await;
    assert_eq!(shown["status"], "running");
    server.post("/v1/workflows/o/signals/approve", &json!({"input": {"by": "me"}})).await;
    let (_, shown) = server.get("/v1/workflows/o?wait=20").await;
    assert_eq!(shown["result"]["approved_by"], "signal", "{shown}");
    let (status, history) = server.get("/v1/workflows/o/history").await;
    assert_eq!(status, 200);
    let entries = history["entries"].as_array().unwrap();
    let charge = entries.iter().find(|entry| entry["name"] == "charge").unwrap();
    assert_eq!(
        (&charge["kind"], &charge["number"], &charge["path"]),
        (&json!("activity"), &json!(1), &json!("/#1"))
    );
    assert_eq!(charge["answer"]["resolution"]["outcome"], "completed", "{charge}");
    assert!(charge["answered_at"].is_string());
    for what in ["start", "signal", "start_timer", "cancel_timer", "start_child", "complete"] {
        assert!(entries.iter().any(|entry| entry["what"] == what), "{what}");
    }
    let (status, runs) = server.get("/v1/workflows/o/runs?limit=1").await;
    assert_eq!((status, &runs["runs"][0]["run"], &runs["next"]), (200, &json!(1), &Value::Null), "{runs}");
    let (_, none) = server.get("/v1/workflows/o/runs?before=1").await;
    assert_eq!(none, json!({"runs": [], "next": null}));
    // In pages: each names the next one.
    let (_, first) = server.get("/v1/workflows/o/history?limit=1").await;
    let (_, rest) = server.get(&format!("/v1/workflows/o/history?after={}", first["next"])).await;
    let steps = |part: &Value| part["steps"].as_array().unwrap().clone();
    assert_eq!([steps(&first), steps(&rest)].concat(), steps(&history));
    assert_eq!(rest.get("next"), Some(&Value::Null), "{rest}");
    let (status, _) = server.post("/v1/workflows/o/retry", &json!(null)).await;
    assert_eq!(status, 409, "it has ended: there is nothing to retry");
    let read: History = serde_json::from_value(history).unwrap();
    let report = replay(&Arc::new(workflows()), &read, Policy::Fail);
    assert!(report.is_same(), "{report}");
    server.stop().await;
}
