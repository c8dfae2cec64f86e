//! Settings: defaults, file, environment, flags.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::Stdio;

use support::{Folder, Server};

fn row(config: &str, name: &str) -> String {
    let row = config.lines().find(|line| line.split_whitespace().next() == Some(name)).unwrap();
    row.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn the_last_of_defaults_file_environment_and_flags_wins() {
    let folder = Folder::new();
    assert_eq!(row(&folder.run(&["config"]).fine(), "queue_max"), "queue_max 4096 default");
    folder.write("seriatim.toml", "queue_max = 5\nflush_at = 6\nlisten = \"127.0.0.1:1\"\n");
    folder.write("other.toml", "queue_max = 50\n");
    let config = folder.run_with(
        &[("SERIATIM_FLUSH_AT", "7"), ("SERIATIM_LISTEN", "127.0.0.1:2")],
        &["config", "--listen", "127.0.0.1:3"],
    );
    let config = config.fine();
    assert_eq!(row(&config, "queue_max"), "queue_max 5 seriatim.toml:1");
    assert_eq!(row(&config, "flush_at"), "flush_at 7 SERIATIM_FLUSH_AT");
    assert_eq!(row(&config, "listen"), "listen 127.0.0.1:3 --listen");
    let other = folder.run(&["--config", "other.toml", "config"]).fine();
    assert_eq!(row(&other, "queue_max"), "queue_max 50 other.toml:1");
    let named = folder.run_with(&[("SERIATIM_CONFIG", "other.toml")], &["config"]).fine();
    assert_eq!(row(&named, "flush_at"), "flush_at 10000 default");
}

#[test]
fn a_server_starts_at_each_trust_level_by_name_and_by_digit() {
    for (digit, name) in [("0", "verify-all"), ("1", "verify-events"), ("2", "trust-all")] {
        let folder = Folder::new();
        let next = |server: &Server| folder.run(&["next", "s", "--server", &server.url]).fine();
        let named = folder.serve(&["--trust-level", name]);
        assert_eq!(next(&named), "1\n");
        assert_eq!(named.terminate().0, 0);
        let by_flag = folder.serve(&["--trust-level", digit]);
        assert_eq!(next(&by_flag), "2\n");
        assert_eq!(by_flag.terminate().0, 0);
        let mut command = folder.command(&["serve", "--listen", "127.0.0.1:0"]);
        command.env("SERIATIM_TRUST_LEVEL", digit);
        let by_variable = Server::start(command);
        assert_eq!(next(&by_variable), "3\n");
        assert_eq!(by_variable.terminate().0, 0);
        folder.write("seriatim.toml", &format!("trust_level = {digit}\n"));
        let by_file = folder.serve(&[]);
        assert_eq!(next(&by_file), "4\n");
        assert_eq!(by_file.terminate().0, 0);
        let config = folder.run(&["config"]).fine();
        assert_eq!(row(&config, "trust_level"), format!("trust_level {digit} seriatim.toml:1"));
    }
    let wrong = Folder::new().run(&["serve", "--trust-level", "3"]).fails(2);
    assert!(wrong.contains("use verify-all, verify-events or trust-all, or 0, 1 or 2"), "{wrong}");
}

#[test]
fn config_as_json_and_without_secrets() {
    let folder = Folder::new();
    let run = |arguments: &[&str]| folder.run_with(&[("SERIATIM_TOKEN", "hush-hush")], arguments);
    let lines = run(&["config", "--json", "--app", "a.toml", "--app", "b.toml"]).json();
    let find = |name: &str| lines.iter().find(|line| line["setting"] == name).unwrap().clone();
    assert_eq!(
        find("apps"),
        serde_json::json!({"setting": "apps", "value": ["a.toml", "b.toml"], "from": "--app"})
    );
    assert_eq!(find("tls_cert")["value"], serde_json::Value::Null);
    assert_eq!(
        find("token"),
        serde_json::json!({"setting": "token", "value": "(secret)", "from": "SERIATIM_TOKEN"})
    );
    assert!(!run(&["config"]).fine().contains("hush"));
}

#[test]
fn an_error_names_its_place() {
    let folder = Folder::new();
    folder.write("seriatim.toml", "# ours\nlistne = \"127.0.0.1:1\"\n");
    let expected = "seriatim: seriatim.toml:2: unknown key listne: did you mean listen?\n";
    assert_eq!(folder.run(&["serve"]).fails(2), expected);
    assert_eq!(folder.run(&["next", "s"]).fails(2), expected);
    folder.write("seriatim.toml", "");
    let expected = "seriatim: unknown variable SERIATIM_LISTNE: did you mean SERIATIM_LISTEN?\n";
    assert_eq!(folder.run_with(&[("SERIATIM_LISTNE", "x")], &["config"]).fails(2), expected);
    let missing = folder.run(&["--config", "none.toml", "config"]).fails(2);
    assert!(missing.starts_with("seriatim: none.toml cannot be read: "), "{missing}");
    let flag = folder.run(&["serve", "--queue-max", "many"]).fails(2);
    assert!(flag.contains("\"many\" is not a whole number"), "{flag}");
    let app = folder.run(&["serve", "--app", "none.toml"]).fails(2);
    assert!(app.starts_with("seriatim: none.toml: "), "{app}");
}

#[test]
fn a_reader_that_closes_the_output_is_not_a_failure() {
    let folder = Folder::new();
    let mut child = folder
        .command(&["completions", "bash"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = String::new();
    BufReader::with_capacity(16, child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    assert_eq!(first, "_seriatim() {\n");
    let mut errors = String::new();
    child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
    assert_eq!((child.wait().unwrap().code(), &*errors), (Some(0), ""));
}

#[test]
fn wrong_usage_is_exit_code_2_and_help_is_0() {
    let folder = Folder::new();
    for wrong in
        [&["nonsense"][..], &["next"], &["audit"], &["unfence"], &["doctor", "--repair", "--rebuild"]]
    {
        let stderr = folder.run(wrong).fails(2);
        assert!(stderr.contains("Usage:"), "{wrong:?}: {stderr}");
    }
    let both = ["inspect", "series", "--server", "http://127.0.0.1:1", "--storage", "file:x"];
    assert!(folder.run(&both).fails(2).contains("cannot be used with"));
    assert!(folder.run(&["--help"]).fine().contains("seriatim next acme.invoices"));
    assert!(folder.run(&["audit", "verify", "--help"]).fine().contains("Examples:"));
    assert!(folder.run(&["--version"]).fine().starts_with("seriatim 0."));
}
