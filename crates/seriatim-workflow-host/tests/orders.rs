//! The demo's orders do what they did before: open runs continue with the present code.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::sync::Arc;

use seriatim_workflow::{History, Policy, replay};
use seriatim_workflow_host::demo;

/// Recorded when an order kept its state in an `Arc<Mutex<…>>` of its own; approved by a signal, by a timer, by both at
/// once, cancelled, and changed by updates at each stage; by the rules for updates of both kinds.
const RECORDED: &str = include_str!("histories/orders.json");

#[test]
fn orders_that_were_recorded_before_replay() {
    let registry = Arc::new(demo::workflows());
    let histories: BTreeMap<String, History> = serde_json::from_str(RECORDED).unwrap();
    assert_eq!(histories.len(), 12);
    for (name, history) in histories {
        let report = replay(&registry, &history, Policy::Fail);
        assert!(report.is_same(), "{name}: {report}");
    }
}
