//! Bearer tokens: which callers may do what. They are events of `sys`.
//!
//! ```text
//! event        argument                   result
//! CreateToken  id, digest, scopes, note   null
//! RevokeToken  id                         administers: whether it could create tokens
//!
//! view          row's key   row
//! tokens        id          { "digest", "scopes", "note", "at" }
//! token_counts  "counts"    { "tokens", "administering" }
//! ```
//!
//! A secret is random and is shown once; the log has its SHA-256. All tokens are also in memory, where requests are checked.
//! Tokens can be created and revoked on a restored copy too, before it is unfenced: in the copy, tokens that were revoked after
//! the backup are valid again.

mod commands;
mod handle;
mod scope;
mod table;

pub use handle::{CreatedToken, Secret, Token, Tokens};
pub use scope::{Access, BadScope, Grants, Scope};

pub(crate) use commands::{CREATE, REVOKE, TOKENS_VIEW, add_to};
pub(crate) use table::TokenTable;
