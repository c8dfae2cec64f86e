//! Bearer tokens: who may do what, as events of `sys`.
//!
//! ```text
//! event        argument                   result
//! CreateToken  id, digest, scopes, note   null
//! RevokeToken  id                         administers: whether it could make tokens
//!
//! view          row's key   row
//! tokens        id          { "digest", "scopes", "note", "at" }
//! token_counts  "counts"    { "tokens", "administering" }
//! ```
//!
//! A secret is random and shown once; the log has its SHA-256. All tokens are kept in memory besides, where requests look.
//! Tokens are made and revoked on a restored copy too, before it is unfenced: a backup brings back those that were revoked
//! after it was made.

mod commands;
mod handle;
mod scope;
mod table;

pub use handle::{CreatedToken, Secret, Token, Tokens};
pub use scope::{Access, BadScope, Grants, Scope};

pub(crate) use commands::{CREATE, REVOKE, add_to};
pub(crate) use table::TokenTable;
