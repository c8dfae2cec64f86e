//! The open allocators of named block sequences.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use seriatim_blocks::BlockAllocator;
use seriatim_env::Env;
use seriatim_types::sync::{Mutex, MutexGuard};

use crate::apps::registry::OWN_NAMES;
use crate::engine::options::Options;
use crate::error::SubmitError;

/// The open allocators. If there are too many, the least recently used one is closed.
#[derive(Debug)]
pub(crate) struct OpenAllocators {
    env: Env,
    max: usize,
    /// How long closing waits for storage.
    close_timeout: Duration,
    open: Mutex<Allocators>,
    /// Held while an allocator is opened or closed, so that no allocator is opened while another one of the same name gives
    /// back its unused numbers.
    pub(super) turn: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct Allocators {
    /// Each with the value of `uses` at its last use.
    by_name: HashMap<String, (Arc<BlockAllocator>, u64)>,
    uses: u64,
    closed: bool,
}

impl OpenAllocators {
    pub(crate) fn new(env: Env, options: &Options) -> Self {
        Self {
            env,
            max: options.open_blocks.max(1),
            close_timeout: options.close_timeout,
            open: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Allocators> {
        self.open.lock()
    }

    /// An allocator that is open.
    pub(super) fn find(&self, name: &str) -> Result<Option<Arc<BlockAllocator>>, SubmitError> {
        let mut open = self.lock();
        if open.closed {
            return Err(SubmitError::Closed);
        }
        open.uses += 1;
        let uses = open.uses;
        Ok(open.by_name.get_mut(name).map(|(allocator, used)| {
            *used = uses;
            allocator.clone()
        }))
    }

    /// An allocator that is open, without counting this as a use.
    pub(super) fn peek(&self, name: &str) -> Option<Arc<BlockAllocator>> {
        self.lock().by_name.get(name).map(|(allocator, _)| allocator.clone())
    }

    /// Removes the least recently used allocators, until there is room for another one. Allocators in use are not removed, so
    /// the limit can be exceeded by the number of callers.
    pub(super) fn evict(&self) -> Vec<(String, Arc<BlockAllocator>)> {
        let mut open = self.lock();
        let excess = (open.by_name.len() + 1).saturating_sub(self.max);
        // A caller gets an allocator under this lock and holds a reference while it uses it.
        let idle = open.by_name.iter().filter(|(_, (allocator, _))| Arc::strong_count(allocator) == 1);
        let mut idle: Vec<(u64, String)> = idle.map(|(name, (_, used))| (*used, name.clone())).collect();
        idle.sort_unstable();
        let oldest = idle.into_iter().take(excess);
        oldest
            .filter_map(|(_, name)| open.by_name.remove(&name).map(|(allocator, _)| (name, allocator)))
            .collect()
    }

    pub(super) fn insert(&self, name: &str, allocator: &Arc<BlockAllocator>) -> Result<(), SubmitError> {
        let mut open = self.lock();
        if open.closed {
            return Err(SubmitError::Closed);
        }
        let uses = open.uses;
        open.by_name.insert(name.to_owned(), (allocator.clone(), uses));
        Ok(())
    }

    /// Closes the allocator of a name, if it is open. The next use reads the registry again.
    pub(crate) async fn forget(&self, name: &str) {
        let _turn = self.turn.lock().await;
        let found = self.lock().by_name.remove(name);
        if let Some((allocator, _)) = found {
            close(name, &allocator).await;
        }
    }

    /// Closes all allocators, because this engine gives the registry up. The next use opens them again.
    pub(crate) async fn leave(&self) {
        self.close_all().await;
    }

    /// Closes all of them together, so that what they give back is written together. Waits at most `close_timeout` for storage.
    pub(crate) async fn close(&self) {
        self.lock().closed = true;
        self.close_all().await;
    }

    async fn close_all(&self) {
        let all = async {
            let _turn = self.turn.lock().await;
            let mut allocators: Vec<_> = std::mem::take(&mut self.lock().by_name).into_iter().collect();
            // In one order, so that a simulation writes the same with the same seed. Those of the engine are first.
            allocators.sort_by(|(a, _), (b, _)| {
                (!a.starts_with(OWN_NAMES), a).cmp(&(!b.starts_with(OWN_NAMES), b))
            });
            let closing = allocators
                .into_iter()
                .map(|(name, (allocator, _))| self.env.spawn(async move { close(&name, &allocator).await }));
            for task in closing.collect::<Vec<_>>() {
                // A task that failed has given nothing back: its unused numbers are wasted.
                let _ = task.await;
            }
        };
        if self.env.timeout(self.close_timeout, all).await.is_err() {
            tracing::warn!(
                "storage does not answer: unused numbers of block sequences are not given back and are wasted"
            );
        }
    }
}

pub(super) async fn close(name: &str, allocator: &BlockAllocator) {
    if let Err(error) = allocator.close().await {
        tracing::warn!(name, %error, "unused numbers of a block sequence were not given back: they are wasted");
    }
}
