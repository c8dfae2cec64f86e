//! Why a definition is refused.

use std::fmt;

use seriatim_types::ErrorKind;

/// Why a definition is refused: what is wrong, where, and what to do. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DefinitionError {
    /// The text is not TOML.
    #[error("{at}: not valid TOML: {problem}")]
    Syntax {
        /// Where in the text.
        at: Position,
        /// The message of the parser.
        problem: String,
    },
    /// The definition is incomplete, or contradicts itself.
    #[error("{}{subject}: {problem}", Prefix(*at))]
    Invalid {
        /// Where in the text, if it was read from one.
        at: Option<Position>,
        /// What it is about.
        subject: Subject,
        /// What is wrong, and what to do.
        problem: String,
    },
    /// More than a limit allows.
    #[error("{}{subject}: {problem}", Prefix(*at))]
    TooLarge {
        /// Where in the text, if it was read from one.
        at: Option<Position>,
        /// What it is about.
        subject: Subject,
        /// The limit.
        problem: String,
    },
    /// The definition contradicts the one accepted before, by which data may be stored.
    #[error("{subject}: {problem}")]
    Changed {
        /// What it is about.
        subject: Subject,
        /// The change that is not possible, and what to do instead.
        problem: String,
    },
    /// There are no more numbers for new names.
    #[error("{subject}: {problem}")]
    Exhausted {
        /// What needs a number.
        subject: Subject,
        /// What is used up, and what to do instead.
        problem: String,
    },
    /// A stored definition contradicts itself.
    #[error("stored definition of application {application}: {problem}; run seriatim doctor")]
    Corrupt {
        /// The application.
        application: String,
        /// The contradiction.
        problem: String,
    },
}

/// A place in a text: line and column, both from 1. Columns count characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The character within it.
    pub column: usize,
}

impl Position {
    /// The position of a byte of the text.
    pub(super) fn of(text: &str, byte: usize) -> Self {
        let before = &text[..text.floor_char_boundary(byte)];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
        Self { line, column: before[line_start..].chars().count() + 1 }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// The position before a message; empty if there is none.
struct Prefix(Option<Position>);

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |at| write!(f, "{at}: "))
    }
}

/// What an error is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// The application itself.
    Application,
    /// A document or child record.
    Document(String),
    /// A field of a document.
    Field {
        /// The document.
        document: String,
        /// The field.
        field: String,
    },
    /// A sequence.
    Sequence(String),
    /// A kind of workspace.
    Kind(String),
    /// A command.
    Command(String),
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Application => f.write_str("application"),
            Self::Document(name) => write!(f, "document {name}"),
            Self::Field { document, field } => write!(f, "field {field} of document {document}"),
            Self::Sequence(name) => write!(f, "sequence {name}"),
            Self::Kind(name) => write!(f, "workspace kind {name}"),
            Self::Command(name) => write!(f, "command {name}"),
        }
    }
}

impl DefinitionError {
    /// What the caller can do about it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Syntax { .. } | Self::Invalid { .. } => ErrorKind::Invalid,
            Self::TooLarge { .. } => ErrorKind::TooLarge,
            Self::Changed { .. } => ErrorKind::Conflict,
            Self::Exhausted { .. } => ErrorKind::Exhausted,
            Self::Corrupt { .. } => ErrorKind::Corrupt,
        }
    }

    /// Where in the text it is, if the definition was read from one.
    #[must_use]
    pub fn position(&self) -> Option<Position> {
        match self {
            Self::Syntax { at, .. } => Some(*at),
            Self::Invalid { at, .. } | Self::TooLarge { at, .. } => *at,
            Self::Changed { .. } | Self::Exhausted { .. } | Self::Corrupt { .. } => None,
        }
    }

    pub(super) fn changed(subject: Subject, problem: impl Into<String>) -> Self {
        Self::Changed { subject, problem: problem.into() }
    }
}
