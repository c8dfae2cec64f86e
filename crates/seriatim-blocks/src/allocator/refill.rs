//! The task that reserves blocks.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use seriatim_env::Instant;
use tokio::sync::watch;

use super::{Sender, Shared};
use crate::pace::{Pace, Refill};
use crate::supply::{Grant, Need};
use crate::{AllocateError, Block, BlockOptions, BlockStoreError, Demand};

/// Reserves a block whenever one is due, one at a time.
pub(super) struct Refiller {
    shared: Arc<Shared>,
    options: BlockOptions,
    pace: Pace,
    /// When the last block could be used, and how many numbers had been handed out by then.
    last: Option<(Instant, u64)>,
    /// How long to wait if the next reservation fails.
    retry: Duration,
    /// Numbers for those who waited for the last block. To wake them takes a while, in which the next reservation can
    /// be under way.
    undelivered: Vec<Grant<Sender>>,
}

impl Refiller {
    pub(super) fn new(shared: Arc<Shared>, options: BlockOptions, pace: Pace) -> Self {
        let retry = options.retry_first;
        Self { shared, options, pace, last: None, retry, undelivered: Vec::new() }
    }

    /// Runs until the allocator is closed; then gives back what is unused.
    pub(super) async fn run(mut self, done: watch::Sender<Option<Result<(), BlockStoreError>>>) {
        // Whatever ends this task, nobody waits for it for ever.
        let _closed = CloseOnDrop(self.shared.clone());
        loop {
            let need = self.shared.supply.need();
            if !matches!(need, Need::Block { .. }) {
                self.deliver();
            }
            match need {
                Need::Nothing => self.shared.wake.notified().await,
                Need::Closing => break,
                Need::Block { min, want, room, unused } => {
                    let want = want.max(self.pace.size()).min(room);
                    let demand = Demand { min, want, unused };
                    if min <= room {
                        self.refill(demand).await;
                    } else {
                        self.deliver();
                        self.exhausted(demand, 0).await;
                    }
                }
            }
        }
        let outcome = self.give_back().await;
        self.shared.metrics.counts(self.shared.counts());
        done.send_replace(Some(outcome));
    }

    async fn refill(&mut self, demand: Demand) {
        let started = self.due();
        match self.reserve(demand).await {
            Ok(block) => self.install(block, started),
            Err(BlockStoreError::Exhausted { left, .. }) => self.exhausted(demand, left).await,
            Err(error) => self.fail(error).await,
        }
    }

    async fn reserve(&mut self, demand: Demand) -> Result<Block, BlockStoreError> {
        let store = self.shared.store.clone();
        let mut reserving = store.reserve(demand);
        let begun = poll_fn(|context| Poll::Ready(reserving.as_mut().poll(context))).await;
        self.deliver();
        match begun {
            Poll::Ready(answer) => answer,
            Poll::Pending => reserving.await,
        }
    }

    fn deliver(&mut self) {
        self.shared.deliver(std::mem::take(&mut self.undelivered));
    }

    /// Since when this block has been due.
    fn due(&self) -> Instant {
        let due = self.shared.due.lock().take();
        due.unwrap_or_else(|| self.shared.env.instant())
    }

    fn install(&mut self, block: Block, started: Instant) {
        let now = self.shared.env.instant();
        let allocated = self.shared.supply.counts().allocated();
        if let Some((last, before)) = self.last.replace((now, allocated)) {
            self.pace.observe(Refill {
                took: now - started,
                since_last: now - last,
                used: allocated.saturating_sub(before),
            });
        }
        self.retry = self.options.retry_first;
        self.undelivered = self.shared.supply.install(block, self.pace.lookahead());
        self.shared.metrics.reserved(block, now - started);
        self.shared.metrics.counts(self.shared.counts());
    }

    /// Too few numbers are left for the demand: `left` in no block, and `demand.unused` here.
    async fn exhausted(&mut self, demand: Demand, left: u64) {
        let together = left.saturating_add(demand.unused);
        if left > 0 && together >= demand.min {
            // It may still fit, if what is left follows what is here.
            let rest = Demand { min: left, want: left, ..demand };
            let started = self.due();
            match self.reserve(rest).await {
                Ok(block) => return self.install(block, started),
                // Somebody else was faster: look again.
                Err(BlockStoreError::Exhausted { .. }) => return,
                Err(error) => return self.fail(error).await,
            }
        }
        let (failed, grants) = self.shared.supply.fail_first();
        self.shared.deliver(grants);
        match failed {
            Some((whom, asked)) => {
                let error = AllocateError::Exhausted { asked, left: together };
                drop(whom.send(Err(error)));
            }
            // Nobody needs it yet. Only a caller is a reason to ask again.
            None => self.shared.wake.notified().await,
        }
    }

    /// Nothing was reserved. Those who wait are told; if nobody comes, it tries again after a while.
    async fn fail(&mut self, error: BlockStoreError) {
        tracing::warn!(blocks = self.options.name, %error, "no block could be reserved");
        self.shared.metrics.failed();
        let error = Arc::new(error);
        for whom in self.shared.supply.fail_all() {
            drop(whom.send(Err(AllocateError::Store(error.clone()))));
        }
        let pause = self.shared.env.jitter(self.retry);
        self.retry = (self.retry * 2).min(self.options.retry_max);
        let woken = self.shared.wake.notified();
        let _ = self.shared.env.timeout(pause, woken).await;
    }

    async fn give_back(&self) -> Result<(), BlockStoreError> {
        let Some(tail) = self.shared.supply.drain() else {
            return Ok(());
        };
        let given_back = self.shared.store.release(tail).await;
        self.shared.supply.drained(tail, *given_back.as_ref().unwrap_or(&false));
        given_back.map(|_| ())
    }
}

struct CloseOnDrop(Arc<Shared>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.close();
    }
}
