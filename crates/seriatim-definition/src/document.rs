//! Documents and their child records.

use serde::{Deserialize, Serialize};
use seriatim_types::{RecordId, SequenceId};

use super::{FieldDefinition, FieldId, FieldSchema, FieldType, TypeId};

/// How the records of a document are stored, and whether they change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum DocumentKind {
    /// Configuration: few records, kept together, read often.
    C,
    /// Operation: stored in its event only, and never changed.
    O,
    /// Work: records that are created and updated.
    W,
}

impl std::fmt::Display for DocumentKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::C => "C",
            Self::O => "O",
            Self::W => "W",
        })
    }
}

/// A document, as written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DocumentDefinition {
    /// Its name within the application.
    pub name: String,
    /// Whether it is a root document or a child record.
    #[serde(flatten)]
    pub place: Place,
    /// Its fields, in the order in which they are shown.
    pub fields: Vec<FieldDefinition>,
}

/// The place of a document in a tree of documents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Place {
    /// A root document: it has no parent.
    Root {
        /// How its records are stored.
        kind: DocumentKind,
        /// Whether a workspace has at most one record of it. Such a record has a reserved id.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        singleton: bool,
    },
    /// A child record of another document, whose kind it shares.
    Child {
        /// The document that it belongs to; it may be a child itself.
        parent: String,
    },
}

impl DocumentDefinition {
    /// A document of this kind.
    pub fn new(name: impl Into<String>, kind: DocumentKind) -> Self {
        Self { name: name.into(), place: Place::Root { kind, singleton: false }, fields: Vec::new() }
    }

    /// A document of this kind of which a workspace has at most one.
    pub fn singleton(name: impl Into<String>, kind: DocumentKind) -> Self {
        Self { name: name.into(), place: Place::Root { kind, singleton: true }, fields: Vec::new() }
    }

    /// A child record of `parent`.
    pub fn child(name: impl Into<String>, parent: impl Into<String>) -> Self {
        Self { name: name.into(), place: Place::Child { parent: parent.into() }, fields: Vec::new() }
    }

    /// The same document with another, optional field.
    #[must_use]
    pub fn field(self, name: impl Into<String>, field_type: FieldType) -> Self {
        self.with(FieldDefinition::new(name, field_type))
    }

    /// The same document with another field.
    #[must_use]
    pub fn with(mut self, field: FieldDefinition) -> Self {
        self.fields.push(field);
        self
    }

    /// The document that it belongs to, if it is a child record.
    #[must_use]
    pub fn parent(&self) -> Option<&str> {
        match &self.place {
            Place::Child { parent } => Some(parent),
            Place::Root { .. } => None,
        }
    }
}

/// A document with its number, for look-ups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentSchema {
    /// Its number.
    pub id: TypeId,
    /// Its name.
    pub name: Box<str>,
    /// Its kind; a child record has that of its root.
    pub kind: DocumentKind,
    /// The document that it belongs to, if it is a child record.
    pub parent: Option<TypeId>,
    /// If it is a singleton: the reserved id of its one record. The id never changes.
    pub singleton: Option<RecordId>,
    /// Its fields, ascending by id, retired ones included. Numbers are drawn in this order.
    pub fields: Vec<FieldSchema>,
    /// The sequence that ids of its records are drawn from.
    pub record_sequence: SequenceId,
    /// Whether the definition no longer has it. Stored records are readable; none can be created.
    pub retired: bool,
    /// Indices into `fields`, ordered by name, without retired fields.
    pub(super) by_name: Box<[u16]>,
}

impl DocumentSchema {
    /// The field with this name; a retired one is not found.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&FieldSchema> {
        let named = |place: &u16| (*self.fields[usize::from(*place)].name).cmp(name);
        let found = self.by_name.binary_search_by(named).ok()?;
        Some(&self.fields[usize::from(self.by_name[found])])
    }

    /// The field with this number; a retired one is found.
    #[must_use]
    pub fn field_by_id(&self, id: FieldId) -> Option<&FieldSchema> {
        let place = self.fields.binary_search_by_key(&id, |field| field.id).ok()?;
        Some(&self.fields[place])
    }
}
