//! Times, durations, retry policies and enumerations on the wire.

use std::time::Duration;

use prost_wkt_types::{Duration as WireDuration, Timestamp};
use seriatim_workflow::{RetryPolicy, Time};
use temporalio_common::protos::temporal::api::common::v1::RetryPolicy as WireRetryPolicy;

use crate::untranslatable::Untranslatable;

const NANOS_PER_MICRO: u32 = 1_000;
const MICROS_PER_SECOND: u64 = 1_000_000;

/// A time, to the microsecond: runs see no finer one.
pub(crate) fn read_time(time: &Timestamp) -> Result<Time, Untranslatable> {
    let wrong = || Untranslatable::OutOfRange { what: "a time", value: format!("{time:?}") };
    let seconds = u64::try_from(time.seconds).map_err(|_| wrong())?;
    let nanos = u32::try_from(time.nanos).map_err(|_| wrong())?;
    let micros = seconds.checked_mul(MICROS_PER_SECOND).ok_or_else(wrong)?;
    Ok(Time::from_micros(micros + u64::from(nanos / NANOS_PER_MICRO)))
}

pub(crate) fn write_time(time: Time) -> Result<Timestamp, Untranslatable> {
    let wrong = || Untranslatable::OutOfRange { what: "a time", value: format!("{time:?}") };
    let micros = time.as_micros();
    let seconds = i64::try_from(micros / MICROS_PER_SECOND).map_err(|_| wrong())?;
    let below = u32::try_from(micros % MICROS_PER_SECOND).map_err(|_| wrong())?;
    let nanos = i32::try_from(below * NANOS_PER_MICRO).map_err(|_| wrong())?;
    Ok(Timestamp { seconds, nanos })
}

pub(crate) fn read_duration(duration: WireDuration) -> Result<Duration, Untranslatable> {
    let value = format!("{duration:?}");
    duration.try_into().map_err(|_| Untranslatable::OutOfRange { what: "a duration", value })
}

pub(crate) fn write_duration(duration: Duration) -> Result<WireDuration, Untranslatable> {
    let wrong = |_| Untranslatable::OutOfRange { what: "a duration", value: format!("{duration:?}") };
    duration.try_into().map_err(wrong)
}

/// A time-out that may be there; one of zero length counts as none, as it does for the server.
pub(crate) fn read_timeout(timeout: Option<WireDuration>) -> Result<Option<Duration>, Untranslatable> {
    let timeout = timeout.map(read_duration).transpose()?;
    Ok(timeout.filter(|timeout| !timeout.is_zero()))
}

pub(crate) fn write_timeout(timeout: Option<Duration>) -> Result<Option<WireDuration>, Untranslatable> {
    timeout.map(write_duration).transpose()
}

pub(crate) fn read_retry_policy(policy: WireRetryPolicy) -> Result<RetryPolicy, Untranslatable> {
    let default = RetryPolicy::default();
    let attempts = policy.maximum_attempts;
    let coefficient = policy.backoff_coefficient;
    Ok(RetryPolicy {
        initial_interval: read_timeout(policy.initial_interval)?.unwrap_or(default.initial_interval),
        backoff_coefficient: if coefficient == 0.0 { default.backoff_coefficient } else { coefficient },
        maximum_interval: read_timeout(policy.maximum_interval)?,
        maximum_attempts: u32::try_from(attempts).map_err(|_| Untranslatable::OutOfRange {
            what: "a retry policy's maximum_attempts",
            value: attempts.to_string(),
        })?,
        non_retryable_error_types: policy.non_retryable_error_types,
    })
}

pub(crate) fn write_retry_policy(policy: RetryPolicy) -> Result<WireRetryPolicy, Untranslatable> {
    let attempts = policy.maximum_attempts;
    Ok(WireRetryPolicy {
        initial_interval: Some(write_duration(policy.initial_interval)?),
        backoff_coefficient: policy.backoff_coefficient,
        maximum_interval: write_timeout(policy.maximum_interval)?,
        maximum_attempts: i32::try_from(attempts).map_err(|_| Untranslatable::OutOfRange {
            what: "a retry policy's maximum_attempts",
            value: attempts.to_string(),
        })?,
        non_retryable_error_types: policy.non_retryable_error_types,
    })
}

/// A number of an enumeration, as the enumeration.
pub(crate) fn read_enum<E: TryFrom<i32>>(field: &'static str, value: i32) -> Result<E, Untranslatable> {
    E::try_from(value).map_err(|_| Untranslatable::UnknownNumber { field, value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_comes_back_to_the_microsecond() {
        for micros in [0, 1, 999_999, 1_000_000, 1_789_000_000_123_456] {
            let time = Time::from_micros(micros);
            assert_eq!(read_time(&write_time(time).unwrap()).unwrap(), time);
        }
        assert!(read_time(&Timestamp { seconds: -1, nanos: 0 }).is_err());
    }

    #[test]
    fn a_retry_policy_comes_back() {
        let policy = RetryPolicy {
            initial_interval: Duration::from_millis(250),
            backoff_coefficient: 1.5,
            maximum_interval: Some(Duration::from_secs(9)),
            maximum_attempts: 7,
            non_retryable_error_types: vec!["Amount".to_owned()],
        };
        for policy in [policy, RetryPolicy::default()] {
            assert_eq!(read_retry_policy(write_retry_policy(policy.clone()).unwrap()).unwrap(), policy);
        }
        assert_eq!(read_retry_policy(WireRetryPolicy::default()).unwrap(), RetryPolicy::default());
        assert!(write_retry_policy(RetryPolicy::attempts(u32::MAX)).is_err());
    }

    #[test]
    fn durations_beyond_the_wire_are_named() {
        let error = write_duration(Duration::MAX).unwrap_err();
        assert!(error.to_string().contains("a duration is out of range"), "{error}");
        assert_eq!(read_timeout(Some(WireDuration::default())).unwrap(), None);
    }
}
