//! From the accepted form to the one that the engine uses.

use std::collections::BTreeMap;
use std::sync::Arc;

use seriatim_sequencer::{Definition, IdSpace, Sequence, builtin};
use seriatim_types::{Number, RecordId, SequenceId, WorkspaceKind};

use super::accepted::{AcceptedDocument, AcceptedField, AcceptedKind};
use super::command::CHANGE;
use super::{
    Accepted, Application, Argument, CommandSchema, DefinitionError, DocumentKind, DocumentSchema, FieldKind,
    FieldSchema, FieldType, KindDefinition, KindSchema, Place, RecordScheme, Schema, SequenceDefinition,
    SequenceSchema, TypeId,
};

/// Makes an accepted definition ready for use.
pub(super) fn compile(accepted: &Accepted) -> Result<Schema, DefinitionError> {
    let compiler = Compiler::new(accepted);
    let sequencer = compiler.sequencer().map_err(|error| compiler.corrupt(&error))?;
    let documents = accepted.documents.iter().map(|document| compiler.document(document));
    let documents = documents.collect::<Result<Vec<_>, _>>()?;
    let kinds = accepted.kinds.iter().map(|kind| compiler.kind(kind, &documents));
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

/// The sequences that ids of records are drawn from.
pub(super) fn record_sequences(scheme: RecordScheme) -> Vec<Sequence> {
    match scheme {
        RecordScheme::Split => builtin::record_sequences(),
        RecordScheme::Single => builtin::single_record_sequence(),
    }
}

/// A number for each id space, from 1; only compared, never stored.
pub(super) fn spaces<'a>(
    sequences: impl Iterator<Item = &'a SequenceDefinition>,
) -> BTreeMap<&'a str, IdSpace> {
    let names: std::collections::BTreeSet<&str> = sequences.filter_map(|it| it.space.as_deref()).collect();
    (1..).zip(names).map(|(number, name)| (name, IdSpace::new(number))).collect()
}

/// The document at the root of the tree that `name` belongs to, if there is one.
pub(super) fn root_of<'a>(application: &'a Application, name: &'a str) -> Option<&'a str> {
    let mut name = name;
    // One step per document ends in every case, circles included.
    for _ in 0..=application.documents.len() {
        match &application.documents.iter().find(|document| document.name == name)?.place {
            Place::Root { .. } => return Some(name),
            Place::Child { parent } => name = parent,
        }
    }
    None
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

    fn sequencer(&self) -> Result<Definition, seriatim_sequencer::DefinitionError> {
        let spaces = spaces(self.accepted.sequences.iter().map(|sequence| &sequence.shape));
        let sequences_of = |kind: &AcceptedKind| {
            let mut sequences = record_sequences(self.accepted.application.records);
            let has = |id: &u16| kind.sequences.binary_search(id).is_ok();
            for sequence in self.accepted.sequences.iter().filter(|sequence| has(&sequence.id)) {
                let space = sequence.shape.space.as_deref().and_then(|space| spaces.get(space)).copied();
                sequences.push(sequence.shape.to_sequence(SequenceId::new(sequence.id), space));
            }
            (WorkspaceKind::new(kind.id), sequences)
        };
        Definition::new(self.accepted.kinds.iter().map(sequences_of))
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

    fn kind(&self, kind: &AcceptedKind, documents: &[DocumentSchema]) -> Result<KindSchema, DefinitionError> {
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
        let has = |document: &&DocumentSchema| !document.retired && written.has(application, &document.name);
        let types: Vec<TypeId> = documents.iter().filter(has).map(|document| document.id).collect();
        schema.documents = types.into();
        let mut commands: Vec<Box<str>> = vec![CHANGE.into()];
        commands.extend(written.commands_of(application).map(|command| command.name.as_str().into()));
        commands.sort();
        schema.commands = commands.into();
        let records = record_sequences(application.records);
        let mut sequences: Vec<SequenceId> = records.iter().map(Sequence::id).collect();
        for name in written.sequences_of(application) {
            sequences.push(self.sequence_named(name)?);
        }
        sequences.sort();
        schema.sequences = sequences.into();
        Ok(schema)
    }
}

impl KindDefinition {
    /// Whether the kind has a document or child record of the application.
    pub(super) fn has(&self, application: &Application, document: &str) -> bool {
        let Some(listed) = &self.documents else { return true };
        root_of(application, document).is_some_and(|root| listed.iter().any(|name| name == root))
    }

    /// The commands of the application that the kind takes.
    pub(super) fn commands_of<'a>(
        &'a self,
        application: &'a Application,
    ) -> impl Iterator<Item = &'a super::CommandDefinition> {
        let listed = |name: &String| self.commands.as_ref().is_none_or(|listed| listed.contains(name));
        application.commands.iter().filter(move |command| listed(&command.name))
    }

    /// The names of the application's own sequences that the kind has, each once, ascending: those that its documents'
    /// fields draw from, those of its commands, and those that it lists.
    pub(super) fn sequences_of<'a>(
        &'a self,
        application: &'a Application,
    ) -> std::collections::BTreeSet<&'a str> {
        let documents = application.documents.iter().filter(|it| self.has(application, &it.name));
        let drawn = documents.flat_map(|document| &document.fields).filter_map(|field| field.draw.as_deref());
        let commands = self.commands_of(application).flat_map(|command| &command.sequences);
        let listed = self.sequences.iter().chain(commands).map(String::as_str);
        drawn.chain(listed).collect()
    }
}
