//! What a group changes in addition to numbers is published with it, or not at all.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use seriatim_env::watch;
use seriatim_env::{Env, SIMULATION_START, simulate};
use seriatim_sequencer::{
    Busy, Committed, Definition, Derived, Event, Numbers, ReadError, Recovery, Sealed, Sequence, Sequencer,
    Settled,
};
use seriatim_storage::Log;
use seriatim_storage::memory::MemoryLog;
use seriatim_storage_testing::faulty::{Fault, Faults, FaultyLog, Operation};
use seriatim_types::{Partition, SequenceId, WorkspaceId, WorkspaceKind};

const KIND: WorkspaceKind = WorkspaceKind::new(1);
const INVOICE: SequenceId = SequenceId::new(20);

/// A log whose faults are controlled.
struct TestLog {
    env: Env,
    log: Log,
    faults: Faults,
}

fn on_memory<F: Future<Output = ()>>(scenario: impl FnOnce(TestLog) -> F) {
    simulate(1, |env| {
        let faults = Faults::new(&env);
        let log = Log::new(FaultyLog::new(Arc::new(MemoryLog::new()), &faults));
        scenario(TestLog { env, log, faults })
    });
}

/// What was published: the offset after each group, and its values.
type Groups = Vec<(u64, Vec<&'static str>)>;

/// Keeps what was published.
#[derive(Debug, Default)]
struct Published {
    groups: Mutex<Groups>,
    changes: watch::Sender<()>,
}

impl Published {
    fn all(&self) -> Groups {
        self.groups.lock().unwrap().clone()
    }
}

impl Derived for Published {
    type Values = Vec<&'static str>;

    async fn read(self: Arc<Self>, workspaces: Vec<WorkspaceId>) -> Vec<Result<Option<Numbers>, ReadError>> {
        workspaces.iter().map(|_| Ok(None)).collect()
    }

    fn publish(&self, committed: &Committed<'_>, values: Self::Values) {
        self.groups.lock().unwrap().push((committed.next().get(), values));
    }

    fn backlog(&self) -> Option<Busy> {
        None
    }

    fn subscribe(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    fn recover(self: Arc<Self>, recovery: Recovery) {
        recovery.recovered();
    }
}

async fn open(test: &TestLog) -> (Sequencer<Published>, Arc<Published>) {
    let owner = test.log.take(Partition::new(1, 0)).await.unwrap();
    let published = Arc::new(Published::default());
    let definition = Definition::new([(KIND, vec![Sequence::new(INVOICE, 1)])]).unwrap().into();
    let mut sequencer = Sequencer::new(test.env.clone(), owner, definition, 1_000, published.clone());
    sequencer.wait(Duration::from_secs(20)).await.unwrap();
    (sequencer, published)
}

async fn seal(sequencer: &mut Sequencer<Published>, value: &'static str) -> Sealed<Vec<&'static str>> {
    let pin = sequencer.load(KIND, WorkspaceId::FIRST).await.unwrap();
    let mut group = sequencer.group().unwrap();
    let mut transaction = group.begin(&pin).unwrap();
    transaction.draw(INVOICE).unwrap();
    transaction.stage(&Event::new(SIMULATION_START, b"event")).unwrap();
    group.seal_with(vec![value])
}

#[test]
fn values_are_published_with_their_own_group() {
    on_memory(|test| async move {
        let (mut sequencer, published) = open(&test).await;
        for value in ["first", "second"] {
            let sealed = seal(&mut sequencer, value).await;
            let receipt = test.log.append(sealed.owner(), sealed.at(), sealed.entries()).await.unwrap();
            sequencer.commit(sealed, receipt).unwrap();
        }
        assert_eq!(published.all(), [(2, vec!["first"]), (3, vec!["second"])]);
    });
}

#[test]
fn values_of_a_discarded_group_are_not_published_with_the_next() {
    on_memory(|test| async move {
        let (mut sequencer, published) = open(&test).await;
        let sealed = seal(&mut sequencer, "discarded").await;
        sequencer.discard(sealed);
        let sealed = seal(&mut sequencer, "next").await;
        let receipt = test.log.append(sealed.owner(), sealed.at(), sealed.entries()).await.unwrap();
        sequencer.commit(sealed, receipt).unwrap();
        assert_eq!(published.all(), [(2, vec!["next"])]);
    });
}

#[test]
fn values_of_a_group_in_doubt_are_published_only_when_it_is_settled() {
    for (fault, settled, expected) in [
        (Fault::LoseReply, Settled::Committed, vec![(2, vec!["in doubt"])]),
        (Fault::LoseRequest, Settled::Discarded, vec![]),
    ] {
        on_memory(|test| async move {
            let (mut sequencer, published) = open(&test).await;
            let sealed = seal(&mut sequencer, "in doubt").await;
            test.faults.fail_nth(Operation::Append, 1, fault);
            test.log.append(sealed.owner(), sealed.at(), sealed.entries()).await.unwrap_err();
            test.faults.fail(Operation::Take, Fault::Refuse);
            let unsettled = sequencer.settle(sealed, &test.log).await.unwrap_err();
            assert_eq!(published.all(), []);
            test.faults.heal();
            assert_eq!(sequencer.settle(unsettled.sealed, &test.log).await.unwrap(), settled);
            assert_eq!(published.all(), expected);
        });
    }
}
