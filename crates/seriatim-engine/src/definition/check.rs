//! Whether an application is whole and does not contradict itself.

use super::{Application, DefinitionError, Position, Subject};

/// What is wrong, before its place in a text is looked up.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) subject: Subject,
    /// Which key of the subject, and behind a slash which item of its list; empty for the subject itself.
    pub(super) key: String,
    pub(super) problem: String,
    pub(super) too_large: bool,
}

impl Fault {
    pub(super) fn new(subject: Subject, key: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { subject, key: key.into(), problem: problem.into(), too_large: false }
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

pub(super) fn partitions_fault() -> Fault {
    let problem = "partitions must be 1 to 65535: choose well, it can never be changed";
    Fault::new(Subject::Application, "partitions", problem)
}

pub(super) fn check(_application: &Application) -> Result<(), Fault> {
    Ok(())
}
