//! Sequences as the sequencer checks them, and its objections in the words of a definition.

use std::collections::{BTreeMap, BTreeSet};

use seriatim_sequencer::{Definition, DefinitionError, IdSpace, Sequence, builtin};
use seriatim_types::{SequenceId, WorkspaceKind};

use super::{RecordScheme, SequenceDefinition};

/// A number for each space, from 1; only compared, never stored.
pub(super) struct Spaces<'a>(BTreeMap<&'a str, IdSpace>);

impl<'a> Spaces<'a> {
    pub(super) fn new(sequences: impl Iterator<Item = &'a SequenceDefinition>) -> Self {
        let names: BTreeSet<&str> = sequences.filter_map(|it| it.space.as_deref()).collect();
        Self((1..).zip(names).map(|(number, name)| (name, IdSpace::new(number))).collect())
    }

    /// A sequence as the sequencer takes it.
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

/// The first objection that the sequencer has to these sequences in one kind of workspace: about which of them, and why.
pub(super) fn objection(
    sequences: Vec<Sequence>,
    name_of: impl Fn(SequenceId) -> String,
) -> Option<(SequenceId, String)> {
    Definition::new([(WorkspaceKind::new(1), sequences)]).err().map(|error| explain(&error, name_of))
}

/// Which sequence an error of the sequencer is about, and why.
pub(super) fn explain(
    error: &DefinitionError,
    name_of: impl Fn(SequenceId) -> String,
) -> (SequenceId, String) {
    match error {
        DefinitionError::Ranges { sequence, problem, .. } => (*sequence, problem.to_string()),
        DefinitionError::Overlap { one, other, number, .. } => {
            let problem = format!(
                "it shares a space with sequence {}, and both could give {number}: keep their ranges apart",
                name_of(*one)
            );
            (*other, problem)
        }
        // Numbers are given here, from those that are free, each once.
        DefinitionError::DuplicateSequence { sequence, .. }
        | DefinitionError::ReservedSequence { sequence, .. } => (*sequence, error.to_string()),
        DefinitionError::DuplicateKind { .. } => (builtin::RECORD_ID, error.to_string()),
    }
}
