//! Workflows of a running server, and their histories on the command line.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use serde_json::{Value, json};
use support::{Folder, Server};

/// The body of the answer to one request.
fn request(server: &Server, method: &str, path: &str, body: &str) -> String {
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
    request(&server, "POST", "/v1/workflows", r#"{"type": "greet", "id": "greeting", "input": "Ada"}"#);
    let ended = request(&server, "GET", "/v1/workflows/greeting?wait=20", "");
    let ended: Value = serde_json::from_str(&ended).unwrap();
    assert_eq!((&ended["status"], &ended["result"]), (&json!("completed"), &json!("Hello, Ada!")), "{ended}");
    folder.write("greeting.json", &request(&server, "GET", "/v1/workflows/greeting/history", ""));
    assert_eq!(server.terminate().0, 0);
    folder
}

#[test]
fn a_history_replays_on_the_code_that_made_it_and_shows_where_other_code_differs() {
    let folder = folder_with_a_history();
    let same = folder.run(&["replay", "greeting.json"]).fine();
    assert!(same.starts_with("greeting.json: same: greet "), "{same}");

    // As if the activity had another name when the history was made.
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
fn a_part_of_a_history_is_replayed_and_reported_as_a_part() {
    let folder = Folder::new();
    let server = folder.serve(&["--storage", "memory:"]);
    request(&server, "POST", "/v1/workflows", r#"{"type": "greet", "id": "greeting", "input": "Ada"}"#);
    request(&server, "GET", "/v1/workflows/greeting?wait=20", "");
    let first = request(&server, "GET", "/v1/workflows/greeting/history?limit=1", "");
    let next = serde_json::from_str::<Value>(&first).unwrap()["next"].to_string();
    folder.write("first.json", &first);
    let rest = format!("/v1/workflows/greeting/history?after={next}");
    folder.write("rest.json", &request(&server, "GET", &rest, ""));
    let part = folder.run(&["replay", "first.json"]);
    assert_eq!(part.code, 2, "{part:?}");
    assert!(part.stdout.starts_with("first.json: same: greet "), "{part:?}");
    let expected = format!(
        "seriatim: first.json is only a part of a history: events after {next} are missing; get all of it with \
         `seriatim workflow history greeting --json`\n"
    );
    assert_eq!(part.stderr, expected);
    let rest = folder.run(&["replay", "rest.json"]).fails(2);
    assert!(rest.contains("rest.json is only a part of a history: its beginning is missing"), "{rest}");
    folder.run(&["replay", "--inspect", "first.json"]).fine();
    // The command in the error gives the whole history.
    let whole = folder.run(&["workflow", "history", "greeting", "--json", "--server", &server.url]).fine();
    folder.write("whole.json", &whole);
    folder.run(&["replay", "whole.json"]).fine();
}

/// Runs a subcommand of `workflow`.
fn workflow(folder: &Folder, server: &Server, arguments: &[&str]) -> support::Finished {
    let all: Vec<&str> =
        ["workflow"].iter().chain(arguments).copied().chain(["--server", &server.url]).collect();
    folder.run(&all)
}

#[test]
fn workflows_are_started_signalled_and_queried_from_the_command_line() {
    let folder = Folder::new();
    let server = folder.serve(&["--storage", "memory:"]);
    let run = |arguments: &[&str]| workflow(&folder, &server, arguments);
    let start = [
        "start",
        "order",
        "--id",
        "tea",
        "--input",
        r#"{"patience_ms": 3600000}"#,
        "--key",
        "k",
        "--run-timeout",
        "1h",
        "--execution-timeout",
        "7d",
        "--memo",
        r#"customer="Ada""#,
        "--retry-attempts",
        "3",
        "--retry-interval",
        "10s",
    ];
    assert_eq!(run(&start).fine(), "tea\n");
    let again = run(&start);
    assert_eq!((&*again.stdout, &*again.stderr), ("tea\n", "seriatim: done earlier, with the same key\n"));
    assert!(run(&["start", "order", "--id", "tea"]).fails(1).contains("is running"));
    let shown = &run(&["show", "tea", "--json"]).json()[0];
    assert_eq!(
        (&shown["status"], &shown["memo"]),
        (&json!("running"), &json!({"customer": "Ada"})),
        "{shown}"
    );
    let text = run(&["show", "tea"]).fine();
    assert!(text.contains("status   running\n") && text.contains("memo     customer: \"Ada\"\n"), "{text}");
    let policy = &run(&["history", "tea", "--json"]).json()[0]["entries"][0]["details"]["retry_policy"];
    assert_eq!((&policy["maximum_attempts"], &policy["initial_interval"]["secs"]), (&json!(3), &json!(10)));
    assert_eq!(run(&["update", "tea", "change_item", "--input", "\"coffee\""]).fine(), "\"tea\"\n");
    assert!(run(&["query", "tea", "status"]).fine().ends_with("\"\n"));
    let listed = run(&["list", "--status", "running", "--json"]).json();
    assert_eq!(listed[0]["id"], "tea");
    let table = run(&["list", "--status", "stuck"]).fine();
    assert_eq!(table.lines().count(), 1, "only the names of the columns: {table}");
    assert!(run(&["list", "--status", "happy"]).fails(2).contains("is not a status"));
    // A start with a signal signals the open run.
    let signalled =
        run(&["start", "order", "--id", "tea", "--signal", "approve", "--signal-input", r#"{"by": "me"}"#]);
    assert!(signalled.stderr.contains("was open and received the signal"), "{signalled:?}");
    let result: Value = serde_json::from_str(&run(&["wait", "tea"]).fine()).unwrap();
    assert_eq!((&result["item"], &result["approved_by"]), (&json!("coffee"), &json!("signal")));
    let history = run(&["history", "tea"]).fine();
    assert!(history.contains("schedule_activity") && history.contains("charge"), "{history}");
    assert!(run(&["history", "tea", "--run", "9"]).fails(2).contains("workflow tea has no run 9"));
    assert!(run(&["signal", "tea", "approve"]).fails(1).contains("is not running"));
    assert!(run(&["retry", "tea"]).fails(1).contains("is not running"));
    assert!(run(&["start", "greet", "--input", "Ada"]).fails(2).contains("is not JSON"));
    assert!(run(&["start", "greet", "--run-timeout", "soon"]).fails(2).contains("is not a duration"));
}

#[test]
fn workflows_are_stopped_from_the_command_line() {
    let folder = Folder::new();
    let server = folder.serve(&["--storage", "memory:"]);
    let run = |arguments: &[&str]| workflow(&folder, &server, arguments);
    let start = |id: &str| run(&["start", "order", "--id", id, "--start-delay", "12h"]).fine();
    start("a");
    assert!(run(&["retry", "a"]).stderr.ends_with("was not stuck\n"));
    run(&["cancel", "a", "--reason", "enough"]).fine();
    run(&["terminate", "a", "--reason", "at once"]).fine();
    assert!(
        run(&["wait", "a"]).fails(1).contains("workflow a has ended without a result, terminated: at once")
    );
    start("a");
    let used =
        run(&["start", "order", "--id", "a", "--id-reuse-policy", "terminate-if-running", "--json"]).json();
    assert!(used[0]["run_id"].as_str().unwrap().ends_with("-3"), "{used:?}");
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
    folder.write("other.json", &history.replace("\"greet\"", "\"unknown_type\""));
    let refused = folder.run(&["replay", "other.json"]).fails(2);
    assert!(refused.contains("has the code of greet, order, ship, not of unknown_type"), "{refused}");
    let inspected = folder.run(&["replay", "--inspect", "other.json"]).fine();
    assert!(
        inspected.contains("activity 1 greeting: schedule_activity at 1, resolve_activity at 2"),
        "{inspected}"
    );
    assert!(inspected.ends_with("1 operations, 0 without an answer\n"), "{inspected}");
}

#[test]
fn the_error_for_a_file_without_a_history_names_it() {
    let folder = Folder::new();
    folder.write("letter.txt", "Dear Ada,");
    let refused = folder.run(&["replay", "letter.txt"]).fails(2);
    assert!(refused.starts_with("seriatim: letter.txt: "), "{refused}");
    let absent = folder.run(&["replay", "absent.json"]).fails(2);
    assert!(absent.starts_with("seriatim: absent.json: "), "{absent}");
}

#[cfg(not(feature = "temporal"))]
#[test]
fn a_program_without_temporal_says_how_to_build_it() {
    let folder = Folder::new();
    let worker = ["worker", "--temporal", "127.0.0.1:7233", "--task-queue", "orders"];
    let fetch = ["replay", "--from-temporal", "127.0.0.1:7233", "--workflow-id", "order-1"];
    for (arguments, what) in [(worker, "`worker`"), (fetch, "`replay --from-temporal`")] {
        let refused = folder.run(&arguments).fails(2);
        assert!(refused.contains(what) && refused.contains("--features temporal"), "{refused}");
    }
}

#[test]
fn an_api_key_in_the_environment_alone_contacts_no_cluster() {
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
