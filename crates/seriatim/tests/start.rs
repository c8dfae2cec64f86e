//! Starts of the server: the documented ones work, and a refused start leaves no files.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::net::TcpListener;

use support::{Folder, Server};

/// The names of the files in a folder.
fn names(folder: &Folder) -> Vec<String> {
    let entries = std::fs::read_dir(folder.path()).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// A server on all addresses of this machine. Clients of the test use loopback.
fn serve_publicly(folder: &Folder) -> Server {
    let mut server = Server::start(folder.command(&["serve", "--listen", "0.0.0.0:0"]));
    server.url = server.url.replace("0.0.0.0", "127.0.0.1");
    server
}

#[test]
fn the_documented_start_on_a_public_address_works_in_an_empty_folder() {
    let folder = Folder::new();
    let storage = ["--storage", "file:./seriatim-data"];
    let made = folder.run(&["token", "create", "--scope", "*:admin", storage[0], storage[1]]);
    assert!(made.stderr.starts_with("seriatim: ./seriatim-data is a new storage\n"), "{}", made.stderr);
    let secret = made.fine().trim().to_owned();
    let server = serve_publicly(&folder);
    let next = ["next", "s", "--server", &server.url];
    assert_eq!(folder.run_with(&[("SERIATIM_TOKEN", &secret)], &next).fine(), "1\n");
    assert!(folder.run(&next).fails(2).contains("the request needs a token"));
    assert_eq!(server.terminate().0, 0);
    assert!(serve_publicly(&folder).ready.contains("listens on"), "the storage already exists");
}

#[test]
fn a_start_on_a_public_address_without_tokens_is_refused_and_leaves_nothing() {
    let folder = Folder::new();
    let refused = folder.run(&["serve", "--listen", "0.0.0.0:0"]).fails(2);
    let advice = "`seriatim token create --scope '*:admin' --storage file:./seriatim-data`";
    assert!(refused.contains(advice), "{refused}");
    assert_eq!(names(&folder), Vec::<String>::new());
    let memory = folder.run(&["serve", "--listen", "0.0.0.0:0", "--storage", "memory:"]).fails(2);
    assert!(memory.contains("listen on 127.0.0.1") && !memory.contains("token create"), "{memory}");
}

#[test]
fn a_start_without_tokens_adds_nothing_to_an_existing_storage() {
    let folder = Folder::new();
    assert_eq!(folder.serve(&[]).terminate().0, 0);
    folder.write("other.toml", OTHER);
    let refused = folder.run(&["serve", "--listen", "0.0.0.0:0", "--app", "other.toml"]).fails(2);
    assert!(refused.contains("there are no tokens"), "{refused}");
    let seen = ["inspect", "partitions", "--storage", "file:./seriatim-data"];
    assert!(!folder.run(&seen).fine().contains("other"), "the application was not registered");
}

#[test]
fn a_definition_that_contradicts_the_stored_one_is_refused_by_the_name_of_its_application() {
    let folder = Folder::new();
    folder.write("other.toml", OTHER);
    assert_eq!(folder.serve(&["--app", "other.toml"]).terminate().0, 0);
    folder.write("other.toml", &OTHER.replace("partitions = 1", "partitions = 2"));
    let refused = folder.run(&["serve", "--listen", "127.0.0.1:0", "--app", "other.toml"]).fails(1);
    let text = "the definition of other is not accepted: application: it has 1 partitions and cannot have 2";
    assert!(refused.contains(text), "{refused}");
}

#[test]
fn a_public_server_whose_last_token_was_revoked_says_how_to_make_one() {
    let folder = Folder::new();
    let storage = ["--storage", "file:./seriatim-data"];
    let made = folder.run(&["token", "create", "--scope", "*:admin", storage[0], storage[1]]);
    let secret = made.fine().trim().to_owned();
    let server = serve_publicly(&folder);
    let with_token = [("SERIATIM_TOKEN", &*secret)];
    let id = secret.split('_').nth(1).unwrap();
    assert_eq!(folder.run_with(&with_token, &["token", "revoke", id, "--server", &server.url]).code, 0);
    let refused = folder.run_with(&with_token, &["next", "s", "--server", &server.url]).fails(2);
    assert!(refused.contains("stop the server, make one with"), "{refused}");
}

const OTHER: &str = r#"
name = "other"
partitions = 1
[workspaces.store]
"#;

#[test]
fn a_start_on_a_port_in_use_is_refused_and_leaves_nothing() {
    let folder = Folder::new();
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other.local_addr().unwrap().to_string();
    let refused = folder.run(&["serve", "--listen", &address]).fails(3);
    assert!(refused.contains("in use"), "{refused}");
    assert_eq!(names(&folder), Vec::<String>::new());
}

#[test]
fn a_start_with_a_wrong_setting_leaves_nothing() {
    let folder = Folder::new();
    folder.write("other.toml", OTHER);
    let wrong: [&[&str]; 3] = [
        &["--tls-cert", "none.pem", "--tls-key", "none.pem"],
        &["--app", "other.toml", "--app", "other.toml"],
        &["--listen", "no.such.host.invalid:7400"],
    ];
    for arguments in wrong {
        let all: Vec<&str> = ["serve", "--listen", "127.0.0.1:0"].iter().chain(arguments).copied().collect();
        let all = if arguments[0] == "--listen" { [&["serve"], arguments].concat() } else { all };
        let ran = folder.run(&all);
        assert!(ran.code == 2 || ran.code == 3, "{ran:?}");
        assert_eq!(names(&folder), ["other.toml"], "{arguments:?}: {ran:?}");
    }
}

#[test]
fn a_first_start_without_enough_room_leaves_nothing() {
    let folder = Folder::new();
    let most = u64::MAX.to_string();
    let serve = ["serve", "--listen", "127.0.0.1:0", "--free-bytes-min", &most];
    let refused = folder.run(&serve).fails(3);
    assert!(
        refused.contains("./seriatim-data cannot be created") && refused.contains("free_bytes_min"),
        "{refused}"
    );
    assert_eq!(names(&folder), Vec::<String>::new());
}

#[test]
fn a_token_that_is_refused_makes_no_storage() {
    let folder = Folder::new();
    let create = |scope| folder.run(&["token", "create", "--scope", scope, "--storage", "file:./data"]);
    assert!(create("shop:write").fails(2).contains("*:admin"));
    assert!(!create("everything").fails(2).is_empty());
    assert_eq!(names(&folder), Vec::<String>::new());
    folder.write("notes.txt", "mine");
    let here = folder.run(&["token", "create", "--scope", "*:admin", "--storage", "file:."]).fails(2);
    assert_eq!(here, "seriatim: . is not a storage of seriatim: name the folder of one\n");
}

#[test]
fn unusable_settings_are_refused() {
    let folder = Folder::new();
    let table = [
        (["--queue-max", "0"], "0 is not a number from 1 to 1000000"),
        (["--queue-max", "18446744073709551615"], "is not a number from 1 to 1000000"),
        (["--queue-bytes-max", "1"], "1 is not a number from 1048576"),
        (["--header-bytes-max", "100"], "100 is not a number from 8192"),
        (["--stuck-after", "0s"], "above 0"),
        (["--log-level", "loud"], "\"loud\" is not a level"),
    ];
    for (arguments, expected) in table {
        let refused = folder.run(&["serve", arguments[0], arguments[1]]).fails(2);
        assert!(refused.contains(expected), "{arguments:?}: {refused}");
    }
    assert_eq!(names(&folder), Vec::<String>::new());
}

#[test]
fn every_line_of_a_log_in_json_is_json() {
    let folder = Folder::new();
    let json = ["--storage", "memory:", "--log-format", "json"];
    let server = folder.serve(&json);
    let ready: serde_json::Value = serde_json::from_str(&server.ready).unwrap();
    let expected = format!("seriatim listens on {}, console {}/", server.url, server.url);
    assert!(ready["fields"]["message"].as_str().unwrap().starts_with(&expected), "{ready}");
    assert_eq!((&ready["level"], &ready["target"]), (&"INFO".into(), &"seriatim".into()));
    let address = server.url.strip_prefix("http://").unwrap();
    let refused = folder.run(&[&["serve", "--listen", address][..], &json].concat()).fails(3);
    let refused: serde_json::Value = serde_json::from_str(&refused).unwrap();
    assert_eq!(refused["level"], "ERROR");
    assert!(refused["fields"]["message"].as_str().unwrap().contains("in use"), "{refused}");
    for line in server.terminate().1.lines() {
        serde_json::from_str::<serde_json::Value>(line).unwrap();
    }
}

#[test]
fn a_server_listens_on_the_name_of_a_host() {
    let folder = Folder::new();
    let server = Server::start(folder.command(&["serve", "--listen", "localhost:0", "--storage", "memory:"]));
    assert!(server.url.starts_with("http://127.0.0.1:"), "{}", server.url);
    assert_eq!(folder.run(&["next", "s", "--server", &server.url]).fine(), "1\n");
    let by_name = server.url.replace("127.0.0.1", "localhost");
    assert_eq!(folder.run(&["next", "s", "--server", &by_name]).fine(), "2\n");
}

#[test]
fn the_error_for_an_issuers_certificate_says_what_to_do() {
    let folder = Folder::new();
    // `openssl req -x509` makes such a certificate by default.
    let mut params = rcgen::CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let key = rcgen::KeyPair::generate().unwrap();
    folder.write("cert.pem", &params.self_signed(&key).unwrap().pem());
    folder.write("key.pem", &key.serialize_pem());
    let server = folder.serve(&["--storage", "memory:", "--tls-cert", "cert.pem", "--tls-key", "key.pem"]);
    let next = ["next", "s", "--server", &server.url];
    let refused = folder.run_with(&[("SERIATIM_TLS_CA", "cert.pem")], &next).fails(2);
    assert!(refused.contains("basicConstraints=CA:FALSE") && !refused.contains("start one"), "{refused}");
    let untrusted = folder.run(&next).fails(2);
    assert!(untrusted.contains("SERIATIM_TLS_CA") && !untrusted.contains("start one"), "{untrusted}");
    let plain = folder.serve(&["--storage", "memory:"]);
    let url = plain.url.replace("http://", "https://");
    let no_tls = folder.run(&["next", "s", "--server", &url]).fails(2);
    assert!(no_tls.contains("does not speak TLS"), "{no_tls}");
}
