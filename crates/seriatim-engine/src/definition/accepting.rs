//! Accepting a definition.

use seriatim_types::ApplicationId;

use super::{Accepted, Application, DefinitionError};

pub(super) fn accept(
    _previous: Option<&Accepted>,
    id: ApplicationId,
    application: &Application,
) -> Result<Accepted, DefinitionError> {
    application.check()?;
    Ok(Accepted {
        id: id.get(),
        application: application.clone(),
        documents: Vec::new(),
        sequences: Vec::new(),
        kinds: Vec::new(),
    })
}
