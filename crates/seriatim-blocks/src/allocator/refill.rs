//! The task that reserves blocks.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use seriatim_env::Instant;
use seriatim_env::watch;

use super::{AllocatorState, Sender};
use crate::refill_policy::{Refill, RefillPolicy};
use crate::supply::{Grant, Need};
use crate::{AllocateError, Block, BlockOptions, BlockStoreError, Demand};

/// Reserves a block whenever one is due, one block at a time.
pub(super) struct Refiller {
    state: Arc<AllocatorState>,
    options: BlockOptions,
    refill_policy: RefillPolicy,
    /// When the last block was installed, and how many numbers had been given out by then.
    last: Option<(Instant, u64)>,
    /// How long to wait if the next reservation fails.
    retry: Duration,
    /// Numbers for the callers that waited for the last block. Waking them takes some time, in which the next reservation can
    /// already be in progress.
    undelivered: Vec<Grant<Sender>>,
}

impl Refiller {
    pub(super) fn new(
        state: Arc<AllocatorState>,
        options: BlockOptions,
        refill_policy: RefillPolicy,
    ) -> Self {
        let retry = options.retry_first;
        Self { state, options, refill_policy, last: None, retry, undelivered: Vec::new() }
    }

    /// Runs until the allocator is closed. Then gives back the unused numbers.
    pub(super) async fn run(mut self, done: watch::Sender<Option<Result<(), BlockStoreError>>>) {
        // If this task ends for any reason, no caller waits for it without end.
        let _closed = CloseOnDrop(self.state.clone());
        loop {
            let need = self.state.supply.need();
            if !matches!(need, Need::Block { .. }) {
                self.deliver();
            }
            match need {
                Need::Nothing => self.state.wake.notified().await,
                Need::Closing => break,
                Need::Block { min, want, room, unused } => {
                    let want = want.max(self.refill_policy.size()).min(room);
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
        self.state.metrics.counts(self.state.counts());
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
        let store = self.state.store.clone();
        let mut reserving = store.reserve(demand);
        let begun = poll_fn(|context| Poll::Ready(reserving.as_mut().poll(context))).await;
        self.deliver();
        match begun {
            Poll::Ready(answer) => answer,
            Poll::Pending => reserving.await,
        }
    }

    fn deliver(&mut self) {
        self.state.deliver(std::mem::take(&mut self.undelivered));
    }

    /// Since when this block has been due.
    fn due(&self) -> Instant {
        let due = self.state.due.lock().take();
        due.unwrap_or_else(|| self.state.env.instant())
    }

    fn install(&mut self, block: Block, started: Instant) {
        let now = self.state.env.instant();
        let allocated = self.state.supply.counts().allocated();
        if let Some((last, before)) = self.last.replace((now, allocated)) {
            self.refill_policy.observe(Refill {
                took: now - started,
                since_last: now - last,
                used: allocated.saturating_sub(before),
            });
        }
        self.retry = self.options.retry_first;
        self.undelivered = self.state.supply.install(block, self.refill_policy.lookahead());
        self.state.metrics.reserved(block, now - started);
        self.state.metrics.counts(self.state.counts());
    }

    /// Too few numbers are left for the demand: `left` are in no block, and `demand.unused` are reserved here.
    async fn exhausted(&mut self, demand: Demand, left: u64) {
        let together = left.saturating_add(demand.unused);
        if left > 0 && together >= demand.min {
            // The request may still fit, if the numbers that are left follow the unused ones.
            let rest = Demand { min: left, want: left, ..demand };
            let started = self.due();
            match self.reserve(rest).await {
                Ok(block) => return self.install(block, started),
                // Another writer was faster. Check again.
                Err(BlockStoreError::Exhausted { .. }) => return,
                Err(error) => return self.fail(error).await,
            }
        }
        let (failed, grants) = self.state.supply.fail_first();
        self.state.deliver(grants);
        match failed {
            Some((caller, asked)) => {
                let error = AllocateError::Exhausted { asked, left: together };
                drop(caller.send(Err(error)));
            }
            // No caller needs it at present. Wait until one does.
            None => self.state.wake.notified().await,
        }
    }

    /// Nothing was reserved. Waiting callers get the error. Without callers, the reservation is tried again after a pause.
    async fn fail(&mut self, error: BlockStoreError) {
        tracing::warn!(blocks = self.options.name, %error, "no block could be reserved; the reservation is tried again");
        self.state.metrics.failed();
        let error = Arc::new(error);
        for caller in self.state.supply.fail_all() {
            drop(caller.send(Err(AllocateError::Store(error.clone()))));
        }
        let pause = self.state.env.jitter(self.retry);
        self.retry = (self.retry * 2).min(self.options.retry_max);
        let woken = self.state.wake.notified();
        let _ = self.state.env.timeout(pause, woken).await;
    }

    async fn give_back(&self) -> Result<(), BlockStoreError> {
        let Some(tail) = self.state.supply.drain() else {
            return Ok(());
        };
        let given_back = self.state.store.release(tail).await;
        self.state.supply.drained(tail, *given_back.as_ref().unwrap_or(&false));
        given_back.map(|_| ())
    }
}

struct CloseOnDrop(Arc<AllocatorState>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.close();
    }
}
