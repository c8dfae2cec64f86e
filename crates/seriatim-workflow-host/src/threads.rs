//! Threads for workflow code: code that does not return holds up neither the server nor other runs.
//!
//! ```text
//! driver ──► queue ──► thread ──► answer            a thread that has not returned in time is abandoned:
//!                        │                          its run is stuck, another thread takes its place,
//!                        └── late: discarded        and what it returns later is dropped
//! ```

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::time::Duration;

use seriatim_env::Env;
use seriatim_types::sync::{Condvar, Mutex, MutexGuard};
use seriatim_workflow::Watch;
use tokio::sync::oneshot;

/// From when on a thread that is at one piece of work does not count among those that take work: another one is started for
/// what waits. Otherwise a few loops would hold up all runs until they are given up, and all would continue at once then.
const SLOW: Duration = Duration::from_millis(20);

/// The progress of a piece of work, for the task that waits for it.
#[derive(Default)]
pub(crate) struct Progress {
    /// Rises with each activation; 0 before the first.
    steps: AtomicU64,
    /// It takes long, and its thread is not counted. Changed with the pool's lock held, as is the next.
    is_slow: AtomicBool,
    /// No one waits any more.
    is_abandoned: AtomicBool,
    /// The thread that works on it.
    thread: AtomicI32,
    watch: Mutex<Option<Watch>>,
}

impl Progress {
    /// Another activation begins, of this run.
    pub(crate) fn step(&self, watch: impl FnOnce() -> Watch) {
        if self.steps.fetch_add(1, Ordering::Relaxed) == 0 {
            *self.watch.lock() = Some(watch());
        }
    }

    /// Where the code is, as text for people.
    fn place(&self) -> String {
        let watch = self.watch.lock().clone();
        let (branch, site) = watch.map(|watch| watch.last()).unwrap_or_default();
        let branch = branch.unwrap_or_else(|| "/".to_owned());
        match site {
            Some(site) => format!("in branch {branch}, after the operation that was issued at {site}"),
            None => format!("in branch {branch}, before its first operation in this activation"),
        }
    }
}

type Work = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct PoolState {
    queue: VecDeque<(Arc<Progress>, Work)>,
    /// Threads that take work: running or idle, not abandoned.
    live: usize,
    idle: usize,
    /// Of those that are live: at one piece of work for long.
    slow: usize,
    abandoned: usize,
    is_closed: bool,
    next: u64,
}

struct Pool {
    state: Mutex<PoolState>,
    arrived: Condvar,
    limit: usize,
    abandoned_max: usize,
}

impl Pool {
    fn lock(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock()
    }

    /// What a thread does: work, until there is none and the pool is closed, or the thread was abandoned.
    fn work(self: &Arc<Self>, env: &Env) {
        let thread = lower_priority();
        let mut pool = self.lock();
        loop {
            let Some((progress, work)) = pool.queue.pop_front() else {
                if pool.is_closed {
                    pool.live -= 1;
                    return;
                }
                pool.idle += 1;
                pool = self.arrived.wait(pool);
                pool.idle -= 1;
                continue;
            };
            drop(pool);
            progress.thread.store(thread, Ordering::Relaxed);
            // Panics of workflow code are caught where it is called. Any other panic must not end the thread either: the pool
            // counts its threads.
            if std::panic::catch_unwind(AssertUnwindSafe(work)).is_err() {
                tracing::error!("a thread for workflow code caught a panic");
            }
            pool = self.lock();
            if progress.is_abandoned.load(Ordering::Relaxed) {
                // The pool has replaced this thread, and its priority cannot be raised again: it ends.
                pool.abandoned -= 1;
                self.grow_if_needed(env, &mut pool);
                return;
            }
            if progress.is_slow.load(Ordering::Relaxed) {
                pool.slow -= 1;
                if pool.live - pool.slow > self.limit {
                    // Another one was started meanwhile.
                    pool.live -= 1;
                    return;
                }
            }
        }
    }

    /// Starts a thread if work waits that no other takes. Threads that do not return are replaced, up to a number.
    fn grow_if_needed(self: &Arc<Self>, env: &Env, pool: &mut PoolState) {
        let is_needed = pool.idle < pool.queue.len() && pool.live - pool.slow < self.limit;
        if !is_needed || !self.may_grow(pool) {
            return;
        }
        let (this, of_thread) = (Arc::clone(self), env.clone());
        pool.next += 1;
        match env.thread(&format!("workflow-{}", pool.next), move || this.work(&of_thread)) {
            Ok(_) => pool.live += 1,
            Err(error) => tracing::error!(%error, "no thread for workflow code could be started"),
        }
    }

    fn may_grow(&self, pool: &PoolState) -> bool {
        pool.live + pool.abandoned < self.limit + self.abandoned_max
    }
}

/// Code that computes for long leaves the cores to the rest of the process first. Returns the thread's id.
#[cfg(target_os = "linux")]
fn lower_priority() -> i32 {
    const NICE: i32 = 10;
    let thread = rustix::thread::gettid();
    set_priority(Some(thread), NICE);
    thread.as_raw_nonzero().get()
}

/// Code that does not return gets the lowest priority.
#[cfg(target_os = "linux")]
fn lowest_priority(thread: i32) {
    const NICE: i32 = 19;
    set_priority(rustix::process::Pid::from_raw(thread), NICE);
}

#[cfg(target_os = "linux")]
fn set_priority(thread: Option<rustix::process::Pid>, nice: i32) {
    if let Err(error) = rustix::process::setpriority_process(thread, nice) {
        tracing::debug!(%error, "the priority of a thread for workflow code could not be lowered");
    }
}

/// Elsewhere a thread has no priority of its own that can be set without the operating system's headers.
#[cfg(not(target_os = "linux"))]
fn lower_priority() -> i32 {
    0
}

#[cfg(not(target_os = "linux"))]
fn lowest_priority(_: i32) {}

/// Threads for workflow code.
pub(crate) struct Threads {
    pool: Arc<Pool>,
    /// An activation that has not returned for so long is given up.
    timeout: Duration,
}

impl Threads {
    pub(crate) fn new(limit: usize, abandoned_max: usize, timeout: Duration) -> Self {
        let (state, arrived) = (Mutex::default(), Condvar::new());
        Self { pool: Arc::new(Pool { state, arrived, limit: limit.max(1), abandoned_max }), timeout }
    }

    /// Runs workflow code, and waits for it no longer than an activation may take. An error says where the code is.
    /// In a simulation it runs at once, on the simulation's only thread.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        env: &Env,
        work: impl FnOnce(&Progress) -> T + Send + 'static,
    ) -> Result<T, String> {
        let progress = Arc::new(Progress::default());
        if env.is_simulated() {
            return Ok(work(&progress));
        }
        let (reply, mut answer) = oneshot::channel();
        let seen = Arc::clone(&progress);
        let work = Box::new(move || drop(reply.send(work(&seen))));
        self.submit(env, Arc::clone(&progress), work);
        while !progress.is_slow.load(Ordering::Relaxed) {
            if let Ok(answered) = env.timeout(SLOW.min(self.timeout), &mut answer).await {
                return answered.map_err(ended);
            }
            if let Some(value) = self.note_slow(env, &progress, &mut answer) {
                return Ok(value);
            }
        }
        let mut before = progress.steps.load(Ordering::Relaxed);
        loop {
            if let Ok(answered) = env.timeout(self.timeout, &mut answer).await {
                return answered.map_err(ended);
            }
            let steps = progress.steps.load(Ordering::Relaxed);
            if steps == before {
                let place = progress.place();
                let mut pool = self.pool.lock();
                // The work may have ended just now: the thread answers first, and then checks `is_abandoned` with the lock held.
                if let Ok(value) = answer.try_recv() {
                    return Ok(value);
                }
                self.abandon(env, &mut pool, &progress);
                drop(pool);
                let timeout = self.timeout;
                return Err(format!(
                    "its code has not returned for {timeout:?}, {place}: it loops or blocks; wait with the context, \
                     and compute in an activity"
                ));
            }
            before = steps;
        }
    }

    fn submit(&self, env: &Env, progress: Arc<Progress>, work: Work) {
        let mut pool = self.pool.lock();
        pool.queue.push_back((progress, work));
        self.pool.grow_if_needed(env, &mut pool);
        drop(pool);
        self.pool.arrived.notify_one();
    }

    /// Lets another thread take what waits for this piece of work to end. If it has ended just now, its answer is returned.
    fn note_slow<T>(&self, env: &Env, progress: &Progress, answer: &mut oneshot::Receiver<T>) -> Option<T> {
        let mut pool = self.pool.lock();
        if let Ok(value) = answer.try_recv() {
            return Some(value);
        }
        // Work that has not begun does not hold a thread.
        let has_begun = progress.steps.load(Ordering::Relaxed) > 0;
        if has_begun && !progress.is_slow.swap(true, Ordering::Relaxed) {
            pool.slow += 1;
            self.pool.grow_if_needed(env, &mut pool);
        }
        None
    }

    /// No one waits for the thread that runs this any more; another one takes its place.
    fn abandon(&self, env: &Env, pool: &mut PoolState, progress: &Progress) {
        progress.is_abandoned.store(true, Ordering::Relaxed);
        lowest_priority(progress.thread.load(Ordering::Relaxed));
        pool.slow -= usize::from(progress.is_slow.load(Ordering::Relaxed));
        pool.live -= 1;
        pool.abandoned += 1;
        self.pool.grow_if_needed(env, pool);
    }

    /// How many threads do not return, if no other can take their place.
    pub(crate) fn exhausted(&self) -> Option<usize> {
        let pool = self.pool.lock();
        (pool.live == 0 && pool.abandoned > 0 && !self.pool.may_grow(&pool)).then_some(pool.abandoned)
    }
}

fn ended(_: oneshot::error::RecvError) -> String {
    "the thread that ran its code has ended".to_owned()
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.pool.lock().is_closed = true;
        self.pool.arrived.notify_all();
    }
}
