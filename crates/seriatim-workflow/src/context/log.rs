//! What a run says to those who watch it.

use std::fmt;
use std::sync::Arc;

use super::Context;

/// How much a line of the log matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LogLevel {
    /// Of use while the code is being written.
    Debug,
    /// What happens.
    Info,
    /// Something that an operator should check.
    Warn,
    /// Something that is wrong.
    Error,
}

/// A line that workflow code has logged. The host writes it: see [`Instance::log_to`](crate::Instance::log_to).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// How much it matters.
    pub level: LogLevel,
    /// The type of the workflow.
    pub workflow_type: String,
    /// The workflow.
    pub workflow_id: String,
    /// The run.
    pub run_id: String,
    /// The branch that has logged it.
    pub branch: String,
    /// What it says.
    pub message: String,
}

pub(crate) type LogSink = Arc<dyn Fn(&LogLine) + Send + Sync>;

impl Context {
    /// Logs a line, unless what happens is known from the history: a run that is rebuilt logs nothing twice. Only an
    /// activation that failed, and is tried again, logs its lines again.
    ///
    /// The host adds the workflow, the run and the branch. The message is put together only if it is logged.
    ///
    /// ```
    /// # use seriatim_workflow::{Context, Exit, LogLevel};
    /// # async fn workflow(ctx: Context, order: String) -> Result<(), Exit> {
    /// let receipt: String = ctx.activity("charge", &order).await?;
    /// ctx.log(LogLevel::Info, format_args!("{order} is paid: {receipt}"));
    /// # Ok(()) }
    /// ```
    pub fn log(&self, level: LogLevel, message: impl fmt::Display) {
        let (sink, start, run_id) = {
            let state = self.shared.lock();
            match &state.log {
                Some(sink) if !state.is_replaying => {
                    (Arc::clone(sink), Arc::clone(&state.start), state.run_id.clone())
                }
                _ => return,
            }
        };
        sink(&LogLine {
            level,
            workflow_type: start.workflow_type.clone(),
            workflow_id: start.workflow_id.clone(),
            run_id,
            branch: self.node.branch.to_string(),
            message: message.to_string(),
        });
    }
}
