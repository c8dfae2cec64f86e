//! Checks that every clause is listed in a macro, because a clause that is not would never run, and that clauses can fail.

mod broken_log;
mod proof;

const LOG: &[&str] = &[
    include_str!("log/append.rs"),
    include_str!("log/bulletin.rs"),
    include_str!("log/close.rs"),
    include_str!("log/contention.rs"),
    include_str!("log/follow.rs"),
    include_str!("log/identity.rs"),
    include_str!("log/pipeline.rs"),
    include_str!("log/read.rs"),
    include_str!("log/refuse.rs"),
    include_str!("log/reopen.rs"),
    include_str!("log/restore.rs"),
    include_str!("log/take.rs"),
    include_str!("log/take_over.rs"),
    include_str!("log/unverified.rs"),
];

const SHARED_LOG: &[&str] = &[
    include_str!("shared/beside.rs"),
    include_str!("shared/close.rs"),
    include_str!("shared/follow.rs"),
    include_str!("shared/ownership.rs"),
    include_str!("shared/read.rs"),
];

const STORE: &[&str] = &[
    include_str!("store/batch.rs"),
    include_str!("store/close.rs"),
    include_str!("store/get.rs"),
    include_str!("store/limits.rs"),
    include_str!("store/scan_during_writes.rs"),
    include_str!("store/put.rs"),
    include_str!("store/reopen.rs"),
    include_str!("store/scan.rs"),
];

const CELLS: &[&str] =
    &[include_str!("cells/close.rs"), include_str!("cells/keys.rs"), include_str!("cells/write.rs")];

/// The names that a macro of `mod.rs` lists.
fn listed(macro_name: &str) -> Vec<&'static str> {
    let (_, list) =
        include_str!("mod.rs").split_once(&format!("$crate::{macro_name}! {{ @($fixture)\n")).unwrap();
    let (list, _) = list.split_once('}').unwrap();
    let names = list.split_whitespace().filter(|word| !word.ends_with(':'));
    names.map(|name| name.trim_end_matches(';')).collect()
}

/// The names of the clauses in some files.
fn written(files: &[&'static str]) -> Vec<&'static str> {
    let clauses =
        files.iter().flat_map(|file| file.lines().filter_map(|line| line.strip_prefix("pub async fn ")));
    clauses.filter_map(|rest| rest.split_once('(')).map(|(name, _)| name).collect()
}

#[test]
fn every_clause_is_listed_once() {
    let (mut log, mut store) = (listed("log_conformance"), listed("store_conformance"));
    let mut cells = listed("cells_conformance");
    let mut shared_log = listed("shared_log_conformance");
    assert_eq!(log, written(LOG));
    assert_eq!(shared_log, written(SHARED_LOG));
    assert_eq!(store, written(STORE));
    assert_eq!(cells, written(CELLS));
    // All suites can be used in one module, because no two clauses have the same name.
    log.append(&mut shared_log);
    log.append(&mut store);
    log.append(&mut cells);
    let count = log.len();
    log.sort_unstable();
    log.dedup();
    assert_eq!(log.len(), count);
}
