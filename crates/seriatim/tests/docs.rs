//! Checks the documentation: every code block of README and docs/ has a kind, and those that can be run are run.
//!
//! | block | |
//! |---|---|
//! | `console` | each line after `$ ` is run by bash in a new folder, with a running server, and its output is compared |
//! | `console,NAME` | the same, in another folder and without a server: the block starts one if it needs one |
//! | `json` | each line, or the whole block, is JSON |
//! | `toml` | is TOML; an application's definition is accepted |
//! | `rust` | is compiled and run as a doctest of this package (`src/lib.rs`) |
//! | `text`, or `ignore` after a comma | is not run: a drawing, a fragment, or a block that needs another program |
//!
//! In expected output, `…` matches any text, and on its own line any lines. Times, process ids, counts of bytes and the width of
//! columns are not compared. Hexadecimal values are compared: a value that is shown twice has to be the same both times, and
//! commands get the real value.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use seriatim_engine::definition::Application;
use support::{Folder, Server};

/// A code block.
#[derive(Debug, Clone)]
struct Block {
    /// The page, from the root of the repository.
    page: String,
    line: usize,
    info: String,
    text: String,
}

impl Block {
    fn place(&self) -> String {
        format!("{}:{}", self.page, self.line)
    }

    /// Its kind, and the text after the comma.
    fn kind(&self) -> (&str, Option<&str>) {
        self.info.split_once(',').map_or((&*self.info, None), |(kind, rest)| (kind, Some(rest)))
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn blocks_of(page: &str) -> Vec<Block> {
    let text = std::fs::read_to_string(root().join(page)).unwrap();
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for (number, line) in text.lines().enumerate() {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(info)) => {
                let (page, line, info) = (page.to_owned(), number + 1, info.to_owned());
                open = Some(Block { page, line, info, text: String::new() });
            }
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some(block), None) => block.text += &format!("{line}\n"),
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "{page}: the last code block does not end");
    blocks
}

fn pages() -> Vec<String> {
    let mut pages = vec!["README.md".to_owned()];
    for folder in ["docs", "docs/adr"] {
        for entry in std::fs::read_dir(root().join(folder)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if name.ends_with(".md") {
                pages.push(format!("{folder}/{name}"));
            }
        }
    }
    pages.sort();
    pages
}

/// A command, with what it prints.
#[derive(Debug)]
struct Step {
    place: String,
    command: String,
    expected: Vec<String>,
}

/// Whether a shell would wait for more input: a quote or a line is not complete.
fn is_incomplete(command: &str) -> bool {
    command.ends_with('\\') || command.matches('\'').count() % 2 == 1
}

fn steps(block: &Block) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for line in block.text.lines() {
        match (line.strip_prefix("$ "), steps.last_mut()) {
            (Some(command), _) => {
                let (place, command) = (block.place(), command.to_owned());
                steps.push(Step { place, command, expected: Vec::new() });
            }
            (None, Some(step)) if step.expected.is_empty() && is_incomplete(&step.command) => {
                step.command += &format!("\n{line}");
            }
            (None, Some(step)) => step.expected.push(line.to_owned()),
            (None, None) => panic!("{}: a console begins with a command after `$ `", block.place()),
        }
    }
    steps
}

/// A line without the parts that differ each time.
fn plain(line: &str) -> String {
    let mut plain = String::new();
    let mut rest = line;
    while let Some(letter) = rest.chars().next() {
        if let Some(after) = after_time(rest) {
            plain += "TIME";
            rest = after;
        } else {
            plain.push(letter);
            rest = &rest[letter.len_utf8()..];
        }
    }
    let words: Vec<&str> = plain.split(' ').collect();
    let is_number = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    let word = |place: usize| {
        let word = words[place];
        let before = place.checked_sub(1).map(|before| words[before]);
        let bare = word.trim_end_matches(':');
        let differs =
            is_number(bare) && (before == Some("process") || words.get(place + 1) == Some(&"bytes"));
        if differs { word.replace(bare, "N") } else { word.to_owned() }
    };
    let mut line = (0..words.len()).map(word).collect::<Vec<_>>().join(" ");
    // Columns are as wide as their widest value, and the port is a value.
    while line.contains("   ") {
        line = line.replace("   ", "  ");
    }
    line
}

/// What follows a time such as 2026-11-16T06:00:00.000Z, if the text begins with one.
fn after_time(text: &str) -> Option<&str> {
    let shape = "dddd-dd-ddTdd:dd:dd.dddZ";
    let fits =
        |(letter, shape): (u8, u8)| if shape == b'd' { letter.is_ascii_digit() } else { letter == shape };
    let (time, after) = text.split_at_checked(shape.len())?;
    time.bytes().zip(shape.bytes()).all(fits).then_some(after)
}

/// Words and single letters between them.
fn tokens(line: &str) -> Vec<String> {
    let mut tokens: Vec<String> = Vec::new();
    let mut in_word = false;
    for letter in line.chars() {
        let is_word = letter.is_ascii_alphanumeric();
        match tokens.last_mut() {
            Some(last) if is_word && in_word => last.push(letter),
            _ => tokens.push(letter.to_string()),
        }
        in_word = is_word;
    }
    tokens
}

fn is_hex(token: &str) -> bool {
    let is_letter = |byte: u8| (b'a'..=b'f').contains(&byte);
    token.len() >= 16
        && token.bytes().any(is_letter)
        && token.bytes().all(|byte| byte.is_ascii_digit() || is_letter(byte))
}

/// The real values for the values that a page shows.
type Bound = BTreeMap<String, String>;

fn line_fits(expected: &[String], found: &[String], bound: &Bound) -> Option<Bound> {
    let Some((first, rest)) = expected.split_first() else {
        return found.is_empty().then(|| bound.clone());
    };
    if first == "…" {
        return (0..=found.len()).find_map(|skipped| line_fits(rest, &found[skipped..], bound));
    }
    let (token, found) = found.split_first()?;
    let mut bound = bound.clone();
    if is_hex(first) && is_hex(token) {
        let real = bound.entry(first.clone()).or_insert_with(|| token.clone());
        if real != token {
            return None;
        }
    } else if first != token {
        return None;
    }
    line_fits(rest, found, &bound)
}

/// Compares lines with the expected ones. If they match, returns the values that are known after them.
fn lines_fit(expected: &[String], found: &[String], bound: &Bound) -> Option<Bound> {
    let Some((first, rest)) = expected.split_first() else {
        return found.is_empty().then(|| bound.clone());
    };
    if first == "…" {
        return (0..=found.len()).find_map(|skipped| lines_fit(rest, &found[skipped..], bound));
    }
    let (line, found) = found.split_first()?;
    let bound = line_fits(&tokens(&plain(first)), &tokens(&plain(line)), bound)?;
    lines_fit(rest, found, &bound)
}

/// A folder in which the commands of a page are run, one after the other.
struct Session {
    folder: Folder,
    port: u16,
    server: Option<Server>,
    /// The `export` commands so far.
    exports: String,
    bound: Bound,
}

impl Session {
    fn new() -> Self {
        let folder = Folder::new();
        std::fs::create_dir(folder.join(".bin")).unwrap();
        let binary = env!("CARGO_BIN_EXE_seriatim");
        std::os::unix::fs::symlink(binary, folder.join(".bin/seriatim")).unwrap();
        // The port is free at the moment; the server binds it next.
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        Self { folder, port, server: None, exports: String::new(), bound: Bound::new() }
    }

    /// A command as it is run here: with the real port and the real values.
    fn real(&self, command: &str) -> String {
        let mut command = command.replace(":7400", &format!(":{}", self.port));
        for (shown, real) in &self.bound {
            command = command.replace(shown, real);
        }
        command
    }

    fn shown(&self, text: &str) -> String {
        text.replace(&format!(":{}", self.port), ":7400")
    }

    fn bash(&self, command: &str) -> Command {
        let path = format!("{}:{}", self.folder.join(".bin").display(), std::env::var("PATH").unwrap());
        let mut bash = Command::new("bash");
        // Without settings from the environment of the test.
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("SERIATIM_")) {
            bash.env_remove(name);
        }
        bash.args(["-c", &format!("{}{command}", self.exports)]).current_dir(self.folder.path());
        let server = format!("http://127.0.0.1:{}", self.port);
        bash.env("PATH", path).env("SERIATIM_SERVER", server).stdin(Stdio::null());
        bash
    }

    fn serve(&mut self, command: &str) {
        let command = if command.contains("--listen") {
            command.to_owned()
        } else {
            format!("{command} --listen 127.0.0.1:{}", self.port)
        };
        self.server = Some(Server::start(self.bash(&format!("exec {command}"))));
    }

    fn step(&mut self, step: &Step) {
        let command = self.real(&step.command);
        if command.starts_with("export ") {
            self.exports += &format!("{command}\n");
            return;
        }
        let printed = if command.starts_with("seriatim serve") {
            if self.server.is_none() {
                self.serve(&command);
            }
            self.server.as_ref().unwrap().ready.clone()
        } else {
            // stdout and stderr in the order in which they are printed, as on a terminal.
            let output = self.bash(&format!("{{ {command}\n}} 2>&1")).output().unwrap();
            String::from_utf8(output.stdout).unwrap()
        };
        let found: Vec<String> = self.shown(&printed).lines().map(str::to_owned).collect();
        let Some(bound) = lines_fit(&step.expected, &found, &self.bound) else {
            let (place, expected) = (&step.place, step.expected.join("\n"));
            panic!(
                "{place}: $ {command}\nis documented to print:\n{expected}\nand prints:\n{}\n",
                found.join("\n")
            );
        };
        self.bound = bound;
    }
}

/// Other programs that the pages use.
const PROGRAMS: [(&str, &str); 3] = [("bash", "--version"), ("curl", "--version"), ("openssl", "version")];

/// Whether all of them are installed. If not, that is printed, and it is a failure if `SERIATIM_REQUIRE_REAL` is set.
fn can_run(page: &str) -> bool {
    let missing =
        PROGRAMS.iter().find(|(program, question)| Command::new(program).arg(question).output().is_err());
    let Some((program, _)) = missing else { return true };
    let reason = format!("{program} is not installed");
    assert!(std::env::var_os("SERIATIM_REQUIRE_REAL").is_none(), "{reason}");
    // Not with a macro: the output of macros is hidden while a test passes.
    let mut stderr = std::io::stderr();
    writeln!(stderr, "SKIPPED, the commands of {page} were not run: {reason}").unwrap();
    false
}

/// Runs the consoles of a page.
fn run(page: &str) {
    if !can_run(page) {
        return;
    }
    let mut sessions: BTreeMap<Option<String>, Session> = BTreeMap::new();
    let mut count = 0;
    for block in blocks_of(page) {
        let ("console", name) = block.kind() else { continue };
        if name == Some("ignore") {
            continue;
        }
        let session = sessions.entry(name.map(str::to_owned)).or_insert_with(|| {
            let mut session = Session::new();
            if name.is_none() {
                session.serve("seriatim serve");
            }
            session
        });
        for step in steps(&block) {
            session.step(&step);
            count += 1;
        }
    }
    assert!(count > 0, "{page} has no commands");
}

#[test]
fn the_commands_of_the_readme_print_what_it_says() {
    run("README.md");
}

#[test]
fn the_commands_of_the_page_about_the_command_line_print_what_it_says() {
    run("docs/cli.md");
}

#[test]
fn the_commands_of_the_page_about_http_print_what_it_says() {
    run("docs/http.md");
}

/// Pages whose blocks of Rust are doctests of this package.
const DOCTESTS: &str = include_str!("../src/lib.rs");

#[test]
fn every_code_block_has_a_kind_and_is_checked() {
    let ran = ["README.md", "docs/cli.md", "docs/http.md"];
    for block in pages().iter().flat_map(|page| blocks_of(page)) {
        let place = block.place();
        match block.kind() {
            (_, Some("ignore")) | ("text", None) => {}
            ("console", _) => {
                assert!(ran.contains(&&*block.page), "{place}: this page's commands are not run");
            }
            ("json", None) => {
                let is_json = |text: &str| serde_json::from_str::<serde_json::Value>(text).is_ok();
                assert!(is_json(&block.text) || block.text.lines().all(is_json), "{place} is not JSON");
            }
            ("toml", None) => {
                let table: toml::Table =
                    block.text.parse().unwrap_or_else(|error| panic!("{place}: {error}"));
                match table.get("dependencies").and_then(toml::Value::as_table) {
                    Some(dependencies) => check_dependencies(&place, dependencies),
                    None => {
                        let accepted = Application::from_toml(&block.text);
                        assert!(accepted.is_ok(), "{place}: {accepted:?}");
                    }
                }
            }
            ("rust", None) => {
                assert!(DOCTESTS.contains(&block.page), "{place} is not among the doctests of src/lib.rs");
            }
            (kind, mark) => panic!(
                "{place}: {kind:?} {mark:?} is not a kind of block: write console, json, toml, rust or text, or mark it with ,ignore"
            ),
        }
    }
}

/// Checks that the crates in an example of dependencies exist.
fn check_dependencies(place: &str, dependencies: &toml::Table) {
    for (name, dependency) in dependencies {
        let path = dependency["path"].as_str().unwrap();
        let (_, path) = path.split_once("seriatim/").unwrap();
        let manifest = std::fs::read_to_string(root().join(path).join("Cargo.toml")).unwrap();
        assert!(manifest.contains(&format!("name = \"{name}\"")), "{place}: {name} is not at {path}");
    }
}

#[test]
fn output_is_compared_except_for_parts_that_differ_each_time() {
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let fits =
        |expected: &str, found: &str| lines_fit(&lines(expected), &lines(found), &Bound::new()).is_some();
    let [one, two] = ["2c26b46b68ffc68f", "13faa0c3992f2d3b"];
    assert!(fits("a 1\nb", "a 1\nb"));
    assert!(!fits("a 1", "a 2") && !fits("a", "a\nb") && !fits("a\nb", "a") && !fits("a", "b"));
    assert!(fits("{\"a\":1,…}", "{\"a\":1,\"b\":[2]}") && !fits("{\"a\":1,…}", "{\"a\":2,\"b\":3}"));
    assert!(fits("a\n…\nz", "a\nb\nc\nz") && fits("a\n…\nz", "a\nz") && !fits("a\n…\nz", "a\nb"));
    assert!(fits("at 2026-11-16T06:00:00.000Z: x", "at 2031-01-01T00:00:00.123Z: x"));
    assert!(
        fits("held by process 4442: stop", "held by process 17: stop") && !fits("process 1 a", "process 2 b")
    );
    assert!(
        fits("13 events, 11848 bytes", "13 events, 9 bytes")
            && !fits("13 events, 1 bytes", "14 events, 1 bytes")
    );
    assert!(fits(&format!("{one} {one}"), &format!("{two} {two}")), "both are the same value");
    assert!(!fits(&format!("{one} {one}"), &format!("{one} {two}")), "the two values have to be the same");
    assert!(!fits(one, "9007199254740991"), "a number is not a hexadecimal value");
}
