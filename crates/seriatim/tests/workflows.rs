//! Workflows of a running server, and their histories on the command line.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use serde_json::{Value, json};
use support::{Folder, Server};

/// The body of the answer to one request.
fn ask(server: &Server, method: &str, path: &str, body: &str) -> String {
    let address = server.url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 20"), "{answer}");
    body.to_owned()
}

/// The history of a greeting that has ended, in `greeting.json`.
fn folder_with_a_history() -> Folder {
    let folder = Folder::new();
    let server = folder.serve(&["--storage", "memory:"]);
    ask(&server, "POST", "/v1/workflows", r#"{"type": "greet", "id": "greeting", "input": "Ada"}"#);
    let ended = ask(&server, "GET", "/v1/workflows/greeting?wait=20", "");
    let ended: Value = serde_json::from_str(&ended).unwrap();
    assert_eq!((&ended["status"], &ended["result"]), (&json!("completed"), &json!("Hello, Ada!")), "{ended}");
    folder.write("greeting.json", &ask(&server, "GET", "/v1/workflows/greeting/history", ""));
    assert_eq!(server.terminate().0, 0);
    folder
}

#[test]
fn a_history_replays_on_the_code_that_made_it_and_tells_where_other_code_differs() {
    let folder = folder_with_a_history();
    let same = folder.run(&["replay", "greeting.json"]).fine();
    assert!(same.starts_with("greeting.json: same: greet "), "{same}");

    // As if the activity had had another name when the history was made.
    let history = std::fs::read_to_string(folder.join("greeting.json")).unwrap();
    folder.write("changed.json", &history.replace("\"greeting\"", "\"salutation\""));
    let different = folder.run(&["replay", "greeting.json", "changed.json", "--junit", "report.xml"]);
    assert_eq!(different.code, 1, "{different:?}");
    let lines: Vec<&str> = different.stdout.lines().collect();
    assert!(lines[1].starts_with("changed.json: DIFFERENT: greet "), "{different:?}");
    assert!(
        different.stdout.contains("expected:") && different.stdout.contains("salutation"),
        "{different:?}"
    );
    let report = std::fs::read_to_string(folder.join("report.xml")).unwrap();
    assert!(report.contains("tests=\"2\" failures=\"1\""), "{report}");

    let json = folder.run(&["replay", "greeting.json", "--json"]).json();
    assert_eq!((&json[0]["file"], &json[0]["report"]["same"]), (&json!("greeting.json"), &json!(true)));
}

#[test]
fn a_file_that_cannot_be_read_does_not_stop_the_others_and_a_list_is_read() {
    let folder = folder_with_a_history();
    let history = std::fs::read_to_string(folder.join("greeting.json")).unwrap();
    folder.write("broken.json", "hello");
    folder.write("list.json", &format!("[{history}, {history}]"));
    let ended = folder.run(&["replay", "broken.json", "greeting.json", "absent.json", "list.json"]);
    assert_ne!(ended.code, 0, "{ended:?}");
    let names: Vec<&str> =
        ended.stdout.lines().filter_map(|line| line.split_once(": same")).map(|(name, _)| name).collect();
    assert_eq!(names, ["greeting.json", "list.json#1", "list.json#2"], "{ended:?}");
    for name in ["broken.json", "absent.json"] {
        assert!(ended.stderr.contains(name), "{ended:?}");
    }
}

#[test]
fn a_history_is_inspected_without_its_code() {
    let folder = folder_with_a_history();
    let history = std::fs::read_to_string(folder.join("greeting.json")).unwrap();
    folder.write("other.json", &history.replace("\"greet\"", "\"unheard_of\""));
    let refused = folder.run(&["replay", "other.json"]).fails(2);
    assert!(refused.contains("has the code of greet, order, ship, not of unheard_of"), "{refused}");
    let inspected = folder.run(&["replay", "--inspect", "other.json"]).fine();
    assert!(
        inspected.contains("activity 1 greeting: schedule_activity at 1, resolve_activity at 2"),
        "{inspected}"
    );
    assert!(inspected.ends_with("1 operations, 0 without an answer\n"), "{inspected}");
}

#[test]
fn what_is_no_history_is_refused_by_its_name() {
    let folder = Folder::new();
    folder.write("letter.txt", "Dear Ada,");
    let refused = folder.run(&["replay", "letter.txt"]).fails(2);
    assert!(refused.starts_with("seriatim: letter.txt: "), "{refused}");
    let absent = folder.run(&["replay", "absent.json"]).fails(2);
    assert!(absent.starts_with("seriatim: absent.json: "), "{absent}");
}

#[cfg(not(feature = "temporal"))]
#[test]
fn a_program_without_temporal_says_how_to_get_it() {
    let folder = Folder::new();
    let worker = ["worker", "--temporal", "127.0.0.1:7233", "--task-queue", "orders"];
    let fetch = ["replay", "--from-temporal", "127.0.0.1:7233", "--workflow-id", "order-1"];
    for (arguments, what) in [(worker, "`worker`"), (fetch, "`replay --from-temporal`")] {
        let refused = folder.run(&arguments).fails(2);
        assert!(refused.contains(what) && refused.contains("--features temporal"), "{refused}");
    }
}

#[test]
fn an_api_key_in_the_environment_is_no_reason_to_ask_a_cluster() {
    let folder = folder_with_a_history();
    let environment = [("TEMPORAL_API_KEY", "key")];
    folder.run_with(&environment, &["replay", "greeting.json"]).fine();
    let alone = folder.run(&["replay", "greeting.json", "--namespace", "shop"]).fails(2);
    assert!(alone.contains("--from-temporal"), "{alone}");
    let both = folder.run(&["replay", "greeting.json", "--from-temporal", "here", "--workflow-id", "w"]);
    assert!(both.fails(2).contains("cannot be used with"));
    assert!(folder.run(&["replay", "--from-temporal", "here"]).fails(2).contains("--workflow-id"));
    assert!(folder.run(&["replay"]).fails(2).contains("FILE"));
}
