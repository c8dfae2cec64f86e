//! What can be watched from outside.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod alone_support;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use alone_support::{Desk, INVOICE, KIND, TICKET, TIMEOUT, workspace};
use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use seriatim_engine::alone::{self, Options};
use seriatim_env::simulate;
use seriatim_storage_testing::faulty::{Fault, Operation};

/// Keeps what is told by name, labels left out but for the reason.
#[derive(Debug, Default, Clone)]
struct Kept {
    values: Arc<Mutex<BTreeMap<String, Arc<AtomicU64>>>>,
    samples: Arc<Mutex<BTreeMap<String, Arc<Samples>>>>,
    described: Arc<Mutex<Vec<String>>>,
}

#[derive(Debug, Default)]
struct Samples(Mutex<Vec<f64>>);

impl metrics::HistogramFn for Samples {
    fn record(&self, value: f64) {
        self.0.lock().unwrap().push(value);
    }
}

impl Kept {
    fn name(key: &Key) -> String {
        assert!(key.labels().any(|label| label.key() == "application"), "{key}");
        assert!(key.labels().any(|label| label.key() == "partition"), "{key}");
        let name = key.name().strip_prefix("seriatim_sequencer_").unwrap();
        match key.labels().find(|label| label.key() == "reason") {
            Some(reason) => format!("{name}/{}", reason.value()),
            None => name.to_owned(),
        }
    }

    fn slot(&self, key: &Key) -> Arc<AtomicU64> {
        self.values.lock().unwrap().entry(Self::name(key)).or_default().clone()
    }

    fn counter(&self, name: &str) -> u64 {
        self.values.lock().unwrap().get(name).map_or(0, |value| value.load(Ordering::Relaxed))
    }

    fn gauge(&self, name: &str) -> f64 {
        f64::from_bits(self.counter(name))
    }
}

impl Recorder for Kept {
    fn describe_counter(&self, key: KeyName, _: Option<Unit>, _: SharedString) {
        self.described.lock().unwrap().push(key.as_str().to_owned());
    }

    fn describe_gauge(&self, key: KeyName, _: Option<Unit>, _: SharedString) {
        self.described.lock().unwrap().push(key.as_str().to_owned());
    }

    fn describe_histogram(&self, key: KeyName, _: Option<Unit>, _: SharedString) {
        self.described.lock().unwrap().push(key.as_str().to_owned());
    }

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.slot(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.slot(key))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        let mut samples = self.samples.lock().unwrap();
        Histogram::from_arc(samples.entry(Self::name(key)).or_default().clone())
    }
}

#[test]
fn everything_that_happens_is_counted() {
    let kept = Kept::default();
    metrics::with_local_recorder(&kept, || {
        simulate(1, |env| async move {
            let mut desk = Desk::memory(&env);
            desk.options = Options { unflushed_max: 2, flush_at: 3, ..desk.options };
            let mut sequencer = desk.open().await;
            assert!(sequencer.group().is_err());
            sequencer.wait(TIMEOUT).await.unwrap();
            desk.number(&mut sequencer, workspace(1), &[INVOICE, TICKET, INVOICE]).await;
            desk.number(&mut sequencer, workspace(1), &[INVOICE]).await;
            desk.faults.fail(Operation::Write, Fault::Refuse);
            desk.invoice(&mut sequencer, workspace(2)).await;
            desk.invoice(&mut sequencer, workspace(3)).await;
            assert!(sequencer.group().is_err());
            assert!(sequencer.wait(std::time::Duration::from_secs(2)).await.is_err());
            desk.faults.heal();
            sequencer.wait(TIMEOUT).await.unwrap();
            let pin = sequencer.load(KIND, workspace(3)).await.unwrap();
            drop(pin);
            drop(sequencer);
            let mut sequencer = desk.with_empty_store().open_ready().await;
            sequencer.wait(TIMEOUT).await.unwrap();
        });
    });
    assert_eq!(kept.counter("draws_total"), 6);
    assert_eq!(kept.counter("events_total"), 4);
    assert_eq!(kept.counter("groups_refused_total/recovering"), 1);
    assert_eq!(kept.counter("groups_refused_total/backlogged"), 1);
    assert_eq!(kept.counter("cache_hits_total"), 2);
    assert_eq!(kept.counter("cache_misses_total"), 3);
    assert!(kept.gauge("cache_numbers") > 0.0);
    assert!(kept.counter("flush_failures_total") >= 1);
    assert_eq!(kept.counter("recovered_events_total"), 4);
    assert!((kept.gauge("recovery_offset") - 5.0).abs() < 0.1);
    assert!((kept.gauge("recovery_tail") - 5.0).abs() < 0.1);
    for name in ["unflushed", "uncheckpointed_events", "uncheckpointed_bytes"] {
        assert!(kept.values.lock().unwrap().contains_key(name), "{name}");
    }
    assert!(!kept.samples.lock().unwrap()["flush_seconds"].0.lock().unwrap().is_empty());
}

#[test]
fn every_metric_is_described() {
    let kept = Kept::default();
    metrics::with_local_recorder(&kept, || {
        alone::describe_metrics();
        simulate(1, |env| async move {
            let sequencer = Desk::memory(&env).open_ready().await;
            sequencer.finish(TIMEOUT).await.unwrap();
        });
    });
    let described = kept.described.lock().unwrap();
    let used = kept.values.lock().unwrap().keys().cloned().collect::<Vec<_>>();
    for name in used.iter().chain(kept.samples.lock().unwrap().keys()) {
        let name = format!("seriatim_sequencer_{}", name.split('/').next().unwrap());
        assert!(described.contains(&name), "{name}");
    }
}
