//! Workspaces on the command line, by id or by name.

use std::str::FromStr;

use seriatim_client::{Client, Workspace};

use crate::error::CliError;

/// A workspace, by its id or its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WorkspaceName {
    Id(u64),
    Name(String),
}

impl FromStr for WorkspaceName {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(text.parse().map_or_else(|_| Self::Name(text.to_owned()), Self::Id))
    }
}

impl WorkspaceName {
    /// Finds the workspace.
    pub(crate) async fn find(&self, client: &Client, application: &str) -> Result<Workspace, CliError> {
        let application_handle = client.application(application);
        let wanted = match self {
            Self::Id(id) => return Ok(application_handle.workspace(*id)),
            Self::Name(name) => name,
        };
        let found = application_handle.workspace_named(wanted).await?;
        let missing =
            || CliError::usage(format!("application {application} has no workspace named {wanted}"));
        Ok(application_handle.workspace(found.ok_or_else(missing)?.id))
    }
}
