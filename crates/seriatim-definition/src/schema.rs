//! An accepted definition, ready for look-ups.

use std::collections::BTreeMap;
use std::sync::Arc;

use seriatim_types::{ApplicationId, Partition, PartitionCount, SequenceId, WorkspaceId, WorkspaceKind};

use super::compile::compile;
use super::{Accepted, CommandSchema, DefinitionError, DocumentSchema, KindSchema, SequenceSchema, TypeId};

/// An accepted definition, ready for look-ups by name and by number. It never changes.
///
/// Retired documents, fields, sequences and kinds are found by number, because stored data may refer to them. They are not
/// found by name.
#[derive(Debug, Clone)]
pub struct Schema {
    pub(super) name: Box<str>,
    pub(super) id: ApplicationId,
    pub(super) partitions: PartitionCount,
    /// Ascending by id, like the next two lists.
    pub(super) kinds: Vec<KindSchema>,
    pub(super) documents: Vec<DocumentSchema>,
    pub(super) sequences: Vec<SequenceSchema>,
    /// From names to indices into the lists above.
    pub(super) kind_places: BTreeMap<Box<str>, usize>,
    pub(super) document_places: BTreeMap<Box<str>, usize>,
    pub(super) sequence_places: BTreeMap<Box<str>, usize>,
    pub(super) commands: BTreeMap<Box<str>, CommandSchema>,
    pub(super) sequencer: Arc<seriatim_sequencer::Definition>,
}

impl Schema {
    /// Makes an accepted definition ready for use.
    ///
    /// # Errors
    ///
    /// [`DefinitionError::Corrupt`] if it contradicts itself. A value of [`Accepted::accept`] does not.
    pub fn new(accepted: &Accepted) -> Result<Self, DefinitionError> {
        compile(accepted)
    }

    /// The name of the application.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The number of the application.
    #[must_use]
    pub fn id(&self) -> ApplicationId {
        self.id
    }

    /// The number of partitions that its workspaces are distributed over.
    #[must_use]
    pub fn partitions(&self) -> PartitionCount {
        self.partitions
    }

    /// The partition that owns a workspace.
    #[must_use]
    pub fn partition_of(&self, workspace: WorkspaceId) -> Partition {
        Partition { application: self.id, id: self.partitions.partition_of(workspace) }
    }

    /// The kind of workspace with this number; a retired one is found.
    #[must_use]
    pub fn kind(&self, id: WorkspaceKind) -> Option<&KindSchema> {
        find(&self.kinds, |kind| kind.id, id)
    }

    /// The kind of workspace with this name.
    #[must_use]
    pub fn kind_by_name(&self, name: &str) -> Option<&KindSchema> {
        self.kind_places.get(name).map(|place| &self.kinds[*place])
    }

    /// All kinds of workspace, ascending by number, retired ones included.
    #[must_use]
    pub fn kinds(&self) -> &[KindSchema] {
        &self.kinds
    }

    /// The document or child record with this number; a retired one is found.
    #[must_use]
    pub fn document(&self, id: TypeId) -> Option<&DocumentSchema> {
        find(&self.documents, |document| document.id, id)
    }

    /// The document or child record with this name.
    #[must_use]
    pub fn document_by_name(&self, name: &str) -> Option<&DocumentSchema> {
        self.document_places.get(name).map(|place| &self.documents[*place])
    }

    /// All documents and child records, ascending by number, retired ones included.
    #[must_use]
    pub fn documents(&self) -> &[DocumentSchema] {
        &self.documents
    }

    /// The sequence with this number (also `sys.RecordId` and `sys.CRecordId`); a retired one is found.
    #[must_use]
    pub fn sequence(&self, id: SequenceId) -> Option<&SequenceSchema> {
        find(&self.sequences, |sequence| sequence.id, id)
    }

    /// The sequence with this name (also `sys.RecordId` and `sys.CRecordId`).
    #[must_use]
    pub fn sequence_by_name(&self, name: &str) -> Option<&SequenceSchema> {
        self.sequence_places.get(name).map(|place| &self.sequences[*place])
    }

    /// The command with this name (also `sys.Change`).
    #[must_use]
    pub fn command(&self, name: &str) -> Option<&CommandSchema> {
        self.commands.get(name)
    }

    /// All commands, ascending by name.
    pub fn commands(&self) -> impl Iterator<Item = &CommandSchema> {
        self.commands.values()
    }

    /// The definition for the sequencer. It has retired kinds too, and for each kind every sequence that the kind ever had.
    /// So a sequence that is retired and defined again continues after its last number.
    #[must_use]
    pub fn sequences(&self) -> &Arc<seriatim_sequencer::Definition> {
        &self.sequencer
    }
}

/// Finds an item by its number, in a list that is ascending by number.
fn find<T, I: Ord + Copy>(list: &[T], id_of: impl Fn(&T) -> I, id: I) -> Option<&T> {
    list.binary_search_by_key(&id, id_of).ok().map(|place| &list[place])
}

#[cfg(test)]
#[path = "schema_tests.rs"]
mod tests;
