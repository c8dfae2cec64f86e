//! The engine of Seriatim. It turns commands into numbered events.
//!
//! The partition log is the source of truth. Records, views, workspace logs and numbers are derived from it.
//!
//! Begin with [`Engine`]: it opens applications ([`App`]), and [`Engine::submit`] runs a [`Request`]. [`Series`], [`Blocks`]
//! and [`Tokens`] need no application of a user.
#![forbid(unsafe_code)]

pub mod alone;
mod apps;
mod command;
mod derive;
mod engine;
mod error;
pub mod limits;
mod metrics;
mod operate;
mod partition;
mod read;

/// Definitions of applications: the crate `seriatim-definition`.
pub use seriatim_definition as definition;

pub use apps::blocks::handle::{Allocated, Blocks, BlocksState};
pub use apps::hosted::{BuiltIn, HostClaim, Hosted};
pub use apps::registry::Workspace;
pub use apps::series::{
    BadFormat, Issued, NextRequest, Series, SeriesFormat, SeriesState, TakenNumbers, Voided,
};
pub use apps::tokens::{Access, BadScope, CreatedToken, Grants, Scope, Secret, Token, Tokens};
pub use command::apply::ApplyError;
pub use command::codec::BadBytes;
pub use command::context::{Command, CommandError, Context};
pub use command::event::{Argument, Change as EventChange, Event, Fields, Idempotency, Place, Row};
pub use command::projector::{Projected, Projector, Rows, projector};
pub use command::record::{Record, Registered};
pub use command::request::{Answer, CHANGE, Change, DrawnFields, Request};
pub use command::value::{Value, moment};
pub use command::view::{BadRow, KeyPart};
pub use derive::keys::StoreKey;
pub use engine::app::App;
pub use engine::options::Options;
pub use engine::others::{Among, Call, HostedCalls, Others, Raising, Registering, Reply};
pub use engine::{Engine, OpenError};
pub use error::{RequestError, SubmitError};
pub use operate::unfence::{Fenced, Unfence};
pub use operate::{audit, doctor, local};
pub use partition::async_projector::AsyncProjector;
pub use partition::{PartitionState, PartitionStatus};
pub use read::follow::{PartitionFollower, WorkspaceFollower};
pub use read::{Found, Placed, SequenceState};
