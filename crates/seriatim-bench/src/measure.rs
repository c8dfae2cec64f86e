//! One figure, compared with a peer's.

use std::fmt;

use serde::{Serialize, Serializer};

/// The goal of a measure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Goal {
    /// Ours divided by the peer's is at least this.
    RatioAtLeast(f64),
    /// Ours divided by the peer's is at most this.
    RatioAtMost(f64),
    /// Ours is at least this, in the measure's unit.
    AtLeast(f64),
    /// Ours is at most this, in the measure's unit.
    AtMost(f64),
}

impl Goal {
    /// Whether it is reached; `None` if it is about a ratio and there is none.
    fn met(self, value: f64, ratio: Option<f64>) -> Option<bool> {
        match self {
            Self::RatioAtLeast(least) => ratio.map(|ratio| ratio >= least),
            Self::RatioAtMost(most) => ratio.map(|ratio| ratio <= most),
            Self::AtLeast(least) => Some(value >= least),
            Self::AtMost(most) => Some(value <= most),
        }
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RatioAtLeast(least) => write!(f, "ratio ≥ {least}"),
            Self::RatioAtMost(most) => write!(f, "ratio ≤ {most}"),
            Self::AtLeast(least) => write!(f, "≥ {least}"),
            Self::AtMost(most) => write!(f, "≤ {most}"),
        }
    }
}

/// Our figure, the peer's if there is a peer, and whether the goal is reached.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Measure {
    pub(crate) name: String,
    #[serde(serialize_with = "digits")]
    pub(crate) value: f64,
    pub(crate) unit: &'static str,
    pub(crate) peer: Option<String>,
    #[serde(serialize_with = "digits_if_any")]
    pub(crate) peer_value: Option<f64>,
    /// Ours divided by the peer's.
    #[serde(serialize_with = "digits_if_any")]
    pub(crate) ratio: Option<f64>,
    #[serde(serialize_with = "text_if_any")]
    pub(crate) goal: Option<Goal>,
    pub(crate) met: Option<bool>,
    /// Why there is no figure of the peer, or a remark for the reader.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
}

impl Measure {
    /// Our figure, without a peer.
    pub(crate) fn new(name: impl Into<String>, value: f64, unit: &'static str) -> Self {
        Self {
            name: name.into(),
            value,
            unit,
            peer: None,
            peer_value: None,
            ratio: None,
            goal: None,
            met: None,
            reason: None,
        }
    }

    /// Adds the figure of a peer, measured in the same run and the same unit.
    pub(crate) fn compared_with(mut self, peer: impl Into<String>, value: f64) -> Self {
        self.peer = Some(peer.into());
        self.peer_value = Some(value);
        self.ratio = Some(self.value / value);
        self.judged()
    }

    /// Adds a peer that is not available, and why.
    pub(crate) fn without(mut self, peer: impl Into<String>, reason: impl Into<String>) -> Self {
        self.peer = Some(peer.into());
        self.reason = Some(reason.into());
        self.judged()
    }

    /// Sets the goal.
    pub(crate) fn goal(mut self, goal: Goal) -> Self {
        self.goal = Some(goal);
        self.judged()
    }

    fn judged(mut self) -> Self {
        self.met = self.goal.and_then(|goal| goal.met(self.value, self.ratio));
        self
    }
}

/// Rounds to six digits: measurements are not more precise.
fn digits<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    let rounded = format!("{value:.5e}").parse().unwrap_or(*value);
    serializer.serialize_f64(rounded)
}

#[expect(clippy::ref_option, reason = "serde passes a reference")]
fn digits_if_any<S: Serializer>(value: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => digits(value, serializer),
        None => serializer.serialize_none(),
    }
}

#[expect(clippy::ref_option, reason = "serde passes a reference")]
fn text_if_any<S: Serializer>(goal: &Option<Goal>, serializer: S) -> Result<S::Ok, S::Error> {
    match goal {
        Some(goal) => serializer.collect_str(goal),
        None => serializer.serialize_none(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_is_met_at_its_edge_and_open_without_a_ratio() {
        for (goal, value, ratio, met) in [
            (Goal::RatioAtLeast(0.85), 1.0, Some(0.85), Some(true)),
            (Goal::RatioAtLeast(0.85), 1.0, Some(0.849), Some(false)),
            (Goal::RatioAtLeast(0.85), 1.0, None, None),
            (Goal::RatioAtMost(1.2), 1.0, Some(1.2), Some(true)),
            (Goal::RatioAtMost(1.2), 1.0, Some(f64::NAN), Some(false)),
            (Goal::AtLeast(2.0), 2.0, None, Some(true)),
            (Goal::AtMost(2.0), 2.1, Some(0.1), Some(false)),
        ] {
            assert_eq!(goal.met(value, ratio), met, "{goal} with {value}, {ratio:?}");
        }
    }

    #[test]
    fn a_goal_may_be_set_before_or_after_the_peer() {
        let measure = || Measure::new("appends", 90.0, "1/s");
        let goal = Goal::RatioAtLeast(0.85);
        let before = measure().goal(goal).compared_with("file", 100.0);
        assert_eq!(before, measure().compared_with("file", 100.0).goal(goal));
        assert_eq!((before.ratio, before.met), (Some(0.9), Some(true)));
    }
}
