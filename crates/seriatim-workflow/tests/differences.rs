//! What is told of a difference: both values, the place at which they differ, and the event. Bytes that mean the same are
//! no difference.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::result_large_err, reason = "failures are rare")]

mod common;

use std::sync::Arc;

use common::program::play;
use serde::Serialize;
use serde_json::json;
use seriatim_workflow::*;

#[derive(Serialize)]
struct Item {
    name: &'static str,
    price: f64,
}

#[derive(Serialize)]
struct Order {
    customer: &'static str,
    items: Vec<Item>,
}

/// The same as [`Order`], with sorted fields and prices as whole numbers.
#[derive(Serialize)]
struct SortedOrder {
    items: Vec<SortedItem>,
    customer: &'static str,
}

#[derive(Serialize)]
struct SortedItem {
    price: u64,
    name: &'static str,
}

fn order(price: f64) -> Order {
    Order { customer: "ada", items: vec![Item { name: "tea", price: 3.0 }, Item { name: "cup", price }] }
}

fn sorted(price: u64) -> SortedOrder {
    let items = vec![SortedItem { price: 3, name: "tea" }, SortedItem { price, name: "cup" }];
    SortedOrder { items, customer: "ada" }
}

/// A workflow that charges for an order and returns it.
fn registry<T: Serialize + Send + Sync + 'static>(order: fn() -> T) -> Arc<Registry> {
    Arc::new(Registry::new().workflow("order", move |ctx: Context, (): ()| async move {
        ctx.activity::<_, ()>("charge", &order()).await?;
        Ok(order())
    }))
}

fn jobs() -> [Vec<Job>; 2] {
    let resolution = ActivityResolution::Completed { result: None };
    [vec![common::start("order", ())], vec![Job::ResolveActivity { seq: CommandSeq::new(1), resolution }]]
}

fn recorded(registry: Arc<Registry>) -> History {
    let mut instance = Instance::new(registry, InstanceOptions::default());
    let mut history = History::default();
    for jobs in jobs() {
        let activation = Activation::new("run", Time::default(), jobs);
        history.push(activation.clone(), instance.activate(activation).outcome.unwrap());
    }
    history
}

#[test]
fn an_input_that_differs_is_shown_with_the_place() {
    let history = recorded(registry(|| order(10.0)));
    let report = replay(&registry(|| order(12.0)), &history, Policy::Warn).to_string();
    let items = |price: &str| {
        format!(
            r#"{{"customer":"ada","items":[{{"name":"tea","price":3.0}},{{"name":"cup","price":{price}}}]}}"#
        )
    };
    let wanted = [
        "DIFFERENT: order run, 2 activations, 2 commands".to_owned(),
        "activation 1: another input".to_owned(),
        format!("  expected: schedule_activity 1 \"charge\" at /#1 input {}", items("10.0")),
        format!("  actual:   schedule_activity 1 \"charge\" at /#1 input {}", items("12.0")),
        "  input .items[1].price: 10.0 ≠ 12.0".to_owned(),
    ];
    assert!(report.starts_with(&wanted.join("\n")), "{report}");
    assert!(report.contains("\nactivation 2: another result\n  expected: complete result {"), "{report}");
    assert!(report.contains("\n  result .items[1].price: 10.0 ≠ 12.0"), "{report}");
    let json = replay(&registry(|| order(12.0)), &history, Policy::Fail).to_json();
    let place = json!({"path": ".items[1].price", "expected": "10.0", "actual": "12.0"});
    assert_eq!(json["differences"][0]["value"], place);
}

/// A run that is built anew while it is open continues, though its code writes its inputs in other bytes now.
#[test]
fn bytes_that_mean_the_same_are_no_difference() {
    let history = recorded(registry(|| order(10.0)));
    let report = replay(&registry(|| sorted(10)), &history, Policy::Fail);
    assert!(report.is_same(), "{report}");
    let first = history.steps[0].commands.as_deref().unwrap();
    let numbering = Numbering::ByLineage([first].into_iter().collect());
    let options = InstanceOptions { numbering, policy: Policy::Fail };
    let mut open = Instance::new(registry(|| sorted(10)), options);
    for jobs in jobs() {
        let completion = open.activate(Activation::new("run", Time::default(), jobs));
        assert!(completion.outcome.is_ok(), "{completion:?}");
    }
    let other = replay(&registry(|| sorted(12)), &history, Policy::Fail);
    assert!(other.to_string().contains("  input .items[1].price: 10.0 ≠ 12"), "{other}");
}

/// A history that is written or changed by hand needs no digests, and a digest does not hide a change.
#[test]
fn an_input_counts_more_than_its_digest() {
    let with = |input: serde_json::Value, digest: InputDigest| {
        let mut history = recorded(registry(|| order(10.0)));
        let Command::ScheduleActivity { input: recorded, lineage, .. } =
            &mut history.steps[0].commands.as_mut().unwrap()[0]
        else {
            panic!("not an activity")
        };
        *recorded = vec![Payload::json(&input).unwrap()];
        lineage.digest = digest;
        replay(&registry(|| order(10.0)), &history, Policy::Fail)
    };
    let same = serde_json::to_value(order(10.0)).unwrap();
    assert!(with(same, InputDigest::NONE).is_same());
    let digest = InputDigest::of(&[Payload::json(&order(10.0)).unwrap()]);
    let report = with(json!({"customer": "ada"}), digest);
    assert!(report.to_string().contains("  input .items: nothing ≠ [{\"name\":\"tea\""), "{report}");
}

/// Other bytes of the same values: white space around each.
fn spaced(input: &mut [Payload]) {
    for payload in input.iter_mut().filter(|payload| payload.encoding() == Some("json/plain")) {
        let text = str::from_utf8(&payload.data).unwrap();
        payload.data = format!(" {text}\n").into();
    }
}

#[test]
fn random_programs_replay_on_histories_in_other_bytes() {
    let mut changed = 0;
    for seed in 0..200 {
        let (registry, mut history) = play(seed, 3, 12);
        for command in history.steps.iter_mut().flat_map(|step| step.commands.iter_mut().flatten()) {
            match command {
                Command::ScheduleActivity { input, lineage, .. }
                | Command::ScheduleLocalActivity { input, lineage, .. }
                | Command::StartChild { input, lineage, .. }
                | Command::SignalExternal { input, lineage, .. } => {
                    spaced(input);
                    lineage.digest = InputDigest::of(input);
                    changed += 1;
                }
                Command::Complete { result } => spaced(result.as_mut_slice()),
                _ => {}
            }
        }
        let report = replay(&registry, &history, Policy::Fail);
        assert!(report.is_same(), "{seed}: {report}");
    }
    assert!(changed > 100, "{changed}");
}
