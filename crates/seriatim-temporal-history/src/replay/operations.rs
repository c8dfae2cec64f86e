//! Which operation of our code each event of a history belongs to.

use std::collections::BTreeMap;

use seriatim_workflow::{CommandKind, CommandSeq};

use crate::TemporalHistory;
use crate::event::{AcceptedUpdate, EventKind};

/// An operation of our code: its kind and its number.
type Operation = (CommandKind, u32);

/// The operations that the code has asked for so far, by the events that the history has of them.
pub(super) struct Operations<'a> {
    pub(super) history: &'a TemporalHistory,
    /// By the event that began the operation.
    by_event: BTreeMap<i64, Operation>,
    /// The protocol id of each accepted update, by its event.
    updates: BTreeMap<i64, String>,
    /// The same, by the update's own id.
    update_ids: BTreeMap<String, String>,
}

impl<'a> Operations<'a> {
    pub(super) fn new(history: &'a TemporalHistory) -> Self {
        let (by_event, updates, update_ids) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { history, by_event, updates, update_ids }
    }

    /// The event began this operation.
    pub(super) fn insert(&mut self, event: i64, operation: Operation) {
        self.by_event.insert(event, operation);
    }

    /// The event accepted this update.
    pub(super) fn insert_update(&mut self, event: i64, update: &AcceptedUpdate) {
        self.updates.insert(event, update.protocol_id.clone());
        let update_id = self.request_of(update).update_id.clone();
        self.update_ids.insert(update_id, update.protocol_id.clone());
    }

    /// The protocol id of an update that has completed. Not every server says which event accepted it.
    pub(super) fn protocol_id(&self, accepted: i64, update_id: &str) -> String {
        let found = self.updates.get(&accepted).or_else(|| self.update_ids.get(update_id));
        found.cloned().unwrap_or_default()
    }

    /// The number of the operation that this event began; `None` if the code has not asked for it.
    pub(super) fn seq<K>(&self, event: i64) -> Option<CommandSeq<K>> {
        self.by_event.get(&event).map(|(_, seq)| CommandSeq::new(*seq))
    }

    pub(super) fn is_child_cancel(&self, initiated: i64) -> bool {
        matches!(self.by_event.get(&initiated), Some((CommandKind::CancelChild, _)))
    }

    /// The same number as text; empty if the code has not asked for the operation.
    pub(super) fn number(&self, event: i64) -> String {
        self.by_event.get(&event).map(|(_, seq)| seq.to_string()).unwrap_or_default()
    }

    /// The number of the child with this workflow id, as text.
    pub(super) fn child_number(&self, workflow_id: &str) -> String {
        let child = self.history.events.iter().rev().find(|event| {
            matches!(&event.kind, EventKind::ChildInitiated { workflow_id: id, .. } if id == workflow_id)
        });
        child.map(|event| self.number(event.id)).unwrap_or_default()
    }

    /// The request of an accepted update. After a reset it is in the event by which the server admitted the update again.
    pub(super) fn request_of<'b>(&'b self, accepted: &'b AcceptedUpdate) -> &'b AcceptedUpdate {
        if !accepted.name.is_empty() {
            return accepted;
        }
        let admitted = self.history.events.iter().filter_map(|event| match &event.kind {
            EventKind::UpdateAdmitted(update) => Some(&**update),
            _ => None,
        });
        let mut same = admitted.filter(|update| update.update_id == accepted.protocol_id);
        same.next().unwrap_or(accepted)
    }
}
