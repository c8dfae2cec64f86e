//! What a token may do.

use std::fmt;
use std::str::FromStr;

use crate::apps::series::check_name;
use crate::error::RequestError;

/// A level of access. Each level includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Access {
    /// Reading everything.
    Read,
    /// Sending commands, drawing numbers, creating workspaces.
    Write,
    /// Backup, doctor, unfencing, tokens: these concern all applications together.
    Admin,
}

impl Access {
    fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A level of access to one application or to all. Series and blocks are the applications `series` and `blocks`.
///
/// ```
/// use seriatim_engine::{Access, Scope};
///
/// let scope: Scope = "shop:write".parse()?;
/// assert!(scope.includes(Some("shop"), Access::Read));
/// assert!(!scope.includes(Some("series"), Access::Read));
/// assert!("*:admin".parse::<Scope>()?.includes(None, Access::Admin));
/// # Ok::<(), seriatim_engine::BadScope>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Scope {
    /// `None`: all applications.
    application: Option<Box<str>>,
    access: Access,
}

/// Why a text is not a scope.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a scope: write APPLICATION:read, APPLICATION:write or APPLICATION:admin; APPLICATION is a name, or * for every application"
)]
pub struct BadScope(String);

impl From<BadScope> for RequestError {
    fn from(error: BadScope) -> Self {
        Self::Refused(error.to_string())
    }
}

impl Scope {
    /// The access to all applications.
    #[must_use]
    pub fn everywhere(access: Access) -> Self {
        Self { application: None, access }
    }

    /// Whether this scope allows an access to an application; `None`: to all of them together.
    #[must_use]
    pub fn includes(&self, application: Option<&str>, access: Access) -> bool {
        let here = match (&self.application, application) {
            (None, _) => true,
            (Some(own), Some(asked)) => **own == *asked,
            (Some(_), None) => false,
        };
        here && access <= self.access
    }

    /// Whether it allows creating tokens.
    pub(crate) fn administers(&self) -> bool {
        self.includes(None, Access::Admin)
    }
}

impl FromStr for Scope {
    type Err = BadScope;

    fn from_str(text: &str) -> Result<Self, BadScope> {
        let bad = || BadScope(text.chars().take(100).collect());
        let (application, access) = text.rsplit_once(':').ok_or_else(bad)?;
        let access =
            [Access::Read, Access::Write, Access::Admin].into_iter().find(|known| known.name() == access);
        let application = match application {
            "*" => None,
            name => Some(check_name("application", name).map(|()| name.into()).map_err(|_| bad())?),
        };
        Ok(Self { application, access: access.ok_or_else(bad)? })
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.application.as_deref().unwrap_or("*"), self.access)
    }
}

/// What the bearer of a token may do: everything that one of its scopes allows. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grants {
    pub(super) id: std::sync::Arc<str>,
    pub(super) scopes: std::sync::Arc<[Scope]>,
}

impl Grants {
    /// Whether an access to an application is allowed; `None`: to all of them together.
    #[must_use]
    pub fn allow(&self, application: Option<&str>, access: Access) -> bool {
        self.scopes.iter().any(|scope| scope.includes(application, access))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_includes_lower_levels() {
        for (scope, application, access, expected) in [
            ("shop:read", Some("shop"), Access::Read, true),
            ("shop:read", Some("shop"), Access::Write, false),
            ("shop:read", Some("shopping"), Access::Read, false),
            ("shop:write", Some("shop"), Access::Read, true),
            ("shop:write", Some("shop"), Access::Admin, false),
            ("shop:admin", Some("shop"), Access::Write, true),
            ("shop:admin", None, Access::Read, false),
            ("*:read", Some("shop"), Access::Read, true),
            ("*:read", None, Access::Read, true),
            ("*:write", None, Access::Admin, false),
            ("*:admin", None, Access::Admin, true),
        ] {
            let parsed: Scope = scope.parse().unwrap();
            assert_eq!(parsed.includes(application, access), expected, "{scope} {application:?} {access}");
            assert_eq!(parsed.to_string(), scope);
        }
    }

    #[test]
    fn what_is_not_a_scope_says_how_one_is_written() {
        for text in
            ["", "shop", "shop:", ":read", "shop:all", "sh op:read", "shop:READ", "a:b:read", "**:read"]
        {
            let error = text.parse::<Scope>().unwrap_err().to_string();
            assert!(error.contains("APPLICATION:read"), "{error}");
        }
    }
}
