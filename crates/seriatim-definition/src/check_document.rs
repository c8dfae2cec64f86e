//! Checks a document and its fields.

use std::collections::BTreeSet;

use super::check::check_names;
use super::contents::{Contents, NoRoot};
use super::fault::Fault;
use super::{DocumentDefinition, DocumentKind, FieldDefinition, FieldType, Place, Subject, limits};

type Checked = Result<(), Fault>;

/// Checks a document and its fields. The error is the first thing that is wrong.
pub(super) fn check(
    document: &DocumentDefinition,
    contents: &Contents<'_>,
    sequences: &BTreeSet<&str>,
) -> Checked {
    let subject = Subject::Document(document.name.clone());
    check_place(document, contents, &subject)?;
    let fields = document.fields.len();
    if fields > limits::FIELDS_MAX {
        return Err(Fault::too_many(subject, "fields", "fields", fields, limits::FIELDS_MAX));
    }
    let field_subject = |field: String| Subject::Field { document: document.name.clone(), field };
    check_names("name", document.fields.iter().map(|field| &field.name), field_subject)?;
    for field in &document.fields {
        if let Some((key, problem)) = field_problem(field, contents, sequences) {
            return Err(Fault::new(field_subject(field.name.clone()), key, problem));
        }
    }
    Ok(())
}

fn check_place(document: &DocumentDefinition, contents: &Contents<'_>, subject: &Subject) -> Checked {
    let (key, problem) = match (&document.place, contents.document(&document.name)) {
        (Place::Root { kind: DocumentKind::O, singleton: true }, _) => {
            let problem =
                "an O document is stored in its event and cannot be a singleton: make it a C or W document";
            ("singleton", problem.to_owned())
        }
        (Place::Child { parent }, Some(known)) => match contents.root(&known.name) {
            Ok((_, depth)) if depth <= limits::DEPTH_MAX => return Ok(()),
            Ok((_, depth)) => {
                let (what, limit) = ("documents from its root down", limits::DEPTH_MAX);
                return Err(Fault::too_many(subject.clone(), "parent", what, depth, limit));
            }
            // The parent exists and has no root itself: the check of the parent reports it.
            Err(NoRoot::Unknown(unknown)) if unknown != parent => return Ok(()),
            Err(NoRoot::Unknown(_)) => {
                ("parent", format!("its parent {parent} is not a document: define it, or correct the name"))
            }
            Err(NoRoot::Circle) => {
                let problem = format!(
                    "its parent {parent} is also its descendant: give one of them a kind instead of a parent"
                );
                ("parent", problem)
            }
        },
        _ => return Ok(()),
    };
    Err(Fault::new(subject.clone(), key, problem))
}

/// The key of a field with an invalid value, and what is wrong.
fn field_problem(
    field: &FieldDefinition,
    contents: &Contents<'_>,
    sequences: &BTreeSet<&str>,
) -> Option<(&'static str, String)> {
    if let FieldType::Reference(Some(document)) = &field.field_type
        && contents.document(document).is_none()
    {
        let problem =
            format!("it refers to {document}, which is not a document: define it, or correct the name");
        return Some(("to", problem));
    }
    let sequence = field.draw.as_deref()?;
    if !sequences.contains(sequence) {
        let problem =
            format!("it draws from {sequence}, which is not a sequence: define it, or correct the name");
        return Some(("draw", problem));
    }
    if field.field_type != FieldType::Integer {
        let problem = format!("it is drawn from a sequence and must be an integer, not {}", field.field_type);
        return Some(("type", problem));
    }
    let problem = "it is drawn from a sequence, so every record has it: remove required";
    field.required.then(|| ("required", problem.to_owned()))
}
