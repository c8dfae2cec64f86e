//! Commands of an application.

use serde::{Deserialize, Serialize};

use super::TypeId;

/// The command that every kind of workspace takes: changes, and nothing else.
pub(super) const CHANGE: &str = "sys.Change";

/// A command, as written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandDefinition {
    /// Its name within the application.
    pub name: String,
    /// What it takes.
    #[serde(default, skip_serializing_if = "Argument::is_none")]
    pub argument: Argument<String>,
    /// Whether it takes unlogged arguments, which reach it and are masked in the event.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unlogged: bool,
    /// Sequences that it draws from by itself: every kind of workspace that takes it has them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sequences: Vec<String>,
}

impl CommandDefinition {
    /// A command without an argument.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), argument: Argument::None, unlogged: false, sequences: Vec::new() }
    }

    /// A command that takes a tree of this document.
    pub fn with_document(name: impl Into<String>, document: impl Into<String>) -> Self {
        Self { argument: Argument::Document(document.into()), ..Self::new(name) }
    }

    /// A command that takes any JSON value.
    pub fn with_json(name: impl Into<String>) -> Self {
        Self { argument: Argument::Json, ..Self::new(name) }
    }

    /// The same command, which takes unlogged arguments too.
    #[must_use]
    pub fn unlogged(mut self) -> Self {
        self.unlogged = true;
        self
    }

    /// The same command, which draws from these sequences by itself.
    #[must_use]
    pub fn sequences<'a>(mut self, sequences: impl IntoIterator<Item = &'a str>) -> Self {
        self.sequences = sequences.into_iter().map(str::to_owned).collect();
        self
    }
}

/// What a command takes. `D` says which document: a name as written, a number in a [`CommandSchema`].
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
    /// Whether it takes nothing.
    #[must_use]
    pub fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }
}

/// A command, as the engine looks it up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandSchema {
    /// Its name.
    pub name: Box<str>,
    /// What it takes.
    pub argument: Argument,
    /// Whether it takes unlogged arguments, which reach it and are masked in the event.
    pub unlogged: bool,
}
