//! What is wrong with a definition, before its position in a text is known.

use super::{DefinitionError, Position, Subject};

/// What is wrong with a definition, before its position in a text is looked up.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) subject: Subject,
    /// The key of the subject; `KEY/ITEM` for an item of a list; empty for the subject itself.
    pub(super) key: String,
    problem: String,
    too_large: bool,
}

impl Fault {
    pub(super) fn new(subject: Subject, key: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { subject, key: key.into(), problem: problem.into(), too_large: false }
    }

    /// More of something than a limit allows.
    pub(super) fn too_many(subject: Subject, key: &str, what: &str, found: usize, limit: usize) -> Self {
        let problem = format!("{found} {what} are too many: at most {limit}");
        Self { too_large: true, ..Self::new(subject, key, problem) }
    }

    pub(super) fn into_error(self, at: Option<Position>) -> DefinitionError {
        let Self { subject, key: _, problem, too_large } = self;
        if too_large {
            DefinitionError::TooLarge { at, subject, problem }
        } else {
            DefinitionError::Invalid { at, subject, problem }
        }
    }
}
