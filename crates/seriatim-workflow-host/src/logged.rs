//! What workflow code logs.

use seriatim_workflow::{LogLevel, LogLine};

/// Writes a line of a run to the log of the process.
pub(crate) fn write_log(line: &LogLine) {
    let LogLine { level, workflow_type, workflow_id, run_id, branch, message } = line;
    match level {
        LogLevel::Debug => tracing::debug!(workflow_type, workflow_id, run_id, branch, "{message}"),
        LogLevel::Info => tracing::info!(workflow_type, workflow_id, run_id, branch, "{message}"),
        LogLevel::Warn => tracing::warn!(workflow_type, workflow_id, run_id, branch, "{message}"),
        LogLevel::Error => tracing::error!(workflow_type, workflow_id, run_id, branch, "{message}"),
    }
}
