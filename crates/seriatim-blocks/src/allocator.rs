//! The allocator, which callers share.

mod one;
mod refill;
mod waiting;

use std::sync::Arc;

use seriatim_env::watch;
use seriatim_env::{Env, Instant, Task};
use seriatim_types::Number;
use seriatim_types::sync::Mutex;
use tokio::sync::{Notify, oneshot};

use crate::fast_path::Ticket;
use crate::metrics::Metrics;
use crate::refill_policy::RefillPolicy;
use crate::supply::{Grant, Outcome, Supply};
use crate::{AllocateError, Block, BlockOptions, BlockStore, BlockStoreError, Counts, OpenError};
use one::AllocateOne;
use refill::Refiller;
use waiting::Waiting;

/// Gives out numbers from reserved blocks. They are unique and rising, and none is given out again after a crash.
///
/// Share it by reference or in an [`Arc`] between any number of threads and tasks. While numbers are reserved, a call is one
/// atomic addition: no lock, no allocation, no await. The next block is reserved in the background before the current one
/// ends, so callers wait for the store only if they use numbers faster than it reserves them.
///
/// - Each number is given out at most once, by all allocators on the same key together.
/// - If a call starts after another one has returned and both use this allocator, it gets the higher number.
/// - Numbers may have gaps; [`BlockAllocator::counts`] counts them.
/// - A number is given out only after its block is durable.
///
/// Call [`BlockAllocator::close`] to give back unused numbers. An allocator that is dropped gives nothing back.
#[derive(Debug)]
pub struct BlockAllocator {
    state: Arc<AllocatorState>,
    /// The task that reserves blocks. It ends when the allocator is dropped.
    refiller: Task<()>,
    /// The result of the close, after it has ended.
    closed: watch::Receiver<Option<Result<(), BlockStoreError>>>,
}

type Answer = Result<Block, AllocateError>;
type Sender = oneshot::Sender<Answer>;

/// The state that callers and the refill task share.
#[derive(Debug)]
struct AllocatorState {
    supply: Supply<Sender>,
    store: Arc<dyn BlockStore>,
    env: Env,
    metrics: Metrics,
    /// Wakes the refill task.
    wake: Notify,
    /// Since when the next block has been due.
    due: Mutex<Option<Instant>>,
}

impl BlockAllocator {
    /// Reads the last block, so that damage is found now, and starts the task that reserves further blocks. Writes nothing:
    /// the first block is reserved when the first number is requested.
    ///
    /// # Errors
    ///
    /// [`OpenError`].
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub async fn open(
        env: Env,
        store: Arc<dyn BlockStore>,
        options: BlockOptions,
    ) -> Result<Self, OpenError> {
        options.size.check()?;
        let last = store.last().await?;
        let refill_policy = RefillPolicy::new(options.size);
        let next_base = last.map_or(store.first(), |last| last.block.end().max(store.first()));
        let skipped_max = last.map_or(0, |last| last.unused);
        let counts = Counts { skipped_max, ..Counts::default() };
        let state = Arc::new(AllocatorState {
            supply: Supply::new(next_base.get(), refill_policy.lookahead(), counts),
            store,
            metrics: Metrics::new(&options.name),
            env: env.clone(),
            wake: Notify::new(),
            due: Mutex::default(),
        });
        let (done, closed) = watch::channel(None);
        let refiller = env.spawn(Refiller::new(state.clone(), options, refill_policy).run(done));
        Ok(Self { state, refiller, closed })
    }

    /// The next number.
    ///
    /// Cancel-safe: a future that is dropped while it waits takes no number. (If its number was granted just before and
    /// higher ones were taken since, the number is counted as wasted.)
    ///
    /// # Errors
    ///
    /// [`AllocateError`]: no number was taken.
    #[inline]
    pub fn allocate_one(&self) -> impl Future<Output = Result<Number, AllocateError>> + Send {
        AllocateOne::new(&self.state)
    }

    /// The next `count` consecutive numbers. A request for more than a block gets a block of its own size.
    ///
    /// If another process has reserved numbers after the current block, and the request does not fit into the rest of the
    /// block, that rest is wasted (and counted). Cancel-safe, as [`BlockAllocator::allocate_one`].
    ///
    /// # Errors
    ///
    /// [`AllocateError`]: no number was taken. A request that does not fit before the last number takes nothing, so a
    /// smaller one may still succeed.
    #[inline]
    pub async fn allocate(&self, count: u64) -> Result<Block, AllocateError> {
        AllocateError::check(count)?;
        let first = self.state.supply.fast_path.take(count);
        match first.and_then(|first| Block::between(first, first + count)) {
            Some(numbers) => Ok(numbers),
            None => Box::pin(self.state.allocate_slow(None, count)).await,
        }
    }

    /// The number that [`BlockAllocator::allocate_one`] would return if no number were taken in between, here or by another
    /// allocator of the same key. Takes and reserves nothing.
    #[must_use]
    pub fn peek_next(&self) -> Number {
        Number::new(self.state.supply.peek())
    }

    /// How many numbers were reserved, given out, wasted and given back so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.state.counts()
    }

    /// Stops giving out numbers, waits for a reservation in progress, and gives back the unused numbers, unless another
    /// process has reserved after them. Callers that wait get [`AllocateError::Closed`]. Returns the final counts.
    ///
    /// The duration depends on the store; limit it with [`Env::timeout`]. If the future is dropped, the close continues in
    /// the background while the allocator exists. Closing twice is allowed.
    ///
    /// # Errors
    ///
    /// [`BlockStoreError`] if the unused numbers could not be given back. The allocator is closed nevertheless, and the
    /// unused numbers are counted as wasted.
    pub async fn close(&self) -> Result<Counts, BlockStoreError> {
        self.state.close();
        let mut closed = self.closed.clone();
        // An error means that the task has ended, so nothing can be given back.
        let outcome = closed.wait_for(Option::is_some).await.map(|outcome| outcome.clone());
        outcome.ok().flatten().unwrap_or(Ok(()))?;
        Ok(self.counts())
    }
}

impl Drop for BlockAllocator {
    fn drop(&mut self) {
        self.refiller.cancel();
    }
}

impl AllocatorState {
    /// The slow path.
    async fn allocate_slow(&self, ticket: Option<Ticket>, count: u64) -> Answer {
        let mut receiver = None;
        let (outcome, due) = self.supply.allocate_slow(ticket, count, || {
            let (sender, answer) = oneshot::channel();
            receiver = Some(answer);
            sender
        });
        if due {
            self.due.lock().get_or_insert_with(|| self.env.instant());
            self.wake.notify_one();
        }
        match (outcome, receiver) {
            (Outcome::Taken(numbers), _) => Ok(numbers),
            (Outcome::Waits(id), Some(answer)) => {
                self.metrics.waited();
                Waiting::new(self, id, answer).await
            }
            (Outcome::Closed | Outcome::Waits(_), _) => Err(AllocateError::Closed),
        }
    }

    /// Sends granted numbers to the callers that waited for them.
    fn deliver(&self, grants: Vec<Grant<Sender>>) {
        for Grant { caller, numbers } in grants {
            if caller.send(Ok(numbers)).is_err() {
                self.supply.put_back(numbers);
            }
        }
    }

    fn counts(&self) -> Counts {
        let (counts, lost) = (self.supply.counts(), self.store.lost_max());
        Counts { reserved: counts.reserved + lost, wasted: counts.wasted + lost, ..counts }
    }

    fn close(&self) {
        let waiting = self.supply.close();
        waiting.into_iter().for_each(|caller| drop(caller.send(Err(AllocateError::Closed))));
        self.wake.notify_one();
    }
}
