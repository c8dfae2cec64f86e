//! Reads of a log's tail that several readers share.

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};

use seriatim_storage::LogError;
use seriatim_types::PartitionOffset;

/// Reads the tail once for all readers that wait for it. Each of them gets a tail whose read began after it asked.
#[derive(Debug, Default)]
pub(crate) struct TailReads {
    /// How many reads have begun.
    begun: AtomicU64,
    /// The last read that succeeded: its number and its tail. Held during a read.
    last: tokio::sync::Mutex<Option<(u64, PartitionOffset)>>,
}

impl TailReads {
    /// The tail of the log, by a read that begins after this call. Cancel-safe: if the reader that reads is cancelled, the next
    /// one reads.
    pub(crate) async fn read<F>(&self, read: impl FnOnce() -> F) -> Result<PartitionOffset, LogError>
    where
        F: Future<Output = Result<PartitionOffset, LogError>>,
    {
        // A read with a higher number begins after this call.
        let asked = self.begun.load(Ordering::SeqCst);
        let mut last = self.last.lock().await;
        if let Some((number, tail)) = *last
            && number > asked
        {
            return Ok(tail);
        }
        let number = self.begun.fetch_add(1, Ordering::SeqCst) + 1;
        let tail = read().await?;
        *last = Some((number, tail));
        Ok(tail)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use seriatim_env::{Env, simulate};

    use super::*;

    /// Reads that take a second, of a tail that grows with every read.
    async fn ask(env: Env, tails: Arc<TailReads>, reads: Arc<AtomicU64>) -> u64 {
        let read = || async {
            let tail = reads.fetch_add(1, Ordering::SeqCst) + 1;
            env.sleep(Duration::from_secs(1)).await;
            Ok(PartitionOffset::new(tail).unwrap())
        };
        tails.read(read).await.unwrap().get()
    }

    #[test]
    fn readers_that_wait_share_a_read_that_began_after_they_asked() {
        simulate(1, |env| async move {
            let (tails, reads) = (Arc::new(TailReads::default()), Arc::new(AtomicU64::new(0)));
            let start = || env.spawn(ask(env.clone(), tails.clone(), reads.clone()));
            let first = start();
            env.sleep(Duration::from_millis(500)).await;
            // The first read has begun before these ask, so it does not count for them. They share the second one.
            let later: Vec<_> = (0..10).map(|_| start()).collect();
            assert_eq!(first.await.unwrap(), 1);
            for reader in later {
                assert_eq!(reader.await.unwrap(), 2);
            }
            assert_eq!(reads.load(Ordering::SeqCst), 2);
        });
    }

    #[test]
    fn a_reader_that_is_cancelled_leaves_the_read_to_the_next() {
        simulate(1, |env| async move {
            let (tails, reads) = (Arc::new(TailReads::default()), Arc::new(AtomicU64::new(0)));
            let first = env.spawn(ask(env.clone(), tails.clone(), reads.clone()));
            env.sleep(Duration::from_millis(100)).await;
            let second = env.spawn(ask(env.clone(), tails.clone(), reads.clone()));
            env.sleep(Duration::from_millis(100)).await;
            first.cancel();
            assert_eq!(second.await.unwrap(), 2);
        });
    }
}
