//! A scan that reads page by page.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use seriatim_types::limits;

use super::{ClusteringRange, Key, Pair, StoreBackend, StoreError};

/// The first page is small, so that a scan that stops early reads little. Each further page is four times larger.
const FIRST_PAGE_PAIRS: usize = 16;

/// A scan in progress. It holds one page in memory.
#[derive(Debug)]
pub struct Scan {
    backend: Arc<dyn StoreBackend>,
    partition: Bytes,
    /// The range that has not been read yet; `None` when everything has been read.
    rest: Option<ClusteringRange>,
    page: VecDeque<Pair>,
    page_pairs: usize,
}

impl Scan {
    pub(super) fn new(backend: Arc<dyn StoreBackend>, partition: &[u8], range: ClusteringRange) -> Self {
        let rest = (!range.is_empty()).then_some(range);
        let partition = Bytes::copy_from_slice(partition);
        Self { backend, partition, rest, page: VecDeque::new(), page_pairs: FIRST_PAGE_PAIRS }
    }

    /// The next pair, or `None` after the last one. Cancel-safe.
    ///
    /// # Errors
    ///
    /// [`StoreError`]. The scan stays at its place: call `next` again to continue.
    pub async fn next(&mut self) -> Result<Option<Pair>, StoreError> {
        if self.page.is_empty() {
            self.read_page().await?;
        }
        Ok(self.page.pop_front())
    }

    /// The pairs that the backend returns for one page, of one state of the store; none after the last page. Cancel-safe.
    ///
    /// # Errors
    ///
    /// As [`Scan::next`].
    pub async fn next_page(&mut self) -> Result<Vec<Pair>, StoreError> {
        if self.page.is_empty() {
            self.read_page().await?;
        }
        Ok(std::mem::take(&mut self.page).into())
    }

    /// The next pairs, up to `limit`; fewer only at the end of the range.
    ///
    /// # Errors
    ///
    /// As [`Scan::next`]; the pairs read so far are lost.
    pub async fn take(mut self, limit: usize) -> Result<Vec<Pair>, StoreError> {
        let mut pairs = Vec::new();
        self.page_pairs = limit.clamp(1, limits::SCAN_PAGE_PAIRS_MAX);
        while pairs.len() < limit {
            match self.next().await? {
                Some(pair) => pairs.push(pair),
                None => break,
            }
        }
        Ok(pairs)
    }

    /// All remaining pairs. For ranges that are known to be small.
    ///
    /// # Errors
    ///
    /// As [`Scan::take`].
    pub async fn all(self) -> Result<Vec<Pair>, StoreError> {
        self.take(usize::MAX).await
    }

    async fn read_page(&mut self) -> Result<(), StoreError> {
        let Some(rest) = &self.rest else { return Ok(()) };
        Key::new(&self.partition, &[]).check()?;
        rest.check()?;
        let page = self.backend.scan_page(&self.partition, rest, self.page_pairs).await?;
        self.rest = page.last().map(|(clustering, _)| rest.after(clustering));
        self.page = page.into();
        self.page_pairs = (self.page_pairs * 4).min(limits::SCAN_PAGE_PAIRS_MAX);
        Ok(())
    }
}
