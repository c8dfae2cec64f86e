//! Workspaces, as they are named on the command line.

use std::str::FromStr;

use seriatim_client::{Client, Workspace};

use crate::error::CliError;

/// Workspaces that are asked for at once while one is looked for by its name.
const PAGE: u32 = 1_000;

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
    /// The workspace that it leads to.
    pub(crate) async fn find(&self, client: &Client, application: &str) -> Result<Workspace, CliError> {
        let application_handle = client.application(application);
        let wanted = match self {
            Self::Id(id) => return Ok(application_handle.workspace(*id)),
            Self::Name(name) => name,
        };
        let mut after = None;
        loop {
            let page = application_handle.workspaces(after, PAGE).await?;
            let found = page.workspaces.iter().find(|workspace| workspace.name.as_ref() == Some(wanted));
            if let Some(found) = found {
                return Ok(application_handle.workspace(found.id));
            }
            if page.workspaces.is_empty() {
                return Err(CliError::usage(format!(
                    "application {application} has no workspace named {wanted}"
                )));
            }
            after = page.workspaces.last().map(|workspace| workspace.id);
        }
    }
}
