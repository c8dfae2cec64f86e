//! The phases of the core.

/// ```text
///  Recovering ──recovered──► Ready ──open──► Open ──seal──► Sealed ──commit, discard──► Ready
///                              ▲               │ drop
///                              └───────────────┘
///  any ──recover──► Recovering
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The numbers may not agree with the log.
    Recovering,
    /// A group may be opened.
    Ready,
    /// A group is open.
    Open,
    /// A group is sealed, and its outcome is not known yet.
    Sealed,
}
