//! How a client behaves.

use std::fmt;
use std::time::Duration;

/// Settings of a client, each with its reason.
#[derive(Clone, PartialEq, Eq)]
pub struct ClientOptions {
    /// The bearer token. It is in no output, [`Debug`](fmt::Debug) included.
    pub token: Option<String>,
    /// Certificates, PEM, of those who may vouch for an `https` server; `None`: those that the system trusts.
    pub ca_certificates: Option<Vec<u8>>,
    /// How long a call goes on coming again, in all, while the server is busy, recovers or does not work. Zero: it does
    /// not.
    pub patience: Duration,
    /// The same, while nobody answers at the address. A restart takes a moment.
    pub unreachable_patience: Duration,
    /// The first wait, where the server has not said how long. Doubled each time, up to [`ClientOptions::wait_max`].
    pub wait_first: Duration,
    /// The longest wait; also if the server asks for a longer one.
    pub wait_max: Duration,
    /// How long to wait for a connection.
    pub connect_timeout: Duration,
    /// How long to wait for an answer; longer than the server takes for any but the calls of [`Admin`](crate::Admin),
    /// which may take as long as they like.
    pub request_timeout: Duration,
    /// A log that is followed and says nothing for so long, not even that it lives, is asked for again.
    pub silence_max: Duration,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            token: None,
            ca_certificates: None,
            patience: Duration::from_secs(30),
            unreachable_patience: Duration::from_secs(30),
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
            .field("patience", &self.patience)
            .field("unreachable_patience", &self.unreachable_patience)
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
