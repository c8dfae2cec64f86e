//! All tokens in memory, for the check of requests.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value as Json;
use seriatim_env::Instant;
use seriatim_storage::Digest;
use seriatim_types::PartitionOffset;
use seriatim_types::sync::{Mutex, RwLock};
use subtle::ConstantTimeEq as _;

use super::commands::TokenRow;
use super::handle::read;
use super::scope::Grants;

/// A token in memory: the digest of its secret, and what its bearer may do.
#[derive(Debug, Clone)]
pub(super) struct TokenEntry {
    pub(super) digest: Digest,
    pub(super) grants: Grants,
}

/// All tokens, by id. Bounded by the limit on tokens.
///
/// It follows the log of the registry: [`TokenTable::created`] and [`TokenTable::revoked`] are called when an event is applied. What
/// was applied before the engine opened is read from the store between [`TokenTable::begin_reading`] and
/// [`TokenTable::end_reading`].
#[derive(Debug, Default)]
pub(crate) struct TokenTable {
    /// Whether there is any token. If there is none, a request reads only this flag.
    any: AtomicBool,
    known: RwLock<Known>,
    /// When the present second of look-ups began, and how many there were in it.
    look_ups: Mutex<Option<(Instant, u32)>>,
}

/// Unknown secrets for which the end of the registry's log is read, in a second.
const LOOK_UPS_MAX: u32 = 20;

#[derive(Debug, Default)]
struct Known {
    tokens: HashMap<String, TokenEntry>,
    /// Events before this offset are in the table. A recovery publishes some of them again.
    applied: u64,
    /// Tokens that were revoked while the store is read. A page that was read before must not bring them back.
    revoked: Option<HashSet<String>>,
}

impl TokenTable {
    /// A token was created by the event at an offset.
    pub(crate) fn created(&self, id: &str, at: PartitionOffset, row: Json) {
        let row = serde_json::from_value::<TokenRow>(row).ok().and_then(|row| read(id.to_owned(), row).ok());
        let Some((_, entry)) = row else {
            tracing::error!(id, "the row of a token cannot be read: its bearer is refused");
            return;
        };
        let mut known = self.known.write();
        if at.get() < known.applied {
            return;
        }
        known.tokens.insert(id.to_owned(), entry);
        self.any.store(true, Ordering::Release);
    }

    /// A token was revoked.
    pub(crate) fn revoked(&self, id: &str) {
        let mut known = self.known.write();
        known.tokens.remove(id);
        if let Some(revoked) = &mut known.revoked {
            revoked.insert(id.to_owned());
        }
        self.any.store(!known.tokens.is_empty(), Ordering::Release);
    }

    /// Everything before an offset was applied.
    pub(crate) fn reached(&self, next: PartitionOffset) {
        let mut known = self.known.write();
        known.applied = known.applied.max(next.get());
    }

    /// Whether another look-up of an unknown secret is allowed now. Counts it.
    pub(super) fn may_look_up(&self, now: Instant) -> bool {
        let mut look_ups = self.look_ups.lock();
        let (since, count) =
            look_ups.filter(|(since, _)| now < *since + Duration::from_secs(1)).unwrap_or((now, 0));
        *look_ups = Some((since, count + 1));
        count < LOOK_UPS_MAX
    }

    pub(super) fn begin_reading(&self) {
        self.known.write().revoked = Some(HashSet::new());
    }

    /// A token that was read from the store.
    pub(super) fn found(&self, id: String, entry: TokenEntry) {
        let mut known = self.known.write();
        if known.revoked.as_ref().is_some_and(|revoked| revoked.contains(&id)) {
            return;
        }
        known.tokens.insert(id, entry);
        self.any.store(true, Ordering::Release);
    }

    /// Everything before an offset of the log was read.
    pub(super) fn end_reading(&self, before: PartitionOffset) {
        let mut known = self.known.write();
        known.revoked = None;
        known.applied = known.applied.max(before.get());
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.any.load(Ordering::Acquire)
    }

    pub(super) fn contains(&self, id: &str) -> bool {
        self.known.read().tokens.contains_key(id)
    }

    /// What the bearer of a secret may do. The id is not secret, so it is looked up in a map. The digests are compared in
    /// constant time.
    pub(super) fn find(&self, id: &str, secret: &str) -> Option<Grants> {
        let digest = Digest::of(secret.as_bytes());
        let table = self.known.read();
        let known = table.tokens.get(id)?;
        bool::from(digest.as_bytes().ct_eq(known.digest.as_bytes())).then(|| known.grants.clone())
    }
}
