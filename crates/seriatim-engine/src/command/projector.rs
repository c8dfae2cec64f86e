//! Projectors: code of an application that maintains its views.

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

/// Maintains a view. The rows that it writes for an event are part of the same step as the event: the next command reads
/// them.
///
/// The new value of a row depends only on the event and on the previous value of the same row. So each event counts once,
/// also after a crash. A projector may be called more than once for an event, and must do the same each time.
pub trait Projector: Send + Sync + 'static {
    /// The name of its view: 1 to 100 of the characters `A-Z a-z 0-9 . _ -`.
    fn view(&self) -> &str;

    /// Updates the rows for an event.
    ///
    /// # Errors
    ///
    /// A text that says why the event is not possible: the command is refused with it, and nothing is written. An event that
    /// is in the log must not be refused: its partition would stop.
    fn project(&self, event: &Projected<'_>, rows: &mut Rows<'_>) -> Result<(), String>;
}

/// A projector from the name of a view and a function.
pub fn projector<F>(view: impl Into<String>, project: F) -> impl Projector
where
    F: Fn(&Projected<'_>, &mut Rows<'_>) -> Result<(), String> + Send + Sync + 'static,
{
    FunctionProjector { view: view.into(), project }
}

struct FunctionProjector<F> {
    view: String,
    project: F,
}

impl<F> Projector for FunctionProjector<F>
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

/// An event, as projectors receive it.
#[derive(Debug, Clone, Copy)]
pub struct Projected<'a> {
    /// Its place.
    pub place: Place,
    /// Its content.
    pub event: &'a Event,
    /// The definition, with the names of its types and fields.
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

    /// The rows of the same view that all workspaces of the partition share.
    pub fn in_common(&mut self) -> Rows<'_> {
        Rows::new(self.state.reborrow(), self.keys.in_common(), self.view, self.offset)
    }

    /// Sets a row, whatever its previous value is. If the event is applied again, it sets the row again, and the later events
    /// that follow do the same.
    pub fn put(&mut self, key: &[KeyPart], row: &Json) {
        let key = self.rows.row(key);
        self.state.put(key, view::encode_row(self.offset, Some(row)));
    }

    /// Removes a row. Nothing of it remains in the store, unlike after a removal by [`Rows::fold`], which keeps an offset.
    pub fn remove(&mut self, key: &[KeyPart]) {
        let key = self.rows.row(key);
        self.state.put(key, REMOVED);
    }

    /// Changes a row. `change` receives its value (`None`: there is no row) and returns the new one (`None`: the row is
    /// removed).
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
            // The row contains this event already.
            Some((folded, _)) if folded >= self.offset && !is_own => return,
            Some((_, row)) => row,
            None => None,
        };
        let row = change(row);
        self.state.put(key, view::encode_row(self.offset, row.as_ref()));
    }

    /// As [`Rows::fold`], with the row as a typed value. After an error nothing of the event is kept, so neither is the row.
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
