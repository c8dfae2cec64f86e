//! Any order of allocations, cancelled callers, crashes, clean stops, failed and lost writes, and several allocators on one
//! key: no number twice, each allocator's numbers rise, ranges are contiguous, and every number is accounted for.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use proptest::prelude::*;
use seriatim_blocks::{AllocateError, Block, BlockAllocator, BlockSize, NumberRange};
use seriatim_env::{Task, simulate};
use seriatim_storage_testing::faulty::{Fault, Operation};
use support::{TestCells, has_to_wait, one};

/// What a process does next.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// Several callers allocate at the same time, this many times each.
    Allocate {
        callers: u64,
        times: u64,
        count: u64,
    },
    /// A caller that waits only this long.
    Timeout {
        count: u64,
        millis: u64,
    },
    /// The process is killed while callers allocate, and starts again.
    Crash {
        callers: u64,
        millis: u64,
    },
    /// A clean stop and a new start.
    Restart,
    Sleep {
        millis: u64,
    },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (1..5_u64, 1..8_u64, 1..12_u64)
            .prop_map(|(callers, times, count)| Step::Allocate { callers, times, count }),
        3 => (1..12_u64, 0..6_u64).prop_map(|(count, millis)| Step::Timeout { count, millis }),
        1 => (0..5_u64, 0..6_u64).prop_map(|(callers, millis)| Step::Crash { callers, millis }),
        1 => Just(Step::Restart),
        1 => (0..20_u64).prop_map(|millis| Step::Sleep { millis }),
    ]
}

fn size() -> impl Strategy<Value = BlockSize> {
    prop_oneof![
        (1..20_u64).prop_map(BlockSize::Fixed),
        (1..8_u64).prop_map(|min| BlockSize::Follow { writes_per_second: 50, min, max: min * 16 }),
    ]
}

/// How often each kind of fault occurs, in percent, and how slow the store is.
#[derive(Debug, Clone, Copy)]
struct FaultRates {
    refused: u32,
    request_lost: u32,
    reply_lost: u32,
    unread: u32,
    delay_millis: u64,
}

fn fault_rates() -> impl Strategy<Value = FaultRates> {
    (0..20_u32, 0..20_u32, 0..20_u32, 0..20_u32, 0..5_u64).prop_map(
        |(refused, request_lost, reply_lost, unread, delay_millis)| FaultRates {
            refused,
            request_lost,
            reply_lost,
            unread,
            delay_millis,
        },
    )
}

impl FaultRates {
    fn apply_to(self, cells: &TestCells) {
        let chance =
            |on, fault, of_a_hundred| cells.faults.chance(on, fault, f64::from(of_a_hundred) / 100.0);
        chance(Operation::CompareAndSet, Fault::Refuse, self.refused);
        chance(Operation::CompareAndSet, Fault::LoseRequest, self.request_lost);
        chance(Operation::CompareAndSet, Fault::LoseReply, self.reply_lost);
        chance(Operation::Get, Fault::Refuse, self.unread);
        let delay = Duration::from_millis(self.delay_millis);
        cells.faults.delay(Operation::CompareAndSet | Operation::Get, delay);
    }
}

/// All numbers that were given out, by base.
#[derive(Debug, Default, Clone)]
struct HandedOut(Arc<Mutex<BTreeMap<u64, Block>>>);

impl HandedOut {
    fn add(&self, numbers: Block) {
        let mut all = self.0.lock().unwrap();
        let base = numbers.base();
        let before = all.range(..=base.get()).next_back().map(|(_, block)| *block);
        let following = all.range(base.get()..).next().map(|(_, block)| *block);
        assert!(before.is_none_or(|before| before.end() <= base), "{numbers} and {before:?}");
        assert!(
            following.is_none_or(|following| numbers.end() <= following.base()),
            "{numbers} and {following:?}"
        );
        all.insert(base.get(), numbers);
    }

    fn highest(&self) -> Option<u64> {
        self.0.lock().unwrap().last_key_value().map(|(_, numbers)| numbers.end().get() - 1)
    }
}

/// An allocator whose numbers are checked.
#[derive(Debug)]
struct CheckedAllocator {
    allocator: BlockAllocator,
    handed_out: HandedOut,
    /// How many numbers it gave out, and the end of the highest.
    mine: Mutex<(u64, u64)>,
}

impl CheckedAllocator {
    async fn allocate(&self, count: u64) -> Result<(), AllocateError> {
        let floor = self.mine.lock().unwrap().1;
        let numbers = if count == 1 {
            let number = self.allocator.allocate_one().await?;
            Block::new(number, 1).unwrap()
        } else {
            self.allocator.allocate(count).await?
        };
        assert_eq!(numbers.size(), count, "a range has the requested length");
        assert!(numbers.base().get() >= floor, "{numbers} was given out after {floor}");
        self.handed_out.add(numbers);
        let mut mine = self.mine.lock().unwrap();
        *mine = (mine.0 + count, mine.1.max(numbers.end().get()));
        Ok(())
    }

    fn check(&self) {
        let counts = self.allocator.counts();
        assert_eq!(counts.allocated(), self.mine.lock().unwrap().0, "{counts:?}");
    }
}

#[derive(Debug, Clone)]
struct Process {
    size: BlockSize,
    fault_rates: FaultRates,
    steps: Vec<Step>,
}

impl Process {
    async fn run(self, cells: TestCells, handed_out: HandedOut) {
        self.fault_rates.apply_to(&cells);
        let mut checked = self.open(&cells, &handed_out).await;
        for step in self.steps.clone() {
            match step {
                Step::Allocate { callers, times, count } => {
                    for caller in callers_at_work(&cells, &checked, callers, times, count) {
                        caller.await.unwrap();
                    }
                    checked.check();
                }
                Step::Timeout { count, millis } => {
                    let mut call = Box::pin(checked.allocate(count));
                    if has_to_wait(&mut call).await {
                        cells.env.sleep(Duration::from_millis(millis)).await;
                    }
                    // The call may have been served without having been polled again.
                    drop(call);
                    checked.check();
                }
                Step::Crash { callers, millis } => {
                    let tasks = callers_at_work(&cells, &checked, callers, u64::MAX, 3);
                    cells.env.sleep(Duration::from_millis(millis)).await;
                    tasks.iter().for_each(Task::cancel);
                    for task in tasks {
                        let _ = task.await;
                    }
                    checked = self.open(&cells, &handed_out).await;
                }
                Step::Restart => {
                    let _ = checked.allocator.close().await;
                    checked.check();
                    let counts = checked.allocator.counts();
                    assert_eq!(counts.unused, 0, "{counts:?}");
                    checked = self.open(&cells, &handed_out).await;
                }
                Step::Sleep { millis } => cells.env.sleep(Duration::from_millis(millis)).await,
            }
        }
    }

    async fn open(&self, cells: &TestCells, handed_out: &HandedOut) -> Arc<CheckedAllocator> {
        loop {
            let blocks = cells.blocks(NumberRange::default());
            if let Ok(allocator) = cells.open_blocks(blocks, self.size).await {
                let handed_out = handed_out.clone();
                return Arc::new(CheckedAllocator { allocator, handed_out, mine: Mutex::default() });
            }
            cells.env.sleep(Duration::from_millis(1)).await;
        }
    }
}

fn callers_at_work(
    cells: &TestCells,
    checked: &Arc<CheckedAllocator>,
    callers: u64,
    times: u64,
    count: u64,
) -> Vec<Task<()>> {
    (0..callers)
        .map(|_| {
            let (checked, env) = (checked.clone(), cells.env.clone());
            cells.env.spawn(async move {
                for _ in 0..times {
                    if checked.allocate(count).await.is_err() {
                        env.sleep(Duration::from_millis(1)).await;
                    }
                    if env.random_below(3) == 0 {
                        env.sleep(Duration::from_millis(env.random_below(2))).await;
                    }
                }
            })
        })
        .collect()
}

fn process() -> impl Strategy<Value = Process> {
    (size(), fault_rates(), prop::collection::vec(step(), 1..12))
        .prop_map(|(size, fault_rates, steps)| Process { size, fault_rates, steps })
}

proptest! {
    #[test]
    fn no_number_is_given_out_twice_and_every_number_is_accounted_for(
        seed: u64,
        processes in prop::collection::vec(process(), 1..4),
    ) {
        simulate(seed, |env| async move {
            let cells = TestCells::memory(env.clone());
            let handed_out = HandedOut::default();
            let tasks: Vec<_> = processes
                .into_iter()
                .map(|process| env.spawn(process.run(cells.elsewhere(), handed_out.clone())))
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
            let next = one(&cells.open().await).await;
            assert!(Some(next) > handed_out.highest(), "{next} is higher than all others");
        });
    }
}
