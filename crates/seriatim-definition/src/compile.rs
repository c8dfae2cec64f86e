//! Makes a [`Schema`] from an accepted definition.

use std::collections::BTreeMap;
use std::sync::Arc;

use seriatim_sequencer::{Definition, Sequence, builtin};
use seriatim_types::{Number, RecordId, SequenceId, WorkspaceKind};

use super::accepted::{AcceptedDocument, AcceptedField, AcceptedKind};
use super::command::CHANGE;
use super::contents::Contents;
use super::ranges::{Spaces, record_sequences};
use super::{
    Accepted, Argument, CommandSchema, DefinitionError, DocumentKind, DocumentSchema, FieldKind, FieldSchema,
    FieldType, KindSchema, Place, RecordScheme, Schema, SequenceSchema,
};

/// Makes an accepted definition ready for use.
pub(super) fn compile(accepted: &Accepted) -> Result<Schema, DefinitionError> {
    let compiler = Compiler::new(accepted);
    let sequencer = sequencer(accepted).map_err(|error| compiler.corrupt(&error))?;
    let documents = accepted.documents.iter().map(|document| compiler.document(document));
    let documents = documents.collect::<Result<Vec<_>, _>>()?;
    let contents = Contents::new(&accepted.application);
    let kinds = accepted.kinds.iter().map(|kind| compiler.kind(kind, &contents));
    let kinds = kinds.collect::<Result<Vec<_>, _>>()?;
    let sequences = compiler.sequences();
    Ok(Schema {
        name: accepted.application.name.as_str().into(),
        id: accepted.id(),
        partitions: accepted.application.partitions,
        kind_places: places(&kinds, |kind| (&kind.name, kind.retired)),
        document_places: places(&documents, |document| (&document.name, document.retired)),
        sequence_places: places(&sequences, |sequence| (&sequence.name, sequence.retired)),
        commands: compiler.commands()?,
        kinds,
        documents,
        sequences,
        sequencer: Arc::new(sequencer),
    })
}

/// The definition for the sequencer: every sequence that each kind ever had.
pub(super) fn sequencer(accepted: &Accepted) -> Result<Definition, seriatim_sequencer::DefinitionError> {
    let spaces = Spaces::new(accepted.sequences.iter().map(|sequence| &sequence.shape));
    let sequences_of = |kind: &AcceptedKind| {
        let mut sequences = record_sequences(accepted.application.records);
        let has = |id: u16| kind.sequences.binary_search(&id).is_ok();
        let own = accepted.sequences.iter().filter(|sequence| has(sequence.id));
        sequences.extend(own.map(|it| spaces.sequence(SequenceId::new(it.id), &it.shape)));
        (WorkspaceKind::new(kind.id), sequences)
    };
    Definition::new(accepted.kinds.iter().map(sequences_of))
}

fn places<T>(list: &[T], named: impl Fn(&T) -> (&Box<str>, bool)) -> BTreeMap<Box<str>, usize> {
    let named = |(place, item)| match named(item) {
        (name, false) => Some((name.clone(), place)),
        (_, true) => None,
    };
    list.iter().enumerate().filter_map(named).collect()
}

struct Compiler<'a> {
    accepted: &'a Accepted,
    types: BTreeMap<&'a str, &'a AcceptedDocument>,
    sequence_ids: BTreeMap<&'a str, SequenceId>,
}

impl<'a> Compiler<'a> {
    fn new(accepted: &'a Accepted) -> Self {
        let types = accepted.documents.iter().map(|document| (document.name.as_str(), document));
        let sequences = accepted.sequences.iter();
        let sequence_ids = sequences.map(|it| (it.shape.name.as_str(), SequenceId::new(it.id)));
        Self { accepted, types: types.collect(), sequence_ids: sequence_ids.collect() }
    }

    fn corrupt(&self, problem: &dyn std::fmt::Display) -> DefinitionError {
        DefinitionError::Corrupt {
            application: self.accepted.application.name.clone(),
            problem: problem.to_string(),
        }
    }

    fn type_named(&self, name: &str) -> Result<&'a AcceptedDocument, DefinitionError> {
        self.types.get(name).copied().ok_or_else(|| self.corrupt(&format!("document {name} is missing")))
    }

    fn sequence_named(&self, name: &str) -> Result<SequenceId, DefinitionError> {
        let found = self.sequence_ids.get(name).copied();
        found.ok_or_else(|| self.corrupt(&format!("sequence {name} is missing")))
    }

    fn sequences(&self) -> Vec<SequenceSchema> {
        let schema = |name: &str, retired, sequence: &Sequence| SequenceSchema {
            id: sequence.id(),
            name: name.into(),
            first: sequence.first(),
            last: sequence.ranges().last().map_or(Number::new(0), |range| range.last),
            ranges: sequence.ranges().into(),
            retired,
        };
        let built_in = record_sequences(self.accepted.application.records);
        let built_in =
            built_in.iter().map(|it| schema(builtin::name_of(it.id()).unwrap_or_default(), false, it));
        let own = self.accepted.sequences.iter().map(|it| {
            schema(&it.shape.name, it.retired, &it.shape.to_sequence(SequenceId::new(it.id), None))
        });
        built_in.chain(own).collect()
    }

    fn document(&self, document: &AcceptedDocument) -> Result<DocumentSchema, DefinitionError> {
        let kind = self.root_kind(document)?;
        let parent = match &document.place {
            Place::Root { .. } => None,
            Place::Child { parent } => Some(self.type_named(parent)?.id),
        };
        let fields = document.fields.iter().map(|field| self.field(field)).collect::<Result<Vec<_>, _>>()?;
        let places = (0..).zip(&fields).filter(|(_, field)| !field.retired);
        let mut by_name: Box<[u16]> = places.map(|(place, _)| place).collect();
        by_name.sort_by(|a, b| fields[usize::from(*a)].name.cmp(&fields[usize::from(*b)].name));
        let record_sequence = match (self.accepted.application.records, kind) {
            (RecordScheme::Split, DocumentKind::C) => builtin::C_RECORD_ID,
            (RecordScheme::Split, DocumentKind::O | DocumentKind::W) | (RecordScheme::Single, _) => {
                builtin::RECORD_ID
            }
        };
        Ok(DocumentSchema {
            id: document.id,
            name: document.name.as_str().into(),
            kind,
            parent,
            singleton: document.singleton.map(RecordId::new),
            fields,
            record_sequence,
            retired: document.retired,
            by_name,
        })
    }

    fn root_kind(&self, document: &'a AcceptedDocument) -> Result<DocumentKind, DefinitionError> {
        let mut document = document;
        for _ in 0..=self.accepted.documents.len() {
            match &document.place {
                Place::Root { kind, .. } => return Ok(*kind),
                Place::Child { parent } => document = self.type_named(parent)?,
            }
        }
        Err(self.corrupt(&format!("document {} is its own ancestor", document.name)))
    }

    fn field(&self, field: &AcceptedField) -> Result<FieldSchema, DefinitionError> {
        let kind = match &field.shape.field_type {
            FieldType::Text => FieldKind::Text,
            FieldType::Integer => FieldKind::Integer,
            FieldType::Decimal => FieldKind::Decimal,
            FieldType::Bool => FieldKind::Bool,
            FieldType::Timestamp => FieldKind::Timestamp,
            FieldType::Reference(None) => FieldKind::Reference(None),
            FieldType::Reference(Some(document)) => FieldKind::Reference(Some(self.type_named(document)?.id)),
            FieldType::Json => FieldKind::Json,
        };
        let draw = field.shape.draw.as_deref().map(|name| self.sequence_named(name)).transpose()?;
        Ok(FieldSchema {
            id: field.id,
            name: field.shape.name.as_str().into(),
            kind,
            required: field.shape.required,
            draw,
            retired: field.retired,
        })
    }

    fn commands(&self) -> Result<BTreeMap<Box<str>, CommandSchema>, DefinitionError> {
        let change = CommandSchema { name: CHANGE.into(), argument: Argument::None, unlogged: false };
        let mut commands = BTreeMap::from([(change.name.clone(), change)]);
        for command in &self.accepted.application.commands {
            let argument = match &command.argument {
                Argument::None => Argument::None,
                Argument::Document(document) => Argument::Document(self.type_named(document)?.id),
                Argument::Json => Argument::Json,
            };
            let name: Box<str> = command.name.as_str().into();
            commands.insert(name.clone(), CommandSchema { name, argument, unlogged: command.unlogged });
        }
        Ok(commands)
    }

    fn kind(&self, kind: &AcceptedKind, contents: &Contents<'a>) -> Result<KindSchema, DefinitionError> {
        let application = &self.accepted.application;
        let mut schema = KindSchema {
            id: WorkspaceKind::new(kind.id),
            name: kind.name.as_str().into(),
            retired: kind.retired,
            documents: Box::default(),
            commands: Box::default(),
            sequences: Box::default(),
        };
        let Some(written) = application.kinds.iter().find(|written| written.name == kind.name) else {
            return Ok(schema);
        };
        let has = |document: &&AcceptedDocument| !document.retired && contents.has(written, &document.name);
        schema.documents = self.accepted.documents.iter().filter(has).map(|document| document.id).collect();
        let taken = contents.commands(written).map(|command| command.name.as_str());
        schema.commands = taken.chain([CHANGE]).map(Box::from).collect();
        schema.commands.sort();
        let records = record_sequences(application.records);
        let mut sequences: Vec<SequenceId> = records.iter().map(Sequence::id).collect();
        for name in contents.sequences(written) {
            sequences.push(self.sequence_named(name)?);
        }
        sequences.sort();
        schema.sequences = sequences.into();
        Ok(schema)
    }
}
