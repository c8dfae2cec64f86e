//! `seriatim workflow start`.

use std::time::Duration;

use clap::{Args, ValueEnum};
use serde_json::Value;
use seriatim_api::{IdReusePolicy, RetryPolicy, StartSignal, StartWorkflow, parse_duration};

use super::json;
use crate::context::Context;
use crate::error::CliError;
use crate::output::Output;
use crate::target::ServerTarget;

/// Starts a workflow, and prints its id.
///
/// The workflow is on disk when the id is printed, and it runs until it ends, also after a crash. Durations are a number and a
/// unit: 200ms, 30s, 15m, 12h, 7d.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  seriatim workflow start greet --input '\"Ada\"'
  seriatim workflow start order --id order-7 --key order-7 --run-timeout 1h --memo customer='\"Ada\"'
  seriatim workflow start order --id order-7 --retry-attempts 3 --retry-interval 10s
  seriatim workflow start order --id order-7 --start-delay 12h --id-reuse-policy reject-duplicate
  seriatim workflow start order --id order-7 --signal approve --signal-input '{\"by\": \"Ada\"}'")]
pub(super) struct Start {
    /// The name of its code.
    #[arg(value_name = "TYPE")]
    workflow_type: String,
    /// Its id [default: the server makes one].
    #[arg(long)]
    id: Option<String>,
    /// Its argument.
    #[arg(long, value_name = "JSON", value_parser = json)]
    input: Option<Value>,
    /// The idempotency key: the same key gives the same run.
    #[arg(long, value_name = "IDEMPOTENCY_KEY")]
    key: Option<String>,
    /// How long all its runs may take together.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    execution_timeout: Option<Duration>,
    /// How long one run may take.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    run_timeout: Option<Duration>,
    /// How long it waits before it begins.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    start_delay: Option<Duration>,
    /// Whether the id may be used again [default: allow-duplicate].
    #[arg(long, value_name = "POLICY")]
    id_reuse_policy: Option<Reuse>,
    /// A note that is shown with the workflow; can be repeated.
    #[arg(long, value_name = "NAME=JSON", value_parser = note)]
    memo: Vec<(String, Value)>,
    /// Sends this signal to the open run instead of starting one. If no run is open, the new run receives it.
    #[arg(long, value_name = "NAME")]
    signal: Option<String>,
    /// The signal's argument.
    #[arg(long, value_name = "JSON", value_parser = json, requires = "signal")]
    signal_input: Option<Value>,
    #[command(flatten)]
    retries: Retries,
    /// The server's answer as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerTarget,
}

/// How a failed run is retried as a whole. Without any of these flags it is not retried.
#[derive(Debug, Args)]
struct Retries {
    /// Retries a failed run, up to this many attempts in total; 0 means no limit.
    #[arg(long, value_name = "N")]
    retry_attempts: Option<u32>,
    /// The wait before the second attempt [default: 1s].
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    retry_interval: Option<Duration>,
    /// Each later interval is the previous one times this [default: 2].
    #[arg(long, value_name = "FACTOR")]
    retry_backoff: Option<f64>,
    /// The longest interval [default: a hundred times the first].
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    retry_interval_max: Option<Duration>,
    /// An error type that is not retried; can be repeated.
    #[arg(long, value_name = "TYPE")]
    not_retried: Vec<String>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Reuse {
    AllowDuplicate,
    AllowDuplicateFailedOnly,
    RejectDuplicate,
    TerminateIfRunning,
}

impl From<Reuse> for IdReusePolicy {
    fn from(reuse: Reuse) -> Self {
        match reuse {
            Reuse::AllowDuplicate => Self::AllowDuplicate,
            Reuse::AllowDuplicateFailedOnly => Self::AllowDuplicateFailedOnly,
            Reuse::RejectDuplicate => Self::RejectDuplicate,
            Reuse::TerminateIfRunning => Self::TerminateIfRunning,
        }
    }
}

fn note(text: &str) -> Result<(String, Value), String> {
    let (name, value) = text.split_once('=').ok_or_else(|| format!("{text:?} is not NAME=JSON"))?;
    Ok((name.to_owned(), json(value)?))
}

impl Retries {
    fn policy(self) -> Option<RetryPolicy> {
        let Self { retry_attempts, retry_interval, retry_backoff, retry_interval_max, not_retried } = self;
        let is_absent = retry_attempts.is_none()
            && retry_interval.is_none()
            && retry_backoff.is_none()
            && retry_interval_max.is_none()
            && not_retried.is_empty();
        let default = RetryPolicy::default();
        (!is_absent).then(|| RetryPolicy {
            initial_interval: retry_interval.unwrap_or(default.initial_interval),
            backoff_coefficient: retry_backoff.unwrap_or(default.backoff_coefficient),
            maximum_interval: retry_interval_max,
            maximum_attempts: retry_attempts.unwrap_or(default.maximum_attempts),
            non_retryable_error_types: not_retried,
        })
    }
}

impl Start {
    pub(super) async fn run(self, context: &Context) -> Result<(), CliError> {
        let mut workflows = self.server.client(context)?.workflows();
        if let Some(key) = &self.key {
            workflows = workflows.with_key(key);
        }
        let input = self.signal_input.unwrap_or_default();
        let start = StartWorkflow {
            workflow_type: self.workflow_type,
            id: self.id,
            input: self.input.unwrap_or_default(),
            execution_timeout: self.execution_timeout,
            run_timeout: self.run_timeout,
            retry_policy: self.retries.policy(),
            memo: self.memo.into_iter().collect(),
            start_delay: self.start_delay,
            id_reuse_policy: self.id_reuse_policy.map(Into::into),
            signal: self.signal.map(|name| StartSignal { name, input }),
        };
        let started = workflows.start(&start).await?;
        let mut output = Output::new();
        if self.json {
            output.json(&started)?;
        } else {
            output.line(&started.id)?;
        }
        if !started.started {
            eprintln!("seriatim: run {} was open and received the signal", started.run_id);
        }
        if started.repeated {
            eprintln!("seriatim: done earlier, with the same key");
        }
        output.flush()
    }
}
