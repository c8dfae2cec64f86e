//! Checks sequences with the sequencer, and translates its errors into the words of a definition.

use std::collections::{BTreeMap, BTreeSet};

use seriatim_sequencer::{Definition, DefinitionError, IdSpace, Sequence, builtin};
use seriatim_types::{SequenceId, WorkspaceKind};

use super::{RecordScheme, SequenceDefinition};

/// A number for each space, from 1. The numbers are compared and never stored.
pub(super) struct Spaces<'a>(BTreeMap<&'a str, IdSpace>);

impl<'a> Spaces<'a> {
    pub(super) fn new(sequences: impl Iterator<Item = &'a SequenceDefinition>) -> Self {
        let names: BTreeSet<&str> = sequences.filter_map(|it| it.space.as_deref()).collect();
        Self((1..).zip(names).map(|(number, name)| (name, IdSpace::new(number))).collect())
    }

    /// A sequence in the form of the sequencer.
    pub(super) fn sequence(&self, id: SequenceId, sequence: &SequenceDefinition) -> Sequence {
        let space = sequence.space.as_deref().and_then(|space| self.0.get(space));
        sequence.to_sequence(id, space.copied())
    }
}

/// The sequences that ids of records are drawn from.
pub(super) fn record_sequences(scheme: RecordScheme) -> Vec<Sequence> {
    match scheme {
        RecordScheme::Split => builtin::record_sequences(),
        RecordScheme::Single => builtin::single_record_sequence(),
    }
}

/// The first error that the sequencer finds in these sequences of one kind of workspace: the sequence, and what is wrong.
pub(super) fn first_problem(
    sequences: Vec<Sequence>,
    name_of: impl Fn(SequenceId) -> String,
) -> Option<(SequenceId, String)> {
    Definition::new([(WorkspaceKind::new(1), sequences)]).err().map(|error| explain(&error, name_of))
}

/// The sequence that an error of the sequencer is about, and what is wrong.
pub(super) fn explain(
    error: &DefinitionError,
    name_of: impl Fn(SequenceId) -> String,
) -> (SequenceId, String) {
    match error {
        DefinitionError::Ranges { sequence, problem, .. } => (*sequence, problem.to_string()),
        DefinitionError::Overlap { one, other, number, .. } => {
            let problem = format!(
                "it shares a space with sequence {}, and both could give {number}: choose ranges that do not overlap",
                name_of(*one)
            );
            (*other, problem)
        }
        // Not reached: this crate assigns the numbers, each once, and none that is reserved.
        DefinitionError::DuplicateSequence { sequence, .. }
        | DefinitionError::ReservedSequence { sequence, .. } => (*sequence, error.to_string()),
        DefinitionError::DuplicateKind { .. } => (builtin::RECORD_ID, error.to_string()),
    }
}
