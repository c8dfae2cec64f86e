//! Which derived data a command or an event reads, and what it changes.

use std::collections::HashMap;

use bytes::Bytes;

use super::fetched::Fetched;
use super::keys::StoreKey;
use super::overlay::Overlay;
use super::sync::{Mutex, MutexGuard};

/// Represents a value that was removed and is still in the store. No real value is empty.
pub(crate) const REMOVED: Bytes = Bytes::new();

/// Values by key.
pub(crate) type Values = HashMap<StoreKey, Bytes>;

pub(crate) fn lock(overlay: &Mutex<Overlay>) -> MutexGuard<'_, Overlay> {
    overlay.lock()
}

/// Where a value is searched if the draft does not have it: in the open group, then in the overlay, then in what was fetched.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Base<'a> {
    pub(crate) group: &'a Values,
    pub(crate) overlay: &'a Mutex<Overlay>,
    pub(crate) fetched: &'a Fetched,
}

/// A value is needed and was not read. The caller reads it and executes everything again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unread;

/// Where a value was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Found {
    /// The same event has written the value.
    Draft(Bytes),
    /// The value before this event; `None` if there was none.
    Before(Option<Bytes>),
}

impl Found {
    pub(crate) fn into_value(self) -> Option<Bytes> {
        let bytes = match self {
            Self::Draft(bytes) => Some(bytes),
            Self::Before(bytes) => bytes,
        };
        bytes.filter(|bytes| *bytes != REMOVED)
    }
}

/// What one event changes, until it is staged.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    /// In the order of writing. The last write of a key counts.
    pub(crate) writes: Vec<(StoreKey, Bytes)>,
    /// The indices of the writes that create a record or an id. The store must not have those keys.
    pub(crate) new_records: Vec<usize>,
    /// The index of the write of the event's place in the workspace's log.
    pub(crate) new_event: Option<usize>,
    /// The keys that have to be read before the next execution.
    pub(crate) unread: Vec<StoreKey>,
}

impl Draft {
    pub(crate) fn clear(&mut self) {
        self.writes.clear();
        self.new_records.clear();
        self.new_event = None;
        self.unread.clear();
    }
}

/// A draft on top of a base.
#[derive(Debug)]
pub(crate) struct DerivedState<'a> {
    pub(crate) base: Base<'a>,
    pub(crate) draft: &'a mut Draft,
}

impl DerivedState<'_> {
    /// The same state with a shorter lifetime.
    pub(crate) fn reborrow(&mut self) -> DerivedState<'_> {
        DerivedState { base: self.base, draft: self.draft }
    }

    /// The present value of a key. If it has to be read first, the draft notes the key.
    pub(crate) fn find(&mut self, key: &StoreKey) -> Result<Found, Unread> {
        if let Some((_, value)) = self.draft.writes.iter().rev().find(|(written, _)| written == key) {
            return Ok(Found::Draft(value.clone()));
        }
        if let Some(value) = self.base.group.get(key) {
            return Ok(Found::Before(Some(value.clone())));
        }
        // One lock for both lookups: a flush could end between them.
        let overlay = lock(self.base.overlay);
        if let Some(value) = overlay.get(key) {
            return Ok(Found::Before(Some(value.clone())));
        }
        if let Some(value) = self.base.fetched.get(key, overlay.generation()) {
            return Ok(Found::Before(value.clone()));
        }
        drop(overlay);
        self.draft.unread.push(key.clone());
        Err(Unread)
    }

    pub(crate) fn put(&mut self, key: StoreKey, value: Bytes) {
        self.draft.writes.push((key, value));
    }

    /// Writes a record or an id that must be new.
    pub(crate) fn put_new(&mut self, key: StoreKey, value: Bytes) {
        self.draft.new_records.push(self.draft.writes.len());
        self.put(key, value);
    }
}
