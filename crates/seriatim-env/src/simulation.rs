//! Running a scenario in a simulation.

use std::future::Future;

use seriatim_types::Timestamp;

use crate::Env;

/// The wall-clock time at which every simulation starts: 2026-01-01T00:00:00Z.
pub const SIMULATION_START: Timestamp = Timestamp::from_millis(1_767_225_600_000);

/// Runs `scenario` in a simulation: one thread, a virtual clock that jumps to the next timer when every task
/// waits, and all choices drawn from `seed`. The same seed gives the same order of events.
///
/// For that, a scenario must not use real files and sockets, threads, `select!` without `biased`, or the order of hash maps
/// with a random state. Lints forbid all of these except the hash maps.
///
/// # Panics
///
/// If the scenario panics, after printing the seed; and inside another tokio runtime.
pub fn simulate<T, F, S>(seed: u64, scenario: S) -> T
where
    S: FnOnce(Env) -> F,
    F: Future<Output = T>,
{
    let print_seed = PrintSeedOnPanic(seed);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.expect("a runtime without I/O needs nothing from the system");
    let value = runtime.block_on(async { scenario(Env::simulated(seed, SIMULATION_START)).await });
    drop(print_seed);
    value
}

/// Prints the seed when a panic drops it, so that the failure can be repeated.
struct PrintSeedOnPanic(u64);

impl Drop for PrintSeedOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the simulation with seed {} failed: the same seed fails the same way", self.0);
        }
    }
}
