//! Decides whether a call is retried, and after which wait. Does not wait itself.

use std::time::Duration;

use seriatim_api::Code;

use crate::error::ClientError;
use crate::options::ClientOptions;

/// Whether a call may be made again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// Any number of times: it reads, sets a state, or has an idempotency key.
    Safe,
    /// Only if it certainly was not done.
    IfNotDone,
}

/// How many attempts a call has had, and how long it has taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Attempts {
    pub(crate) count: u32,
    pub(crate) elapsed: Duration,
}

/// How long to wait before the call is repeated; `None`: it is not repeated. The caller adds jitter.
pub(crate) fn wait(
    options: &ClientOptions,
    repeat: Repeat,
    attempts: Attempts,
    error: &ClientError,
    hint: Option<Duration>,
) -> Option<Duration> {
    let safe = repeat == Repeat::Safe;
    let (again, time_limit) = match error {
        // Errors with this code are often temporary, but the server says that this one is not.
        ClientError::Refused(problem) if !problem.retryable => (false, Duration::ZERO),
        ClientError::Refused(problem) => match problem.code {
            Code::Busy => (true, options.retry_timeout),
            Code::Unavailable | Code::InDoubt => (safe, options.retry_timeout),
            Code::Invalid
            | Code::Unauthorized
            | Code::Forbidden
            | Code::NotFound
            | Code::Conflict
            | Code::TooLarge
            | Code::Exhausted
            | Code::Fenced
            | Code::Corrupt
            | Code::Internal => (false, Duration::ZERO),
        },
        ClientError::Unreachable { .. } => (true, options.unreachable_timeout),
        ClientError::Lost { .. } => (safe, options.unreachable_timeout),
        ClientError::Insecure { .. }
        | ClientError::BadAnswer { .. }
        | ClientError::Ended { .. }
        | ClientError::Unexpected { .. }
        | ClientError::Options(_) => (false, Duration::ZERO),
    };
    let doubled = options.wait_first.saturating_mul(1 << attempts.count.saturating_sub(1).min(20));
    let wait = hint.unwrap_or(doubled).min(options.wait_max);
    (again && attempts.elapsed + wait <= time_limit).then_some(wait)
}

#[cfg(test)]
mod tests {
    use seriatim_api::Problem;

    use super::*;

    fn refused(code: Code) -> ClientError {
        ClientError::Refused(Box::new(Problem::new(code, "")))
    }

    fn attempts(count: u32, elapsed: u64) -> Attempts {
        Attempts { count, elapsed: Duration::from_millis(elapsed) }
    }

    fn final_problem(code: Code) -> ClientError {
        ClientError::Refused(Box::new(Problem { retryable: false, ..Problem::new(code, "") }))
    }

    #[test]
    fn only_what_may_be_repeated_is_repeated() {
        let lost = || ClientError::Lost { place: String::new(), reason: String::new(), in_doubt: true };
        let unreachable = || ClientError::Unreachable { place: String::new(), reason: String::new() };
        let table = [
            (refused(Code::Busy), true, true),
            (refused(Code::Unavailable), true, false),
            (final_problem(Code::Unavailable), false, false),
            (refused(Code::InDoubt), true, false),
            (refused(Code::Fenced), false, false),
            (refused(Code::Conflict), false, false),
            (refused(Code::Internal), false, false),
            (lost(), true, false),
            (unreachable(), true, true),
            (ClientError::Options(String::new()), false, false),
        ];
        let options = ClientOptions::default();
        for (error, safe, if_not_done) in table {
            let again = |repeat| wait(&options, repeat, attempts(1, 0), &error, None).is_some();
            assert_eq!((again(Repeat::Safe), again(Repeat::IfNotDone)), (safe, if_not_done), "{error:?}");
        }
    }

    #[test]
    fn waits_grow_up_to_a_bound_and_follow_the_hint() {
        let options = ClientOptions::default();
        let wait = |count, elapsed, hint: Option<u64>| {
            let hint = hint.map(Duration::from_millis);
            wait(&options, Repeat::Safe, attempts(count, elapsed), &refused(Code::Busy), hint)
                .map(|wait| wait.as_millis())
        };
        assert_eq!([wait(1, 0, None), wait(2, 0, None), wait(4, 0, None)], [Some(50), Some(100), Some(400)]);
        assert_eq!(wait(60, 0, None), Some(5_000));
        assert_eq!(wait(1, 0, Some(1_000)), Some(1_000));
        assert_eq!(wait(1, 0, Some(3_600_000)), Some(5_000), "no wait is longer than wait_max");
        assert_eq!(wait(1, 29_500, Some(1_000)), None, "the retries have a time limit");
    }
}
