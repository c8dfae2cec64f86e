//! The documents, commands and sequences of each kind of workspace, by name.

use std::collections::{BTreeMap, BTreeSet};

use super::{Application, Argument, CommandDefinition, DocumentDefinition, KindDefinition, Place};

/// The documents, commands and sequences that the kinds of workspace of an application have.
pub(super) struct Contents<'a> {
    application: &'a Application,
    documents: BTreeMap<&'a str, &'a DocumentDefinition>,
}

/// Why a document has no root.
pub(super) enum NoRoot<'a> {
    /// A parent does not exist.
    Unknown(&'a str),
    /// The document is its own ancestor.
    Circle,
}

impl<'a> Contents<'a> {
    pub(super) fn new(application: &'a Application) -> Self {
        let documents = application.documents.iter().map(|document| (document.name.as_str(), document));
        Self { application, documents: documents.collect() }
    }

    /// A document or child record.
    pub(super) fn document(&self, name: &str) -> Option<&'a DocumentDefinition> {
        self.documents.get(name).copied()
    }

    /// The name of the root document of a document's tree, and the number of documents from one to the other, both
    /// included.
    pub(super) fn root(&self, name: &'a str) -> Result<(&'a str, usize), NoRoot<'a>> {
        let mut name = name;
        for depth in 1..=self.documents.len() {
            match &self.document(name).ok_or(NoRoot::Unknown(name))?.place {
                Place::Root { .. } => return Ok((name, depth)),
                Place::Child { parent } => name = parent,
            }
        }
        Err(if self.document(name).is_some() { NoRoot::Circle } else { NoRoot::Unknown(name) })
    }

    /// Whether a kind has a document or child record.
    pub(super) fn has(&self, kind: &KindDefinition, document: &'a str) -> bool {
        match (&kind.documents, self.root(document)) {
            (_, Err(_)) => false,
            (None, Ok(_)) => true,
            (Some(listed), Ok((root, _))) => listed.iter().any(|name| name == root),
        }
    }

    /// The commands of a kind: those that it lists, or, without a list, all whose argument it has.
    pub(super) fn commands(&self, kind: &KindDefinition) -> impl Iterator<Item = &'a CommandDefinition> {
        let takes = |command: &&CommandDefinition| match (&kind.commands, &command.argument) {
            (Some(listed), _) => listed.contains(&command.name),
            (None, Argument::Document(document)) => {
                self.document(document).is_some_and(|document| self.has(kind, &document.name))
            }
            (None, Argument::None | Argument::Json) => true,
        };
        self.application.commands.iter().filter(takes)
    }

    /// The application's own sequences that a kind has: those that the fields of its documents draw from, those of its
    /// commands, and those that it lists.
    pub(super) fn sequences(&self, kind: &'a KindDefinition) -> BTreeSet<&'a str> {
        let documents = self.application.documents.iter().filter(|document| self.has(kind, &document.name));
        let drawn = documents.flat_map(|document| &document.fields).filter_map(|field| field.draw.as_deref());
        let commands = self.commands(kind).flat_map(|command| &command.sequences);
        let listed = kind.sequences.iter().chain(commands).map(String::as_str);
        drawn.chain(listed).collect()
    }
}
