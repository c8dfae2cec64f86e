//! Whether the definition that an engine has is still the one that the registry has.

use std::sync::Arc;

use seriatim_sequencer::StopReason;

use super::{Registry, WORKSPACE};
use crate::definition::Accepted;
use crate::engine::running::Running;

/// A definition, and the registry that accepted it.
#[derive(Debug)]
pub(crate) struct AcceptedIn {
    pub(crate) sys: Arc<Running>,
    pub(crate) accepted: Accepted,
}

impl AcceptedIn {
    /// Checks that the accepted definition derives what this one derives. An engine with a later definition has it accepted before it
    /// takes any partition. So this covers every event that was read before the call.
    ///
    /// # Errors
    ///
    /// [`StopReason::LaterDefinition`]. [`StopReason::UnknownDefinition`] if the registry cannot be read at present.
    pub(crate) async fn check(&self) -> Result<(), StopReason> {
        let name = &*self.accepted.application().name;
        let unknown = |why: String| Err(StopReason::UnknownDefinition(why));
        // What a deposed owner of the registry has is old, also if it has not noticed yet.
        let current = self.sys.partition_of(WORKSPACE).follow_if_deposed().await;
        let found = match current {
            Ok(()) => Registry { sys: &self.sys }.accepted(name).await,
            Err(error) => Err(error),
        };
        match found {
            Ok(Some(accepted)) if accepted.derives_the_same(&self.accepted) => Ok(()),
            Ok(Some(_)) => Err(StopReason::LaterDefinition(name.to_owned())),
            Ok(None) => unknown(format!("the registry has no application {name}")),
            Err(error) => unknown(error.to_string()),
        }
    }
}
