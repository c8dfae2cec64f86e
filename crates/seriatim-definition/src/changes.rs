//! Which changes of an accepted definition contradict data that may be stored.

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

/// What is fixed for a whole application.
pub(super) fn of_application(previous: &Accepted, id: ApplicationId, application: &Application) -> Allowed {
    let was = &previous.application;
    let refuse = |problem| Err(DefinitionError::changed(Subject::Application, problem));
    if previous.id() != id {
        return refuse(format!("it has the number {} and cannot become {id}", previous.id()));
    }
    if was.name != application.name {
        return refuse(format!(
            "it is called {} and cannot become {}: define another application",
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
            "its record scheme is {} and cannot become {}: ids could come twice",
            was.records, application.records
        ));
    }
    Ok(())
}

/// The first number stays, and ranges only grow at the end: otherwise a number could come twice or be left out.
pub(super) fn of_sequence(was: &SequenceDefinition, sequence: &SequenceDefinition) -> Allowed {
    let refuse = |problem| Err(DefinitionError::changed(Subject::Sequence(sequence.name.clone()), problem));
    if was.first != sequence.first {
        return refuse(format!(
            "it begins at {} and cannot begin at {}: workspaces may have drawn from it; raise them instead",
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
        "its ranges were {} and cannot become {}: they may only grow behind the last number",
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

/// A document keeps its kind and its parent, and stays a singleton or none.
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
            "it stands by itself and cannot become a child record of {parent}: give the new one another name"
        )),
        (Place::Child { parent }, Place::Root { .. }) => refuse(format!(
            "it is a child record of {parent} and cannot stand by itself: give the new document another name"
        )),
        (Place::Child { parent: was }, Place::Child { parent }) if was != parent => refuse(format!(
            "it is a child record of {was} and cannot become one of {parent}: give the new one another name"
        )),
        (Place::Child { .. }, Place::Child { .. }) => Ok(()),
    }
}

/// A field of a document that was accepted before keeps its type and its sequence, and cannot be demanded of records
/// that may be stored without it.
pub(super) fn of_field(document: &str, was: Option<&AcceptedField>, now: &FieldDefinition) -> Allowed {
    let refuse = |problem| Err(DefinitionError::changed(field(document, &now.name), problem));
    let Some(was) = was else {
        return if now.required {
            refuse("it is new and required, but stored records lack it: leave required out".to_owned())
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
                "it is drawn from {was} and cannot be written by hand: give the new field another name"
            ));
        }
        (None, now) => {
            return refuse(format!(
                "it was written by hand and cannot be drawn from {}: give the new field another name",
                now.as_deref().unwrap_or_default()
            ));
        }
    }
    if now.required && (was.retired || !was.shape.required) {
        return refuse("it was not required, and stored records may lack it: leave required out".to_owned());
    }
    Ok(())
}
