//! Projectors: code of the application that keeps views.

use std::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value as Json;
use seriatim_types::PartitionOffset;

use crate::command::event::{Event, Place};
use crate::command::view::{self, KeyPart, ViewKeys};
use crate::definition::Schema;
use crate::derive::keys::{StoreKey, WorkspaceKeys};
use crate::derive::{DerivedState, Found, REMOVED};

/// Keeps a view, in step with the log: what it writes for an event is seen by the next command.
///
/// A row is a fold: its new value is made from the event and from the row's own last value, and from nothing else. So each
/// event counts once, whatever crashed in between. A projector may be called more than once for an event before it counts,
/// and must do the same each time.
pub trait Projector: Send + Sync + 'static {
    /// The view that it keeps: 1 to 100 of `A-Z a-z 0-9 . _ -`.
    fn view(&self) -> &str;

    /// Takes an event in.
    ///
    /// # Errors
    ///
    /// Why the event cannot be: the command is refused with this text. An event that is in the log already must be taken.
    fn project(&self, event: &Projected<'_>, rows: &mut Rows<'_>) -> Result<(), String>;
}

/// A projector made of a view's name and a function.
pub fn projector<F>(view: impl Into<String>, project: F) -> impl Projector
where
    F: Fn(&Projected<'_>, &mut Rows<'_>) -> Result<(), String> + Send + Sync + 'static,
{
    Plain { view: view.into(), project }
}

struct Plain<F> {
    view: String,
    project: F,
}

impl<F> Projector for Plain<F>
where
    F: Fn(&Projected<'_>, &mut Rows<'_>) -> Result<(), String> + Send + Sync + 'static,
{
    fn view(&self) -> &str {
        &self.view
    }

    fn project(&self, event: &Projected<'_>, rows: &mut Rows<'_>) -> Result<(), String> {
        (self.project)(event, rows)
    }
}

impl fmt::Debug for dyn Projector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Projector({})", self.view())
    }
}

/// An event as projectors see it.
#[derive(Debug, Clone, Copy)]
pub struct Projected<'a> {
    /// Where it stands.
    pub place: Place,
    /// What it says.
    pub event: &'a Event,
    /// What its types and fields are called.
    pub schema: &'a Schema,
}

/// The rows of a projector's view in the event's workspace.
#[derive(Debug)]
pub struct Rows<'a> {
    state: DerivedState<'a>,
    keys: WorkspaceKeys,
    view: &'a str,
    rows: ViewKeys,
    offset: PartitionOffset,
    bad: Option<StoreKey>,
}

impl<'a> Rows<'a> {
    pub(crate) fn new(
        state: DerivedState<'a>,
        keys: WorkspaceKeys,
        view: &'a str,
        offset: PartitionOffset,
    ) -> Self {
        Self { state, keys, view, rows: ViewKeys::new(keys, view), offset, bad: None }
    }

    /// The rows of the same view that all workspaces of the partition have in common.
    pub fn in_common(&mut self) -> Rows<'_> {
        Rows::new(self.state.reborrow(), self.keys.in_common(), self.view, self.offset)
    }

    /// Sets a row, whatever it was before. Applying the event again sets it again, and so do the later events.
    pub fn put(&mut self, key: &[KeyPart], row: &Json) {
        let key = self.rows.row(key);
        self.state.put(key, view::encode_row(self.offset, Some(row)));
    }

    /// Removes a row. Unlike a row that [`Rows::fold`] removes, it leaves nothing in the store.
    pub fn remove(&mut self, key: &[KeyPart]) {
        let key = self.rows.row(key);
        self.state.put(key, REMOVED);
    }

    /// Changes a row: `change` gets what it is (`None`: there is none) and returns what it becomes (`None`: it goes).
    pub fn fold(&mut self, key: &[KeyPart], change: impl FnOnce(Option<Json>) -> Option<Json>) {
        let key = self.rows.row(key);
        let Ok(found) = self.state.find(&key) else {
            return;
        };
        let is_own = matches!(found, Found::Draft(_));
        let row = match found.into_value().map(|bytes| view::decode_row(&bytes)).transpose() {
            Ok(row) => row,
            Err(_) => {
                self.bad = Some(key);
                return;
            }
        };
        let row = match row {
            // The event is in already.
            Some((folded, _)) if folded >= self.offset && !is_own => return,
            Some((_, row)) => row,
            None => None,
        };
        let row = change(row);
        self.state.put(key, view::encode_row(self.offset, row.as_ref()));
    }

    /// As [`Rows::fold`], with the row's fields. After an error the event counts for nothing, and neither does the row.
    pub(crate) fn fold_as<T: Serialize + DeserializeOwned>(
        &mut self,
        key: &[KeyPart],
        change: impl FnOnce(Option<T>) -> Result<Option<T>, String>,
    ) -> Result<(), String> {
        let (view, mut result) = (self.view, Ok(()));
        self.fold(key, |row| {
            let row = row.map(|row| view::read_row(view, key, row)).transpose();
            let changed = row.map_err(|bad| bad.to_string()).and_then(change);
            let changed = changed
                .and_then(|row| row.map(serde_json::to_value).transpose().map_err(|error| error.to_string()));
            changed.unwrap_or_else(|problem| {
                result = Err(problem);
                None
            })
        });
        result
    }

    /// The first row that could not be read.
    pub(crate) fn into_bad(self) -> Option<StoreKey> {
        self.bad
    }
}
