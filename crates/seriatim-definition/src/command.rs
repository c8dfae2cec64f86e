//! Commands of an application.

use serde::{Deserialize, Serialize};

use super::TypeId;

/// The command that every kind of workspace accepts. It makes the changes of its request, and runs no code.
pub(super) const CHANGE: &str = "sys.Change";

/// A command, as written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandDefinition {
    /// Its name within the application.
    pub name: String,
    /// Its argument.
    #[serde(default, skip_serializing_if = "Argument::is_none")]
    pub argument: Argument<String>,
    /// Whether it accepts an unlogged argument: the command reads it, and the event does not keep it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unlogged: bool,
    /// Sequences that its code draws from. Every kind of workspace with this command has them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sequences: Vec<String>,
}

impl CommandDefinition {
    /// A command without an argument.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), argument: Argument::None, unlogged: false, sequences: Vec::new() }
    }

    /// A command whose argument is a tree of this document.
    pub fn with_document(name: impl Into<String>, document: impl Into<String>) -> Self {
        Self { argument: Argument::Document(document.into()), ..Self::new(name) }
    }

    /// A command whose argument is any JSON value.
    pub fn with_json(name: impl Into<String>) -> Self {
        Self { argument: Argument::Json, ..Self::new(name) }
    }

    /// The same command, which also accepts an unlogged argument.
    #[must_use]
    pub fn unlogged(mut self) -> Self {
        self.unlogged = true;
        self
    }

    /// The same command, whose code draws from these sequences.
    #[must_use]
    pub fn sequences<'a>(mut self, sequences: impl IntoIterator<Item = &'a str>) -> Self {
        self.sequences = sequences.into_iter().map(str::to_owned).collect();
        self
    }
}

/// The argument of a command. `D` identifies a document: by its name in a definition, by its number in a
/// [`CommandSchema`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Argument<D = TypeId> {
    /// Nothing.
    #[default]
    None,
    /// A tree of this document.
    Document(D),
    /// Any JSON value.
    Json,
}

impl<D> Argument<D> {
    /// Whether there is no argument.
    #[must_use]
    pub fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }
}

/// A command, for look-ups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandSchema {
    /// Its name.
    pub name: Box<str>,
    /// Its argument.
    pub argument: Argument,
    /// Whether it accepts an unlogged argument: the command reads it, and the event does not keep it.
    pub unlogged: bool,
}
