//! The environment: clock, sleep, spawn, randomness and shutdown.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use seriatim_types::Timestamp;
use seriatim_types::sync::Mutex;

use crate::interleave::Interleave;
use crate::{Shutdown, Task};

/// A point of the monotonic clock. Only the difference of two points has a meaning.
pub type Instant = tokio::time::Instant;

/// The time limit of [`Env::timeout`] was reached before the future was ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Elapsed;

/// Clock, sleep, spawn, randomness and shutdown, real or simulated. Clones share everything.
#[derive(Clone, Debug)]
pub struct Env {
    world: Arc<World>,
    shutdown: Shutdown,
}

#[derive(Debug)]
enum World {
    Real,
    Simulated { random: Mutex<fastrand::Rng>, started: Instant, start: Mutex<Timestamp> },
}

impl Env {
    /// The real clock, the ambient tokio runtime, the operating system's randomness.
    #[must_use]
    pub fn real() -> Self {
        Self { world: Arc::new(World::Real), shutdown: Shutdown::new() }
    }

    /// Must be called inside the simulation's runtime, whose virtual clock it captures.
    pub(crate) fn simulated(seed: u64, start: Timestamp) -> Self {
        let random = Mutex::new(fastrand::Rng::with_seed(seed));
        let world = World::Simulated { random, started: Instant::now(), start: Mutex::new(start) };
        Self { world: Arc::new(world), shutdown: Shutdown::new() }
    }

    /// Whether this is a simulation. Tests use it to choose sizes. It must not change behaviour.
    #[must_use]
    pub fn is_simulated(&self) -> bool {
        matches!(*self.world, World::Simulated { .. })
    }

    /// Wall-clock time. It is stored and shown, and never used to order anything.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        match &*self.world {
            World::Real => {
                let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                Timestamp::from_millis(0).after(since)
            }
            World::Simulated { started, start, .. } => start.lock().after(started.elapsed()),
        }
    }

    /// Sets the wall clock of a simulation, as an operator may set that of a machine. The monotonic clock does not change.
    ///
    /// # Panics
    ///
    /// If this is not a simulation, or if `time` is before 1970 plus the duration of the simulation so far.
    pub fn set_wall_clock(&self, time: Timestamp) {
        let World::Simulated { started, start, .. } = &*self.world else {
            panic!("only the clock of a simulation can be set");
        };
        let since = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let millis = time.as_millis().checked_sub(since).expect("a time after 1970");
        *start.lock() = Timestamp::from_millis(millis);
    }

    /// The monotonic clock, for measuring and for deadlines.
    #[must_use]
    pub fn instant(&self) -> Instant {
        Instant::now()
    }

    /// Returns after `duration`. In a simulation the clock jumps to that time when no other task can run.
    pub async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }

    /// Waits for `future`, but no longer than `duration`. When the time is over, the future is dropped.
    ///
    /// # Errors
    ///
    /// [`Elapsed`] if `duration` is over before the future is ready.
    pub async fn timeout<F: Future>(&self, duration: Duration, future: F) -> Result<F::Output, Elapsed> {
        tokio::time::timeout(duration, future).await.map_err(|_| Elapsed)
    }

    /// Starts a task. The task continues if its handle is dropped. If it panics, awaiting the handle gives an error.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub fn spawn<F>(&self, future: F) -> Task<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        Task::new(match &*self.world {
            World::Real => tokio::spawn(future),
            World::Simulated { .. } => tokio::spawn(Interleave::new(self.clone(), future)),
        })
    }

    /// Runs work that blocks (a read from disk, a sync) on a thread where it delays no task. In a simulation it runs at
    /// once, on the only thread.
    ///
    /// # Panics
    ///
    /// If `work` panics, or outside a tokio runtime.
    pub async fn blocking<T, F>(&self, work: F) -> T
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        match &*self.world {
            World::Simulated { .. } => work(),
            World::Real => match tokio::task::spawn_blocking(work).await {
                Ok(value) => value,
                Err(error) => match error.try_into_panic() {
                    Ok(panic) => std::panic::resume_unwind(panic),
                    // The runtime ends, and drops this future with it.
                    Err(_) => std::future::pending().await,
                },
            },
        }
    }

    /// Starts an operating-system thread, for a loop that blocks as long as the process lives. A simulation has one thread,
    /// so it has no such threads.
    ///
    /// # Errors
    ///
    /// If the operating system cannot start a thread.
    ///
    /// # Panics
    ///
    /// In a simulation.
    pub fn thread<F>(&self, name: &str, work: F) -> std::io::Result<std::thread::JoinHandle<()>>
    where
        F: FnOnce() + Send + 'static,
    {
        assert!(!self.is_simulated(), "a simulation has one thread: {name} must be a task there");
        std::thread::Builder::new().name(name.to_owned()).spawn(work)
    }

    /// A random integer. All values are equally likely.
    #[must_use]
    pub fn random(&self) -> u64 {
        let mut bytes = [0; 8];
        self.random_bytes(&mut bytes);
        u64::from_le_bytes(bytes)
    }

    /// A random integer in `0..bound`; 0 if the bound is 0.
    #[must_use]
    pub fn random_below(&self, bound: u64) -> u64 {
        // The remainder prefers small values by less than bound / 2^64, which is too little to matter here.
        self.random().checked_rem(bound).unwrap_or(0)
    }

    /// `duration`, made shorter or longer by up to a quarter, so that tasks that wait for the same thing do not all retry at
    /// the same time.
    #[must_use]
    pub fn jitter(&self, duration: Duration) -> Duration {
        let spread = duration / 2;
        let nanos = u64::try_from(spread.as_nanos()).unwrap_or(u64::MAX);
        duration - spread / 2 + Duration::from_nanos(self.random_below(nanos))
    }

    /// Fills `bytes` with random bytes. Real ones are good enough for secrets; simulated ones come from the seed.
    ///
    /// # Panics
    ///
    /// If the operating system provides no random bytes.
    pub fn random_bytes(&self, bytes: &mut [u8]) {
        match &*self.world {
            World::Real => getrandom::fill(bytes).expect("the operating system provides random bytes"),
            World::Simulated { random, .. } => {
                random.lock().fill(bytes);
            }
        }
    }

    /// The stop signal of everything that runs in this environment.
    #[must_use]
    pub fn shutdown(&self) -> &Shutdown {
        &self.shutdown
    }
}
