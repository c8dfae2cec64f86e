//! What each job of an activation does. No workflow code runs here: jobs set slots, and slots make tasks ready.

use std::sync::Arc;

use super::state::{IncomingSignal, IncomingUpdate, State};
use crate::{
    ActivationFailure, ActivityResolution, ChildStartResolution, Failure, Job, Kind, UnmatchedResponse,
    kind::ChildWorkflowSeq, list_names,
};

impl State {
    /// Applies one job. Queries and evictions are handled elsewhere.
    pub(crate) fn apply(&mut self, job: Job) -> Result<(), ActivationFailure> {
        let name = job.name();
        let matched = match job {
            Job::Start(start) => {
                self.seed = start.random_seed;
                self.start = Arc::new(*start);
                Ok(())
            }
            Job::FireTimer { seq } => self.timers.resolve(seq, name).map(|slot| {
                slot.map(|slot| slot.set(Ok(())));
            }),
            Job::ResolveActivity { seq, resolution: ActivityResolution::Backoff { .. } } => {
                Err(UnmatchedResponse::BackoffForActivity { seq: seq.get() })
            }
            Job::ResolveActivity { seq, resolution } => self.activities.resolve(seq, name).map(|entry| {
                entry.map(|entry| entry.slot.set(resolution));
            }),
            Job::ResolveLocalActivity { seq, resolution } => {
                self.local_activities.resolve(seq, name).map(|entry| {
                    entry.map(|entry| entry.slot.set(resolution));
                })
            }
            Job::ResolveChildStart { seq, resolution } => self.child_started(seq, &resolution, name),
            Job::ResolveChild { seq, resolution } => {
                if self.children.is_pending(seq.get()) && !self.started_children.remove(&seq.get()) {
                    Err(UnmatchedResponse::ResultBeforeStart { seq: seq.get() })
                } else {
                    self.children.resolve(seq, name).map(|entry| {
                        entry.map(|entry| entry.result.set(resolution));
                    })
                }
            }
            Job::ResolveExternalSignal { seq, failure } => {
                self.external_signals.resolve(seq, name).map(|slot| {
                    slot.map(|slot| slot.set(failure));
                })
            }
            Job::ResolveExternalCancel { seq, failure } => {
                self.external_cancels.resolve(seq, name).map(|slot| {
                    slot.map(|slot| slot.set(failure));
                })
            }
            Job::Cancel { reason } => {
                self.is_cancel_requested = true;
                let root = Arc::clone(&self.root);
                self.cancel_scope(&root, &Arc::from(reason), None);
                Ok(())
            }
            Job::Signal { name, input, .. } => {
                let queue = self.signals.entry(name).or_default();
                queue.waiting.push_back(IncomingSignal { input });
                queue.arrival.take().map(|slot| slot.set(()));
                Ok(())
            }
            Job::Update { protocol_id, name, input, run_validator, .. } => {
                self.incoming_updates.push_back(IncomingUpdate { protocol_id, name, input, run_validator });
                Ok(())
            }
            Job::Patch { id } => {
                self.patches.insert(id);
                Ok(())
            }
            Job::RandomSeed { seed } => {
                self.seed = seed;
                Ok(())
            }
            Job::Query { .. } | Job::Evict { .. } => Ok(()),
        };
        matched.or_else(|unmatched| self.forgive(unmatched))
    }

    fn child_started(
        &mut self,
        seq: ChildWorkflowSeq,
        resolution: &ChildStartResolution,
        job: &str,
    ) -> Result<(), UnmatchedResponse> {
        let number = seq.get();
        let Some(entry) = self.children.get_mut(number) else {
            return self.children.explain(number, job).map_or(Ok(()), Err);
        };
        if self.started_children.contains(&number) {
            return Err(UnmatchedResponse::StartedTwice { seq: number });
        }
        if let Some(slots) = &entry.slots {
            slots.start.set(resolution.clone());
        }
        if matches!(resolution, ChildStartResolution::Started { .. }) {
            self.started_children.insert(number);
            return Ok(());
        }
        // There will be no second phase: what waits for the result gets the same answer.
        if let (Some(entry), ChildStartResolution::Cancelled { failure }) =
            (self.children.resolve(seq, job)?, resolution)
        {
            entry.result.set(crate::ChildResolution::Cancelled { failure: failure.clone() });
        }
        Ok(())
    }

    /// A response that fits nothing: says whether another kind waits for its number. Where differences are only noted,
    /// a response to a recorded command that the code no longer issues is dropped.
    fn forgive(&mut self, unmatched: UnmatchedResponse) -> Result<(), ActivationFailure> {
        let (UnmatchedResponse::NeverIssued { job, kind, seq, .. }
        | UnmatchedResponse::Forgotten { job, kind, seq, .. }) = &unmatched
        else {
            return Err(unmatched.into());
        };
        let is_noted = self.policy == super::Policy::Warn
            && self.matcher.as_ref().is_some_and(|matcher| matcher.has_number(*kind, *seq));
        if is_noted {
            return Ok(());
        }
        let other = Kind::ALL
            .into_iter()
            .find(|other| other != kind && self.is_pending(super::Operation { kind: *other, seq: *seq }));
        Err(match other {
            Some(other) => {
                UnmatchedResponse::WrongKind { job: job.clone(), kind: *kind, seq: *seq, other }.into()
            }
            None => unmatched.into(),
        })
    }
}

/// The failure of a handler that is not registered.
pub(crate) fn unknown_handler<'a>(
    what: &str,
    name: &str,
    known: impl Iterator<Item = &'a String>,
) -> Failure {
    let known = list_names(known.map(String::as_str));
    Failure::non_retryable(
        "UnknownHandler",
        format!("no {what} {name:?} is registered by the workflow; known: {known}"),
    )
}
