//! A soak: random programs on a real server with real files, while it is killed with `kill -9` and stopped cleanly at
//! random. Some programs panic, loop, answer too much or are told things of the wrong type.
//!
//! `cargo test -p seriatim-server --test soak -- --nocapture` takes about 20 s; with `SERIATIM_FULL=1` and `--release` it
//! is 30 minutes. `SERIATIM_SOAK_SECONDS` is another duration, `SERIATIM_SOAK_SEED` another seed.
//!
//! What is checked: every run that was started has ended as it should, or is stuck with the reason that it should have,
//! or waits for a child that is; no attempt of an activity whose attempts are limited has its effect twice; the memory of
//! the server stays below a bound; the store agrees with the log. What is printed beside it: the latency of a request
//! with and without the runs that misbehave.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, reason = "it prints what it measures")]
#![allow(clippy::result_large_err, reason = "failures are rare")]

mod child;
mod client;
mod code;
mod process;
mod runs;
mod soak;
mod steps;

use std::path::Path;
use std::time::Duration;

/// The allocator of the binary: memory is what it is there.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// The name of the test, which is also what the server's process is.
const TEST: &str = "runs_that_misbehave_neither_get_lost_nor_disturb_others";

/// How long an activation may take.
const LIMIT: Duration = Duration::from_millis(if cfg!(debug_assertions) { 1_000 } else { 500 });

#[test]
fn runs_that_misbehave_neither_get_lost_nor_disturb_others() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    if let Some(directory) = std::env::var_os(process::DIRECTORY) {
        runtime.block_on(child::serve(Path::new(&directory), LIMIT));
        // A thread that loops does not end.
        std::process::exit(0);
    }
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let full = std::env::var_os("SERIATIM_FULL").is_some();
    let seconds = number("SERIATIM_SOAK_SECONDS").unwrap_or(if full { 1_800 } else { 20 });
    let seed = number("SERIATIM_SOAK_SEED").unwrap_or_else(|| seriatim_env::Env::real().random());
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let wrong = runtime.block_on(soak::run(directory.path(), seed, Duration::from_secs(seconds)));
    if !wrong.is_empty() {
        // What was written, and the server's log, can be looked at.
        let kept = directory.keep();
        panic!("seed {seed}, files in {}: {} things are wrong: {wrong:#?}", kept.display(), wrong.len());
    }
}
