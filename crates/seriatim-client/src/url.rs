//! The address of a server.

use std::fmt;
use std::str::FromStr;

use http::Uri;
use seriatim_types::ErrorKind;

/// The address of a server: `http://` or `https://`, a host, a port if it is not the default one, and a path if a proxy serves
/// it under one.
///
/// ```
/// use seriatim_client::ServerUrl;
///
/// let url: ServerUrl = "https://numbers.example.com/seriatim/".parse().unwrap();
/// assert_eq!(url.to_string(), "https://numbers.example.com/seriatim");
///
/// let error = "localhost:7400".parse::<ServerUrl>().unwrap_err();
/// assert_eq!(error.to_string(), "\"localhost:7400\" is not the address of a server: write http://HOST:PORT or https://HOST:PORT");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ServerUrl {
    /// Without a slash at its end.
    text: String,
    secure: bool,
}

/// A text that is not the address of a server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{found:?} is not the address of a server: write http://HOST:PORT or https://HOST:PORT")]
pub struct ParseServerUrlError {
    /// The text.
    pub found: String,
}

impl ParseServerUrlError {
    /// What the caller can do about the error.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        ErrorKind::Invalid
    }
}

impl ServerUrl {
    /// Whether the connection uses TLS.
    #[must_use]
    pub fn is_secure(&self) -> bool {
        self.secure
    }
}

impl FromStr for ServerUrl {
    type Err = ParseServerUrlError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || ParseServerUrlError { found: text.to_owned() };
        let uri: Uri = text.parse().map_err(|_| wrong())?;
        let secure = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(wrong()),
        };
        let host = uri.host().filter(|host| !host.is_empty());
        // A name and a password in the address would appear in logs.
        let plain = uri.authority().is_some_and(|authority| !authority.as_str().contains('@'));
        if host.is_none() || !plain || uri.query().is_some() {
            return Err(wrong());
        }
        Ok(Self { text: text.trim_end_matches('/').to_owned(), secure })
    }
}

impl fmt::Display for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Bytes that are not escaped in a part of a path.
fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
}

/// Escapes a name for a part of a path or for a query parameter.
pub(crate) fn escape(name: &str) -> String {
    let mut escaped = String::with_capacity(name.len());
    for byte in name.bytes() {
        if is_unreserved(byte) {
            escaped.push(char::from(byte));
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_scheme_and_a_host() {
        let parse = |text: &str| text.parse::<ServerUrl>().ok().map(|url| (url.to_string(), url.is_secure()));
        let fine = |text: &str, secure| Some((text.to_owned(), secure));
        assert_eq!(parse("http://127.0.0.1:7400"), fine("http://127.0.0.1:7400", false));
        assert_eq!(parse("http://[::1]:7400/"), fine("http://[::1]:7400", false));
        assert_eq!(parse("https://host"), fine("https://host", true));
        for wrong in
            ["", "host", "host:80", "ftp://host", "http://", "http://user:secret@host", "http://h/?a=b", "/x"]
        {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn names_are_escaped() {
        assert_eq!(escape("acme.invoices-2026_a"), "acme.invoices-2026_a");
        assert_eq!(escape("a/b c?ü"), "a%2Fb%20c%3F%C3%BC");
    }
}
