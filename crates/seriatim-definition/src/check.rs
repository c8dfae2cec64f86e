//! Checks that an application is complete and does not contradict itself.

use std::collections::BTreeSet;

use seriatim_sequencer::builtin::FIRST_CUSTOM;
use seriatim_types::SequenceId;

use super::contents::Contents;
use super::fault::Fault;
use super::ranges::{Spaces, first_problem, record_sequences};
use super::{
    Application, Argument, CommandDefinition, KindDefinition, SequenceDefinition, Subject, check_document,
    limits, name,
};

type Checked = Result<(), Fault>;

/// Checks an application. The error is the first thing that is wrong.
pub(super) fn check(application: &Application) -> Checked {
    let contents = Contents::new(application);
    if let Some(problem) = name::problem(&application.name) {
        return Err(Fault::new(Subject::Application, "name", problem));
    }
    check_counts(application)?;
    check_names("name", application.sequences.iter().map(|it| &it.name), Subject::Sequence)?;
    check_names("name", application.documents.iter().map(|it| &it.name), Subject::Document)?;
    check_names("name", application.commands.iter().map(|it| &it.name), Subject::Command)?;
    check_names("name", application.kinds.iter().map(|it| &it.name), Subject::Kind)?;
    let sequences: BTreeSet<&str> = application.sequences.iter().map(|it| it.name.as_str()).collect();
    check_sequences(&application.sequences)?;
    for document in &application.documents {
        check_document::check(document, &contents, &sequences)?;
    }
    for command in &application.commands {
        check_command(command, &contents, &sequences)?;
    }
    for kind in &application.kinds {
        check_kind(kind, application, &contents, &sequences)?;
    }
    check_overlaps(application, &contents)
}

/// The fault of an invalid number of partitions.
pub(super) fn partitions_fault() -> Fault {
    let problem = "partitions must be 1 to 65535; the number can never be changed";
    Fault::new(Subject::Application, "partitions", problem)
}

fn check_counts(application: &Application) -> Checked {
    let Application { documents, sequences, kinds, commands, .. } = application;
    let counts = [
        ("documents", "documents", documents.len(), limits::DOCUMENTS_MAX),
        ("sequences", "sequences", sequences.len(), limits::SEQUENCES_MAX),
        ("commands", "commands", commands.len(), limits::COMMANDS_MAX),
        ("workspaces", "kinds of workspace", kinds.len(), limits::KINDS_MAX),
        ("documents", "fields in all", application.fields(), limits::FIELDS_IN_ALL_MAX),
        ("documents", "singletons", application.singletons(), limits::SINGLETONS_MAX),
    ];
    for (key, what, found, limit) in counts {
        if found > limit {
            return Err(Fault::too_many(Subject::Application, key, what, found, limit));
        }
    }
    if kinds.is_empty() {
        let problem = "it has no kind of workspace: add one, [workspaces.NAME] in TOML";
        return Err(Fault::new(Subject::Application, "workspaces", problem));
    }
    Ok(())
}

/// Checks that names are valid, and that each occurs once.
pub(super) fn check_names<'a>(
    key: &str,
    names: impl Iterator<Item = &'a String>,
    subject: impl Fn(String) -> Subject,
) -> Checked {
    let mut seen = BTreeSet::new();
    for name in names {
        if let Some(problem) = name::problem(name) {
            return Err(Fault::new(subject(name.clone()), key, problem));
        }
        if !seen.insert(name) {
            return Err(Fault::new(subject(name.clone()), key, "it is defined twice: give one another name"));
        }
    }
    Ok(())
}

/// Checks that each name of a list is known, and occurs once.
fn check_list(
    subject: &Subject,
    (key, what): (&str, &str),
    list: &[String],
    known: impl Fn(&str) -> bool,
) -> Checked {
    let mut seen = BTreeSet::new();
    for name in list {
        let problem = if !known(name) {
            format!("{name} is not a {what} of the application: define it, or remove it here")
        } else if !seen.insert(name) {
            format!("{what} {name} is listed twice: remove one")
        } else {
            continue;
        };
        return Err(Fault::new(subject.clone(), format!("{key}/{name}"), problem));
    }
    Ok(())
}

fn check_sequences(sequences: &[SequenceDefinition]) -> Checked {
    let spaces = Spaces::new(sequences.iter());
    for sequence in sequences {
        let subject = || Subject::Sequence(sequence.name.clone());
        let ranges = sequence.ranges.len();
        if ranges > limits::RANGES_MAX {
            return Err(Fault::too_many(subject(), "ranges", "ranges", ranges, limits::RANGES_MAX));
        }
        if let Some(problem) = sequence.space.as_deref().and_then(name::problem) {
            return Err(Fault::new(subject(), "space", problem));
        }
        let one = vec![spaces.sequence(FIRST_CUSTOM, sequence)];
        if let Some((_, problem)) = first_problem(one, |_| sequence.name.clone()) {
            return Err(Fault::new(subject(), "ranges", problem));
        }
    }
    Ok(())
}

/// Checks that no two sequences of one space can give the same number in one kind of workspace.
fn check_overlaps(application: &Application, contents: &Contents<'_>) -> Checked {
    let spaces = Spaces::new(application.sequences.iter());
    let numbered = |sequence: &SequenceDefinition, place: u16| {
        spaces.sequence(SequenceId::new(FIRST_CUSTOM.get() + place), sequence)
    };
    let name_of = |id: SequenceId| {
        let own = id.get().checked_sub(FIRST_CUSTOM.get()).map(usize::from);
        let own = own.and_then(|place| application.sequences.get(place));
        own.map_or_else(|| id.to_string(), |sequence| sequence.name.clone())
    };
    for kind in &application.kinds {
        let names = contents.sequences(kind);
        let own = (0..).zip(&application.sequences).filter(|(_, it)| names.contains(it.name.as_str()));
        let mut sequences = record_sequences(application.records);
        sequences.extend(own.map(|(place, sequence)| numbered(sequence, place)));
        if let Some((id, problem)) = first_problem(sequences, name_of) {
            return Err(Fault::new(Subject::Sequence(name_of(id)), "space", problem));
        }
    }
    Ok(())
}

fn check_command(
    command: &CommandDefinition,
    contents: &Contents<'_>,
    sequences: &BTreeSet<&str>,
) -> Checked {
    let subject = Subject::Command(command.name.clone());
    if let Argument::Document(name) = &command.argument {
        let problem = match contents.document(name).map(|document| document.parent()) {
            None => {
                Some(format!("its argument {name} is not a document: define it, or use \"none\" or \"json\""))
            }
            Some(Some(parent)) => {
                Some(format!("its argument {name} is a child record: use {parent} instead"))
            }
            Some(None) => None,
        };
        if let Some(problem) = problem {
            return Err(Fault::new(subject, "argument", problem));
        }
    }
    check_list(&subject, ("sequences", "sequence"), &command.sequences, |name| sequences.contains(name))
}

fn check_kind(
    kind: &KindDefinition,
    application: &Application,
    contents: &Contents<'_>,
    sequences: &BTreeSet<&str>,
) -> Checked {
    let subject = Subject::Kind(kind.name.clone());
    check_list(&subject, ("sequences", "sequence"), &kind.sequences, |name| sequences.contains(name))?;
    let documents = kind.documents.as_deref().unwrap_or_default();
    check_list(&subject, ("documents", "document"), documents, |name| contents.document(name).is_some())?;
    for name in documents {
        if let Some(parent) = contents.document(name).and_then(|document| document.parent()) {
            let problem = format!("{name} is a child record and is included with {parent}: remove it");
            return Err(Fault::new(subject, format!("documents/{name}"), problem));
        }
    }
    let commands = kind.commands.as_deref().unwrap_or_default();
    let known = |name: &str| application.commands.iter().any(|command| command.name == name);
    check_list(&subject, ("commands", "command"), commands, known)?;
    for command in contents.commands(kind) {
        if let Argument::Document(document) = &command.argument
            && let Some(document) = contents.document(document)
            && !contents.has(kind, &document.name)
        {
            let (command, document) = (&command.name, &document.name);
            let problem = format!(
                "command {command} takes {document}, which the kind does not have: add {document} to its documents"
            );
            return Err(Fault::new(subject, format!("commands/{command}"), problem));
        }
    }
    Ok(())
}
