//! The allocator that callers share.

mod one;
mod refill;
mod waiting;

use std::sync::Arc;

use seriatim_env::{Env, Instant, Task};
use seriatim_types::Number;
use seriatim_types::sync::Mutex;
use tokio::sync::{Notify, oneshot, watch};

use crate::line::Ticket;
use crate::metrics::Metrics;
use crate::pace::Pace;
use crate::supply::{Grant, Outcome, Supply};
use crate::{AllocateError, Block, BlockOptions, BlockStore, BlockStoreError, Counts, OpenError};
use one::AllocateOne;
use refill::Refiller;
use waiting::Waiting;

/// Hands out numbers from reserved blocks: unique, rising, and never again after a crash.
///
/// Share it by reference or in an [`Arc`], between as many threads and tasks as you like. While numbers are at hand a
/// call is one atomic addition: no lock, no allocation, no await. The next block is reserved in the background before
/// the present one ends, so that callers wait for the store only if they are faster than it.
///
/// - Each number is handed out at most once, by all allocators on the same key together.
/// - A call that starts after another has returned gets the higher number, if both use this allocator.
/// - Numbers may have gaps; [`BlockAllocator::counts`] says how many.
/// - A number is handed out only when its block is durable.
///
/// Call [`BlockAllocator::close`] to give back what is unused. An allocator that is dropped gives nothing back.
#[derive(Debug)]
pub struct BlockAllocator {
    shared: Arc<Shared>,
    /// The task that reserves blocks. It ends with the allocator.
    refiller: Task<()>,
    /// How the close went, once it has.
    closed: watch::Receiver<Option<Result<(), BlockStoreError>>>,
}

type Answer = Result<Block, AllocateError>;
type Sender = oneshot::Sender<Answer>;

/// What callers and the refill share.
#[derive(Debug)]
struct Shared {
    supply: Supply<Sender>,
    store: Arc<dyn BlockStore>,
    env: Env,
    metrics: Metrics,
    /// Wakes the refill.
    wake: Notify,
    /// Since when a block has been due.
    due: Mutex<Option<Instant>>,
}

impl BlockAllocator {
    /// Reads the last block, so that damage shows now, and starts the task that reserves further ones. Writes nothing:
    /// the first block is reserved for the first caller.
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
        let pace = Pace::new(options.size);
        let next_base = last.map_or(store.first(), |last| last.block.end().max(store.first()));
        let skipped_max = last.map_or(0, |last| last.unused);
        let counts = Counts { skipped_max, ..Counts::default() };
        let shared = Arc::new(Shared {
            supply: Supply::new(next_base.get(), pace.lookahead(), counts),
            store,
            metrics: Metrics::new(&options.name),
            env: env.clone(),
            wake: Notify::new(),
            due: Mutex::default(),
        });
        let (done, closed) = watch::channel(None);
        let refiller = env.spawn(Refiller::new(shared.clone(), options, pace).run(done));
        Ok(Self { shared, refiller, closed })
    }

    /// The next number.
    ///
    /// Cancel-safe: a caller that is dropped while it waits takes nothing. (If its number was set aside for it in that
    /// very moment and others have taken higher ones since, the number is counted as wasted.)
    ///
    /// # Errors
    ///
    /// [`AllocateError`]; no number was taken.
    #[inline]
    pub fn allocate_one(&self) -> impl Future<Output = Result<Number, AllocateError>> + Send {
        AllocateOne::new(&self.shared)
    }

    /// The next `count` numbers, consecutive. More than a block holds is fine: it gets a block of its own size.
    ///
    /// If another process has reserved behind the present block, and the request does not fit into the rest of it, the
    /// rest is wasted (and counted). Cancel-safe, as [`BlockAllocator::allocate_one`].
    ///
    /// # Errors
    ///
    /// [`AllocateError`]; no number was taken. A request that does not fit behind the last number takes nothing, so a
    /// smaller one may still succeed.
    #[inline]
    pub async fn allocate(&self, count: u64) -> Result<Block, AllocateError> {
        AllocateError::check(count)?;
        let first = self.shared.supply.line.take(count);
        match first.and_then(|first| Block::between(first, first + count)) {
            Some(numbers) => Ok(numbers),
            None => Box::pin(self.shared.attend(None, count)).await,
        }
    }

    /// The number that [`BlockAllocator::allocate_one`] would return, if nobody took any in between, here or on another
    /// allocator of the same key. Takes nothing, and reserves nothing.
    #[must_use]
    pub fn peek_next(&self) -> Number {
        Number::new(self.shared.supply.peek())
    }

    /// What became of the numbers so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.shared.counts()
    }

    /// Stops handing out numbers, waits for a reservation under way, and gives back what is unused, if nobody has
    /// reserved behind it. Callers who wait get [`AllocateError::Closed`]. Returns the final counts.
    ///
    /// It takes as long as the store takes; bound it with [`Env::timeout`]. Dropped, it goes on in the background for as
    /// long as the allocator lives. Closing twice is fine.
    ///
    /// # Errors
    ///
    /// [`BlockStoreError`] if nothing could be given back. It is closed all the same, and the unused numbers are
    /// counted as wasted.
    pub async fn close(&self) -> Result<Counts, BlockStoreError> {
        self.shared.close();
        let mut closed = self.closed.clone();
        // An error means that the task is gone, and with it the chance to give anything back.
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

impl Shared {
    /// The slow path.
    async fn attend(&self, ticket: Option<Ticket>, count: u64) -> Answer {
        let mut receiver = None;
        let (outcome, due) = self.supply.attend(ticket, count, || {
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

    /// Hands granted numbers to those who waited for them.
    fn deliver(&self, grants: Vec<Grant<Sender>>) {
        for Grant { whom, numbers } in grants {
            if whom.send(Ok(numbers)).is_err() {
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
        waiting.into_iter().for_each(|whom| drop(whom.send(Err(AllocateError::Closed))));
        self.wake.notify_one();
    }
}
