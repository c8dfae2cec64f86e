//! A history of Temporal's without its code: each number with its kind, its command and its response.

use std::collections::BTreeMap;

use seriatim_workflow::{InspectedOperation, Inspection, Kind, Mark, Operations};

use crate::TemporalHistory;
use crate::event::{EventKind, Marker};

impl TemporalHistory {
    /// Each number with its kind, command and response. The number is the id on the wire where that is one, and else
    /// the place among the operations of its kind.
    #[must_use]
    pub fn inspect(&self) -> Inspection {
        let mut found = Operations::new();
        let mut counts: BTreeMap<Kind, u32> = BTreeMap::new();
        let mut outcome = None;
        for event in self.events() {
            let (at, what) = (u64::try_from(event.id).unwrap_or(0), event.kind.name());
            let mut begin = |kind: Kind, id: &str, name: &str| {
                let count = counts.entry(kind).or_default();
                *count += 1;
                let seq = id.parse().unwrap_or(*count);
                found.begin(event.id, InspectedOperation::new(kind, seq, name, Mark::new(at, what)));
            };
            match &event.kind {
                EventKind::TimerStarted { timer_id, .. } => begin(Kind::Timer, timer_id, ""),
                EventKind::ActivityScheduled { activity_id, activity_type, .. } => {
                    begin(Kind::Activity, activity_id, activity_type);
                }
                EventKind::ChildInitiated { workflow_type, .. } => {
                    begin(Kind::ChildWorkflow, "", workflow_type);
                }
                EventKind::ExternalSignalInitiated { name, .. } => begin(Kind::ExternalSignal, "", name),
                EventKind::ExternalCancelInitiated { target, .. } => {
                    begin(Kind::ExternalCancel, "", &target.workflow_id);
                }
                EventKind::Marker(Marker::LocalActivity(marker)) => {
                    begin(Kind::LocalActivity, &marker.seq.to_string(), &marker.activity_type);
                    found.follow(&event.id, Mark::new(at, "ended"), true);
                }
                EventKind::Completed { .. }
                | EventKind::Failed { .. }
                | EventKind::TimedOut
                | EventKind::Terminated { .. }
                | EventKind::Cancelled
                | EventKind::ContinuedAsNew { .. } => outcome = Some(what.to_owned()),
                kind => {
                    if let Some((began, is_answer)) = answered_event(kind) {
                        found.follow(&began, Mark::new(at, what), is_answer);
                    }
                }
            }
        }
        let start = self.start();
        Inspection {
            workflow_type: start.workflow_type,
            workflow_id: start.workflow_id,
            run_id: self.run_id().to_owned(),
            outcome,
            operations: found.into_list(),
        }
    }
}

/// The event that began what this one is about, and whether this is its last answer.
fn answered_event(kind: &EventKind) -> Option<(i64, bool)> {
    Some(match kind {
        EventKind::TimerFired { started: id }
        | EventKind::TimerCancelled { started: id }
        | EventKind::ActivityCompleted { scheduled: id, .. }
        | EventKind::ActivityFailed { scheduled: id, .. }
        | EventKind::ActivityTimedOut { scheduled: id, .. }
        | EventKind::ActivityCancelled { scheduled: id, .. }
        | EventKind::ExternalCancelFailed { initiated: id, .. }
        | EventKind::ExternalCancelDelivered { initiated: id }
        | EventKind::ExternalSignalFailed { initiated: id, .. }
        | EventKind::ExternalSignalDelivered { initiated: id }
        | EventKind::ChildStartFailed { initiated: id, .. }
        | EventKind::ChildCompleted { initiated: id, .. }
        | EventKind::ChildFailed { initiated: id, .. }
        | EventKind::ChildCancelled { initiated: id, .. } => (*id, true),
        EventKind::ActivityStarted { scheduled: id }
        | EventKind::ActivityCancelRequested { scheduled: id }
        | EventKind::ChildStarted { initiated: id, .. } => (*id, false),
        _ => return None,
    })
}
