//! Several engines on one log in one process, each with a host.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use seriatim_engine::{Among, Call, Engine, Options, Others, Reply, SubmitError};
use seriatim_env::Env;
use seriatim_storage::memory::{MemoryLog, MemoryStore};
use seriatim_storage::{Holder, Log, Store};
use seriatim_storage_testing::faulty::{Faults, FaultyLog};
use seriatim_types::sync::Mutex;
use seriatim_types::{ApplicationId, Partition, PartitionId, PartitionOffset};
use seriatim_workflow::{Job, Registry};
use seriatim_workflow_host::{Activities, HostError, HostOptions, WorkflowHost};

/// The application `workflows`.
pub(crate) const WORKFLOWS: ApplicationId = ApplicationId::new(3);

/// Carries calls between the engines of this process. It finds the owner of a partition in the log.
#[derive(Debug)]
pub(crate) struct Switchboard {
    env: Env,
    log: Log,
    engines: Mutex<Vec<Engine>>,
    /// Calls to hosts that were carried.
    pub(crate) calls: AtomicU64,
    /// Replies that were lost.
    pub(crate) lost: AtomicU64,
    /// Of a thousand calls so many are lost, and so many replies.
    losing: AtomicU64,
    /// How long a call and its reply are on their way, at most, in milliseconds.
    delay: AtomicU64,
    is_cut: AtomicBool,
}

impl Switchboard {
    pub(crate) fn lose(&self, of_a_thousand: u64) {
        self.losing.store(of_a_thousand, Ordering::Relaxed);
    }

    pub(crate) fn delay(&self, millis: u64) {
        self.delay.store(millis, Ordering::Relaxed);
    }

    /// No engine reaches another.
    pub(crate) fn cut(&self, is_cut: bool) {
        self.is_cut.store(is_cut, Ordering::Relaxed);
    }

    fn loses(&self) -> bool {
        self.env.random_below(1_000) < self.losing.load(Ordering::Relaxed)
    }

    async fn travel(&self) {
        let most = self.delay.load(Ordering::Relaxed);
        if most > 0 {
            self.env.sleep(Duration::from_millis(self.env.random_below(most + 1))).await;
        }
    }

    pub(crate) fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }
}

#[async_trait]
impl Others for Switchboard {
    async fn call(&self, partition: Partition, call: Call) -> Result<Reply, SubmitError> {
        let is_hosted = matches!(call, Call::Hosted { .. });
        let not_here = |holder| SubmitError::NotHere { partition: partition.to_string(), holder };
        if is_hosted {
            self.calls.fetch_add(1, Ordering::Relaxed);
            self.travel().await;
            if self.is_cut.load(Ordering::Relaxed) || self.loses() {
                return Err(not_here(None));
            }
        }
        let holder = self.log.holder(partition).await?.map(|held| held.take.holder);
        let engine =
            self.engines.lock().iter().find(|engine| Some(engine.holder()) == holder.as_ref()).cloned();
        let Some(engine) = engine else { return Err(not_here(holder)) };
        let reply = engine.serve(call).await;
        if is_hosted {
            self.travel().await;
            if self.loses() {
                self.lost.fetch_add(1, Ordering::Relaxed);
                return Err(SubmitError::InDoubt("the reply was lost".to_owned()));
            }
        }
        reply
    }

    async fn applied(&self, partition: Partition, offset: PartitionOffset) -> Result<(), SubmitError> {
        let engines = self.engines.lock().clone();
        for engine in engines {
            engine.wait_applied(partition, offset).await?;
        }
        Ok(())
    }
}

/// One of several engines.
pub(crate) struct Seat {
    pub(crate) engine: Engine,
    pub(crate) host: WorkflowHost,
    pub(crate) faults: Faults,
}

/// Several engines on one log.
pub(crate) struct Several {
    pub(crate) env: Env,
    pub(crate) log: Log,
    pub(crate) switchboard: Arc<Switchboard>,
    pub(crate) seats: Vec<Seat>,
}

/// How a partition moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Move {
    /// The owner gives it up before the other takes it.
    Clean,
    /// The other takes it from an owner that does not know.
    Forced,
}

impl Several {
    /// The first engine owns the registry, and none owns a partition of workflows.
    pub(crate) async fn open(
        env: &Env,
        count: usize,
        code: impl Fn(usize) -> (Registry, Activities),
        options: HostOptions,
    ) -> Self {
        let memory = MemoryLog::new();
        let log = Log::new(memory.reopen());
        let switchboard = Arc::new(Switchboard {
            env: env.clone(),
            log: log.clone(),
            engines: Mutex::default(),
            calls: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            losing: AtomicU64::new(0),
            delay: AtomicU64::new(0),
            is_cut: AtomicBool::new(false),
        });
        let mut seats = Vec::new();
        for number in 0..count {
            let faults = Faults::new(env);
            let log = Log::new(FaultyLog::new(Arc::new(memory.reopen()), &faults));
            let among = Among {
                holder: Holder::new(&format!("e{number}")),
                others: switchboard.clone(),
                owns_registry: number == 0,
            };
            let apps = [seriatim_workflow_host::app().unwrap()];
            let engine_options = Options { flush_interval: Duration::from_secs(3_600), ..Options::default() };
            let store = Store::new(MemoryStore::new());
            let engine = Engine::join(env.clone(), log, store, apps, engine_options, among).await.unwrap();
            switchboard.engines.lock().push(engine.clone());
            let (workflows, activities) = code(number);
            let host =
                WorkflowHost::open(env.clone(), engine.clone(), workflows, activities, options.clone());
            seats.push(Seat { engine, host, faults });
        }
        Self { env: env.clone(), log, switchboard, seats }
    }

    pub(crate) fn partitions(&self) -> Vec<Partition> {
        let all = self.seats[0].engine.every_partition();
        all.into_iter().filter(|partition| partition.application == WORKFLOWS).collect()
    }

    pub(crate) fn host(&self, seat: usize) -> &WorkflowHost {
        &self.seats[seat].host
    }

    pub(crate) fn engine(&self, seat: usize) -> &Engine {
        &self.seats[seat].engine
    }

    /// Lets an engine own all partitions of workflows.
    pub(crate) async fn own_all(&self, seat: usize) {
        for partition in self.partitions() {
            self.engine(seat).own(partition).await.unwrap();
        }
    }

    /// Lets the engines own the partitions of workflows in turn.
    pub(crate) async fn divide(&self) {
        for (number, partition) in self.partitions().into_iter().enumerate() {
            self.engine(number % self.seats.len()).own(partition).await.unwrap();
        }
    }

    /// The engine that holds a partition, by the log.
    pub(crate) async fn holder(&self, partition: Partition) -> Option<usize> {
        let holder = self.log.holder(partition).await.unwrap()?.take.holder;
        self.seats.iter().position(|seat| *seat.engine.holder() == holder)
    }

    /// Moves a partition to an engine.
    pub(crate) async fn hand_over(&self, partition: Partition, to: usize, how: Move) {
        if how == Move::Clean
            && let Some(from) = self.holder(partition).await.filter(|from| *from != to)
        {
            self.engine(from).release(partition).await.unwrap();
        }
        self.engine(to).own(partition).await.unwrap();
    }

    /// Makes every engine follow what it does not hold, as one does that is told of all take-overs.
    pub(crate) async fn tell_all(&self) {
        for partition in self.partitions() {
            let holder = self.holder(partition).await;
            for (number, seat) in self.seats.iter().enumerate() {
                if Some(number) != holder {
                    seat.engine.stand_by(partition).await.unwrap();
                }
            }
        }
    }

    /// The partition of a workflow that was started.
    pub(crate) async fn partition_of(&self, id: &str) -> Partition {
        let hosted = self.seats[0].engine.hosted("workflows").unwrap();
        let workspace = hosted.find(id).await.unwrap().unwrap();
        let id = self.seats[0].engine.partition_of("workflows", workspace).unwrap();
        Partition { application: WORKFLOWS, id }
    }

    /// Where the logs of all partitions of workflows end.
    pub(crate) async fn tails(&self) -> BTreeMap<PartitionId, PartitionOffset> {
        let mut tails = BTreeMap::new();
        for partition in self.partitions() {
            tails.insert(partition.id, self.log.tail(partition).await.unwrap());
        }
        tails
    }

    pub(crate) async fn close(self) {
        for seat in &self.seats {
            seat.host.close().await;
        }
        // The owner of the registry last.
        for seat in self.seats.iter().rev() {
            seat.engine.close().await;
        }
    }
}

/// Repeats a request while a partition moves. It has an idempotency key, or changes nothing.
pub(crate) async fn persist<T, F: Future<Output = Result<T, HostError>>>(
    env: &Env,
    mut ask: impl FnMut() -> F,
) -> Result<T, HostError> {
    use seriatim_types::ErrorKind;
    loop {
        match ask().await {
            Err(error)
                if matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Busy | ErrorKind::InDoubt)
                    && !matches!(error, HostError::Stuck { .. }) =>
            {
                env.sleep(Duration::from_millis(20)).await;
            }
            ended => return ended,
        }
    }
}

/// Checks the histories of a workflow: it has one run, and each operation has one answer of each phase. Returns the signals that it
/// has received.
pub(crate) async fn audit(env: &Env, host: &WorkflowHost, id: &str) -> Vec<String> {
    let runs = persist(env, || host.runs(id, None, 100)).await.unwrap();
    assert_eq!(runs.len(), 1, "{id} has {} runs", runs.len());
    let history = persist(env, || host.history(id, None)).await.unwrap();
    let (mut answers, mut signals) = (BTreeMap::new(), Vec::new());
    for (_, _, entry) in &history.events {
        for turn in &entry.turns {
            for job in &turn.jobs {
                if let Some(answer) = job.answer() {
                    *answers.entry(format!("{answer:?}")).or_insert(0) += 1;
                }
                if let Job::Signal { name, .. } = job {
                    signals.push(name.clone());
                }
            }
        }
    }
    let twice: Vec<_> = answers.iter().filter(|(_, count)| **count > 1).collect();
    assert!(twice.is_empty(), "{id} has answers twice: {twice:?}");
    signals
}
