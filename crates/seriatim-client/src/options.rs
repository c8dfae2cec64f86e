//! Settings of a client.

use std::fmt;
use std::time::Duration;

/// Settings of a client, each with its reason.
#[derive(Clone, PartialEq, Eq)]
pub struct ClientOptions {
    /// The bearer token. It does not appear in any output, [`Debug`](fmt::Debug) included.
    pub token: Option<String>,
    /// PEM certificates of the issuers that are trusted for an `https` server; `None`: those that the system trusts.
    pub ca_certificates: Option<Vec<u8>>,
    /// The time limit for all retries of a call while the server is busy, recovers or does not work. Zero: no retry.
    pub retry_timeout: Duration,
    /// The time limit for all retries while no server answers at the address. A restart of the server takes a moment.
    pub unreachable_timeout: Duration,
    /// The wait before the first retry, if the server gives no time. It doubles with each retry, up to
    /// [`ClientOptions::wait_max`].
    pub wait_first: Duration,
    /// The longest wait, also if the server asks for a longer one.
    pub wait_max: Duration,
    /// The time limit for opening a connection.
    pub connect_timeout: Duration,
    /// The time limit for an answer: longer than any request takes in the server. The calls of [`Admin`](crate::Admin) and
    /// audits have no such limit.
    pub request_timeout: Duration,
    /// A follower connects again if the server sends nothing for this long, not even a sign of life.
    pub silence_max: Duration,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            token: None,
            ca_certificates: None,
            retry_timeout: Duration::from_secs(30),
            unreachable_timeout: Duration::from_secs(30),
            wait_first: Duration::from_millis(50),
            wait_max: Duration::from_secs(5),
            connect_timeout: Duration::from_secs(5),
            request_timeout: Duration::from_secs(40),
            silence_max: Duration::from_secs(60),
        }
    }
}

impl fmt::Debug for ClientOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientOptions")
            .field("token", &self.token.as_ref().map(|_| "***"))
            .field("retry_timeout", &self.retry_timeout)
            .field("unreachable_timeout", &self.unreachable_timeout)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_not_in_debug_output() {
        let options = ClientOptions { token: Some("hush".to_owned()), ..ClientOptions::default() };
        assert!(!format!("{options:?} {options:#?}").contains("hush"));
    }
}
