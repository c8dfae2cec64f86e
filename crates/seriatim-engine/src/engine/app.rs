//! An application to be run: its definition and its code.

use std::collections::HashMap;
use std::sync::Arc;

use crate::apps::hosted::BuiltIn;
use crate::command::context::Command;
use crate::command::projector::Projector;
use crate::definition::Application;
use crate::partition::async_projector::AsyncProjector;

/// An application to be run: a definition, and the code of its commands and views.
///
/// A command without code logs its argument and makes the changes of the request.
#[derive(Debug)]
pub struct App {
    pub(crate) definition: Application,
    pub(crate) commands: HashMap<String, Arc<dyn Command>>,
    pub(crate) projectors: Vec<Arc<dyn Projector>>,
    pub(crate) async_projectors: Vec<Arc<dyn AsyncProjector>>,
    pub(crate) built_in: Option<BuiltIn>,
}

impl App {
    /// An application without code of its own.
    #[must_use]
    pub fn new(definition: Application) -> Self {
        Self {
            definition,
            commands: HashMap::new(),
            projectors: Vec::new(),
            async_projectors: Vec::new(),
            built_in: None,
        }
    }

    /// With code for a command of the definition.
    #[must_use]
    pub fn command(mut self, name: &str, command: impl Command) -> Self {
        self.commands.insert(name.to_owned(), Arc::new(command));
        self
    }

    /// With a view that is kept in step with the log.
    #[must_use]
    pub fn projector(mut self, projector: impl Projector) -> Self {
        self.projectors.push(Arc::new(projector));
        self
    }

    /// With code that follows the log at its own pace.
    #[must_use]
    pub fn async_projector(mut self, projector: impl AsyncProjector) -> Self {
        self.async_projectors.push(Arc::new(projector));
        self
    }
}
