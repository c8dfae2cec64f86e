//! An application as a user writes it.

use serde::{Deserialize, Serialize};
use seriatim_types::PartitionCount;

use super::{
    ApplicationBuilder, CommandDefinition, DefinitionError, DocumentDefinition, KindDefinition, Place,
    SequenceDefinition, check, text,
};

/// An application as a user writes it. It has names only; accepting it assigns numbers.
///
/// [`Application::from_toml`] and [`ApplicationBuilder::build`] return applications that have been checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Application {
    /// Its name.
    pub name: String,
    /// The number of partitions that its workspaces are distributed over. It can never be changed.
    #[serde(with = "partition_count")]
    pub partitions: PartitionCount,
    /// The sequences that ids of records are drawn from. They can never be changed.
    #[serde(default)]
    pub records: RecordScheme,
    /// Documents and child records.
    #[serde(default)]
    pub documents: Vec<DocumentDefinition>,
    /// Sequences of its own.
    #[serde(default)]
    pub sequences: Vec<SequenceDefinition>,
    /// Kinds of workspace.
    pub kinds: Vec<KindDefinition>,
    /// Commands.
    #[serde(default)]
    pub commands: Vec<CommandDefinition>,
}

/// The sequences that ids of records are drawn from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RecordScheme {
    /// `sys.CRecordId` for C documents, `sys.RecordId` for the others.
    #[default]
    Split,
    /// `sys.RecordId` for all, from 200001.
    Single,
}

impl std::fmt::Display for RecordScheme {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Split => "split",
            Self::Single => "single",
        })
    }
}

impl Application {
    /// Begins an application; [`ApplicationBuilder::build`] checks it.
    pub fn builder(name: impl Into<String>) -> ApplicationBuilder {
        ApplicationBuilder::new(name.into())
    }

    /// Reads an application from TOML.
    ///
    /// # Errors
    ///
    /// [`DefinitionError`]: the first thing that is wrong, with its line and column.
    pub fn from_toml(text: &str) -> Result<Self, DefinitionError> {
        text::read(text)
    }

    /// Checks that the application is complete and does not contradict itself.
    ///
    /// # Errors
    ///
    /// [`DefinitionError`]: the first thing that is wrong.
    pub fn check(&self) -> Result<(), DefinitionError> {
        check::check(self).map_err(|fault| fault.into_error(None))
    }

    /// The number of fields of all its documents.
    pub(super) fn fields(&self) -> usize {
        self.documents.iter().map(|document| document.fields.len()).sum()
    }

    /// The number of its documents that are singletons.
    pub(super) fn singletons(&self) -> usize {
        let singleton = |it: &&DocumentDefinition| matches!(it.place, Place::Root { singleton: true, .. });
        self.documents.iter().filter(singleton).count()
    }
}

mod partition_count {
    use serde::{Deserialize, Deserializer, Serializer, de};
    use seriatim_types::PartitionCount;

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
    pub(super) fn serialize<S: Serializer>(count: &PartitionCount, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u16(count.get())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<PartitionCount, D::Error> {
        let count = PartitionCount::new(u16::deserialize(from)?);
        count.ok_or_else(|| de::Error::custom("an application has at least one partition"))
    }
}
