//! How many bytes things take in an event.
//!
//! An event is one entry of the log, and an entry has a largest size. The jobs of a run are split into batches that fit,
//! with room for the commands of the code; a single answer that cannot fit becomes a failure of its operation.

use std::io::{self, Write};
use std::sync::Arc;

use serde::Serialize;
use seriatim_workflow::{
    ActivityResolution, ChildResolution, Command, Failure, FailureInfo, Job, Payload, RetryState, Start,
};

use crate::entry::{Retry, Turn};

/// Below this many bytes of payloads the size is estimated from above: writing it out to count it would cost more.
const ESTIMATED_BELOW: usize = 4 << 10;
/// JSON writes a byte with six at most.
const EXPANSION: usize = 6;
/// What surrounds the payloads of a job.
const FRAME: usize = 512;
/// What is kept of the message of a failure that does not fit.
const MESSAGE_BYTES: usize = 1_000;

/// How many bytes it takes in an event.
pub(crate) fn size_of<T: Serialize + ?Sized>(value: &T) -> usize {
    struct Count(usize);
    impl Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    // What cannot be written is refused where it is written.
    let _ = serde_json::to_writer(&mut count, value);
    count.0
}

/// Bytes of payloads.
pub(crate) fn payload_bytes(payloads: &[Payload]) -> usize {
    payloads.iter().map(|payload| payload.data.len()).sum()
}

/// How many bytes the payloads of a turn's jobs and commands have, with what surrounds them.
pub(crate) fn turn_bytes(turn: &Turn) -> usize {
    let jobs: usize = turn.jobs.iter().map(job_bytes).sum();
    let commands = turn.commands.iter().map(|command| match command {
        Command::ScheduleActivity { input, .. }
        | Command::ScheduleLocalActivity { input, .. }
        | Command::StartChild { input, .. }
        | Command::SignalExternal { input, .. } => FRAME + payload_bytes(input),
        _ => FRAME,
    });
    jobs + commands.sum::<usize>()
}

/// An open run keeps no more bytes of its input in memory than this; a larger one is read from the log when it is needed.
const INPUT_KEPT_MAX: usize = 1 << 10;

/// The start of an open run as it is kept in memory, and the bytes of its input.
pub(crate) fn without_large_input(mut start: Start) -> (Arc<Start>, usize) {
    let bytes = payload_bytes(&start.input);
    if bytes > INPUT_KEPT_MAX {
        start.input = Vec::new();
    }
    (Arc::new(start), bytes)
}

/// Whether an input of so many bytes is not kept.
pub(crate) const fn is_large_input(bytes: usize) -> bool {
    bytes > INPUT_KEPT_MAX
}

/// How many bytes a job takes in an event, at most.
pub(crate) fn job_bytes(job: &Job) -> usize {
    let bytes = match job {
        Job::FireTimer { .. } | Job::Cancel { .. } => 0,
        Job::ResolveActivity { resolution: ActivityResolution::Completed { result }, .. }
        | Job::ResolveLocalActivity { resolution: ActivityResolution::Completed { result }, .. }
        | Job::ResolveChild { resolution: ChildResolution::Completed { result }, .. } => {
            result.as_ref().map_or(0, |result| result.data.len())
        }
        Job::Signal { input, headers, .. } | Job::Update { input, headers, .. } if headers.is_empty() => {
            payload_bytes(input)
        }
        other => return size_of(other),
    };
    if bytes < ESTIMATED_BELOW { FRAME + bytes * EXPANSION } else { size_of(job) }
}

/// The same answer if it fits into so many bytes; else the failure of its operation, which says so.
pub(crate) fn fit(job: Job, limit: usize) -> Job {
    let bytes = job_bytes(&job);
    if bytes <= limit {
        return job;
    }
    let too_large = |what: &str| {
        let message = format!(
            "the answer of the {what} takes {bytes} bytes, and {limit} fit: keep large values elsewhere and return \
             where they are"
        );
        Failure::non_retryable("TooLarge", message)
    };
    match job {
        Job::ResolveActivity { seq, resolution } => {
            let failure = activity_failure(resolution, too_large("activity"));
            Job::ResolveActivity { seq, resolution: failure }
        }
        Job::ResolveLocalActivity { seq, resolution } => {
            let failure = activity_failure(resolution, too_large("local activity"));
            Job::ResolveLocalActivity { seq, resolution: failure }
        }
        Job::ResolveChild { seq, resolution } => {
            let failure = too_large("child workflow");
            let resolution = match resolution {
                ChildResolution::Completed { .. } => ChildResolution::Failed { failure },
                ChildResolution::Failed { failure: cause } => {
                    ChildResolution::Failed { failure: failure.caused_by(shortened(&cause)) }
                }
                ChildResolution::Cancelled { failure: cause } => {
                    ChildResolution::Cancelled { failure: shortened(&cause) }
                }
            };
            Job::ResolveChild { seq, resolution }
        }
        other => other,
    }
}

fn activity_failure(resolution: ActivityResolution, failure: Failure) -> ActivityResolution {
    match resolution {
        ActivityResolution::Failed { failure: cause } => {
            let wrapped = Failure { message: failure.message, ..shortened(&cause) };
            ActivityResolution::Failed { failure: wrapped.caused_by(shortened(innermost(&cause))) }
        }
        ActivityResolution::Cancelled { failure: cause } => {
            ActivityResolution::Cancelled { failure: shortened(&cause) }
        }
        _ => {
            let info = FailureInfo::Activity {
                activity_type: String::new(),
                activity_id: String::new(),
                identity: String::new(),
                retry_state: RetryState::NonRetryableFailure,
                scheduled_event_id: 0,
                started_event_id: 0,
            };
            let outer = Failure::new(failure.message.clone(), info);
            ActivityResolution::Failed { failure: outer.caused_by(failure) }
        }
    }
}

fn innermost(failure: &Failure) -> &Failure {
    failure.cause.as_deref().map_or(failure, innermost)
}

/// A failure without what may be large in it.
fn shortened(failure: &Failure) -> Failure {
    let message: String = failure.message.chars().take(MESSAGE_BYTES).collect();
    let mut info = (*failure.info).clone();
    match &mut info {
        FailureInfo::Application { details, .. } | FailureInfo::Cancelled { details } => details.clear(),
        FailureInfo::Timeout { last_heartbeat_details, .. }
        | FailureInfo::ResetWorkflow { last_heartbeat_details } => last_heartbeat_details.clear(),
        _ => {}
    }
    Failure { source: failure.source.clone(), ..Failure::new(message, info) }
}

/// The note of a failed attempt, without what does not fit into so many bytes: the details of the last heartbeat, and the
/// long parts of the failure.
pub(crate) fn fit_retry(mut retry: Retry, limit: usize) -> Retry {
    if size_of(&retry.failure) > limit {
        retry.failure = shortened(&retry.failure);
    }
    if payload_bytes(&retry.details) > limit {
        retry.details.clear();
    }
    retry
}
