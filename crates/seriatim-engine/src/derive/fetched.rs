//! Values that were read from the store before they are needed.
//!
//! ```text
//! fetch                       meanwhile                           use
//! lock: is it in the overlay? another command publishes the key,  lock: is it in the overlay? else, was it fetched in
//! else note the generation    a flush writes it, it leaves the    this generation? else it counts as unread
//! read the store              overlay: the generation rises
//! ```
//!
//! Between two moments of one generation no key leaves the overlay. So a key that the overlay has at neither moment was not
//! in it between them either, and the store still has what was read.

use std::collections::HashMap;

use bytes::Bytes;

use super::draft::lock;
use super::keys::StoreKey;
use super::overlay::{Generation, Overlay};
use super::sync::Mutex;

/// Keys that are about to be read from the store.
#[derive(Debug)]
pub(crate) struct Fetching {
    keys: Vec<StoreKey>,
    generation: Generation,
}

impl Fetching {
    /// Omits the keys that the overlay has, and notes the generation, under one lock. Must be called before the store is read.
    pub(crate) fn begin<'a>(overlay: &Mutex<Overlay>, keys: impl IntoIterator<Item = &'a StoreKey>) -> Self {
        let overlay = lock(overlay);
        let missing = keys.into_iter().filter(|key| overlay.get(key).is_none());
        let mut keys: Vec<StoreKey> = missing.cloned().collect();
        let generation = overlay.generation();
        drop(overlay);
        keys.sort_unstable();
        keys.dedup();
        Self { keys, generation }
    }

    /// The keys to read, in order, without duplicates.
    pub(crate) fn keys(&self) -> &[StoreKey] {
        &self.keys
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Completes the fetch with the values of the store, in the order of the keys.
    pub(crate) fn finish(self, found: Vec<Option<Bytes>>) -> Fetched {
        let Self { keys, generation } = self;
        let values = found.into_iter().map(|value| Value { generation, value });
        Fetched { values: keys.into_iter().zip(values).collect() }
    }
}

/// The store's value of a key, and the generation in which it was read. `None`: the store had no value.
#[derive(Debug)]
struct Value {
    generation: Generation,
    value: Option<Bytes>,
}

/// Values that were read from the store in advance.
#[derive(Debug, Default)]
pub(crate) struct Fetched {
    values: HashMap<StoreKey, Value>,
}

impl Fetched {
    /// The store's value of a key; `None` if it was not read, or was read in an earlier generation. Call this only for a key that
    /// the overlay does not have, under the same lock with which the overlay was checked.
    pub(crate) fn get(&self, key: &StoreKey, now: Generation) -> Option<&Option<Bytes>> {
        self.values.get(key).filter(|fetched| fetched.generation == now).map(|fetched| &fetched.value)
    }

    /// Whether a key was read, in any generation.
    pub(crate) fn has_asked(&self, key: &StoreKey) -> bool {
        self.values.contains_key(key)
    }

    /// Bytes of all values.
    pub(crate) fn bytes(&self) -> usize {
        self.values.values().filter_map(|fetched| fetched.value.as_ref()).map(Bytes::len).sum()
    }

    /// Adds values that were read later.
    pub(crate) fn extend(&mut self, later: Self) {
        if self.values.is_empty() {
            self.values = later.values;
        } else {
            self.values.extend(later.values);
        }
    }
}
