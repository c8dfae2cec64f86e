//! Queries, and other code of a workflow that may only read.

use super::instance::{Instance, caught};
use super::jobs::unknown_handler;
use crate::{Command, Failure, Job, QueryAnswer};

impl Instance {
    /// Answers queries, each by itself, after everything else.
    pub(super) fn answer(&mut self, queries: Vec<Job>) {
        for query in queries {
            let Job::Query { id, name, input, .. } = query else { continue };
            let handler = self.shared.lock().queries.get(&name).cloned();
            let answer = match handler {
                Some(handler) => self.ask("query", || handler(&input)),
                None => Err(unknown_handler("query", &name, self.shared.lock().queries.keys())),
            };
            let answer = match answer {
                Ok(result) => QueryAnswer::Answered { result },
                Err(failure) => QueryAnswer::Failed { failure },
            };
            let mut state = self.shared.lock();
            state.commands.push(Command::QueryAnswer { id, answer });
            state.sites.push(None);
        }
    }

    /// Runs code of the workflow that must neither change anything nor wait.
    pub(super) fn ask<T>(
        &mut self,
        what: &str,
        code: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        self.shared.lock().read_only = Some(None);
        let answer = caught(code);
        let tried = self.shared.lock().read_only.take().flatten();
        if let Some(tried) = tried {
            let message = format!("the {what} tried to {tried}: a {what} may only read the workflow's state");
            return Err(Failure::non_retryable("ReadOnly", message));
        }
        answer.unwrap_or_else(|message| {
            Err(Failure::non_retryable("Panic", format!("the {what} panicked: {message}")))
        })
    }
}
