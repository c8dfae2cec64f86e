//! Series: gap-free numbers by name, without an application of the user.
//!
//! A series is a workspace of the built-in application `series`, named in the registry; its numbers are drawn from that
//! workspace's one sequence. Every answer is taken from an event of its log:
//!
//! ```text
//! event     argument           result                          header
//! Settings  first, format      created, first, format, next    raises the sequence to `first`, unless that is 1
//! Next      count, note        number, count, text             draws
//! Void      number, reason     number, next
//! Raise     next, reason       from, next                      raises
//! ```
//!
//! `Settings` is the first event of a series, or the series has none: then it begins at 1, and its text is the number alone.
//! The raise of `Settings` sets the first number of the series; it is not a gap.

mod commands;
mod format;
mod handle;
mod issued;

use seriatim_types::ApplicationId;

pub use format::{BadFormat, SeriesFormat};
pub use handle::{NextRequest, Series, SeriesState, TakenNumbers};
pub use issued::{Issued, Voided};

pub(crate) use commands::app;

use crate::apps::hosted::BuiltIn;
use crate::error::RequestError;
use crate::limits::NAME_BYTES_MAX;

/// The application's number, compiled in.
pub(crate) const ID: ApplicationId = ApplicationId::new(2);
/// Users take numbers and change settings by commands of their own; a workspace is created by its first use.
const BUILT_IN: BuiltIn = BuiltIn {
    id: ID,
    keeps_keys: false,
    refuses_workspaces: "a series is created by its first use or with its settings: do not create a workspace for it",
    refuses_commands: None,
    partitions_by_option: true,
};
/// The application's name, and the scope of its names in the registry.
pub(crate) const NAME: &str = "series";
/// The kind of its workspaces.
pub(crate) const KIND: &str = "series";
/// The one sequence of each of them.
pub(crate) const SEQUENCE: &str = "Number";

/// Refuses a text that cannot be the name of a series or of a block sequence.
pub(crate) fn check_name(what: &'static str, name: &str) -> Result<(), RequestError> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    if (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(allowed) {
        return Ok(());
    }
    Err(RequestError::BadName {
        what,
        max: NAME_BYTES_MAX,
        name: name.chars().take(NAME_BYTES_MAX).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_1_to_200_plain_characters() {
        for (name, fine) in [
            ("a", true),
            ("acme.invoices_2026-A", true),
            (&*"x".repeat(200), true),
            ("", false),
            (&*"x".repeat(201), false),
            ("a b", false),
            ("a/b", false),
            ("ä", false),
        ] {
            assert_eq!(check_name("series", name).is_ok(), fine, "{name}");
        }
    }
}
