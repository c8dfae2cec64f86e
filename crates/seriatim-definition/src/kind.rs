//! Kinds of workspace.

use serde::{Deserialize, Serialize};
use seriatim_types::{SequenceId, WorkspaceKind};

use super::TypeId;

/// A kind of workspace, as written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KindDefinition {
    /// Its name within the application.
    pub name: String,
    /// The documents that its workspaces have, each with its child records. `None`: all documents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub documents: Option<Vec<String>>,
    /// The commands that its workspaces accept. `None`: all commands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commands: Option<Vec<String>>,
    /// Sequences that its workspaces have in addition to those of its documents and commands.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sequences: Vec<String>,
}

impl KindDefinition {
    /// A kind with all documents and commands of the application.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), documents: None, commands: None, sequences: Vec::new() }
    }

    /// The same kind with these documents only, and their child records.
    #[must_use]
    pub fn documents<'a>(mut self, documents: impl IntoIterator<Item = &'a str>) -> Self {
        self.documents = Some(documents.into_iter().map(str::to_owned).collect());
        self
    }

    /// The same kind with these commands only.
    #[must_use]
    pub fn commands<'a>(mut self, commands: impl IntoIterator<Item = &'a str>) -> Self {
        self.commands = Some(commands.into_iter().map(str::to_owned).collect());
        self
    }

    /// The same kind with these sequences in addition to those of its documents and commands.
    #[must_use]
    pub fn sequences<'a>(mut self, sequences: impl IntoIterator<Item = &'a str>) -> Self {
        self.sequences = sequences.into_iter().map(str::to_owned).collect();
        self
    }
}

/// A kind of workspace with its number, for look-ups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KindSchema {
    /// Its number.
    pub id: WorkspaceKind,
    /// Its name.
    pub name: Box<str>,
    /// Whether the definition no longer has it. Its workspaces are readable, and accept no commands.
    pub retired: bool,
    /// Ascending.
    pub(super) documents: Box<[TypeId]>,
    /// Ascending.
    pub(super) commands: Box<[Box<str>]>,
    /// Ascending.
    pub(super) sequences: Box<[SequenceId]>,
}

impl KindSchema {
    /// Whether its workspaces have this document or child record; false for a retired one.
    #[must_use]
    pub fn has(&self, document: TypeId) -> bool {
        self.documents.binary_search(&document).is_ok()
    }

    /// Whether its workspaces accept this command; true for `sys.Change`, unless the kind is retired.
    #[must_use]
    pub fn has_command(&self, command: &str) -> bool {
        self.commands.binary_search_by(|known| (**known).cmp(command)).is_ok()
    }

    /// The sequences that its workspaces draw from, ascending, without retired ones.
    #[must_use]
    pub fn sequences(&self) -> &[SequenceId] {
        &self.sequences
    }
}
