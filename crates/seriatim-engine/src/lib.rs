//! Commands become numbered events.
//!
//! The partition log is the truth; records, views, the workspace log and numbers are derived from it.
#![forbid(unsafe_code)]

pub mod alone;
mod app;
mod apply;
pub mod audit;
mod blocks;
mod codec;
mod command;
pub mod definition;
mod derive;
pub mod doctor;
mod engine;
mod error;
mod event;
mod event_clock;
mod fence;
mod follow;
mod follower;
mod hosted;
mod keys;
pub mod limits;
mod metrics;
mod named_blocks;
mod options;
mod partition;
mod prepare;
mod prepared;
mod projector;
mod read;
mod record;
mod registry;
mod request;
mod series;
mod sync;
mod tokens;
mod unfence;
mod value;
mod view;

pub use app::App;
pub use apply::ApplyError;
pub use codec::BadBytes;
pub use command::{Command, CommandError, Context};
pub use engine::{Engine, OpenError};
pub use error::{RequestError, SubmitError};
pub use event::{Argument, Change as EventChange, Event, Fields, Idempotency, Place, Row};
pub use follow::{PartitionFollower, WorkspaceFollower};
pub use follower::AsyncProjector;
pub use hosted::{BuiltIn, HostClaim, Hosted};
pub use keys::StoreKey;
pub use named_blocks::{Allocated, Blocks, BlocksState};
pub use options::Options;
pub use partition::{PartitionState, PartitionStatus};
pub use projector::{Projected, Projector, Rows, projector};
pub use read::{Found, Placed, SequenceState};
pub use record::{Record, Registered};
pub use registry::Workspace;
pub use request::{Answer, CHANGE, Change, DrawnFields, Request};
pub use series::{BadFormat, Issued, NextRequest, Series, SeriesFormat, SeriesState, Taken, Voided};
pub use tokens::{Access, BadScope, CreatedToken, Grants, Scope, Secret, Token, Tokens};
pub use unfence::{Fenced, Unfence};
pub use value::{Value, moment};
pub use view::{BadRow, KeyPart};
