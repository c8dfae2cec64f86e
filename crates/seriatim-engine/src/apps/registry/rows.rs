//! The rows, arguments and results of `sys` as types. A missing field is an error, and is never read as 0.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value as Json;

use crate::definition::{Accepted, Application};

/// A row of the view `applications`.
#[derive(Debug, Deserialize)]
pub(crate) struct ApplicationRow {
    pub(crate) accepted: Accepted,
}

/// A row of the view `names`.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct NameRow {
    pub(crate) id: u64,
}

/// A row of the view `workspaces`.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct WorkspaceRow {
    pub(crate) kind: u16,
    pub(crate) name: Option<String>,
}

/// A row of the view `blocks`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BlocksRow {
    pub(crate) first: u64,
    pub(crate) block_size: u64,
    /// Every number before this one is reserved or was skipped.
    pub(crate) next: u64,
    /// The first number of the last block, and the number of its numbers.
    pub(crate) base: u64,
    pub(crate) size: u64,
    /// How many of the reserved numbers may not have been given out.
    pub(crate) unused: u64,
    #[serde(default, deserialize_with = "zero_if_absent")]
    pub(crate) wasted: u64,
    /// How many restores it has skipped numbers for.
    #[serde(default, deserialize_with = "zero_if_absent")]
    pub(crate) restores: u64,
}

/// Reads a field that the first rows did not have. Without the field nothing was wasted, and no restore was skipped: 0.
fn zero_if_absent<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or(0))
}

/// For a flag that the first events did not have: it is written only if it is set.
fn is_false(flag: &bool) -> bool {
    !flag
}

/// The argument of `Accept`.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct AcceptArgs {
    pub(crate) name: String,
    pub(crate) definition: Application,
    /// The number of a built-in application.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) id: Option<u32>,
}

/// The part of this argument that the view `applications` needs.
#[derive(Debug, Deserialize)]
pub(crate) struct AcceptedName {
    pub(crate) name: String,
}

/// A row of the view `applications`, as it is written.
#[derive(Debug, Serialize)]
pub(crate) struct StoredApplication {
    pub(crate) accepted: Json,
}

/// The argument of `Fenced`.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct FenceArgs {
    pub(crate) tails: Vec<(u32, u16, u64)>,
}

/// The argument of `Register`.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RegisterArgs {
    pub(crate) application: u32,
    pub(crate) kind: u16,
    pub(crate) scope: String,
    pub(crate) name: Option<String>,
    pub(crate) candidate: u64,
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) unfencing: bool,
}

/// The result of `Register`.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Registered {
    pub(crate) id: u64,
    pub(crate) created: bool,
}

/// The argument of `DefineBlocks`.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct DefineArgs {
    pub(crate) name: String,
    pub(crate) first: u64,
    pub(crate) block_size: u64,
}

/// The result of `DefineBlocks`.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Defined {
    pub(crate) created: bool,
    /// How many restores there were. Only in the result for a new block sequence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) restores: Option<u64>,
}

/// The argument of `ReserveBlock`.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ReserveArgs {
    pub(crate) name: String,
    pub(crate) min: u64,
    pub(crate) want: u64,
    /// How many numbers of earlier blocks the caller has not given out.
    pub(crate) unused: u64,
    /// Whether it is the first reservation of its caller.
    #[serde(default)]
    pub(crate) opening: bool,
    /// Whether all of its numbers are given out at once.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) taken: bool,
}

/// The result of `ReserveBlock`.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Reserved {
    pub(crate) base: u64,
    pub(crate) size: u64,
    #[serde(default)]
    pub(crate) skipped: u64,
    #[serde(default)]
    pub(crate) wasted: u64,
    #[serde(default)]
    pub(crate) restores: u64,
}

/// The argument of `ReleaseBlock`.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ReleaseArgs {
    pub(crate) name: String,
    pub(crate) base: u64,
    pub(crate) size: u64,
}

/// The result of `ReleaseBlock`.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Released {
    pub(crate) released: bool,
}

/// The argument of `RaiseBlocks`.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RaiseArgs {
    pub(crate) name: String,
    pub(crate) next: u64,
    /// Why, for readers of the log.
    #[serde(default)]
    pub(crate) reason: String,
}

/// The result of `RaiseBlocks`.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Raised {
    pub(crate) from: u64,
    pub(crate) next: u64,
    pub(crate) restores: u64,
}

impl BlocksRow {
    /// The row of a block sequence that was just created.
    pub(crate) fn defined(args: &DefineArgs, restores: u64) -> Self {
        let (first, block_size) = (args.first, args.block_size);
        Self { first, block_size, next: first, base: first, size: 0, unused: 0, wasted: 0, restores }
    }

    /// The row after a reservation.
    pub(crate) fn reserved(mut self, args: &ReserveArgs, result: &Reserved) -> Self {
        let Reserved { base, size, wasted, restores, .. } = *result;
        (self.base, self.size, self.next) = (base, size, base.saturating_add(size));
        // The caller's unused numbers are those it had before and the whole new block. A block that is taken at once has no
        // unused numbers, and the count of the other caller does not change.
        if !args.taken {
            self.unused = args.unused.saturating_add(size);
        }
        (self.wasted, self.restores) = (self.wasted.saturating_add(wasted), restores);
        self
    }

    /// The row after the end of a block was given back.
    pub(crate) fn released(mut self, args: &ReleaseArgs) -> Self {
        let base = self.base.min(args.base);
        (self.base, self.size, self.next, self.unused) = (base, args.base - base, args.base, 0);
        self
    }

    /// The row after a raise.
    pub(crate) fn raised(mut self, result: &Raised) -> Self {
        (self.base, self.next, self.size, self.unused) = (result.next, result.next, 0, 0);
        self.restores = result.restores;
        self
    }
}

#[cfg(test)]
mod tests {
    use serde::de::DeserializeOwned;
    use serde_json::json;

    use super::*;

    /// Everything but the optional fields is required.
    fn check<T: DeserializeOwned>(whole: &Json, optional: &[&str]) {
        assert!(serde_json::from_value::<T>(whole.clone()).is_ok(), "{whole}");
        for field in whole.as_object().unwrap().keys() {
            let mut part = whole.clone();
            part.as_object_mut().unwrap().remove(field);
            let is_optional = optional.contains(&field.as_str());
            assert_eq!(serde_json::from_value::<T>(part).is_ok(), is_optional, "{whole} without {field}");
        }
    }

    #[test]
    fn a_missing_field_is_an_error() {
        check::<NameRow>(&json!({"id": 1}), &[]);
        check::<WorkspaceRow>(&json!({"kind": 1, "name": null}), &["name"]);
        let row = json!({"first": 1, "block_size": 2, "next": 3, "base": 1, "size": 2, "unused": 2, "wasted": 0, "restores": 0});
        check::<BlocksRow>(&row, &["wasted", "restores"]);
        check::<Registered>(&json!({"id": 1, "created": true}), &[]);
        check::<ReserveArgs>(
            &json!({"name": "b", "min": 1, "want": 1, "unused": 0, "opening": true, "taken": true}),
            &["opening", "taken"],
        );
        check::<Reserved>(
            &json!({"base": 1, "size": 1, "skipped": 0, "wasted": 0, "restores": 0}),
            &["skipped", "wasted", "restores"],
        );
        check::<ReleaseArgs>(&json!({"name": "b", "base": 1, "size": 1}), &[]);
        check::<Raised>(&json!({"from": 1, "next": 2, "restores": 0}), &[]);
    }

    #[test]
    fn a_row_of_the_first_form_has_wasted_nothing_and_skipped_no_restore() {
        let row = json!({"first": 1, "block_size": 2, "next": 3, "base": 1, "size": 2, "unused": 2});
        let read = |row: Json| serde_json::from_value::<BlocksRow>(row).unwrap();
        let mut later = row.clone();
        (later["restores"], later["wasted"]) = (Json::Null, json!(0));
        assert_eq!((read(row).restores, read(later).restores), (0, 0));
    }
}
