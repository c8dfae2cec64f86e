//! Which storage partitions are compared: where events have led, and where the next numbers lead.

use std::collections::BTreeSet;

use seriatim_sequencer::{Numbers, NumbersKey};
use seriatim_storage::{Batch, ClusteringRange, Durability, Key, Store};
use seriatim_types::{Number, RecordId, WorkspaceId};

use super::DoctorError;
use super::derive::Examination;
use crate::definition::DocumentKind;
use crate::keys::{LOW_BITS, WorkspaceKeys};
use crate::registry::{self, Registry};
use crate::view::{self, KeyPart};

/// Storage partitions that are remembered in one write.
const MARKS_MAX: usize = 4_096;

/// Storage partitions to be compared.
pub(super) type Marks = BTreeSet<Vec<u8>>;

impl Examination<'_> {
    /// The storage partition, in the scratch store, of the marks.
    pub(super) fn marks_key(&self) -> [u8; 8] {
        let mut key = *b"dm\0\0\0\0\0\0";
        key[2..6].copy_from_slice(&self.application().get().to_be_bytes());
        key[6..].copy_from_slice(&self.partition.id.get().to_be_bytes());
        key
    }

    pub(super) fn put_marks(&self, batch: &mut Batch, marks: &mut Marks) {
        let key = self.marks_key();
        for mark in std::mem::take(marks) {
            batch.put(Key::new(&key, &mark), &[1]);
        }
    }

    /// Remembers storage partitions, once there are many, or at the end.
    pub(super) async fn write_marks(&self, marks: &mut Marks, at_end: bool) -> Result<(), DoctorError> {
        if marks.is_empty() || (marks.len() < MARKS_MAX && !at_end) {
            return Ok(());
        }
        let mut batch = Batch::new();
        self.put_marks(&mut batch, marks);
        Ok(self.scratch.write(batch, Durability::Buffered).await?)
    }

    /// Marks where the next numbers of every workspace lead: of those that have events, and of those that the registry
    /// knows.
    pub(super) async fn mark_nexts(&self) -> Result<(), DoctorError> {
        if self.marked {
            return Ok(());
        }
        let definition = self.derivation.schema.sequences();
        let mut marks = Marks::new();
        let mut touched = self.scratch.scan(&self.marks_key(), ClusteringRange::prefix(b"sn"));
        while let Some((storage, _)) = touched.next().await? {
            let mut known = self.scratch.scan(&storage, ClusteringRange::all());
            while let Some((clustering, value)) = known.next().await? {
                let workspace = NumbersKey::decode(Key::new(&storage, &clustering)).map(|(_, id)| id);
                let numbers = Numbers::decode(definition, &value).ok();
                if let Some((workspace, numbers)) = workspace.filter(|id| self.owns(*id)).zip(numbers) {
                    self.mark_next(workspace, &numbers, &mut marks);
                    self.write_marks(&mut marks, false).await?;
                }
            }
        }
        self.mark_registered(self.scratch, &mut marks).await?;
        self.write_marks(&mut marks, true).await
    }

    /// Marks where the first numbers of the workspaces lead that the registry in a store knows.
    pub(super) async fn mark_registered(
        &self,
        registry: &Store,
        marks: &mut Marks,
    ) -> Result<(), DoctorError> {
        let definition = self.derivation.schema.sequences();
        let prefix = view::encode_key(&[i64::from(self.application().get()).into()]);
        let mut registered = registry.scan(&Registry::view("workspaces"), ClusteringRange::prefix(&prefix));
        while let Some((key, row)) = registered.next().await? {
            let Ok(parts) = view::decode_key(&key) else { continue };
            let [_, KeyPart::Integer(id)] = parts[..] else { continue };
            let Ok(id) = u64::try_from(id) else { continue };
            let row = view::decode_row(&row).ok().and_then(|(_, row)| row);
            let Some(workspace) = row.and_then(|row| registry::read_workspace(WorkspaceId::new(id), row))
            else {
                continue;
            };
            if self.owns(workspace.id) {
                let fresh = Numbers::fresh(workspace.kind, definition.kind(workspace.kind));
                self.mark_next(workspace.id, &fresh, marks);
                self.write_marks(marks, false).await?;
            }
        }
        Ok(())
    }

    fn mark_next(&self, workspace: WorkspaceId, numbers: &Numbers, marks: &mut Marks) {
        let keys = WorkspaceKeys::new(self.application(), workspace);
        marks.insert(NumbersKey::new(self.application(), workspace).as_key().partition.to_vec());
        marks.insert(keys.idempotency("").partition().to_vec());
        for projector in &self.derivation.projectors {
            marks.insert(keys.view(projector.view()));
        }
        let schema = &self.derivation.schema;
        for document in schema.documents() {
            if let Some(id) = document.singleton {
                mark_id(keys, document, id, marks);
            }
        }
        self.mark_between(workspace, numbers, numbers, marks);
    }

    /// Marks where a workspace's events and records lie from one state of its numbers up to a later one, and the part
    /// behind.
    pub(super) fn mark_between(
        &self,
        workspace: WorkspaceId,
        from: &Numbers,
        to: &Numbers,
        marks: &mut Marks,
    ) {
        let keys = WorkspaceKeys::new(self.application(), workspace);
        for place in places(from.next_offset().get(), to.next_offset().get()) {
            if let Some(offset) = seriatim_types::WorkspaceOffset::new(place) {
                marks.insert(keys.event(offset).partition().to_vec());
            }
        }
        let (schema, kind) = (&self.derivation.schema, from.kind());
        let sequences = schema.sequences().kind(kind);
        for document in schema.documents().iter().filter(|document| document.singleton.is_none()) {
            let has = sequences.and_then(|kind| {
                kind.sequences().iter().find(|sequence| sequence.id() == document.record_sequence)
            });
            let Some(sequence) = has else { continue };
            let at = |numbers: &Numbers| {
                let next = numbers.next(sequences, sequence.id()).and_then(|next| sequence.number_at(next));
                next.map(Number::get)
            };
            let Some(first) = at(from) else { continue };
            for place in places(first, at(to).unwrap_or(first)) {
                mark_id(keys, document, RecordId::new(place), marks);
            }
        }
    }
}

/// Parts that are looked at behind what the log explains, if the stored numbers are far ahead of it.
const PARTS_MAX: u64 = 4_096;

/// One place in each part from one place to another, and one in the part behind.
fn places(from: u64, to: u64) -> impl Iterator<Item = u64> {
    let first = from >> LOW_BITS;
    let last = (to.max(from) >> LOW_BITS).min(first + PARTS_MAX) + 1;
    (first..=last).map(move |part| (part << LOW_BITS).max(from))
}

fn mark_id(
    keys: WorkspaceKeys,
    document: &crate::definition::DocumentSchema,
    id: RecordId,
    marks: &mut Marks,
) {
    marks.insert(keys.id(id).partition().to_vec());
    if document.kind != DocumentKind::O {
        marks.insert(keys.record(document.id, id).partition().to_vec());
        marks.insert(keys.part(document.id, id).partition().to_vec());
    }
}
