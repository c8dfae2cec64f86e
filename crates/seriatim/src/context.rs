//! What every command uses: the environment and the settings.

use std::path::PathBuf;

use seriatim_env::Env;

use crate::error::CliError;
use crate::settings::{Flags, Settings};

/// What every command uses: the environment and the settings.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) env: Env,
    config: Option<PathBuf>,
}

impl Context {
    pub(crate) fn new(config: Option<PathBuf>) -> Self {
        Self { env: Env::real(), config }
    }

    /// The settings, with the flags that were given.
    pub(crate) fn settings_with(&self, flags: Flags) -> Result<Settings, CliError> {
        Settings::read(self.config.as_deref(), flags.values)
    }

    /// The settings of a command without flags for them.
    pub(crate) fn settings(&self) -> Result<Settings, CliError> {
        Settings::read(self.config.as_deref(), Vec::new())
    }
}
