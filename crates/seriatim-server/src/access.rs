//! Access: each request is checked against the tokens before anything else processes it.
//!
//! While there are no tokens, every caller on this machine may do everything, and other machines cannot reach the server. As
//! soon as there is a token, every route except the open ones needs a token with the right scope.

use axum::http::{HeaderMap, Method, Uri, header};
use seriatim_api::Code;
use seriatim_engine::{Access, Engine, Grants};

use crate::problem::Problem;

/// What a request needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need<'a> {
    /// Nothing: its answer is not confidential.
    Nothing,
    /// Any token; the answer contains only what its scopes include.
    Token,
    /// A scope of an application; `None`: of all applications.
    Scope(Option<&'a str>, Access),
}

/// Whether a path needs no token: the server's health, the description of the API, and the console's files.
pub(crate) fn is_open(path: &str) -> bool {
    path != "/metrics" && path != "/v1" && !path.starts_with("/v1/")
}

/// What a request needs. The path is compared as it was sent, without decoding. A name with escaped characters is in no scope
/// except `*`. That refuses nothing valid: names of applications never need escapes.
pub(crate) fn need<'a>(method: &Method, path: &'a str) -> Need<'a> {
    if is_open(path) {
        return Need::Nothing;
    }
    let access = if matches!(*method, Method::GET | Method::HEAD) { Access::Read } else { Access::Write };
    let mut segments = path.trim_start_matches('/').split('/').skip(1);
    match (segments.next(), segments.next()) {
        // Metrics cover all applications.
        (None, _) => Need::Scope(None, Access::Read),
        (Some("apps" | "partitions"), None) => Need::Token,
        (Some("apps"), Some(application)) => Need::Scope(Some(application), access),
        (Some(part @ ("series" | "blocks" | "workflows")), _) => Need::Scope(Some(part), access),
        (Some(_), _) => Need::Scope(None, Access::Admin),
    }
}

/// Accepts a request and returns what it may do; `None`: everything, because there are no tokens.
pub(crate) async fn admit(
    engine: &Engine,
    loopback: bool,
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
) -> Result<Option<Grants>, Problem> {
    let need = need(method, uri.path());
    let tokens = engine.tokens();
    if need == Need::Nothing {
        return Ok(None);
    }
    if tokens.is_empty() {
        if !loopback {
            let text = "there are no tokens, so no request is accepted: stop the server, make one with \
                        `seriatim token create --scope '*:admin' --storage URL`, and start it again";
            return Err(Problem::new(Code::Unauthorized, text));
        }
        return refuse_cross_origin(headers).map(|()| None);
    }
    let bearer = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()).and_then(bearer);
    let bearer = bearer.ok_or_else(|| {
        Problem::new(Code::Unauthorized, "the request needs a token: send Authorization: Bearer TOKEN")
    })?;
    let grants = tokens.verify_current(bearer).await?;
    let grants = grants
        .ok_or_else(|| Problem::new(Code::Unauthorized, "the token is not known, or it was revoked"))?;
    match need {
        Need::Scope(application, access) if !grants.allow(application, access) => {
            let application = application.unwrap_or("*");
            let text = format!("the token lacks the scope {application}:{access}");
            Err(Problem::new(Code::Forbidden, text))
        }
        _ => Ok(Some(grants)),
    }
}

fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// While there are no tokens, refuses requests of web pages that run in a browser on this machine: those that are sent from
/// another origin (`Origin`), and those to a foreign name that resolves to this machine (`Host`).
fn refuse_cross_origin(headers: &HeaderMap) -> Result<(), Problem> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let host = text(header::HOST).unwrap_or_default();
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    let is_local = !name.contains('.') || name.ends_with(".localhost") || is_loopback_address(name);
    if !is_local {
        let text = format!(
            "there are no tokens, so the server accepts only requests to 127.0.0.1 or localhost, not to {name}"
        );
        return Err(Problem::new(Code::Forbidden, text));
    }
    match text(header::ORIGIN) {
        Some(origin) if origin.split_once("://").map(|(_, origin)| origin) != Some(host) => {
            let text = format!("there are no tokens, so the server refuses requests of pages from {origin}");
            Err(Problem::new(Code::Forbidden, text))
        }
        _ => Ok(()),
    }
}

fn is_loopback_address(name: &str) -> bool {
    name.parse::<std::net::Ipv4Addr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn each_path_needs_its_scope() {
        use Access::{Admin, Read, Write};
        let (get, post) = (Method::GET, Method::POST);
        for (method, path, expected) in [
            (&get, "/", Need::Nothing),
            (&get, "/livez", Need::Nothing),
            (&get, "/readyz", Need::Nothing),
            (&get, "/openapi.json", Need::Nothing),
            (&get, "/console/app.js", Need::Nothing),
            (&get, "/metrics", Need::Scope(None, Read)),
            (&get, "/v1/apps", Need::Token),
            (&get, "/v1/partitions", Need::Token),
            (&get, "/v1/apps/shop", Need::Scope(Some("shop"), Read)),
            (&Method::HEAD, "/v1/apps/shop", Need::Scope(Some("shop"), Read)),
            (&post, "/v1/apps/shop/workspaces/1/commands", Need::Scope(Some("shop"), Write)),
            (&get, "/v1/apps/sh%6Fp", Need::Scope(Some("sh%6Fp"), Read)),
            (&get, "/v1/apps/", Need::Scope(Some(""), Read)),
            (&post, "/v1/series/a/next", Need::Scope(Some("series"), Write)),
            (&Method::PUT, "/v1/blocks/a", Need::Scope(Some("blocks"), Write)),
            (&get, "/v1/workflows", Need::Scope(Some("workflows"), Read)),
            (&get, "/v1/tokens", Need::Scope(None, Admin)),
            (&Method::DELETE, "/v1/tokens/1", Need::Scope(None, Admin)),
            (&post, "/v1/backup", Need::Scope(None, Admin)),
            (&post, "/v1/whatever", Need::Scope(None, Admin)),
            (&get, "/v1", Need::Scope(None, Read)),
            (&get, "/v1/", Need::Scope(None, Admin)),
        ] {
            assert_eq!(need(method, path), expected, "{method} {path}");
        }
    }

    #[test]
    fn cross_origin_requests_are_refused() {
        for (host, origin, fine) in [
            ("127.0.0.1:7400", None, true),
            ("localhost:7400", Some("http://localhost:7400"), true),
            ("[::1]:7400", Some("http://[::1]:7400"), true),
            ("seriatim.localhost", None, true),
            ("test", None, true),
            ("127.0.0.1:7400", Some("https://evil.example"), false),
            ("127.0.0.1:7400", Some("null"), false),
            ("evil.example:7400", Some("http://evil.example:7400"), false),
            ("evil.example", None, false),
            ("10.0.0.1", None, false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, HeaderValue::from_static(host));
            if let Some(origin) = origin {
                headers.insert(header::ORIGIN, HeaderValue::from_static(origin));
            }
            assert_eq!(refuse_cross_origin(&headers).is_ok(), fine, "{host} {origin:?}");
        }
    }
}
