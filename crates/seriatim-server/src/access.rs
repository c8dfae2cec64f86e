//! Who may do what.

/// Whether a path needs no token.
pub(crate) fn is_open(path: &str) -> bool {
    matches!(path, "/livez" | "/readyz" | "/openapi.json")
}
