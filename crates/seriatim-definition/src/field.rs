//! Fields of documents.

use serde::{Deserialize, Serialize};
use seriatim_types::SequenceId;

use super::{FieldId, TypeId};

/// A field, as written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldDefinition {
    /// Its name within the document.
    pub name: String,
    /// What it holds.
    #[serde(rename = "type")]
    pub field_type: FieldType,
    /// Whether a request must set it. Always false for a drawn field, which every record has.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub required: bool,
    /// The sequence that its number is drawn from when the record is created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub draw: Option<String>,
}

impl FieldDefinition {
    /// An optional field.
    pub fn new(name: impl Into<String>, field_type: FieldType) -> Self {
        Self { name: name.into(), field_type, required: false, draw: None }
    }

    /// An integer that is drawn from a sequence when the record is created.
    pub fn drawn(name: impl Into<String>, sequence: impl Into<String>) -> Self {
        Self { draw: Some(sequence.into()), ..Self::new(name, FieldType::Integer) }
    }

    /// The same field, which every record must have.
    #[must_use]
    pub fn required(mut self) -> Self {
        self.required = true;
        self
    }
}

/// What a field holds, as written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FieldType {
    /// Text.
    Text,
    /// A whole number.
    Integer,
    /// An exact decimal number.
    Decimal,
    /// True or false.
    Bool,
    /// A point in time.
    Timestamp,
    /// The id of a record: of one document, or of any.
    Reference(Option<String>),
    /// Any JSON value.
    Json,
}

impl FieldType {
    /// A reference to records of one document.
    pub fn to(document: impl Into<String>) -> Self {
        Self::Reference(Some(document.into()))
    }
}

impl std::fmt::Display for FieldType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Text => f.write_str("text"),
            Self::Integer => f.write_str("integer"),
            Self::Decimal => f.write_str("decimal"),
            Self::Bool => f.write_str("bool"),
            Self::Timestamp => f.write_str("timestamp"),
            Self::Reference(None) => f.write_str("reference"),
            Self::Reference(Some(document)) => write!(f, "reference to {document}"),
            Self::Json => f.write_str("json"),
        }
    }
}

/// What a field holds, with numbers for names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldKind {
    /// Text.
    Text,
    /// A whole number.
    Integer,
    /// An exact decimal number.
    Decimal,
    /// True or false.
    Bool,
    /// A point in time.
    Timestamp,
    /// The id of a record: of one document, or of any.
    Reference(Option<TypeId>),
    /// Any JSON value.
    Json,
}

/// A field with its number, for look-ups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldSchema {
    /// Its number within the document.
    pub id: FieldId,
    /// Its name within the document.
    pub name: Box<str>,
    /// What it holds.
    pub kind: FieldKind,
    /// Whether a record must have it.
    pub required: bool,
    /// The sequence that its number is drawn from when the record is created.
    pub draw: Option<SequenceId>,
    /// Whether the definition no longer has it. Stored records may have it; new ones do not.
    pub retired: bool,
}
