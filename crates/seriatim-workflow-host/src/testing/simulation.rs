//! A simulation in which workflows are tested.

use std::future::Future;
use std::time::Duration;

use seriatim_activity::Activities;
use seriatim_env::simulate;
use seriatim_storage_testing::faulty::Fault;
use seriatim_workflow::Registry;

use super::TestHost;
use super::life::Chances;
use crate::HostOptions;

/// A crash at an append to the log: before its effect, or after it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Crash {
    pub(super) at: u64,
    pub(super) fault: Fault,
}

/// A simulation in which workflows are tested: a host in memory, one thread, a clock that jumps to the next timer when
/// everything waits, and chance from a seed. The same seed gives the same order of events; a test that fails prints it.
///
/// ```
/// use seriatim_workflow::{Activity, Context, Exit, Failure, Registry, RetryPolicy};
/// use seriatim_workflow_host::testing::Simulation;
/// use seriatim_workflow_host::{Activities, ActivityContext};
///
/// const CHARGE: Activity<u64, String> = Activity::new("charge");
///
/// let workflows = Registry::new().workflow("order", |ctx: Context, cents: u64| async move {
///     Ok::<String, Exit>(ctx.activity(CHARGE, cents).await?)
/// });
/// let activities = Activities::new().register("charge", |_: ActivityContext, cents: u64| async move {
///     Ok::<_, Failure>(format!("receipt for {cents}"))
/// });
/// // A crash before and after every write of the whole test: the order is still charged.
/// let crashes = Simulation::new(workflows, activities).crash_at_every_write(|host| async move {
///     host.start("order", "o-1", &500).await;
///     assert_eq!(host.result::<String>("o-1").await, "receipt for 500");
/// });
/// assert!(crashes >= 4);
/// ```
#[derive(Debug, Clone)]
#[must_use = "a simulation does nothing until it runs"]
pub struct Simulation {
    workflows: Registry,
    activities: Activities,
    options: HostOptions,
    seed: u64,
    chances: Chances,
}

impl Simulation {
    /// A simulation with these workflows and activities, without faults. An activity that the test replaces is a closure
    /// that is registered under its name.
    pub fn new(workflows: Registry, activities: Activities) -> Self {
        let options = HostOptions { close_timeout: Duration::from_secs(1), ..HostOptions::default() };
        Self { workflows, activities, options, seed: 0, chances: Chances::default() }
    }

    /// With another seed than 0.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// With settings of its own.
    pub fn options(mut self, options: HostOptions) -> Self {
        self.options = options;
        self
    }

    /// The log loses a write, or its answer, with this chance.
    ///
    /// # Panics
    ///
    /// If it is not from 0 to 1.
    pub fn losing_answers(mut self, chance: f64) -> Self {
        self.chances.lost = of_a_million(chance);
        self
    }

    /// Each attempt of an activity fails with this chance: half of them before the activity's code runs, half of them after
    /// it has. The failure has the type `Injected`, and is tried again as the retry policy says.
    ///
    /// # Panics
    ///
    /// If it is not from 0 to 1.
    pub fn failing_attempts(mut self, chance: f64) -> Self {
        self.chances.failing = of_a_million(chance);
        self
    }

    /// Runs a test, and replays every history that it has made.
    ///
    /// # Panics
    ///
    /// If the test panics, after printing the seed; and if a history does not replay on the workflows.
    pub fn run<T, F, Fut>(&self, test: F) -> T
    where
        F: FnOnce(TestHost) -> Fut,
        Fut: Future<Output = T>,
    {
        self.once(None, test).0
    }

    /// Runs a test once without a crash, and then once for each write to the log with a crash before the write and once
    /// with one after it. The host starts again after each. Returns how many crashes there were.
    ///
    /// # Panics
    ///
    /// As [`Simulation::run`]; and if the test writes nothing.
    pub fn crash_at_every_write<F, Fut>(&self, test: F) -> usize
    where
        F: Fn(TestHost) -> Fut,
        Fut: Future<Output = ()>,
    {
        let ((), writes, _) = self.once(None, &test);
        assert!(writes > 0, "the test writes nothing: there is nothing to crash at");
        let mut crashes = 0;
        for at in 1..=writes {
            for fault in [Fault::LoseRequest, Fault::LoseReply] {
                let on_panic = CrashReport { at, writes, fault };
                let ((), _, crashed) = self.once(Some(Crash { at, fault }), &test);
                assert!(crashed > 0, "the host has not crashed");
                drop(on_panic);
                crashes += crashed;
            }
        }
        crashes
    }

    /// Runs a test. Returns what it returns, the writes of the host's first life or of its last one, and the crashes.
    fn once<T, F, Fut>(&self, crash: Option<Crash>, test: F) -> (T, u64, usize)
    where
        F: FnOnce(TestHost) -> Fut,
        Fut: Future<Output = T>,
    {
        simulate(self.seed, |env| async move {
            let code = (self.workflows.clone(), self.activities.clone());
            let host = TestHost::open(&env, code, self.options.clone(), self.chances, crash).await;
            let value = test(host.clone()).await;
            let (writes, crashes) = (host.writes(), host.crashes());
            host.end().await;
            (value, writes, crashes)
        })
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and a million")]
fn of_a_million(chance: f64) -> u64 {
    assert!((0.0..=1.0).contains(&chance), "a chance is from 0 to 1, not {chance}");
    (chance * 1e6) as u64
}

/// Prints which crash a test panicked after.
struct CrashReport {
    at: u64,
    writes: u64,
    fault: Fault,
}

impl Drop for CrashReport {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Self { at, writes, fault } = self;
            let when = if *fault == Fault::LoseReply { "after" } else { "before" };
            eprintln!("the host crashed {when} write {at} of {writes}");
        }
    }
}
