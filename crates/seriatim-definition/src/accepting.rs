//! Accepts a definition. New names get the next numbers. A change that contradicts data that may be stored is refused.

use std::collections::BTreeMap;

use seriatim_sequencer::builtin::FIRST_CUSTOM;
use seriatim_types::{ApplicationId, RecordId, SequenceId};

use super::accepted::{AcceptedDocument, AcceptedField, AcceptedKind, AcceptedSequence};
use super::contents::Contents;
use super::fault::Fault;
use super::limits::{ACCEPTED_BYTES_MAX, SINGLETONS_MAX};
use super::{
    Accepted, Application, DefinitionError, DocumentDefinition, FieldDefinition, FieldId, KindDefinition,
    Place, SequenceDefinition, Subject, TypeId, changes, compile, ranges,
};

/// Accepts an application for the first time, or as a change of `previous`.
pub(super) fn accept(
    previous: Option<&Accepted>,
    id: ApplicationId,
    application: &Application,
) -> Result<Accepted, DefinitionError> {
    application.check()?;
    let mut accepted = match previous {
        None => Accepted {
            id: id.get(),
            application: application.clone(),
            documents: Vec::new(),
            sequences: Vec::new(),
            kinds: Vec::new(),
        },
        Some(previous) => {
            changes::of_application(previous, id, application)?;
            retired(previous, application)
        }
    };
    for sequence in &application.sequences {
        accept_sequence(&mut accepted.sequences, sequence)?;
    }
    for document in &application.documents {
        accept_document(&mut accepted.documents, document)?;
    }
    let contents = Contents::new(application);
    for kind in &application.kinds {
        accept_kind(&mut accepted, &contents, kind)?;
    }
    if let Err(error) = compile::sequencer(&accepted) {
        // The application has passed its own check, so the conflict is with a retired sequence.
        return Err(conflict_with_retired(&accepted, &error));
    }
    check_size(&accepted)?;
    Ok(accepted)
}

/// Checks that the registry can store it.
fn check_size(accepted: &Accepted) -> Result<(), DefinitionError> {
    let found = serde_json::to_vec(accepted).map_or(usize::MAX, |json| json.len());
    if found <= ACCEPTED_BYTES_MAX {
        return Ok(());
    }
    let (subject, what) = (Subject::Application, "bytes, retired names included,");
    Err(Fault::too_many(subject, "", what, found, ACCEPTED_BYTES_MAX).into_error(None))
}

fn conflict_with_retired(
    accepted: &Accepted,
    error: &seriatim_sequencer::DefinitionError,
) -> DefinitionError {
    let name_of = |id: SequenceId| {
        let found = accepted.sequences.iter().find(|sequence| sequence.id == id.get());
        found.map_or_else(|| id.to_string(), |sequence| sequence.shape.name.clone())
    };
    let (sequence, problem) = ranges::explain(error, name_of);
    DefinitionError::changed(Subject::Sequence(name_of(sequence)), problem)
}

/// The previous state with the new application and every name retired. Accepting a name makes it current again.
fn retired(previous: &Accepted, application: &Application) -> Accepted {
    let mut accepted = Accepted { application: application.clone(), ..previous.clone() };
    accepted.documents.iter_mut().for_each(|document| document.retired = true);
    accepted.sequences.iter_mut().for_each(|sequence| sequence.retired = true);
    accepted.kinds.iter_mut().for_each(|kind| kind.retired = true);
    accepted
}

fn accept_sequence(
    known: &mut Vec<AcceptedSequence>,
    sequence: &SequenceDefinition,
) -> Result<(), DefinitionError> {
    if let Some(found) = known.iter_mut().find(|known| known.shape.name == sequence.name) {
        changes::of_sequence(&found.shape, sequence)?;
        found.shape = sequence.clone();
        found.retired = false;
        return Ok(());
    }
    let id = next_id(known.last().map(|known| known.id), FIRST_CUSTOM.get(), || {
        Subject::Sequence(sequence.name.clone())
    })?;
    known.push(AcceptedSequence { id, retired: false, shape: sequence.clone() });
    Ok(())
}

fn accept_document(
    known: &mut Vec<AcceptedDocument>,
    document: &DocumentDefinition,
) -> Result<(), DefinitionError> {
    let subject = || Subject::Document(document.name.clone());
    if let Some(found) = known.iter_mut().find(|known| known.name == document.name) {
        changes::of_place(&found.place, document)?;
        found.retired = false;
        return accept_fields(&mut found.fields, document);
    }
    let id = next_id(known.last().map(|known| known.id.get()), 1, subject)?;
    let singleton = match document.place {
        Place::Root { singleton: true, .. } => Some(next_singleton(known, subject)?),
        Place::Root { singleton: false, .. } | Place::Child { .. } => None,
    };
    let fields = (1..).zip(&document.fields).map(|(id, field)| AcceptedField {
        id: FieldId::new(id),
        retired: false,
        shape: field.clone(),
    });
    known.push(AcceptedDocument {
        id: TypeId::new(id),
        name: document.name.clone(),
        retired: false,
        place: document.place.clone(),
        singleton,
        fields: fields.collect(),
    });
    Ok(())
}

fn next_singleton(known: &[AcceptedDocument], subject: impl Fn() -> Subject) -> Result<u64, DefinitionError> {
    let last = known.iter().filter_map(|document| document.singleton).max();
    let next = last.map_or(*RecordId::SINGLETONS.start(), |last| last + 1);
    if RecordId::SINGLETONS.contains(&next) {
        return Ok(next);
    }
    let problem = format!(
        "an application has at most {SINGLETONS_MAX} singletons, retired ones included: use a document that is not \
         a singleton"
    );
    Err(DefinitionError::Exhausted { subject: subject(), problem })
}

/// The fields of a document that was accepted before.
fn accept_fields(
    known: &mut Vec<AcceptedField>,
    document: &DocumentDefinition,
) -> Result<(), DefinitionError> {
    let places: BTreeMap<String, usize> =
        known.iter().enumerate().map(|(place, field)| (field.shape.name.clone(), place)).collect();
    let mut kept = vec![false; known.len()];
    for field in &document.fields {
        let found = places.get(&field.name).copied();
        changes::of_field(&document.name, found.map(|place| &known[place]), field)?;
        match found {
            Some(place) => {
                known[place].shape = field.clone();
                kept[place] = true;
            }
            None => known.push(new_field(known.last(), &document.name, field)?),
        }
    }
    for (field, kept) in known.iter_mut().zip(kept) {
        field.retired = !kept;
    }
    Ok(())
}

fn new_field(
    last: Option<&AcceptedField>,
    document: &str,
    field: &FieldDefinition,
) -> Result<AcceptedField, DefinitionError> {
    let subject = || changes::field(document, &field.name);
    let id = next_id(last.map(|last| last.id.get()), 1, subject)?;
    Ok(AcceptedField { id: FieldId::new(id), retired: false, shape: field.clone() })
}

fn accept_kind<'a>(
    accepted: &mut Accepted,
    contents: &Contents<'a>,
    kind: &'a KindDefinition,
) -> Result<(), DefinitionError> {
    let names = contents.sequences(kind);
    let has = |sequence: &&AcceptedSequence| names.contains(sequence.shape.name.as_str());
    let sequences = accepted.sequences.iter().filter(has).map(|sequence| sequence.id);
    if let Some(found) = accepted.kinds.iter_mut().find(|known| known.name == kind.name) {
        found.sequences.extend(sequences);
        found.sequences.sort_unstable();
        found.sequences.dedup();
        found.retired = false;
        return Ok(());
    }
    let sequences = sequences.collect();
    let last = accepted.kinds.last().map(|kind| kind.id);
    let id = next_id(last, 1, || Subject::Kind(kind.name.clone()))?;
    accepted.kinds.push(AcceptedKind { id, name: kind.name.clone(), retired: false, sequences });
    Ok(())
}

/// The number of a new name: the one after the last, so that no number is assigned twice.
fn next_id(last: Option<u16>, first: u16, subject: impl Fn() -> Subject) -> Result<u16, DefinitionError> {
    match last {
        None => Ok(first),
        Some(last) => last.checked_add(1).ok_or_else(|| DefinitionError::Exhausted {
            subject: subject(),
            problem: format!(
                "all {} numbers for such names are assigned: use an earlier name again",
                u16::MAX
            ),
        }),
    }
}

#[cfg(test)]
#[path = "accepting_tests.rs"]
mod tests;
