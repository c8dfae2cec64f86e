//! Building an application in Rust.

use seriatim_types::PartitionCount;

use super::{
    Application, CommandDefinition, DefinitionError, DocumentDefinition, KindDefinition, RecordScheme,
    SequenceDefinition, check,
};

/// Builds an [`Application`].
///
/// ```
/// use seriatim_definition::{
///     Application, DocumentDefinition, DocumentKind, FieldDefinition, FieldType, KindDefinition, SequenceDefinition,
/// };
///
/// let application = Application::builder("books")
///     .partitions(4)
///     .sequence(SequenceDefinition::new("BookNumber", 1_000))
///     .document(
///         DocumentDefinition::new("Book", DocumentKind::C)
///             .with(FieldDefinition::new("title", FieldType::Text).required())
///             .with(FieldDefinition::drawn("number", "BookNumber")),
///     )
///     .kind(KindDefinition::new("library"))
///     .build()?;
/// assert_eq!(application.name, "books");
/// # Ok::<(), seriatim_definition::DefinitionError>(())
/// ```
#[derive(Debug, Clone)]
pub struct ApplicationBuilder {
    application: Application,
    /// Zero until it is set; `build` checks it.
    partitions: u16,
}

impl ApplicationBuilder {
    pub(super) fn new(name: String) -> Self {
        let application = Application {
            name,
            partitions: PartitionCount::ONE,
            records: RecordScheme::default(),
            documents: Vec::new(),
            sequences: Vec::new(),
            kinds: Vec::new(),
            commands: Vec::new(),
        };
        Self { application, partitions: 0 }
    }

    /// The number of partitions that its workspaces are distributed over. It has no default, because it can never be
    /// changed.
    #[must_use]
    pub fn partitions(mut self, count: u16) -> Self {
        self.partitions = count;
        self
    }

    /// The sequences that ids of records are drawn from. The default is [`RecordScheme::Split`].
    #[must_use]
    pub fn records(mut self, scheme: RecordScheme) -> Self {
        self.application.records = scheme;
        self
    }

    /// Adds a document or child record.
    #[must_use]
    pub fn document(mut self, document: DocumentDefinition) -> Self {
        self.application.documents.push(document);
        self
    }

    /// Adds a sequence.
    #[must_use]
    pub fn sequence(mut self, sequence: SequenceDefinition) -> Self {
        self.application.sequences.push(sequence);
        self
    }

    /// Adds a kind of workspace.
    #[must_use]
    pub fn kind(mut self, kind: KindDefinition) -> Self {
        self.application.kinds.push(kind);
        self
    }

    /// Adds a command.
    #[must_use]
    pub fn command(mut self, command: CommandDefinition) -> Self {
        self.application.commands.push(command);
        self
    }

    /// Checks the application and returns it.
    ///
    /// # Errors
    ///
    /// [`DefinitionError`]: the first thing that is wrong.
    pub fn build(mut self) -> Result<Application, DefinitionError> {
        let count = PartitionCount::new(self.partitions);
        let count = count.ok_or_else(|| check::partitions_fault().into_error(None))?;
        self.application.partitions = count;
        self.application.check()?;
        Ok(self.application)
    }
}
