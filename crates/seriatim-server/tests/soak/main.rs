//! A soak: random programs on a real server with real files, while the server is killed with `kill -9` and stopped cleanly at
//! random. Some programs panic, loop, produce answers that are too large, or receive input of the wrong type.
//!
//! `cargo test -p seriatim-server --test soak -- --nocapture` takes about 20 s; with `SERIATIM_FULL=1` and `--release` it
//! is 30 minutes. `SERIATIM_SOAK_SECONDS` is another duration, `SERIATIM_SOAK_SEED` another seed.
//!
//! What is checked: every run that was started has ended as expected, or is stuck with the expected reason, or waits for a
//! child that is stuck; no attempt of an activity with limited attempts has its effect twice; the memory of the server stays
//! below a limit; the store agrees with the log. Also printed: the latency of a request with and without misbehaving runs.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]
#![allow(clippy::result_large_err, reason = "failures are rare")]
#![allow(clippy::print_stdout, reason = "the counts and latencies are the result")]

mod child;
mod client;
mod code;
mod process;
mod runs;
mod soak;
mod steps;

use std::path::Path;
use std::time::Duration;

/// The same allocator as in the binary, so that the memory is comparable.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// The name of the test. The server's process runs the same test.
const TEST: &str = "misbehaving_runs_are_not_lost_and_do_not_disturb_others";

/// How long an activation may take.
const LIMIT: Duration = Duration::from_millis(if cfg!(debug_assertions) { 1_000 } else { 500 });

#[test]
fn misbehaving_runs_are_not_lost_and_do_not_disturb_others() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    if let Some(directory) = std::env::var_os(process::DIRECTORY) {
        runtime.block_on(child::serve(Path::new(&directory), LIMIT));
        // A looping thread would keep the process alive.
        std::process::exit(0);
    }
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let full = std::env::var_os("SERIATIM_FULL").is_some();
    let seconds = number("SERIATIM_SOAK_SECONDS").unwrap_or(if full { 1_800 } else { 20 });
    let seed = number("SERIATIM_SOAK_SEED").unwrap_or_else(|| seriatim_env::Env::real().random());
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let wrong = runtime.block_on(soak::run(directory.path(), seed, Duration::from_secs(seconds)));
    if !wrong.is_empty() {
        // The files and the server's log are kept for inspection.
        let kept = directory.keep();
        panic!("seed {seed}, files in {}: {} things are wrong: {wrong:#?}", kept.display(), wrong.len());
    }
}
