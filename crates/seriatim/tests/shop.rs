//! An application's data on the command line: workspaces, records, following a log, repairs by the doctor, TLS.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use serde_json::{Map, json};
use seriatim_client::api::{Change, CommandRequest};
use seriatim_client::{Client, ClientOptions, Workspace};
use seriatim_env::Env;
use seriatim_storage::{Batch, Durability, Key};
use seriatim_storage_file::{FileOptions, FileStorage};
use support::{Folder, Server};

const DEFINITION: &str = "name = \"till\"\npartitions = 2\n\n[sequences.ReceiptNumber]\nfirst = 100\n\n\
                          [documents.Receipt]\nkind = \"W\"\nfields.total = \"decimal\"\n\
                          fields.number = { draw = \"ReceiptNumber\" }\n\n[workspaces.shop]\n";

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

fn client(server: &Server) -> Client {
    Client::connect(Env::real(), server.url.parse().unwrap(), ClientOptions::default()).unwrap()
}

async fn corner(server: &Server) -> Workspace {
    let shop = client(server).application("shop");
    let id = shop.create_workspace("store", Some("corner")).await.unwrap().0.id;
    shop.workspace(id)
}

async fn invoice(workspace: &Workspace, total: &str) -> u64 {
    let fields: Map<_, _> = [("total".to_owned(), json!(total))].into_iter().collect();
    let change = Change { create: Some("Invoice".to_owned()), id: Some(1), fields, ..Change::default() };
    let command = CommandRequest { changes: vec![change], ..CommandRequest::default() };
    workspace.command(&command).await.unwrap().ids[&1]
}

#[test]
fn records_sequences_and_events_of_a_workspace_are_shown() {
    let folder = Folder::new();
    let server = folder.serve(&["--storage", "memory:"]);
    let id = runtime().block_on(async {
        let corner = corner(&server).await;
        invoice(&corner, "99.50").await;
        invoice(&corner, "1.00").await
    });
    let run = |arguments: &[&str]| {
        let all: Vec<&str> = arguments.iter().copied().chain(["--server", &server.url]).collect();
        folder.run(&all)
    };
    let within = ["--app", "shop", "--workspace", "corner"];
    let at = |first: &[&'static str], more: &[&'static str]| -> Vec<&'static str> {
        first.iter().chain(&within).chain(more).copied().collect()
    };
    let records = run(&at(&["inspect", "records"], &["--type", "Invoice"])).fine();
    let expected = "             id  type     parent  fields\n\
                    322680000131072  Invoice  -       {\"number\":1,\"total\":\"99.50\"}\n\
                    322680000131073  Invoice  -       {\"number\":2,\"total\":\"1.00\"}\n";
    assert_eq!(records, expected);
    let one = run(&[
        "inspect",
        "records",
        "--app",
        "shop",
        "--workspace",
        "corner",
        "--id",
        &id.to_string(),
        "--json",
    ]);
    assert_eq!(one.json()[0]["fields"], json!({"number": 2, "total": "1.00"}));
    assert_eq!(run(&at(&["inspect", "records"], &["--id", "5"])).code, 2);
    let unknown = run(&at(&["inspect", "records"], &["--type", "Nothing"])).fails(2);
    assert!(unknown.contains("Nothing"), "{unknown}");
    let sequences = run(&at(&["inspect", "sequences"], &["--json"])).json();
    assert!(sequences.iter().any(|sequence| sequence["name"] == "InvoiceNumber" && sequence["next"] == 3));
    let events = run(&at(&["inspect", "events"], &["--limit", "1"])).fine();
    assert_eq!(events.lines().count(), 2, "{events}");
    assert!(events.lines().nth(1).unwrap().ends_with("  sys.Change"), "{events}");
    let audit = run(&at(&["audit"], &["--sequence", "InvoiceNumber"])).fine();
    assert!(audit.starts_with("sequence InvoiceNumber: complete\n  numbers  1 to 2, 2 given\n"), "{audit}");
    assert_eq!(run(&at(&["audit"], &["--sequence", "None"])).code, 2);
    assert_eq!(run(&["inspect", "partitions", "--app", "shop", "--json"]).json().len(), 4);
    let partitions = run(&["inspect", "partitions", "--json"]).json();
    let apps: Vec<&str> = partitions.iter().map(|partition| partition["app"].as_str().unwrap()).collect();
    let count = |app: &str| apps.iter().filter(|found| **found == app).count();
    let counts = ["sys", "series", "workflows", "shop"].map(count);
    assert_eq!((counts, apps.len()), ([1, 8, 8, 4], 21), "{apps:?}");
    assert_eq!(run(&["inspect", "workspaces", "--app", "shop", "--json"]).json()[0]["name"], "corner");
}

#[test]
fn a_log_is_followed_as_it_grows() {
    let folder = Folder::new();
    let server = folder.serve(&["--storage", "memory:"]);
    let runtime = runtime();
    let corner = runtime.block_on(corner(&server));
    runtime.block_on(invoice(&corner, "1"));
    let arguments = [
        "inspect",
        "events",
        "--app",
        "shop",
        "--workspace",
        "corner",
        "--follow",
        "--json",
        "--server",
        &server.url,
    ];
    let mut child = folder.command(&arguments).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    for offset in 1..=5 {
        let event: serde_json::Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        assert_eq!(event["workspace_offset"], offset);
        runtime.block_on(invoice(&corner, "1"));
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn definitions_are_found_in_the_storage() {
    let folder = Folder::new();
    folder.write("till.toml", DEFINITION);
    let server = folder.serve(&["--app", "till.toml"]);
    runtime().block_on(async {
        client(&server).application("till").create_workspace("shop", Some("east")).await.unwrap();
    });
    assert_eq!(server.terminate().0, 0);
    let inspect = [
        "inspect",
        "sequences",
        "--app",
        "till",
        "--workspace",
        "east",
        "--json",
        "--storage",
        "file:./seriatim-data",
    ];
    let sequences = folder.run(&inspect).json();
    assert!(
        sequences.iter().any(|sequence| sequence["name"] == "ReceiptNumber" && sequence["next"] == 100),
        "{sequences:?}"
    );
    let report = folder.run(&["doctor", "--storage", "file:./seriatim-data"]).fine();
    assert!(report.starts_with("19 partitions, "), "sys, 8 of series, 8 of workflows, 2 of till: {report}");
}

#[test]
fn the_doctor_finds_and_repairs_damage_with_and_without_a_server() {
    let folder = Folder::new();
    let server = folder.serve(&[]);
    let workspace = runtime().block_on(async {
        let corner = corner(&server).await;
        invoice(&corner, "1").await;
        corner.descriptor().await.unwrap().id
    });
    assert_eq!(server.terminate().0, 0);
    let damage = || {
        runtime().block_on(async {
            let env = Env::real();
            let data = folder.join("seriatim-data");
            let storage = FileStorage::open(&env, &data, FileOptions::default()).await.unwrap();
            // The place of the first event in the workspace's log: application, partition; family, workspace, offset.
            let partition = u16::try_from(workspace % 4).unwrap().to_be_bytes();
            let derived = [&16_u32.to_be_bytes()[..], &partition].concat();
            let first = [&b"l"[..], &workspace.to_be_bytes(), &1_u64.to_be_bytes()].concat();
            let key = Key::new(&derived, &first);
            assert!(storage.store().get(key).await.unwrap().is_some(), "the test uses the current layout");
            let mut batch = Batch::new();
            batch.remove(key);
            storage.store().write(batch, Durability::Synced).await.unwrap();
            storage.close().await.unwrap();
        });
    };
    let missing = format!("missing: place of event 1 in the log, workspace {workspace}");
    damage();
    let storage = ["--storage", "file:./seriatim-data"];
    let found = folder.run(&["doctor", storage[0], storage[1]]);
    assert_eq!(found.code, 1, "{found:?}");
    assert!(found.stdout.contains(&missing) && found.stdout.ends_with(": 1 differ\n"), "{}", found.stdout);
    assert!(
        found.stderr.ends_with("seriatim: `seriatim doctor --repair` repairs this\n"),
        "{}",
        found.stderr
    );
    let repaired = folder.run(&["doctor", "--repair", storage[0], storage[1]]).fine();
    assert!(repaired.ends_with("1 written, 0 removed\n"), "{repaired}");
    assert!(folder.run(&["doctor", storage[0], storage[1]]).fine().ends_with(": 0 differ\n"));

    damage();
    let server = folder.serve(&[]);
    let found = folder.run(&["doctor", "--server", &server.url]);
    assert_eq!(found.code, 1, "{found:?}");
    assert!(found.stdout.contains(&missing), "{}", found.stdout);
    let repaired = folder.run(&["doctor", "--repair", "--json", "--server", &server.url]).json();
    assert_eq!((&repaired[0]["mended"], &repaired[0]["written"]), (&json!(true), &json!(1)));
    assert!(folder.run(&["doctor", "--server", &server.url]).fine().ends_with(": 0 differ\n"));
}

#[test]
fn a_workspace_is_found_by_its_name_with_one_request() {
    let folder = Folder::new();
    let server = folder.serve(&["--storage", "memory:", "--log-format", "json", "--log-level", "info"]);
    for name in ["acme", "bolt"] {
        folder.run(&["next", name, "--server", &server.url]).fine();
    }
    let sequences = |name: &str| {
        let arguments =
            ["inspect", "sequences", "--app", "series", "--workspace", name, "--server", &server.url];
        folder.run(&arguments)
    };
    assert!(sequences("bolt").fine().contains("Number"));
    let missing = sequences("none & nothing").fails(2);
    assert_eq!(missing, "seriatim: application series has no workspace named none & nothing\n");
    let (_, log) = server.terminate();
    let requests =
        log.lines().filter(|line| line.contains("\"path\":\"/v1/apps/series/workspaces\"")).count();
    assert_eq!(requests, 2, "{log}");
}

#[test]
fn https_with_a_self_signed_certificate() {
    let folder = Folder::new();
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned(), "localhost".to_owned()]).unwrap();
    folder.write("cert.pem", &made.cert.pem());
    folder.write("key.pem", &made.signing_key.serialize_pem());
    let half = folder.run(&["serve", "--listen", "127.0.0.1:0", "--tls-cert", "cert.pem"]).fails(2);
    assert_eq!(half, "seriatim: tls_cert is set, but tls_key is not: TLS needs both\n");
    let missing = ["serve", "--listen", "127.0.0.1:0", "--tls-cert", "none.pem", "--tls-key", "key.pem"];
    let missing = folder.run(&missing).fails(2);
    assert!(missing.starts_with("seriatim: none.pem: "), "{missing}");
    let server = folder.serve(&["--storage", "memory:", "--tls-cert", "cert.pem", "--tls-key", "key.pem"]);
    assert!(server.url.starts_with("https://"), "{}", server.url);
    let next = ["next", "s", "--server", &server.url];
    assert_eq!(folder.run_with(&[("SERIATIM_TLS_CA", "cert.pem")], &next).fine(), "1\n");
    let untrusted = folder.run(&next).fails(2);
    let expected = format!(
        "seriatim: {} answers, but no secure connection to it can be made: its certificate was",
        server.url
    );
    assert!(untrusted.starts_with(&expected) && untrusted.contains("SERIATIM_TLS_CA"), "{untrusted}");
    let plain = server.url.replace("https", "http");
    assert_ne!(folder.run(&["next", "s", "--server", &plain]).code, 0);
}
