//! Bearer tokens.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Creates a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"scopes": ["shop:write", "series:read"], "note": "the till at the corner"}))]
pub struct CreateToken {
    /// `APP:read`, `APP:write` or `APP:admin`; `*` means every application. `write` includes `read`, and `admin` includes
    /// both.
    #[schema(min_items = 1, max_items = 100, pattern = r"^(\*|[A-Za-z0-9._-]{1,200}):(read|write|admin)$")]
    pub scopes: Vec<String>,
    /// Who it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 200)]
    pub note: Option<String>,
}

/// A token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Token {
    /// Identifies the token. It is not a secret.
    #[schema(example = "9f86d081884c7d65")]
    pub id: String,
    /// What it may do.
    pub scopes: Vec<String>,
    /// Who it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// When it was made.
    pub at: String,
}

/// A new token with its secret, which is shown only in this answer.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CreatedToken {
    /// The token.
    #[serde(flatten)]
    pub token: Token,
    /// What is sent in the header `Authorization: Bearer SECRET`. The server keeps only a digest of it.
    pub secret: String,
}

impl fmt::Debug for CreatedToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CreatedToken").field("token", &self.token).finish_non_exhaustive()
    }
}

/// A page of tokens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Tokens {
    /// Ascending by id.
    pub tokens: Vec<Token>,
    /// The `after` of the next page; none on the last page.
    pub next: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_not_in_debug_output() {
        let token = Token { id: "1".to_owned(), scopes: Vec::new(), note: None, at: "now".to_owned() };
        let created = CreatedToken { token, secret: "hush".to_owned() };
        assert!(!format!("{created:?} {created:#?}").contains("hush"));
    }
}
