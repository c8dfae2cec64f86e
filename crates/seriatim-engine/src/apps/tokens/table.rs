//! All tokens in memory: what a request is held against.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use seriatim_storage::Digest;
use seriatim_types::sync::RwLock;
use subtle::ConstantTimeEq as _;

use super::scope::Grants;

/// What is kept of a token.
#[derive(Debug, Clone)]
pub(super) struct TokenEntry {
    pub(super) digest: Digest,
    pub(super) grants: Grants,
}

/// All tokens, by id. Bounded by the limit on tokens.
#[derive(Debug, Default)]
pub(crate) struct TokenTable {
    /// Whether there is any: all that a request looks at where there is none.
    any: AtomicBool,
    known: RwLock<HashMap<String, TokenEntry>>,
    /// Whoever makes or revokes one: what is in memory changes in the order of the log.
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

    /// What the bearer of a secret may do. An id is no secret, so it may be looked up; the digests are compared in a time
    /// that does not depend on them.
    pub(super) fn find(&self, id: &str, secret: &str) -> Option<Grants> {
        let digest = Digest::of(secret.as_bytes());
        let table = self.known.read();
        let known = table.get(id)?;
        bool::from(digest.as_bytes().ct_eq(known.digest.as_bytes())).then(|| known.grants.clone())
    }
}
