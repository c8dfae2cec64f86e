//! `docs/seeds.md` leads from the designs to the code. Every file and name in it exists.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

/// The paths of the short names of files, from the lines `[name]: path` at the end of the page.
fn paths(page: &str) -> BTreeMap<String, String> {
    let definition = |line: &str| {
        let (name, path) = line.strip_prefix('[')?.split_once("]: ")?;
        Some((name.to_owned(), path.to_owned()))
    };
    page.lines().filter_map(definition).collect()
}

/// The cells of a row.
fn cells(line: &str) -> Vec<String> {
    // `\|` is a bar inside a cell.
    let line = line.replace("\\|", "\u{1}");
    let inner = line.trim().trim_start_matches('|').trim_end_matches('|');
    inner.split('|').map(|cell| cell.replace('\u{1}', "|").trim().to_owned()).collect()
}

/// The files in brackets in a cell, each with the names in backticks that follow it.
fn links(cell: &str) -> Vec<(String, Vec<String>)> {
    let names = |text: &str| text.split('`').skip(1).step_by(2).map(str::to_owned).collect();
    let link = |part: &str| part.split_once(']').map(|(file, rest)| (file.to_owned(), names(rest)));
    cell.split('[').skip(1).filter_map(link).collect()
}

/// Whether a text has this as a whole word.
fn has_word(text: &str, word: &str) -> bool {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    text.match_indices(word).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + word.len()..]);
        !before.chars().next_back().is_some_and(is_part) && !after.chars().next().is_some_and(is_part)
    })
}

/// What is wrong with the files and names of a cell. In the column of tests, names are functions.
fn wrong(paths: &BTreeMap<String, String>, cell: &str, are_tests: bool) -> Vec<String> {
    let mut wrong = Vec::new();
    for (file, names) in links(cell) {
        let text = paths.get(&file).and_then(|path| std::fs::read_to_string(docs().join(path)).ok());
        let Some(text) = text else {
            wrong.push(format!("{file} does not exist"));
            continue;
        };
        for name in names {
            let wanted = if are_tests { format!("fn {name}") } else { name };
            if !has_word(&text, &wanted) {
                wrong.push(format!("{file} has no {wanted}"));
            }
        }
    }
    wrong
}

#[test]
fn every_file_and_every_name_of_the_page_about_the_designs_exists() {
    let page = std::fs::read_to_string(docs().join("seeds.md")).unwrap();
    let paths = paths(&page);
    let (mut tables, mut problems) = (Vec::new(), Vec::new());
    let mut inside = false;
    for (number, line) in (1..).zip(page.lines()) {
        let cells = cells(line);
        match &cells[..] {
            [there, here, ..] if there == "there" && here == "here" => {
                tables.push(0);
                inside = true;
            }
            _ if !line.starts_with('|') => inside = false,
            [rule, ..] if rule.starts_with("---") => {}
            [_, _, place, test] if inside => {
                *tables.last_mut().unwrap() += 1;
                let mut found = [wrong(&paths, place, false), wrong(&paths, test, true)].concat();
                if links(place).is_empty() || links(test).iter().all(|(_, names)| names.is_empty()) {
                    found.push("no place, or no test".to_owned());
                }
                problems.extend(found.into_iter().map(|problem| format!("line {number}: {problem}")));
            }
            _ if inside => problems.push(format!("line {number}: not four cells")),
            _ => {}
        }
    }
    assert_eq!(problems, Vec::<String>::new());
    assert_eq!(tables.len(), 5, "one table for each design");
    assert!(tables.iter().all(|rows| *rows >= 30), "{tables:?}");
}

#[test]
fn a_name_that_does_not_exist_is_reported() {
    let paths = paths("[this]: ../crates/seriatim/tests/seeds.rs\n[gone]: nowhere.rs\n");
    assert_eq!(wrong(&paths, "[this] `cells` `docs`", true), Vec::<String>::new());
    let missing = ["no", "_such", "_test"].concat();
    let found = wrong(&paths, &format!("[this] `docs` `{missing}`"), true);
    assert_eq!(found, [format!("this has no fn {missing}")]);
    for file in ["gone", "undefined"] {
        assert_eq!(wrong(&paths, &format!("[{file}] `name`"), false), [format!("{file} does not exist")]);
    }
    assert!(has_word("fn a_b(", "fn a_b") && !has_word("fn a_bc(", "fn a_b"));
    assert_eq!(cells("| a \\| b | c |"), ["a | b", "c"]);
}
