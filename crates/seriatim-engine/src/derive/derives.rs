//! What is derived from an event besides numbers.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use seriatim_sequencer::{Definition, StopReason};
use seriatim_types::Partition;

use super::draft::{DerivedState, Values};
use super::keys::StoreKey;
use crate::command::apply::{ApplyError, Derivation, Pass};
use crate::command::codec::BadBytes;
use crate::command::event::{Event, Place};

/// What is derived from an event besides numbers.
pub(crate) trait Derives: fmt::Debug + Send + Sync + 'static {
    /// Whether anything is derived besides numbers. If not, bodies are not read.
    const VALUES: bool;

    /// What a group changes besides numbers. It is sealed with the group.
    type Values: Send;

    /// An event that was read from its body.
    type Event: Send + Sync;

    fn sequences(&self) -> &Definition;

    fn read(&self, body: &[u8]) -> Result<Self::Event, BadBytes>;

    /// Writes to the draft what follows from an event of the log. If values have to be read first, the draft lists their keys,
    /// and its other contents have no meaning.
    fn apply(
        &self,
        partition: Partition,
        place: Place,
        event: &Self::Event,
        state: &mut DerivedState<'_>,
    ) -> Result<(), ApplyError>;

    fn writes(values: Self::Values) -> impl Iterator<Item = (StoreKey, Bytes)>;

    /// Checks that every event that was read before the call was written with a definition that derives the same.
    fn check_definition(&self) -> impl Future<Output = Result<(), StopReason>> + Send {
        async { Ok(()) }
    }
}

impl Derives for Derivation {
    const VALUES: bool = true;

    type Values = Values;
    type Event = Event;

    fn sequences(&self) -> &Definition {
        self.schema.sequences()
    }

    fn read(&self, body: &[u8]) -> Result<Event, BadBytes> {
        Event::decode(body)
    }

    fn apply(
        &self,
        partition: Partition,
        place: Place,
        event: &Event,
        state: &mut DerivedState<'_>,
    ) -> Result<(), ApplyError> {
        self.apply(partition, place, event, Pass::Again, state)
    }

    fn writes(values: Values) -> impl Iterator<Item = (StoreKey, Bytes)> {
        values.into_iter()
    }

    async fn check_definition(&self) -> Result<(), StopReason> {
        match &self.accepted {
            Some(accepted) => accepted.check().await,
            None => Ok(()),
        }
    }
}

/// Derives numbers only. They follow from the headers of the entries.
#[derive(Debug)]
pub(crate) struct NumbersOnly(pub(crate) Arc<Definition>);

impl Derives for NumbersOnly {
    const VALUES: bool = false;

    type Values = ();
    type Event = ();

    fn sequences(&self) -> &Definition {
        &self.0
    }

    fn read(&self, _: &[u8]) -> Result<(), BadBytes> {
        Ok(())
    }

    fn apply(&self, _: Partition, _: Place, (): &(), _: &mut DerivedState<'_>) -> Result<(), ApplyError> {
        Ok(())
    }

    fn writes((): ()) -> impl Iterator<Item = (StoreKey, Bytes)> {
        std::iter::empty()
    }
}
