//! A log that is measured.

use std::sync::Arc;

use async_trait::async_trait;
use seriatim_env::Env;
use seriatim_types::{Partition, PartitionOffset};
use tracing::{Instrument, debug_span};

use super::metrics::{self, Meter};
use crate::{
    Append, AppendError, AppendFuture, BulletinBackend, LogBackend, LogError, ReadEntries, ReadLimit, Taken,
};

/// A log around another one, with metrics and spans. An append whose future is dropped before its answer is not
/// counted.
#[derive(Debug, Clone)]
pub struct InstrumentedLog {
    backend: Arc<dyn LogBackend>,
    meter: Meter,
}

impl InstrumentedLog {
    /// This backend, measured by this environment's clock.
    #[must_use]
    pub fn new(backend: Arc<dyn LogBackend>, env: &Env) -> Self {
        let (env, operations, seconds) = (env.clone(), metrics::LOG_OPERATIONS, metrics::LOG_SECONDS);
        Self { backend, meter: Meter { env, operations, seconds } }
    }
}

#[async_trait]
impl LogBackend for InstrumentedLog {
    async fn take(&self, partitions: &[Partition]) -> Result<Vec<Taken>, LogError> {
        let span = debug_span!("log.take", partitions = partitions.len());
        let answer = self.meter.measure("take", self.backend.take(partitions), LogError::kind);
        answer.instrument(span).await
    }

    fn append(&self, append: Append<'_>) -> AppendFuture {
        let (entries, bytes) = (append.entries.len(), append.entries.as_bytes().len());
        let Append { partition, at, verified, .. } = append;
        let span = debug_span!("log.append", %partition, %at, entries, bytes, verified);
        let start = self.meter.env.instant();
        let answer = span.in_scope(|| self.backend.append(append));
        let meter = self.meter.clone();
        let answer = async move {
            let answer = meter.measure_from(start, "append", answer, AppendError::kind).await;
            if answer.is_ok() {
                metrics::add(metrics::LOG_APPENDED_ENTRIES, entries);
                metrics::add(metrics::LOG_APPENDED_BYTES, bytes);
            }
            answer
        };
        Box::pin(answer.instrument(span))
    }

    async fn read(
        &self,
        partition: Partition,
        from: PartitionOffset,
        limit: ReadLimit,
    ) -> Result<ReadEntries, LogError> {
        let span = debug_span!("log.read", %partition, %from);
        let read = self.backend.read(partition, from, limit);
        let read = self.meter.measure("read", read, LogError::kind).instrument(span).await?;
        metrics::add(metrics::LOG_READ_ENTRIES, read.len());
        metrics::add(metrics::LOG_READ_BYTES, read.as_bytes().len());
        Ok(read)
    }

    async fn tail(&self, partition: Partition) -> Result<PartitionOffset, LogError> {
        let span = debug_span!("log.tail", %partition);
        self.meter.measure("tail", self.backend.tail(partition), LogError::kind).instrument(span).await
    }

    async fn committed(&self, partition: Partition, offset: PartitionOffset) -> Result<(), LogError> {
        let span = debug_span!("log.committed", %partition, %offset);
        self.backend.committed(partition, offset).instrument(span).await
    }

    async fn partitions(&self) -> Result<Vec<Partition>, LogError> {
        let span = debug_span!("log.partitions");
        self.meter.measure("partitions", self.backend.partitions(), LogError::kind).instrument(span).await
    }

    fn bulletin(&self) -> Arc<dyn BulletinBackend> {
        self.backend.bulletin()
    }

    async fn close(&self) -> Result<(), LogError> {
        let span = debug_span!("log.close");
        self.meter.measure("close", self.backend.close(), LogError::kind).instrument(span).await
    }
}
