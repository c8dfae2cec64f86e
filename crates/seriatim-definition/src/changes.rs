//! Which changes of an accepted definition are refused, because data may be stored that they contradict.

use seriatim_types::ApplicationId;

use super::accepted::AcceptedField;
use super::{
    Accepted, Application, DefinitionError, DocumentDefinition, FieldDefinition, Place, SequenceDefinition,
    Subject,
};

type Allowed = Result<(), DefinitionError>;

/// A field, as the subject of an error.
pub(super) fn field(document: &str, field: &str) -> Subject {
    Subject::Field { document: document.to_owned(), field: field.to_owned() }
}

/// Refuses changes of what is fixed for a whole application.
pub(super) fn of_application(previous: &Accepted, id: ApplicationId, application: &Application) -> Allowed {
    let was = &previous.application;
    let refuse = |problem| Err(DefinitionError::changed(Subject::Application, problem));
    if previous.id() != id {
        return refuse(format!("its number is {} and cannot become {id}", previous.id()));
    }
    if was.name != application.name {
        return refuse(format!(
            "its name is {} and cannot become {}: define another application",
            was.name, application.name
        ));
    }
    if was.partitions != application.partitions {
        return refuse(format!(
            "it has {} partitions and cannot have {}: workspaces cannot move between partitions",
            was.partitions.get(),
            application.partitions.get()
        ));
    }
    if was.records != application.records {
        return refuse(format!(
            "its record scheme is {} and cannot become {}: an id could be drawn twice",
            was.records, application.records
        ));
    }
    Ok(())
}

/// The first number does not change, and ranges grow only at the end. Otherwise a number could be drawn twice or be
/// skipped.
pub(super) fn of_sequence(was: &SequenceDefinition, sequence: &SequenceDefinition) -> Allowed {
    let refuse = |problem| Err(DefinitionError::changed(Subject::Sequence(sequence.name.clone()), problem));
    if was.first != sequence.first {
        return refuse(format!(
            "it begins at {} and cannot begin at {}, because workspaces may have drawn from it: raise the sequence instead",
            was.first, sequence.first
        ));
    }
    let (Some((last, before)), ranges) = (was.ranges.split_last(), &sequence.ranges) else {
        return Ok(());
    };
    let grows = ranges.starts_with(before)
        && ranges.get(before.len()).is_some_and(|range| range.0 == last.0 && range.1 >= last.1);
    if grows {
        return Ok(());
    }
    refuse(format!(
        "its ranges were {} and cannot become {}: add numbers after the last one only",
        Ranges(&was.ranges),
        Ranges(ranges)
    ))
}

struct Ranges<'a>(&'a [(u64, u64)]);

impl std::fmt::Display for Ranges<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (place, (first, last)) in self.0.iter().enumerate() {
            let comma = if place == 0 { "" } else { ", " };
            write!(f, "{comma}{first} to {last}")?;
        }
        Ok(())
    }
}

/// The kind and the parent of a document do not change, nor whether it is a singleton.
pub(super) fn of_place(was: &Place, document: &DocumentDefinition) -> Allowed {
    let subject = Subject::Document(document.name.clone());
    let refuse = |problem| Err(DefinitionError::changed(subject, problem));
    match (was, &document.place) {
        (Place::Root { kind: was, .. }, Place::Root { kind, .. }) if was != kind => {
            refuse(format!("its kind is {was} and cannot become {kind}: give the new document another name"))
        }
        (Place::Root { singleton: true, .. }, Place::Root { singleton: false, .. }) => refuse(
            "it is a singleton and cannot become an ordinary document: give the new document another name"
                .to_owned(),
        ),
        (Place::Root { singleton: false, .. }, Place::Root { singleton: true, .. }) => refuse(
            "it is an ordinary document and cannot become a singleton: give the new document another name"
                .to_owned(),
        ),
        (Place::Root { .. }, Place::Root { .. }) => Ok(()),
        (Place::Root { .. }, Place::Child { parent }) => refuse(format!(
            "it is a root document and cannot become a child record of {parent}: give the new one another name"
        )),
        (Place::Child { parent }, Place::Root { .. }) => refuse(format!(
            "it is a child record of {parent} and cannot become a root document: give the new document another name"
        )),
        (Place::Child { parent: was }, Place::Child { parent }) if was != parent => refuse(format!(
            "it is a child record of {was} and cannot become one of {parent}: give the new one another name"
        )),
        (Place::Child { .. }, Place::Child { .. }) => Ok(()),
    }
}

/// The type and the sequence of a field do not change, if its document was accepted before. A field cannot become
/// required, because records may be stored without it.
pub(super) fn of_field(document: &str, was: Option<&AcceptedField>, now: &FieldDefinition) -> Allowed {
    let refuse = |problem| Err(DefinitionError::changed(field(document, &now.name), problem));
    let Some(was) = was else {
        return if now.required {
            refuse("it is new and required, but stored records do not have it: remove required".to_owned())
        } else {
            Ok(())
        };
    };
    if was.shape.field_type != now.field_type {
        return refuse(format!(
            "its type is {} and cannot become {}: give the new field another name",
            was.shape.field_type, now.field_type
        ));
    }
    match (&was.shape.draw, &now.draw) {
        (was, now) if was == now => {}
        (Some(was), Some(now)) => {
            return refuse(format!(
                "it is drawn from {was} and cannot be drawn from {now}: give the new field another name"
            ));
        }
        (Some(was), None) => {
            return refuse(format!(
                "it is drawn from {was} and cannot be set by requests: give the new field another name"
            ));
        }
        (None, now) => {
            return refuse(format!(
                "it is set by requests and cannot be drawn from {}: give the new field another name",
                now.as_deref().unwrap_or_default()
            ));
        }
    }
    if now.required && (was.retired || !was.shape.required) {
        return refuse("it was not required, and stored records may not have it: remove required".to_owned());
    }
    Ok(())
}
