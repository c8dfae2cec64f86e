//! All tokens in memory, for the check of requests.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use seriatim_storage::Digest;
use seriatim_types::sync::RwLock;
use subtle::ConstantTimeEq as _;

use super::scope::Grants;

/// A token in memory: the digest of its secret, and what its bearer may do.
#[derive(Debug, Clone)]
pub(super) struct TokenEntry {
    pub(super) digest: Digest,
    pub(super) grants: Grants,
}

/// All tokens, by id. Bounded by the limit on tokens.
#[derive(Debug, Default)]
pub(crate) struct TokenTable {
    /// Whether there is any token. If there is none, a request reads only this flag.
    any: AtomicBool,
    known: RwLock<HashMap<String, TokenEntry>>,
    /// Held while a token is created or revoked, so that memory changes in the order of the log.
    pub(super) turn: tokio::sync::Mutex<()>,
}

impl TokenTable {
    pub(super) fn insert(&self, id: String, known: TokenEntry) {
        let mut table = self.known.write();
        table.insert(id, known);
        self.any.store(true, Ordering::Release);
    }

    pub(super) fn remove(&self, id: &str) {
        let mut table = self.known.write();
        table.remove(id);
        self.any.store(!table.is_empty(), Ordering::Release);
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.any.load(Ordering::Acquire)
    }

    pub(super) fn contains(&self, id: &str) -> bool {
        self.known.read().contains_key(id)
    }

    /// What the bearer of a secret may do. The id is not secret, so it is looked up in a map. The digests are compared in
    /// constant time.
    pub(super) fn find(&self, id: &str, secret: &str) -> Option<Grants> {
        let digest = Digest::of(secret.as_bytes());
        let table = self.known.read();
        let known = table.get(id)?;
        bool::from(digest.as_bytes().ct_eq(known.digest.as_bytes())).then(|| known.grants.clone())
    }
}
