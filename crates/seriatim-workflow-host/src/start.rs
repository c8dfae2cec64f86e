//! Requests to start a workflow.

use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value};
use seriatim_workflow::{Headers, IdReusePolicy, Payload, PayloadError, RetryPolicy};

use crate::error::HostError;

/// A workflow to be started.
///
/// ```
/// use std::time::Duration;
///
/// use seriatim_workflow::IdReusePolicy;
/// use seriatim_workflow_host::StartRequest;
///
/// let request = StartRequest {
///     run_timeout: Some(Duration::from_secs(3_600)),
///     start_delay: Some(Duration::from_secs(60)),
///     id_reuse_policy: IdReusePolicy::RejectDuplicate,
///     ..StartRequest::new("order").id("order-7").input(&"tea")?.memo("customer", &"Ada")?
/// };
/// assert_eq!(request.workflow_type, "order");
/// # Ok::<(), seriatim_workflow::PayloadError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct StartRequest {
    /// The name of its code.
    pub workflow_type: String,
    /// Its id; `None`: a new id is made.
    pub id: Option<String>,
    /// Arguments.
    pub input: Vec<Payload>,
    /// A request with the same key again gives the same run.
    pub idempotency_key: Option<String>,
    /// From the first run's start to the last one's end.
    pub execution_timeout: Option<Duration>,
    /// From a run's start to its end.
    pub run_timeout: Option<Duration>,
    /// How a failed run is retried as a whole.
    pub retry_policy: Option<RetryPolicy>,
    /// Notes that travel with it, and are shown with it.
    pub memo: Headers,
    /// How long after the request the run begins. It exists at once, its timeouts count from when it begins, and what is
    /// sent to it before is kept for its first activation.
    pub start_delay: Option<Duration>,
    /// Whether its id may be used again.
    pub id_reuse_policy: IdReusePolicy,
    /// With a signal: if a run with the id is open, nothing is started, and that run gets the signal. Otherwise the run
    /// that is started gets it with its first activation. Either is one event.
    pub signal: Option<StartSignal>,
}

/// The signal of a start.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StartSignal {
    /// Its name.
    pub name: String,
    /// Its arguments.
    pub input: Vec<Payload>,
}

impl StartRequest {
    /// A workflow of this type, with a new id and no argument.
    #[must_use]
    pub fn new(workflow_type: impl Into<String>) -> Self {
        Self { workflow_type: workflow_type.into(), ..Self::default() }
    }

    /// With an id.
    #[must_use]
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// With an argument.
    ///
    /// # Errors
    ///
    /// [`PayloadError`] if it cannot be written as JSON.
    pub fn input<T: Serialize + ?Sized>(mut self, input: &T) -> Result<Self, PayloadError> {
        self.input.push(Payload::json(input)?);
        Ok(self)
    }

    /// With an idempotency key.
    #[must_use]
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.idempotency_key = Some(key.into());
        self
    }

    /// With a note.
    ///
    /// # Errors
    ///
    /// [`PayloadError`] if it cannot be written as JSON.
    pub fn memo<T: Serialize + ?Sized>(
        mut self,
        name: impl Into<String>,
        value: &T,
    ) -> Result<Self, PayloadError> {
        self.memo.insert(name.into(), Payload::json(value)?);
        Ok(self)
    }

    /// With a signal, which an open run gets instead of a start.
    ///
    /// # Errors
    ///
    /// [`PayloadError`] if it cannot be written as JSON.
    pub fn signal<T: Serialize + ?Sized>(
        mut self,
        name: impl Into<String>,
        input: &T,
    ) -> Result<Self, PayloadError> {
        self.signal = Some(StartSignal { name: name.into(), input: vec![Payload::json(input)?] });
        Ok(self)
    }

    /// Identifies this request among those with the same key. Keys outlive versions: a field that is not set has no part in it.
    pub(crate) fn identity(&self, id: &str) -> String {
        let input = serde_json::to_string(&self.input).unwrap_or_default();
        let identity = format!("start {} {id} {input}", self.workflow_type);
        let options = self.options();
        if options.is_empty() { identity } else { format!("{identity} {}", Value::Object(options)) }
    }

    /// The options that are set.
    fn options(&self) -> Map<String, Value> {
        let mut options = Map::new();
        let mut set = |name: &str, value: Result<Value, serde_json::Error>| {
            let value = value.unwrap_or_default();
            if !value.is_null() {
                options.insert(name.to_owned(), value);
            }
        };
        set("execution_timeout", serde_json::to_value(self.execution_timeout));
        set("run_timeout", serde_json::to_value(self.run_timeout));
        set("retry_policy", serde_json::to_value(&self.retry_policy));
        set("start_delay", serde_json::to_value(self.start_delay));
        set("signal", serde_json::to_value(&self.signal));
        if !self.memo.is_empty() {
            set("memo", serde_json::to_value(&self.memo));
        }
        if self.id_reuse_policy != IdReusePolicy::default() {
            set("id_reuse_policy", serde_json::to_value(self.id_reuse_policy));
        }
        options
    }

    /// Refuses options that contradict each other or have no effect.
    pub(crate) fn check(&self) -> Result<(), HostError> {
        let wrong = |text: String| Err(HostError::Invalid(text));
        for (name, timeout) in
            [("execution_timeout", self.execution_timeout), ("run_timeout", self.run_timeout)]
        {
            if timeout.is_some_and(|timeout| timeout.is_zero()) {
                return wrong(format!("{name} is 0: the run would end before it begins"));
            }
        }
        if let Some(policy) = &self.retry_policy {
            if policy.initial_interval.is_zero() {
                return wrong(
                    "retry_policy: the first interval is 0: the run would be tried again without a pause"
                        .to_owned(),
                );
            }
            let backoff = policy.backoff_coefficient;
            if !backoff.is_finite() || backoff < 1.0 {
                return wrong(format!("retry_policy: backoff_coefficient is at least 1, not {backoff}"));
            }
            if policy.maximum_interval.is_some_and(|most| most < policy.initial_interval) {
                return wrong("retry_policy: maximum_interval is shorter than initial_interval".to_owned());
            }
        }
        if self.signal.as_ref().is_some_and(|signal| signal.name.is_empty()) {
            return wrong("signal: its name is empty".to_owned());
        }
        if self.signal.is_some() && self.id_reuse_policy == IdReusePolicy::TerminateIfRunning {
            return wrong(
                "signal and id_reuse_policy terminate_if_running exclude each other: an open run is signalled, or \
                 terminated"
                    .to_owned(),
            );
        }
        Ok(())
    }
}

/// A run that was started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Started {
    /// The workflow's id.
    pub id: String,
    /// The run.
    pub run_id: String,
    /// Whether the run began with this request. If not, it was open, and got the request's signal.
    pub started: bool,
    /// Whether the same request was written before, with the same idempotency key.
    pub repeated: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Logs have keys of versions before there were options: the identity of such a request is unchanged.
    #[test]
    fn a_start_without_options_has_the_identity_that_it_always_had() {
        let request = StartRequest::new("greet").input(&"Ada").unwrap();
        assert_eq!(request.identity("g"), r#"start greet g [{"encoding":"json/plain","text":"\"Ada\""}]"#);
        assert_eq!(StartRequest::new("greet").identity("g"), "start greet g []");
    }

    #[test]
    fn every_option_is_part_of_the_identity() {
        let plain = StartRequest::new("greet");
        let second = Some(Duration::from_secs(1));
        let requests = [
            plain.clone(),
            StartRequest { execution_timeout: second, ..plain.clone() },
            StartRequest { run_timeout: second, ..plain.clone() },
            StartRequest { run_timeout: Some(Duration::from_secs(2)), ..plain.clone() },
            StartRequest { retry_policy: Some(RetryPolicy::attempts(2)), ..plain.clone() },
            StartRequest { start_delay: second, ..plain.clone() },
            StartRequest { id_reuse_policy: IdReusePolicy::RejectDuplicate, ..plain.clone() },
            plain.clone().memo("a", &1).unwrap(),
            plain.clone().signal("a", &1).unwrap(),
            plain.signal("a", &2).unwrap(),
        ];
        let mut seen: Vec<String> = requests.iter().map(|request| request.identity("g")).collect();
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), requests.len());
    }
}
