//! An accepted definition: each name has a permanent number.

use serde::{Deserialize, Serialize};
use seriatim_types::ApplicationId;

use super::accepting::accept;
use super::{Application, DefinitionError, FieldDefinition, FieldId, Place, SequenceDefinition, TypeId};

/// An application whose names have permanent numbers. A name that the application no longer has is retired and keeps its
/// number.
///
/// The registry stores it as JSON. Accepting the same application again gives an equal value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accepted {
    pub(super) id: u32,
    pub(super) application: Application,
    /// Ascending by id, without gaps, like the next two lists.
    pub(super) documents: Vec<AcceptedDocument>,
    pub(super) sequences: Vec<AcceptedSequence>,
    pub(super) kinds: Vec<AcceptedKind>,
}

/// A document, as it was last defined.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct AcceptedDocument {
    pub(super) id: TypeId,
    pub(super) name: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) retired: bool,
    pub(super) place: Place,
    /// The reserved id of its one record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) singleton: Option<u64>,
    pub(super) fields: Vec<AcceptedField>,
}

/// A field, as it was last defined.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct AcceptedField {
    pub(super) id: FieldId,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) retired: bool,
    pub(super) shape: FieldDefinition,
}

/// A sequence, as it was last defined.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct AcceptedSequence {
    pub(super) id: u16,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) retired: bool,
    pub(super) shape: SequenceDefinition,
}

/// A kind of workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct AcceptedKind {
    pub(super) id: u16,
    pub(super) name: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) retired: bool,
    /// Every sequence that it ever had, without the built-in ones, ascending.
    pub(super) sequences: Vec<u16>,
}

impl Accepted {
    /// Accepts an application for the first time, or as a change of `previous`. New names get the next numbers. Names of
    /// `previous` that the application no longer has are retired and keep their numbers.
    ///
    /// # Errors
    ///
    /// [`DefinitionError`]: the first thing that is wrong, or that contradicts data that may be stored. `previous` remains
    /// valid.
    pub fn accept(
        previous: Option<&Self>,
        id: ApplicationId,
        application: &Application,
    ) -> Result<Self, DefinitionError> {
        accept(previous, id, application)
    }

    /// Whether this application is the one that is accepted already.
    #[must_use]
    pub fn is_same(&self, application: &Application) -> bool {
        self.application == *application
    }

    /// Whether the same values follow from every event with `other`: both have the same numbers, ranges and shapes. What is retired
    /// makes no difference, because events that have it can be in the log.
    #[must_use]
    pub fn derives_the_same(&self, other: &Self) -> bool {
        let (one, other) = (self.with_nothing_retired(), other.with_nothing_retired());
        one.id == other.id
            && one.documents == other.documents
            && one.sequences == other.sequences
            && one.kinds == other.kinds
    }

    fn with_nothing_retired(&self) -> Self {
        let mut accepted = self.clone();
        for document in &mut accepted.documents {
            document.retired = false;
            document.fields.iter_mut().for_each(|field| field.retired = false);
        }
        accepted.sequences.iter_mut().for_each(|sequence| sequence.retired = false);
        accepted.kinds.iter_mut().for_each(|kind| kind.retired = false);
        accepted
    }

    /// The application, as it was last accepted.
    #[must_use]
    pub fn application(&self) -> &Application {
        &self.application
    }

    /// The number of the application.
    #[must_use]
    pub fn id(&self) -> ApplicationId {
        ApplicationId::new(self.id)
    }
}
