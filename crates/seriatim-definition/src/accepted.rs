//! An accepted definition: names have numbers for ever.

use serde::{Deserialize, Serialize};
use seriatim_types::ApplicationId;

use super::accepting::accept;
use super::{Application, DefinitionError, FieldDefinition, FieldId, Place, SequenceDefinition, TypeId};

/// An application whose names have numbers for ever, those of names that it has no more included.
///
/// The registry stores it as JSON. Accepting the same application again gives an equal value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accepted {
    pub(super) id: u32,
    pub(super) application: Application,
    /// Ascending by id, and dense, as all of these.
    pub(super) documents: Vec<AcceptedDocument>,
    pub(super) sequences: Vec<AcceptedSequence>,
    pub(super) kinds: Vec<AcceptedKind>,
}

/// A document, with the shape that it had last.
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

/// A field, with the shape that it had last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct AcceptedField {
    pub(super) id: FieldId,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) retired: bool,
    pub(super) shape: FieldDefinition,
}

/// A sequence, with the shape that it had last.
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
    /// Every sequence of the application's own that it ever had, ascending.
    pub(super) sequences: Vec<u16>,
}

impl Accepted {
    /// Accepts an application for the first time, or after `previous`. New names get the next numbers; names that are
    /// no more are retired and keep theirs.
    ///
    /// # Errors
    ///
    /// [`DefinitionError`] names the first thing that is wrong, or that contradicts what may be stored.
    pub fn accept(
        previous: Option<&Self>,
        id: ApplicationId,
        application: &Application,
    ) -> Result<Self, DefinitionError> {
        accept(previous, id, application)
    }

    /// Whether this is what is accepted already, so that there is nothing new to accept.
    #[must_use]
    pub fn is_same(&self, application: &Application) -> bool {
        self.application == *application
    }

    /// The application, as it was written last.
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
