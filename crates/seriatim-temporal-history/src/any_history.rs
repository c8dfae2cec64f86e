//! A history in any of the known forms.

use std::sync::Arc;

use bytes::Bytes;
use serde::Deserialize;

use seriatim_workflow::{History, Inspection, Policy, Registry, Report, Step, replay};

use crate::{HistoryError, TemporalHistory, replay_temporal};

/// A history in our own form or in one of Temporal's.
///
/// ```
/// use seriatim_temporal_history::AnyHistory;
/// use seriatim_workflow::{Context, Policy, Registry};
/// use std::sync::Arc;
///
/// async fn greet(_: Context, name: String) -> Result<String, seriatim_workflow::Exit> {
///     Ok(format!("Hello, {name}!"))
/// }
///
/// // As a test of your own would: every history that was kept still replays on the code of today.
/// let registry = Arc::new(Registry::new().workflow("greet", greet));
/// let kept = br#"{"steps": [{
///     "activation": {"run_id": "1", "time": 0, "jobs": [
///         {"job": "start", "workflow_type": "greet", "workflow_id": "g", "input": []}
///     ]}
/// }]}"#;
/// let report = AnyHistory::read(&kept[..])?.replay(&registry, Policy::Fail);
/// assert!(report.is_same(), "{report}");
/// # Ok::<(), seriatim_temporal_history::HistoryError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub enum AnyHistory {
    /// Each activation with the commands that answered it.
    Ours(History),
    /// As a Temporal server keeps it.
    Temporal(TemporalHistory),
}

/// What identifies our form: a list of steps. The server's answer to a request for a history has more fields.
#[derive(Debug, Deserialize)]
struct Steps {
    steps: Vec<Step>,
}

impl AnyHistory {
    /// Reads a history: ours as the server answers it, Temporal's in JSON or binary.
    ///
    /// # Errors
    ///
    /// [`HistoryError`] if it is in none of these forms, or damaged.
    pub fn read(bytes: impl Into<Bytes>) -> Result<Self, HistoryError> {
        let bytes = bytes.into();
        match serde_json::from_slice::<Steps>(&bytes) {
            Ok(Steps { steps }) => Ok(Self::Ours(History { steps })),
            Err(error) if has_steps(&bytes) => Err(HistoryError::Damaged { reason: error.to_string() }),
            Err(_) => TemporalHistory::read(bytes).map(Self::Temporal),
        }
    }

    /// Reads one history, or a list of them: JSON with a list of histories, or with one below `histories`; or Temporal's
    /// binary form, several one after the other and each after its length.
    ///
    /// # Errors
    ///
    /// [`HistoryError`] if one of them is in no known form, or damaged.
    pub fn read_all(bytes: impl Into<Bytes>) -> Result<Vec<Self>, HistoryError> {
        let bytes = bytes.into();
        let value: Option<serde_json::Value> = serde_json::from_slice(&bytes).ok();
        let list = value.as_ref().and_then(|value| value.get("histories").unwrap_or(value).as_array());
        // A list of events is one history.
        let is_history = |value: &serde_json::Value| {
            ["steps", "events", "history"].iter().any(|name| value.get(name).is_some())
        };
        match list {
            Some(list) if list.iter().any(is_history) => {
                list.iter().map(|value| Self::read(value.to_string())).collect()
            }
            _ => Self::read(bytes.clone()).map(|history| vec![history]).or_else(|error| {
                let several = TemporalHistory::read_delimited(bytes).map_err(|_| error)?;
                Ok(several.into_iter().map(Self::Temporal).collect())
            }),
        }
    }

    /// Name of the workflow's code.
    #[must_use]
    pub fn workflow_type(&self) -> String {
        match self {
            Self::Ours(history) => history.workflow_type().to_owned(),
            Self::Temporal(history) => history.start().workflow_type,
        }
    }

    /// Replays it on the registered code.
    #[must_use]
    pub fn replay(&self, registry: &Arc<Registry>, policy: Policy) -> Report {
        match self {
            Self::Ours(history) => replay(registry, history, policy),
            Self::Temporal(history) => replay_temporal(registry, history, policy),
        }
    }

    /// Each number with its kind, command and response.
    #[must_use]
    pub fn inspect(&self) -> Inspection {
        match self {
            Self::Ours(history) => history.inspect(),
            Self::Temporal(history) => history.inspect(),
        }
    }
}

/// Whether it is in our form, as far as its top level shows.
fn has_steps(bytes: &[u8]) -> bool {
    serde_json::from_slice(bytes).is_ok_and(|value: serde_json::Value| value.get("steps").is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_is_told_from_the_others() {
        let ours = br#"{"run_id": "1", "steps": []}"#;
        assert_eq!(AnyHistory::read(&ours[..]), Ok(AnyHistory::Ours(History::default())));
        let damaged = AnyHistory::read(&br#"{"steps": [{}]}"#[..]).unwrap_err();
        assert!(matches!(damaged, HistoryError::Damaged { .. }), "{damaged}");
        let unreadable = AnyHistory::read(&b"[1]"[..]).unwrap_err();
        assert!(!unreadable.to_string().is_empty());
        let temporal = br#"{"events": [{"eventId": "1", "eventType": "EVENT_TYPE_WORKFLOW_EXECUTION_STARTED",
            "workflowExecutionStartedEventAttributes": {"workflowType": {"name": "greet"}}}]}"#;
        let temporal = AnyHistory::read(&temporal[..]).unwrap();
        assert!(matches!(&temporal, AnyHistory::Temporal(_)));
        assert_eq!(temporal.workflow_type(), "greet");
    }
}
