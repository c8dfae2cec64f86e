//! What the core may do next.

/// ```text
///  Recovering ──recovered──► Ready ──open──► Open ──seal──► Sealed ──commit, discard──► Ready
///                              ▲               │ drop
///                              └───────────────┘
///  any ──recover──► Recovering
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The numbers may disagree with the log.
    Recovering,
    /// A group may be opened.
    Ready,
    /// A group is open.
    Open,
    /// A group waits for its outcome.
    Sealed,
}
