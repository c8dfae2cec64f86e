//! Documents and their child records.

use serde::{Deserialize, Serialize};
use seriatim_types::{RecordId, SequenceId};

use super::{FieldDefinition, FieldId, FieldSchema, FieldType, TypeId};

/// What becomes of a document's records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum DocumentKind {
    /// Configuration: few records, kept together, read often.
    C,
    /// Operation: lives in its event, and is never changed.
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
    /// Whether it stands by itself or belongs to another.
    #[serde(flatten)]
    pub place: Place,
    /// Its fields, in the order in which they are shown.
    pub fields: Vec<FieldDefinition>,
}

/// Where a document stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Place {
    /// By itself.
    Root {
        /// What becomes of its records.
        kind: DocumentKind,
        /// Whether a workspace has at most one, under an id that is known beforehand.
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

    /// The same document with an optional field more.
    #[must_use]
    pub fn field(self, name: impl Into<String>, field_type: FieldType) -> Self {
        self.with(FieldDefinition::new(name, field_type))
    }

    /// The same document with a field more.
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

/// A document, as the engine looks it up.
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
    /// The id of the one record that a workspace may have, if it is a singleton: reserved, and fixed for ever.
    pub singleton: Option<RecordId>,
    /// Its fields, ascending by id, retired ones included. Numbers are drawn in this order.
    pub fields: Vec<FieldSchema>,
    /// The sequence that ids of its records are drawn from.
    pub record_sequence: SequenceId,
    /// Whether the definition has it no more: records may be stored, none can be created.
    pub retired: bool,
    /// Places in `fields`, ordered by name, retired ones left out.
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
