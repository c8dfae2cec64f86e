//! Each command of the real binary, with valid and invalid input.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::io::{Read as _, Write as _};

use serde_json::json;
use seriatim_env::Env;
use seriatim_storage_file::stage_restore;
use support::{Folder, Server};

/// Two workspaces, some invoices, a series and a block sequence.
fn fill(folder: &Folder, server: &Server) {
    let url = &*server.url;
    let next = |arguments: &[&str]| {
        let all: Vec<&str> = ["next"].iter().chain(arguments).copied().chain(["--server", url]).collect();
        folder.run(&all).fine()
    };
    assert_eq!(next(&["acme.invoices"]), "1\n");
    assert_eq!(next(&["acme.invoices", "--count", "3"]), "2\n3\n4\n");
    assert_eq!(next(&["acme.invoices", "--key", "order-7", "--note", "for Ada"]), "5\n");
}

#[test]
fn next_takes_numbers_and_the_same_key_gives_the_same_number() {
    let folder = Folder::new();
    let server = folder.serve(&["--storage", "memory:"]);
    fill(&folder, &server);
    let environment = [("SERIATIM_SERVER", &*server.url)];
    let again =
        folder.run_with(&environment, &["next", "acme.invoices", "--key", "order-7", "--note", "for Ada"]);
    assert_eq!(
        (again.code, &*again.stdout, &*again.stderr),
        (0, "5\n", "seriatim: taken earlier, with the same key\n")
    );
    let json = folder.run_with(&environment, &["next", "acme.invoices", "--json"]).json();
    assert_eq!(
        json,
        [json!({"series": "acme.invoices", "number": 6, "count": 1, "text": "6", "repeated": false})]
    );
    let reused = folder.run_with(&environment, &["next", "acme.invoices", "--key", "order-7"]);
    assert!(reused.fails(1).contains("order-7"));
    let name = folder.run_with(&environment, &["next", "no spaces"]).fails(2);
    assert!(name.starts_with("seriatim: "), "{name}");
    assert!(!folder.join("seriatim-data").exists());
}

#[test]
fn an_unreachable_server_is_exit_code_3() {
    let folder = Folder::new();
    let server = folder.serve(&["--storage", "memory:"]);
    let url = server.url.clone();
    server.kill();
    let stderr = folder.run(&["next", "s", "--server", &url]).fails(3);
    assert!(stderr.starts_with(&format!("seriatim: no server answers at {url}: ")), "{stderr}");
    assert!(stderr.ends_with("start one with `seriatim serve`, or name another\n"), "{stderr}");
    let wrong = folder.run(&["next", "s", "--server", "localhost:7400"]).fails(2);
    assert!(wrong.contains("write http://HOST:PORT"), "{wrong}");
}

#[test]
fn serve_prints_its_address_and_a_second_server_on_its_data_is_refused() {
    let folder = Folder::new();
    let server = folder.serve(&[]);
    let ready = format!(
        "seriatim listens on {}, console {}/, storage file:./seriatim-data, stop it with Ctrl-C\n",
        server.url, server.url
    );
    assert_eq!(server.ready, ready);
    let held = format!(
        "seriatim: ./seriatim-data is in use by process {}: stop that process first, or use the storage through its server\n",
        server.id()
    );
    assert_eq!(folder.run(&["serve", "--listen", "127.0.0.1:0"]).fails(3), held);
    let inspect = ["inspect", "series", "--storage", "file:./seriatim-data"];
    assert_eq!(folder.run(&inspect).fails(3), held);
    let address = server.url.strip_prefix("http://").unwrap();
    let taken = folder.run(&["serve", "--listen", address, "--storage", "memory:"]).fails(3);
    assert!(taken.contains("in use"), "{taken}");
    assert_eq!(server.terminate(), (0, String::new()));
    assert_eq!(folder.run(&inspect).code, 0, "the storage was released");
}

#[test]
fn logs_are_text_or_json() {
    let folder = Folder::new();
    let log = |format: &str, level: &str| {
        let server = folder.serve(&["--storage", "memory:", "--log-format", format, "--log-level", level]);
        folder.run(&["next", "s", "--server", &server.url]).fine();
        let (code, log) = server.terminate();
        assert_eq!(code, 0);
        log
    };
    let json = log("json", "info");
    let lines: Vec<serde_json::Value> =
        json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let answered = lines.iter().find(|line| line["fields"]["message"] == "answered").unwrap();
    assert_eq!((&answered["level"], &answered["fields"]["status"]), (&json!("INFO"), &json!(201)));
    assert_eq!(answered["span"]["path"], "/v1/series/s/next");
    let text = log("text", "info");
    assert!(text.contains("INFO") && text.contains("status=201") && !text.contains('\u{1b}'), "{text}");
    assert_eq!(log("text", "warn"), "", "nothing is logged");
}

#[test]
fn commands_print_the_same_for_a_server_and_for_its_storage() {
    let folder = Folder::new();
    let server = folder.serve(&[]);
    fill(&folder, &server);
    let commands: [&[&str]; 10] = [
        &["audit", "--series", "acme.invoices"],
        &["audit", "--series", "acme.invoices", "--json"],
        &["inspect", "series"],
        &["inspect", "series", "acme.invoices", "--json"],
        &["inspect", "blocks"],
        &["inspect", "workspaces", "--app", "shop"],
        &["inspect", "workspaces", "--app", "series", "--json"],
        &["inspect", "sequences", "--app", "series", "--workspace", "acme.invoices"],
        &["inspect", "events", "--app", "series", "--workspace", "acme.invoices", "--json"],
        &["export", "--app", "series"],
    ];
    let run = |target: [&str; 2], arguments: &[&str]| {
        let all: Vec<&str> = arguments.iter().copied().chain(target).collect();
        let ran = folder.run(&all);
        assert_eq!(ran.code, 0, "{arguments:?}: {ran:?}");
        ran
    };
    let served: Vec<_> = commands.iter().map(|arguments| run(["--server", &server.url], arguments)).collect();
    assert_eq!(server.terminate().0, 0);
    for (arguments, served) in commands.iter().zip(served) {
        assert_eq!(run(["--storage", "file:./seriatim-data"], arguments), served, "{arguments:?}");
    }
}

#[test]
fn an_audit_reports_completeness_and_its_file_can_be_verified() {
    let folder = Folder::new();
    let server = folder.serve(&[]);
    fill(&folder, &server);
    let url = &*server.url;
    let audit = folder.run(&["audit", "--series", "acme.invoices", "--file", "a.audit", "--server", url]);
    assert_eq!(audit.stderr, "seriatim: a.audit can be checked with `seriatim audit verify`\n");
    let report = audit.fine();
    let (head, digest) = report.split_once("  digest   ").unwrap();
    let expected = "series acme.invoices: complete\n  numbers  1 to 5, 5 given\n  gaps     none\n  twice    none\n  \
                    skipped  none\n  events   3\n";
    assert_eq!(head, expected);
    let digest = digest.lines().next().unwrap();
    let verified = folder.run(&["audit", "verify", "a.audit", "--head", digest]).fine();
    assert!(
        verified.ends_with("nothing up to event 3 was changed since the head was published\n"),
        "{verified}"
    );
    assert!(verified.contains("Number: 1 to 5, 5 given, 0 gaps, 0 twice"), "{verified}");
    let json = folder.run(&["audit", "verify", "a.audit", "--json"]).json();
    assert_eq!(
        (&json[0]["complete"], &json[0]["events"], &json[0]["head"]),
        (&json!(true), &json!(3), &json!(digest))
    );
    let other = folder.run(&["audit", "verify", "a.audit", "--head", &"0".repeat(63).replacen('0', "10", 1)]);
    assert!(other.fails(1).contains("is nowhere in this chain"));
    let text = std::fs::read_to_string(folder.join("a.audit")).unwrap();
    folder
        .write("changed.audit", &text.replacen("[[", "[[1", 1).replacen("\"draws\":[[", "\"draws\":[[1", 1));
    assert!(!folder.run(&["audit", "verify", "changed.audit"]).fails(1).is_empty());
    folder.write("cut.audit", text.lines().next().unwrap());
    assert!(folder.run(&["audit", "verify", "cut.audit"]).fails(2).contains("cut off"));
    assert!(folder.run(&["audit", "verify", "none.audit"]).fails(2).starts_with("seriatim: none.audit: "));
    let unknown = folder.run(&["audit", "--series", "none", "--server", url]).fails(2);
    assert_eq!(unknown, "seriatim: series none does not exist\n");
    let workspace = folder.run(&[
        "audit",
        "--app",
        "shop",
        "--workspace",
        "corner",
        "--sequence",
        "InvoiceNumber",
        "--server",
        url,
    ]);
    assert_eq!(workspace.fails(2), "seriatim: application shop has no workspace named corner\n");
}

/// Sends a request that changes a series.
fn post(server: &Server, path: &str, body: &serde_json::Value) {
    let (address, body) = (server.url.strip_prefix("http://").unwrap(), body.to_string());
    let head = format!("POST /v1/series/{path} HTTP/1.1\r\nHost: {address}\r\nConnection: close");
    let length = body.len();
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    write!(stream, "{head}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}")
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 201"), "{path}: {answer}");
}

#[test]
fn an_audit_names_the_series_what_was_skipped_and_what_is_void_and_why() {
    let folder = Folder::new();
    let server = folder.serve(&[]);
    fill(&folder, &server);
    post(&server, "acme.invoices/numbers/3/void", &json!({"reason": "misprint"}));
    post(&server, "acme.invoices/raise", &json!({"next": 100, "reason": "the old system ended at 99"}));
    let url = &*server.url;
    folder.run(&["next", "acme.invoices", "--server", url]).fine();
    let audit = ["audit", "--series", "acme.invoices", "--file", "a.audit", "--server", url];
    let report = folder.run(&audit).fine();
    assert!(report.contains("\n  skipped  6-99\n"), "{report}");
    let (_, voids) = report.split_once("\n  voids    1\n").unwrap();
    assert!(voids.starts_with("    3  ") && voids.ends_with("Z  misprint\n"), "{voids}");
    let verified = folder.run(&["audit", "verify", "a.audit"]).fine();
    assert!(verified.starts_with("acme.invoices, workspace "), "{verified}");
    let line = "\n  Number: 1 to 100, 6 given, 0 gaps, 0 twice\n    skipped 6-99 by event 5, ";
    assert!(verified.contains(line), "{verified}");
    let json = folder.run(&["audit", "verify", "a.audit", "--json"]).json();
    assert_eq!(json[0]["name"], "acme.invoices");
    let number = json[0]["sequences"].as_array().unwrap().iter().find(|one| one["name"] == "Number").unwrap();
    let skipped = &number["skipped"][0];
    assert_eq!(
        (&number["raises"], &skipped["first"], &skipped["last"], &skipped["event"]),
        (&json!(1), &json!(6), &json!(99), &json!(5))
    );
    // A file of an earlier version does not contain the name.
    let text = std::fs::read_to_string(folder.join("a.audit")).unwrap();
    folder.write("old.audit", &text.replacen("\"name\":\"acme.invoices\",", "", 1));
    let old = folder.run(&["audit", "verify", "old.audit"]).fine();
    assert!(old.starts_with("workspace "), "{old}");
}

#[test]
fn an_export_continues_where_the_last_one_ended() {
    let folder = Folder::new();
    let server = folder.serve(&[]);
    let url = &*server.url;
    fill(&folder, &server);
    let first = folder.run(&["export", "--app", "series", "--server", url]);
    let from = first.stderr.trim().rsplit(' ').next().unwrap().to_owned();
    let events = first.json();
    assert_eq!(events.len(), 3);
    assert_eq!(events.iter().map(|event| &event["workspace_offset"]).collect::<Vec<_>>(), [1, 2, 3]);
    folder.run(&["next", "acme.invoices", "--server", url]).fine();
    let rest = folder.run(&["export", "--app", "series", "--from", &from, "--server", url]).json();
    assert_eq!(rest.iter().map(|event| &event["workspace_offset"]).collect::<Vec<_>>(), [4]);
    let one = folder.run(&[
        "export",
        "--app",
        "series",
        "--workspace",
        "acme.invoices",
        "--from",
        "3",
        "--server",
        url,
    ]);
    assert_eq!(one.stderr, "seriatim: 2 events; continue with --from 5\n");
    let unknown = folder.run(&["export", "--app", "none", "--server", url]).fails(2);
    assert_eq!(unknown, "seriatim: application none does not exist\n");
    assert!(
        folder
            .run(&["export", "--app", "series", "--from", "0", "--server", url])
            .fails(2)
            .contains("offsets begin at 1")
    );
}

#[test]
fn the_doctor_finds_nothing_wrong_with_a_healthy_storage() {
    let folder = Folder::new();
    let server = folder.serve(&[]);
    fill(&folder, &server);
    assert_eq!(server.terminate().0, 0);
    let storage = ["--storage", "file:./seriatim-data"];
    let run = |more: &[&str]| {
        let all: Vec<&str> = ["doctor"].iter().chain(more).copied().chain(storage).collect();
        folder.run(&all)
    };
    let report = run(&[]);
    assert!(report.stderr.contains("seriatim: partition 1/0: "), "plain lines in a pipe: {}", report.stderr);
    let report = report.fine();
    assert!(report.starts_with("21 partitions, ") && report.ends_with(" values: 0 differ\n"), "{report}");
    let json = run(&["--json"]).json();
    assert_eq!((&json[0]["clean"], &json[0]["found"]), (&json!(true), &json!(0)));
    assert!(run(&["--rebuild"]).fine().ends_with("0 written, 0 removed\n"));
    assert!(!folder.join("seriatim-data/scratch").exists());
    let none = folder.run(&["doctor", "--storage", "file:./none"]).fails(2);
    assert_eq!(none, "seriatim: ./none is not a storage of seriatim: name the folder of one\n");
    assert!(!folder.join("none").exists(), "a check creates nothing");
}

#[test]
fn a_rebuild_of_a_log_that_has_lost_events_fences_the_storage_and_lists_what_was_given_out() {
    let folder = Folder::new();
    let server = folder.serve(&[]);
    fill(&folder, &server);
    assert_eq!(server.terminate().0, 0);
    let (log, kept) = (folder.join("seriatim-data/log"), folder.join("kept"));
    copy(&log, &kept);
    let server = folder.serve(&[]);
    let mut last = String::new();
    for _ in 0..3 {
        last = folder.run(&["next", "acme.invoices", "--server", &server.url]).fine();
    }
    assert_eq!(server.terminate().0, 0);
    std::fs::remove_dir_all(&log).unwrap();
    copy(&kept, &log);
    let storage = ["--storage", "file:./seriatim-data"];
    let rebuilt = folder.run(&["doctor", "--rebuild", storage[0], storage[1]]);
    let known = format!("\n  series/acme.invoices={last}");
    assert!(rebuilt.stderr.contains(&known), "{known}: {}", rebuilt.stderr);
    assert!(rebuilt.stderr.contains("these are lower bounds"), "{}", rebuilt.stderr);
    assert!(rebuilt.fine().contains("\nfenced: "));
    let server = folder.serve(&[]);
    let fenced = folder.run(&["next", "acme.invoices", "--server", &server.url]).fails(3);
    assert!(fenced.contains("its log has lost events"), "{fenced}");
    folder.run(&["unfence", "--skip", "1000", "--server", &server.url]).fine();
    let next = folder.run(&["next", "acme.invoices", "--server", &server.url]).fine();
    assert!(next.trim().parse::<u64>().unwrap() >= 1_000, "{next}");
    assert_eq!(server.terminate().0, 0);
    let clean = folder.run(&["doctor", "--rebuild", "--json", storage[0], storage[1]]).json();
    assert_eq!((&clean[0]["clean"], &clean[0]["lost"]), (&json!(true), &json!(null)));
}

fn copy(from: &std::path::Path, to: &std::path::Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to.join(entry.file_name()));
        } else {
            std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}

#[test]
fn a_restored_storage_is_fenced_until_it_is_unfenced() {
    let folder = Folder::new();
    let server = folder.serve(&[]);
    fill(&folder, &server);
    let made = folder.run(&["backup", "monday", "--server", &server.url]).fine();
    assert!(
        made.starts_with(&format!("{}: ", folder.join("monday").display())) && made.ends_with(" bytes\n"),
        "{made}"
    );
    folder.run(&["next", "acme.invoices", "--server", &server.url]).fine();
    let again = folder.run(&["backup", "monday", "--server", &server.url]);
    assert_eq!(again.code, 2, "the folder is not empty: {again:?}");
    assert_eq!(server.terminate().0, 0);
    let offline = folder.run(&["backup", "tuesday", "--storage", "file:./seriatim-data", "--json"]).json();
    assert!(offline[0]["entries"].as_u64().unwrap() > 3, "{offline:?}");

    let restored = folder.run(&["restore", "monday", "--storage", "file:./restored"]);
    assert!(restored.stderr.contains("seriatim unfence --complete --storage file:./restored"));
    assert!(restored.fine().ends_with(", fenced\n"));
    let occupied = folder.run(&["restore", "monday", "--storage", "file:./restored"]).fails(2);
    assert!(occupied.contains("restored"), "{occupied}");
    assert!(
        folder
            .run(&["restore", "seriatim-data", "--storage", "file:./x"])
            .fails(2)
            .contains("is not a backup")
    );
    assert!(
        folder.run(&["serve", "--storage", "file:./monday"]).fails(2).contains("is a backup: restore it")
    );

    let server = folder.serve(&["--storage", "file:./restored"]);
    let url = &*server.url;
    let fenced = folder.run(&["next", "acme.invoices", "--server", url]).fails(3);
    assert!(fenced.contains("restored copy"), "{fenced}");
    let named = folder.run(&["unfence", "--highest", "series/acme.invoices=6", "--server", url]).fine();
    assert_eq!(named, "series/acme.invoices: free\neverything else: fenced\n");
    assert_eq!(folder.run(&["next", "acme.invoices", "--server", url]).fine(), "7\n");
    assert_eq!(folder.run(&["next", "other", "--server", url]).code, 3);
    let wrong = folder.run(&["unfence", "--highest", "nonsense=6", "--server", url]).fails(2);
    assert!(wrong.contains("is not series/S, blocks/B or APP/WORKSPACE/SEQUENCE"), "{wrong}");
    assert_eq!(server.terminate().0, 0);
    let free = folder.run(&["unfence", "--skip", "1000", "--storage", "file:./restored"]).fine();
    assert_eq!(free, "free: numbers are given out again\n");
    let twice = folder.run(&["unfence", "--complete", "--storage", "file:./restored"]).fails(1);
    assert_eq!(twice, "seriatim: nothing is fenced\n");
    let audit = folder.run(&["audit", "--series", "acme.invoices", "--storage", "file:./restored"]).fine();
    assert!(audit.contains("complete") && audit.contains("skipped  6\n"), "{audit}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restore_that_was_interrupted_before_its_fence_gives_out_nothing() {
    let folder = Folder::new();
    let server = folder.serve(&[]);
    fill(&folder, &server);
    folder.run(&["backup", "monday", "--server", &server.url]).fine();
    assert_eq!(server.terminate().0, 0);
    let (backup, destination) = (folder.join("monday"), folder.join("restored"));
    let staged = stage_restore(&Env::real(), &backup, &destination).await.unwrap();
    // As after a crash: the staged folder is not removed.
    std::fs::rename(staged.directory(), folder.join("left")).unwrap();
    drop(staged);
    for command in [&["serve"][..], &["unfence", "--complete"], &["doctor"], &["doctor", "--rebuild"]] {
        let refused = folder.run(&[command, &["--storage", "file:./left"]].concat()).fails(2);
        assert!(refused.contains("is a restore that was not finished: remove it"), "{command:?}: {refused}");
    }
    assert!(
        folder.run(&["restore", "monday", "--storage", "file:./restored"]).fine().ends_with(", fenced\n")
    );
}

#[test]
fn tokens_are_made_listed_and_revoked() {
    let folder = Folder::new();
    folder.serve(&[]).terminate();
    let storage = ["--storage", "file:./seriatim-data"];
    let run = |arguments: &[&str]| {
        let all: Vec<&str> = ["token"].iter().chain(arguments).copied().chain(storage).collect();
        folder.run(&all)
    };
    let open = folder.run(&["serve", "--listen", "0.0.0.0:0"]).fails(2);
    assert!(open.contains("seriatim token create --scope"), "{open}");
    let created = run(&["create", "--scope", "*:admin", "--note", "the operator"]);
    assert!(created.stderr.contains("is shown only this once"));
    let admin = created.fine().trim().to_owned();
    let list = run(&["list", "--json"]).json();
    assert_eq!((&list[0]["scopes"], &list[0]["note"]), (&json!(["*:admin"]), &json!("the operator")));
    assert!(!format!("{list:?}").contains(&admin));
    assert!(run(&["create", "--scope", "shop:everything"]).fails(2).contains("shop:everything"));

    let server = folder.serve(&["--log-level", "trace"]);
    let url = server.url.clone();
    let url = &*url;
    assert_eq!(folder.run(&["next", "s", "--server", url]).code, 2, "no token");
    let with = |token: &str, arguments: &[&str]| {
        let all: Vec<&str> = arguments.iter().copied().chain(["--server", url]).collect();
        folder.run_with(&[("SERIATIM_TOKEN", token)], &all)
    };
    assert_eq!(with(&admin, &["next", "s"]).fine(), "1\n");
    let reader = with(&admin, &["token", "create", "--scope", "series:read", "--json"]).json();
    let (id, secret) = (reader[0]["id"].as_str().unwrap(), reader[0]["secret"].as_str().unwrap());
    assert_eq!(with(secret, &["inspect", "series", "--json"]).json().len(), 1);
    assert_eq!(with(secret, &["next", "s"]).code, 2, "the token may only read");
    let revoked = with(&admin, &["token", "revoke", id]);
    assert_eq!((revoked.code, &*revoked.stderr), (0, &*format!("seriatim: token {id} is revoked\n")));
    assert_eq!(with(secret, &["inspect", "series"]).code, 2, "revoked while the server runs");
    assert_eq!(with(&admin, &["token", "revoke", "none"]).code, 2);
    let (code, log) = server.terminate();
    assert_eq!(code, 0);
    assert!(
        log.contains("/v1/tokens") && !log.contains(&admin) && !log.contains(secret),
        "secrets are not logged"
    );
}
