//! What an application is: its documents, sequences, commands and kinds of workspace.
//!
//! A definition has three forms. A user writes an [`Application`], in TOML or with a builder; it has names only. The
//! registry stores it as an [`Accepted`]: every name has a permanent number, retired names included. The engine uses a
//! [`Schema`] for look-ups, by name and by number.
//!
//! ```
//! use seriatim_definition::{Accepted, Application, Schema};
//! use seriatim_types::ApplicationId;
//!
//! let application = Application::from_toml(
//!     r#"
//!     name = "books"
//!     partitions = 4
//!     [sequences.BookNumber]
//!     first = 1000
//!     [documents.Book]
//!     kind = "C"
//!     fields.title = { type = "text", required = true }
//!     fields.number = { draw = "BookNumber" }
//!     [workspaces.library]
//!     "#,
//! )?;
//! let accepted = Accepted::accept(None, ApplicationId::new(7), &application)?;
//! let schema = Schema::new(&accepted)?;
//! let number = schema.document_by_name("Book").unwrap().field("number").unwrap();
//! assert_eq!(schema.sequence(number.draw.unwrap()).unwrap().first.get(), 1000);
//! # Ok::<(), seriatim_definition::DefinitionError>(())
//! ```

#![forbid(unsafe_code)]

mod accepted;
mod accepting;
mod application;
mod builder;
mod changes;
mod check;
mod check_document;
mod command;
mod compile;
mod contents;
mod document;
mod error;
mod fault;
mod field;
mod id;
mod kind;
pub mod limits;
mod name;
mod ranges;
mod schema;
mod sequence;
mod shop;
mod text;

pub use accepted::Accepted;
pub use application::{Application, RecordScheme};
pub use builder::ApplicationBuilder;
pub use command::{Argument, CommandDefinition, CommandSchema};
pub use document::{DocumentDefinition, DocumentKind, DocumentSchema, Place};
pub use error::{DefinitionError, Position, Subject};
pub use field::{FieldDefinition, FieldKind, FieldSchema, FieldType};
pub use id::{FieldId, TypeId};
pub use kind::{KindDefinition, KindSchema};
pub use schema::Schema;
pub use sequence::{SequenceDefinition, SequenceSchema};
pub use shop::{SHOP, shop};
