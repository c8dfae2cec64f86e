//! A store that is measured.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use seriatim_env::Env;
use tracing::{Instrument, debug_span};

use super::metrics::{self, Meter};
use crate::{Batch, ClusteringRange, Durability, Key, Pair, StoreBackend, StoreError, Write};

/// A store around another one, with metrics and spans.
#[derive(Debug, Clone)]
pub struct InstrumentedStore {
    backend: Arc<dyn StoreBackend>,
    meter: Meter,
}

impl InstrumentedStore {
    /// This backend, measured by this environment's clock.
    #[must_use]
    pub fn new(backend: Arc<dyn StoreBackend>, env: &Env) -> Self {
        let (env, operations, seconds) = (env.clone(), metrics::STORE_OPERATIONS, metrics::STORE_SECONDS);
        Self { backend, meter: Meter { env, operations, seconds } }
    }
}

fn size(key: Key<'_>, value: Option<&[u8]>) -> usize {
    key.partition.len() + key.clustering.len() + value.map_or(0, <[u8]>::len)
}

#[async_trait]
impl StoreBackend for InstrumentedStore {
    async fn get(&self, key: Key<'_>) -> Result<Option<Bytes>, StoreError> {
        let span = debug_span!("store.get");
        let get = self.meter.measure("get", self.backend.get(key), StoreError::kind);
        let value = get.instrument(span).await?;
        metrics::add(metrics::STORE_READ_BYTES, value.as_ref().map_or(0, Bytes::len));
        Ok(value)
    }

    async fn get_many(&self, keys: &[Key<'_>]) -> Result<Vec<Option<Bytes>>, StoreError> {
        let span = debug_span!("store.get_many", keys = keys.len());
        let get = self.meter.measure("get_many", self.backend.get_many(keys), StoreError::kind);
        let values = get.instrument(span).await?;
        metrics::add(metrics::STORE_READ_BYTES, values.iter().flatten().map(Bytes::len).sum());
        Ok(values)
    }

    async fn scan_page(
        &self,
        partition: &[u8],
        range: &ClusteringRange,
        limit: usize,
    ) -> Result<Vec<Pair>, StoreError> {
        let span = debug_span!("store.scan_page", limit);
        let page = self.backend.scan_page(partition, range, limit);
        let page = self.meter.measure("scan_page", page, StoreError::kind).instrument(span).await?;
        let bytes = page.iter().map(|(clustering, value)| clustering.len() + value.len()).sum();
        metrics::add(metrics::STORE_READ_BYTES, bytes);
        Ok(page)
    }

    async fn write(&self, batch: Batch, durability: Durability) -> Result<(), StoreError> {
        let written = |write: &Write| size(write.key.as_key(), write.value.as_deref());
        let (keys, bytes) = (batch.len(), batch.iter().map(written).sum());
        let span = debug_span!("store.write", keys, bytes, ?durability);
        let write = self.backend.write(batch, durability);
        self.meter.measure("write", write, StoreError::kind).instrument(span).await?;
        metrics::add(metrics::STORE_WRITTEN_KEYS, keys);
        metrics::add(metrics::STORE_WRITTEN_BYTES, bytes);
        Ok(())
    }

    async fn sync(&self) -> Result<(), StoreError> {
        let span = debug_span!("store.sync");
        self.meter.measure("sync", self.backend.sync(), StoreError::kind).instrument(span).await
    }

    fn written(&self) -> u64 {
        self.backend.written()
    }

    fn durable(&self) -> u64 {
        self.backend.durable()
    }

    async fn close(&self) -> Result<(), StoreError> {
        let span = debug_span!("store.close");
        self.meter.measure("close", self.backend.close(), StoreError::kind).instrument(span).await
    }
}
