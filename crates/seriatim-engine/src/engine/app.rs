//! An application to run: its definition and its code.

use std::collections::HashMap;
use std::sync::Arc;

use crate::apps::hosted::BuiltIn;
use crate::command::context::Command;
use crate::command::projector::Projector;
use crate::definition::Application;
use crate::partition::async_projector::AsyncProjector;

/// An application to run: a definition, and the code of its commands and views.
///
/// A command without code logs its argument and makes the changes of the request. [`Engine::open`](crate::Engine::open)
/// refuses code for a command that the definition does not have.
///
/// ```
/// use seriatim_engine::definition::{Application, CommandDefinition, KindDefinition};
/// use seriatim_engine::{App, CommandError, Context, projector};
/// use serde_json::{Value, json};
///
/// let definition = Application::builder("greeter")
///     .partitions(1)
///     .command(CommandDefinition::with_json("Greet"))
///     .kind(KindDefinition::new("room"))
///     .build()?;
/// let greet = |context: &mut Context<'_, '_>| -> Result<Value, CommandError> {
///     let name = context.args()["name"].as_str();
///     let name = name.ok_or_else(|| CommandError::Invalid("\"name\" is missing".to_owned()))?;
///     Ok(json!({ "greeting": format!("Hello, {name}") }))
/// };
/// let count = projector("greetings", |_, rows| {
///     rows.fold(&["count".into()], |row| Some(json!(row.and_then(|row| row.as_u64()).unwrap_or(0) + 1)));
///     Ok(())
/// });
/// let app = App::new(definition).command("Greet", greet).projector(count);
/// # let _ = app;
/// # Ok::<(), seriatim_engine::definition::DefinitionError>(())
/// ```
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

    /// The same application with code for a command of the definition.
    #[must_use]
    pub fn command(mut self, name: &str, command: impl Command) -> Self {
        self.commands.insert(name.to_owned(), Arc::new(command));
        self
    }

    /// The same application with a view that is updated with each event: the next command reads the change.
    #[must_use]
    pub fn projector(mut self, projector: impl Projector) -> Self {
        self.projectors.push(Arc::new(projector));
        self
    }

    /// The same application with code that follows the log in the background, at its own pace.
    #[must_use]
    pub fn async_projector(mut self, projector: impl AsyncProjector) -> Self {
        self.async_projectors.push(Arc::new(projector));
        self
    }
}
