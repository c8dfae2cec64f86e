//! The soak itself: phases with and without misbehaving programs, restarts of the server, and the final checks.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use seriatim_engine::doctor::Treatment;
use seriatim_engine::{Engine, Options};
use seriatim_env::{Env, Shutdown};
use seriatim_storage::Store;
use seriatim_storage::memory::MemoryStore;
use seriatim_storage_file::FileStorage;

use crate::client::Client;
use crate::process::{Process, resident};
use crate::runs::{self, Run, Runs, follow};
use crate::steps::{Dice, Program, Step};
use crate::{LIMIT, TEST, child};

/// The limit of the server's resident memory.
const MEMORY_MAX: u64 = 512 << 20;
/// The pause between the starts of two good programs. Code that is not optimised can run fewer.
const PAUSE_MS: u64 = if cfg!(debug_assertions) { 100 } else { 20 };
/// The largest number of open runs; more are not started.
const OPEN_MAX: usize = if cfg!(debug_assertions) { 50 } else { 200 };
/// Loops in one process: each occupies a thread until the loop ends.
const LOOPS_PER_LIFE: u64 = 6;
/// How long all runs may take to end or to be stuck after the last start of a run and the last restart.
const SETTLE_WAIT_MAX: Duration = Duration::from_secs(600);

/// The phases: without misbehaving runs, with them, and while the last of them are ended.
const CALM: usize = 0;
const ROUGH: usize = 1;
const BETWEEN: usize = 2;

/// Measurements of each phase.
#[derive(Default)]
struct Figures {
    next: Mutex<[Vec<Duration>; 3]>,
    runs: Mutex<[Vec<Duration>; 3]>,
    memory: [AtomicU64; 3],
    kills: AtomicU64,
    stops: AtomicU64,
}

#[derive(Clone)]
struct Soak {
    client: Client,
    runs: Arc<Runs>,
    figures: Arc<Figures>,
    seed: u64,
    phase: Arc<AtomicUsize>,
    loops: Arc<AtomicU64>,
    process: Arc<AtomicU32>,
    stop: Shutdown,
}

/// Runs the soak, prints its results, and returns what is wrong.
pub(crate) async fn run(directory: &Path, seed: u64, time: Duration) -> Vec<String> {
    let env = Env::real();
    println!("soak: seed {seed}, {time:?}");
    let mut process = Process::start(directory, TEST);
    let soak = Soak {
        client: Client::new(&env, process.address),
        runs: Arc::default(),
        figures: Arc::default(),
        seed,
        phase: Arc::default(),
        loops: Arc::default(),
        process: Arc::new(AtomicU32::new(process.id())),
        stop: Shutdown::new(),
    };
    let tasks = [
        env.spawn(soak.clone().start_programs()),
        env.spawn(soak.clone().take_numbers()),
        env.spawn(soak.clone().time_runs()),
        env.spawn(soak.clone().sample_memory()),
    ];
    let mut dice = Dice::new(seed, u64::MAX);
    let length = (time / 4).min(Duration::from_secs(60));
    let until = env.instant() + time;
    for phase in [CALM, ROUGH].into_iter().cycle() {
        if env.instant() >= until {
            break;
        }
        let name = if phase == ROUGH { "with" } else { "without" };
        println!("{:>5} s: {name} misbehaving runs", (env.instant() + time - until).as_secs());
        soak.phase.store(phase, Ordering::Relaxed);
        let end = env.instant() + length;
        while env.instant() < end {
            let least = u64::try_from(length.as_millis() / 6).unwrap();
            env.sleep(Duration::from_millis(least + dice.below(least * 2))).await;
            process = soak.restart(process, directory, dice.one_in(3)).await;
        }
        if phase == ROUGH {
            // Loops must not continue in the phases without misbehaving runs.
            soak.phase.store(BETWEEN, Ordering::Relaxed);
            soak.settle(|runs| runs.loops.load(Ordering::Relaxed) == 0).await;
            process = soak.restart(process, directory, false).await;
        }
    }
    soak.stop.cancel();
    for task in tasks {
        task.await.unwrap();
    }
    soak.settle(|runs| runs.open.load(Ordering::Relaxed) == 0).await;
    process = soak.restart(process, directory, true).await;
    soak.check_runs(directory).await;
    if !process.stop() {
        soak.runs.report("the server did not stop cleanly".to_owned());
    }
    soak.run_doctor(directory).await;
    soak.print();
    soak.runs.take_wrong()
}

impl Soak {
    fn phase(&self) -> usize {
        self.phase.load(Ordering::Relaxed)
    }

    /// Ends the server and starts it again.
    async fn restart(&self, process: Process, directory: &Path, is_clean: bool) -> Process {
        let directory = PathBuf::from(directory);
        let (was_clean, process) = self
            .client
            .env
            .blocking(move || {
                let was_clean = if is_clean { process.stop() } else { process.kill() };
                (was_clean, Process::start(&directory, TEST))
            })
            .await;
        if !was_clean {
            self.runs.report("the server did not stop cleanly".to_owned());
        }
        let ends = if is_clean { &self.figures.stops } else { &self.figures.kills };
        ends.fetch_add(1, Ordering::Relaxed);
        self.loops.store(0, Ordering::Relaxed);
        self.process.store(process.id(), Ordering::Relaxed);
        self.client.set_address(process.address);
        process
    }

    /// Waits until a condition holds.
    async fn settle(&self, holds: impl Fn(&Runs) -> bool) {
        let env = &self.client.env;
        let until = env.instant() + SETTLE_WAIT_MAX;
        while !holds(&self.runs) {
            if env.instant() > until {
                let open = self.runs.open.load(Ordering::Relaxed);
                return self.runs.report(format!("{open} runs neither end nor are stuck with a reason"));
            }
            env.sleep(Duration::from_millis(50)).await;
        }
    }

    /// Starts programs: good ones in all phases, the others in rough phases.
    async fn start_programs(self) {
        let env = self.client.env.clone();
        for number in 0.. {
            if self.stop.is_cancelled() {
                return;
            }
            let mut dice = Dice::new(self.seed, number);
            env.sleep(Duration::from_millis(PAUSE_MS + dice.below(2 * PAUSE_MS))).await;
            if self.runs.open.load(Ordering::Relaxed) >= OPEN_MAX {
                continue;
            }
            let good = dice.good();
            self.follow(format!("good-{number}"), good, false, &dice);
            if self.phase() == ROUGH {
                let limit = u64::try_from(LIMIT.as_millis()).unwrap();
                let may_loop = self.runs.loops.load(Ordering::Relaxed) < 3
                    && self.loops.load(Ordering::Relaxed) < LOOPS_PER_LIFE;
                let heavy = dice.one_in(2);
                let program = if heavy { dice.heavy(limit) } else { dice.bad(may_loop) };
                self.loops.fetch_add(u64::from(program.has_loop()), Ordering::Relaxed);
                let name = if heavy { "heavy" } else { "bad" };
                self.follow(format!("{name}-{number}"), program, true, &dice);
            }
        }
    }

    fn follow(&self, id: String, program: Program, gets_wrong_input: bool, dice: &Dice) {
        let run = Run { id, program, gets_wrong_input };
        drop(self.client.env.spawn(follow(self.client.clone(), self.runs.clone(), run, dice.clone())));
    }

    /// Takes numbers of a series: a request without workflows.
    async fn take_numbers(self) {
        let env = &self.client.env;
        while !self.stop.is_cancelled() {
            let (phase, started) = (self.phase(), env.instant());
            let answer = self.client.send("POST", "/v1/series/soak/next", None, Some(&json!({}))).await;
            let time = env.instant() - started;
            if answer.is_some_and(|(status, _)| status == 201) && phase == self.phase() {
                self.figures.next.lock().unwrap()[phase].push(time);
            }
            env.sleep(Duration::from_millis(4)).await;
        }
    }

    /// Runs a small program from start to end, repeatedly.
    async fn time_runs(self) {
        let env = &self.client.env;
        for number in 0.. {
            if self.stop.is_cancelled() {
                return;
            }
            let id = format!("small-{number}");
            let program = Program { steps: vec![Step::Double(1)], ..Program::default() };
            let (phase, started) = (self.phase(), env.instant());
            let body = json!({"type": "program", "id": id, "input": program});
            let is_started = self.client.send("POST", "/v1/workflows", None, Some(&body)).await;
            let path = format!("/v1/workflows/{id}?wait=5");
            let shown = self.client.send("GET", &path, None, None).await;
            let time = env.instant() - started;
            let is_ended = shown.is_some_and(|(_, shown)| shown["status"] == "completed");
            if is_ended && is_started.is_some_and(|(status, _)| status == 201) && phase == self.phase() {
                self.figures.runs.lock().unwrap()[phase].push(time);
            }
            env.sleep(Duration::from_millis(20)).await;
        }
    }

    async fn sample_memory(self) {
        while !self.stop.is_cancelled() {
            let bytes = resident(self.process.load(Ordering::Relaxed)).unwrap_or_default();
            self.figures.memory[self.phase()].fetch_max(bytes, Ordering::Relaxed);
            self.client.env.sleep(Duration::from_millis(100)).await;
        }
    }

    /// Checks every run, and the effects.
    async fn check_runs(&self, directory: &Path) {
        let all = std::mem::take(&mut *self.runs.all.lock().unwrap());
        let (mut count, mut known) = (BTreeMap::<_, u64>::new(), Vec::new());
        for run in &all {
            match runs::verdict(&self.client, run).await {
                Ok((fate, effects)) => {
                    *count.entry(fate).or_default() += 1;
                    known.extend(effects);
                }
                Err(wrong) => self.runs.report(wrong),
            }
        }
        println!("{} runs: {count:?}", all.len());
        let lines = std::fs::read_to_string(directory.join("effects")).unwrap_or_default();
        let mut effects = BTreeSet::new();
        for line in lines.lines() {
            if !effects.insert(line) {
                self.runs.report(format!("an effect happened twice: {line}"));
            }
        }
        for effect in &known {
            if !effects.contains(effect.as_str()) {
                self.runs.report(format!("a run returned an effect that did not happen: {effect}"));
            }
        }
        println!(
            "{} effects, none twice; {} of them in results of completed runs",
            effects.len(),
            known.len()
        );
    }

    /// Compares the store with the log.
    async fn run_doctor(&self, directory: &Path) {
        let env = &self.client.env;
        let storage = FileStorage::open(env, &directory.join("data"), child::file_options()).await.unwrap();
        let (log, store) = (storage.log().clone(), storage.store().clone());
        let apps = [seriatim_workflow_host::app().unwrap()];
        let engine = Engine::open(env.clone(), log, store, apps, Options::default()).await.unwrap();
        assert!(engine.wait_ready(SETTLE_WAIT_MAX).await);
        let scratch = Store::new(MemoryStore::new());
        let report = engine.doctor(&scratch, Treatment::Check, &mut |_| {}).await.unwrap();
        if !report.is_clean() {
            self.runs.report(format!("the store does not agree with the log: {report:?}"));
        }
        engine.close().await;
        storage.close().await.unwrap();
    }

    fn print(&self) {
        let figures = &self.figures;
        let (kills, stops) = (&figures.kills, &figures.stops);
        println!("{kills:?} kills, {stops:?} clean restarts");
        println!("stuck runs that reported their reason, by fault: {:?}", self.runs.reasons.lock().unwrap());
        println!("{:?} good runs were too slow once and were retried", self.runs.late);
        for (name, times) in [("number of a series", &figures.next), ("run of one activity", &figures.runs)] {
            let times = std::mem::take(&mut *times.lock().unwrap());
            let [calm, rough, _] = times.map(Quantiles::of);
            println!("{name}, without misbehaving runs: {calm}");
            println!("{name}, with them:                {rough}");
            println!(
                "{name}, p99 with them / without:  {:.2}",
                rough.p99.as_secs_f64() / calm.p99.as_secs_f64()
            );
        }
        let memory = [CALM, ROUGH, BETWEEN].map(|phase| figures.memory[phase].load(Ordering::Relaxed) >> 20);
        let (bound, [calm, rough, _]) = (MEMORY_MAX >> 20, memory);
        println!("resident memory at most: {calm} MiB without, {rough} MiB with them; limit {bound} MiB");
        if let Some(much) = memory.iter().find(|memory| **memory > bound) {
            self.runs.report(format!("the server used {much} MiB of memory, but the limit is {bound} MiB"));
        }
    }
}

#[derive(Default)]
struct Quantiles {
    count: usize,
    p50: Duration,
    p99: Duration,
    most: Duration,
}

impl Quantiles {
    fn of(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        let at = |share: usize| times.get(times.len() * share / 100).copied().unwrap_or_default();
        Self { count: times.len(), p50: at(50), p99: at(99), most: times.last().copied().unwrap_or_default() }
    }
}

impl std::fmt::Display for Quantiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { count, p50, p99, most } = self;
        write!(f, "{count} times, p50 {p50:.1?}, p99 {p99:.1?}, most {most:.1?}")
    }
}
