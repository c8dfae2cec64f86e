//! How a difference between code and history is described.

use std::fmt;
use std::panic::Location;

use serde::{Deserialize, Serialize};

use crate::meaning::ValueDifference;
use crate::{CommandRecord, Field};

/// How code and history differ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "how", rename_all = "snake_case")]
pub enum DifferenceKind {
    /// The same place asks for something else.
    Altered {
        /// In these parts.
        fields: Vec<Field>,
    },
    /// The code asks for something that the history does not have.
    Inserted,
    /// The history has something that the code does not ask for.
    Missing,
    /// Within a branch the history has another order.
    Reordered,
    /// The history has it in the answer to another activation.
    Moved {
        /// The activation, from 1.
        recorded_in: u32,
    },
}

/// One difference between what the code does and what the history says it did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// The activation in which it showed, from 1.
    pub activation: u32,
    /// The event of a Temporal history: what the history has there, or after which event the code asks for more. Our own
    /// histories have no events but their activations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<i64>,
    /// What is different.
    #[serde(flatten)]
    pub kind: DifferenceKind,
    /// What the history says.
    pub expected: Option<CommandRecord>,
    /// What the code does.
    pub actual: Option<CommandRecord>,
    /// Of two inputs, the first place at which they differ; none where it is not the input that differs, or where the
    /// history has kept only its digest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<ValueDifference>,
    /// Where in the code.
    pub call_site: Option<CallSite>,
}

impl Difference {
    /// A difference of no particular event. Of two inputs it finds the first place at which they differ.
    #[must_use]
    pub fn new(
        activation: u32,
        kind: DifferenceKind,
        expected: Option<CommandRecord>,
        actual: Option<CommandRecord>,
        site: Option<&Location<'_>>,
    ) -> Self {
        let value = match (&kind, &expected, &actual) {
            (DifferenceKind::Altered { fields }, Some(expected), Some(actual))
                if fields.contains(&Field::Input) =>
            {
                expected.first_difference(actual)
            }
            _ => None,
        };
        Self { activation, event: None, kind, expected, actual, value, call_site: site.map(Into::into) }
    }

    /// What its fields are called.
    fn field_name(&self, field: Field) -> String {
        match (field, &self.expected) {
            (Field::Input, Some(expected)) => expected.input_name().to_owned(),
            _ => field.to_string(),
        }
    }
}

/// A line of workflow code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallSite {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
    /// The column, from 1.
    pub column: u32,
}

impl From<&Location<'_>> for CallSite {
    fn from(location: &Location<'_>) -> Self {
        Self { file: location.file().to_owned(), line: location.line(), column: location.column() }
    }
}

impl fmt::Display for CallSite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "activation {}", self.activation)?;
        if let Some(event) = self.event {
            let after = if self.expected.is_none() { "after " } else { "" };
            write!(f, ", {after}event {event}")?;
        }
        f.write_str(": ")?;
        match &self.kind {
            DifferenceKind::Altered { fields } => {
                let fields: Vec<String> = fields.iter().map(|field| self.field_name(*field)).collect();
                write!(f, "another {}", fields.join(", "))?;
            }
            DifferenceKind::Inserted => f.write_str("a command that the history does not have")?,
            DifferenceKind::Missing => f.write_str("a command of the history is not issued")?,
            DifferenceKind::Reordered => f.write_str("another order within the branch")?,
            DifferenceKind::Moved { recorded_in } => {
                write!(f, "the history has it in activation {recorded_in}")?;
            }
        }
        let nothing = || "nothing".to_owned();
        write!(f, "\n  expected: {}", self.expected.as_ref().map_or_else(nothing, ToString::to_string))?;
        write!(f, "\n  actual:   {}", self.actual.as_ref().map_or_else(nothing, ToString::to_string))?;
        if let Some(value) = &self.value {
            write!(f, "\n  {}", self.field_name(Field::Input))?;
            write!(f, "{}{value}", if value.path.is_empty() { ": " } else { " " })?;
        }
        self.call_site.as_ref().map_or(Ok(()), |site| write!(f, "\n  issued at {site}"))
    }
}
