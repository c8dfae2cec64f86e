//! Reading an application from TOML.

use super::{Application, DefinitionError, Position};

pub(super) fn read(text: &str) -> Result<Application, DefinitionError> {
    let at = Position::of(text, 0);
    Err(DefinitionError::Syntax { at, problem: "not yet".to_owned() })
}
