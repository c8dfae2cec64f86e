//! The simulated world.

use std::future::Future;

use seriatim_types::Timestamp;

use crate::Env;

/// The wall-clock time at which every simulation starts: 2026-01-01T00:00:00Z.
pub const SIMULATION_START: Timestamp = Timestamp::from_millis(1_767_225_600_000);

/// Runs `scenario` in a simulated world: one thread, a virtual clock that jumps to the next timer when every task
/// waits, and all choices drawn from `seed`. The same seed gives the same order of events.
///
/// What a scenario must leave alone for that: real files and sockets, threads, hash maps with a random state whose
/// order it shows, and `select!` without `biased` (all fenced off by lints but the hash maps).
///
/// # Panics
///
/// If the scenario panics, after printing the seed; and inside another runtime.
pub fn simulate<T, F, S>(seed: u64, scenario: S) -> T
where
    S: FnOnce(Env) -> F,
    F: Future<Output = T>,
{
    let told = TellSeed(seed);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without I/O needs nothing from the system");
    let value = runtime.block_on(async { scenario(Env::simulated(seed, SIMULATION_START)).await });
    drop(told);
    value
}

/// Says on the way out of a panic how to see it again.
struct TellSeed(u64);

impl Drop for TellSeed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the simulation with seed {} failed: the same seed fails the same way", self.0);
        }
    }
}
