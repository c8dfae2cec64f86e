//! What rows and events of `sys` say, by field. A field that is missing is an error and never 0.

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
    /// Every number before this one is reserved, or was skipped.
    pub(crate) next: u64,
    /// The last block: where it begins, and how many numbers it has.
    pub(crate) base: u64,
    pub(crate) size: u64,
    /// How many of the reserved numbers may not have been handed out.
    pub(crate) unused: u64,
    #[serde(default, deserialize_with = "later")]
    pub(crate) wasted: u64,
    /// How many restores it has skipped numbers for.
    #[serde(default, deserialize_with = "later")]
    pub(crate) restores: u64,
}

/// A field that the first events did not have. Those that lack it have wasted nothing, and have skipped for no restore: what 0 says.
fn later<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or(0))
}

/// A flag that the first events did not have is written only if it is set.
fn is_false(flag: &bool) -> bool {
    !flag
}

/// What `Accept` is asked.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct AcceptArgs {
    pub(crate) name: String,
    pub(crate) definition: Application,
    /// The number of an application that is built in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) id: Option<u32>,
}

/// What the view `applications` needs of that.
#[derive(Debug, Deserialize)]
pub(crate) struct AcceptedName {
    pub(crate) name: String,
}

/// A row of the view `applications`, as it is written.
#[derive(Debug, Serialize)]
pub(crate) struct StoredApplication {
    pub(crate) accepted: Json,
}

/// What `Fenced` is asked.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct FenceArgs {
    pub(crate) tails: Vec<(u32, u16, u64)>,
}

/// What `Register` is asked.
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

/// What `Register` answers.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Registered {
    pub(crate) id: u64,
    pub(crate) created: bool,
}

/// What `DefineBlocks` is asked.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct DefineArgs {
    pub(crate) name: String,
    pub(crate) first: u64,
    pub(crate) block_size: u64,
}

/// What `DefineBlocks` answers.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Defined {
    pub(crate) created: bool,
    /// How many restores there were; only of one that is new.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) restores: Option<u64>,
}

/// What `ReserveBlock` is asked.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ReserveArgs {
    pub(crate) name: String,
    pub(crate) min: u64,
    pub(crate) want: u64,
    /// What the caller holds of earlier blocks.
    pub(crate) unused: u64,
    /// Whether it is the first one of its caller.
    #[serde(default)]
    pub(crate) opening: bool,
    /// Whether all of it is handed out at once.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) taken: bool,
}

/// What `ReserveBlock` answers.
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

/// What `ReleaseBlock` is asked.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ReleaseArgs {
    pub(crate) name: String,
    pub(crate) base: u64,
    pub(crate) size: u64,
}

/// What `ReleaseBlock` answers.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Released {
    pub(crate) released: bool,
}

/// What `RaiseBlocks` is asked.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RaiseArgs {
    pub(crate) name: String,
    pub(crate) next: u64,
    /// For those who read the log.
    #[serde(default)]
    pub(crate) reason: String,
}

/// What `RaiseBlocks` answers.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Raised {
    pub(crate) from: u64,
    pub(crate) next: u64,
    pub(crate) restores: u64,
}

impl BlocksRow {
    /// Of a block sequence that was just created.
    pub(crate) fn defined(args: &DefineArgs, restores: u64) -> Self {
        let (first, block_size) = (args.first, args.block_size);
        Self { first, block_size, next: first, base: first, size: 0, unused: 0, wasted: 0, restores }
    }

    /// After a reservation.
    pub(crate) fn reserved(mut self, args: &ReserveArgs, result: &Reserved) -> Self {
        let Reserved { base, size, wasted, restores, .. } = *result;
        (self.base, self.size, self.next) = (base, size, base.saturating_add(size));
        // What the caller held before, and all of the block: no one has got any of it yet. What is taken at once leaves
        // things as they were for the holder of the block before.
        if !args.taken {
            self.unused = args.unused.saturating_add(size);
        }
        (self.wasted, self.restores) = (self.wasted.saturating_add(wasted), restores);
        self
    }

    /// After a tail was given back.
    pub(crate) fn released(mut self, args: &ReleaseArgs) -> Self {
        let base = self.base.min(args.base);
        (self.base, self.size, self.next, self.unused) = (base, args.base - base, args.base, 0);
        self
    }

    /// After a raise.
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
    fn a_row_of_the_first_form_has_wasted_nothing_and_seen_no_restore() {
        let row = json!({"first": 1, "block_size": 2, "next": 3, "base": 1, "size": 2, "unused": 2});
        let read = |row: Json| serde_json::from_value::<BlocksRow>(row).unwrap();
        let mut later = row.clone();
        (later["restores"], later["wasted"]) = (Json::Null, json!(0));
        assert_eq!((read(row).restores, read(later).restores), (0, 0));
    }
}
