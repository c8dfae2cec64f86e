//! The core's metrics, in the same registry as ours.
//!
//! Names are the core's own, which begin with `temporal_`; durations are in seconds.

use std::collections::HashMap;
use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use metrics::{Key, Label, Level, Metadata, SharedString, Unit};
use temporalio_common::telemetry::metrics::{
    CoreMeter, Counter, CounterBase, Gauge, GaugeBase, GaugeF64, GaugeF64Base, Histogram, HistogramBase,
    HistogramDuration, HistogramDurationBase, HistogramF64, HistogramF64Base, MetricAttributable,
    MetricAttributes, MetricParameters, NewAttributes, UpDownCounter, UpDownCounterBase,
};

const METADATA: Metadata<'static> = Metadata::new(module_path!(), Level::INFO, Some(module_path!()));

/// Makes the core's instruments from the process's own registry.
#[derive(Debug)]
pub(crate) struct Meter;

impl Meter {
    pub(crate) fn shared() -> Arc<dyn CoreMeter> {
        Arc::new(Self)
    }
}

type Labels = HashMap<String, String>;

fn labels_of(attributes: &MetricAttributes) -> Option<&Arc<Labels>> {
    match attributes {
        MetricAttributes::NoOp(labels) => Some(labels),
        _ => None,
    }
}

/// An instrument that has a name and no labels yet.
struct Named(SharedString);

impl Named {
    fn key(&self, attributes: &MetricAttributes) -> Result<Key, Box<dyn Error>> {
        let labels = match attributes {
            MetricAttributes::Empty => Vec::new(),
            attributes => {
                let foreign = || Box::<dyn Error>::from(Foreign);
                let labels = labels_of(attributes).ok_or_else(foreign)?;
                labels.iter().map(|(name, value)| Label::new(name.clone(), value.clone())).collect()
            }
        };
        Ok(Key::from_parts(self.0.clone(), labels))
    }
}

/// Attributes that another meter has made.
#[derive(Debug)]
struct Foreign;

impl fmt::Display for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("these attributes were made by another meter")
    }
}

impl Error for Foreign {}

struct OfCounter(metrics::Counter);
struct OfGauge(metrics::Gauge);
struct OfHistogram(metrics::Histogram);

impl CounterBase for OfCounter {
    fn adds(&self, value: u64) {
        self.0.increment(value);
    }
}

impl UpDownCounterBase for OfGauge {
    fn adds(&self, value: i64) {
        self.0.increment(float(value));
    }
}

impl GaugeBase for OfGauge {
    fn records(&self, value: u64) {
        self.0.set(float(value));
    }
}

impl GaugeF64Base for OfGauge {
    fn records(&self, value: f64) {
        self.0.set(value);
    }
}

impl HistogramBase for OfHistogram {
    fn records(&self, value: u64) {
        self.0.record(float(value));
    }
}

impl HistogramF64Base for OfHistogram {
    fn records(&self, value: f64) {
        self.0.record(value);
    }
}

impl HistogramDurationBase for OfHistogram {
    fn records(&self, value: Duration) {
        self.0.record(value.as_secs_f64());
    }
}

/// The nearest number that a metric can show: exact up to 2^53.
#[allow(clippy::cast_precision_loss, reason = "no metric of the core comes near 2^53")]
fn float<T: Into<i128>>(value: T) -> f64 {
    value.into() as f64
}

macro_rules! binds {
    ($($base:ident as $of:ident by $register:ident;)*) => {$(
        impl MetricAttributable<Box<dyn $base>> for Named {
            fn with_attributes(&self, attributes: &MetricAttributes) -> Result<Box<dyn $base>, Box<dyn Error>> {
                let key = self.key(attributes)?;
                Ok(Box::new($of(metrics::with_recorder(|recorder| recorder.$register(&key, &METADATA)))))
            }
        }
    )*};
}

binds! {
    CounterBase as OfCounter by register_counter;
    UpDownCounterBase as OfGauge by register_gauge;
    GaugeBase as OfGauge by register_gauge;
    GaugeF64Base as OfGauge by register_gauge;
    HistogramBase as OfHistogram by register_histogram;
    HistogramF64Base as OfHistogram by register_histogram;
    HistogramDurationBase as OfHistogram by register_histogram;
}

/// What an instrument is, for the registry's description of it.
#[derive(Clone, Copy)]
enum Shape {
    Counter,
    Gauge,
    Histogram(Option<Unit>),
}

fn named(parameters: MetricParameters, shape: Shape) -> Arc<Named> {
    let name = SharedString::from(parameters.name);
    let description = SharedString::from(parameters.description);
    if !description.is_empty() {
        let name = name.clone().into();
        metrics::with_recorder(|recorder| match shape {
            Shape::Counter => recorder.describe_counter(name, None, description),
            Shape::Gauge => recorder.describe_gauge(name, None, description),
            Shape::Histogram(unit) => recorder.describe_histogram(name, unit, description),
        });
    }
    Arc::new(Named(name))
}

impl CoreMeter for Meter {
    fn new_attributes(&self, attributes: NewAttributes) -> MetricAttributes {
        MetricAttributes::NoOp(Arc::new(attributes.into()))
    }

    fn extend_attributes(&self, existing: MetricAttributes, attributes: NewAttributes) -> MetricAttributes {
        let mut all = labels_of(&existing).map_or_else(Labels::new, |labels| Labels::clone(labels));
        all.extend(Labels::from(attributes));
        MetricAttributes::NoOp(Arc::new(all))
    }

    fn counter(&self, parameters: MetricParameters) -> Counter {
        Counter::new(named(parameters, Shape::Counter))
    }

    fn histogram(&self, parameters: MetricParameters) -> Histogram {
        Histogram::new(named(parameters, Shape::Histogram(None)))
    }

    fn histogram_f64(&self, parameters: MetricParameters) -> HistogramF64 {
        HistogramF64::new(named(parameters, Shape::Histogram(None)))
    }

    fn histogram_duration(&self, parameters: MetricParameters) -> HistogramDuration {
        HistogramDuration::new(named(parameters, Shape::Histogram(Some(Unit::Seconds))))
    }

    fn gauge(&self, parameters: MetricParameters) -> Gauge {
        Gauge::new(named(parameters, Shape::Gauge))
    }

    fn gauge_f64(&self, parameters: MetricParameters) -> GaugeF64 {
        GaugeF64::new(named(parameters, Shape::Gauge))
    }

    fn up_down_counter(&self, parameters: MetricParameters) -> UpDownCounter {
        UpDownCounter::new(named(parameters, Shape::Gauge))
    }
}

#[cfg(test)]
mod tests {
    use metrics_util::debugging::{DebugValue, DebuggingRecorder};
    use temporalio_common::telemetry::metrics::MetricKeyValue;

    use super::*;

    #[test]
    fn every_instrument_of_the_core_reaches_the_registry() {
        let recorder = DebuggingRecorder::new();
        let snapshotter = recorder.snapshotter();
        metrics::with_local_recorder(&recorder, || {
            let meter = Meter;
            let queue = meter.new_attributes([MetricKeyValue::new("task_queue", "q")].into());
            let both = meter.extend_attributes(queue.clone(), [MetricKeyValue::new("kind", "x")].into());
            meter.counter("temporal_c".into()).add(2, &queue);
            meter.counter("temporal_c".into()).add(1, &both);
            meter.up_down_counter("temporal_u".into()).add(-1, &queue);
            meter.gauge("temporal_g".into()).record(7, &queue);
            meter.gauge_f64("temporal_gf".into()).record(0.5, &queue);
            meter.histogram("temporal_h".into()).record(3, &queue);
            meter.histogram_f64("temporal_hf".into()).record(1.5, &queue);
            meter.histogram_duration("temporal_d".into()).record(Duration::from_millis(250), &queue);
        });
        let mut seen: Vec<String> = snapshotter.snapshot().into_vec().into_iter().map(show).collect();
        seen.sort();
        assert_eq!(
            seen,
            [
                "temporal_c kind=x task_queue=q: 1",
                "temporal_c task_queue=q: 2",
                "temporal_d task_queue=q: 0.25",
                "temporal_g task_queue=q: 7",
                "temporal_gf task_queue=q: 0.5",
                "temporal_h task_queue=q: 3",
                "temporal_hf task_queue=q: 1.5",
                "temporal_u task_queue=q: -1",
            ]
        );
    }

    type Seen = (metrics_util::CompositeKey, Option<Unit>, Option<SharedString>, DebugValue);

    fn show((key, _, _, value): Seen) -> String {
        let (_, key) = key.into_parts();
        let mut labels: Vec<_> = key.labels().map(|l| format!("{}={}", l.key(), l.value())).collect();
        labels.sort();
        let value = match value {
            DebugValue::Counter(value) => value.to_string(),
            DebugValue::Gauge(value) => value.to_string(),
            DebugValue::Histogram(values) => {
                values.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
            }
        };
        format!("{} {}: {value}", key.name(), labels.join(" "))
    }

    #[test]
    fn attributes_of_another_meter_are_refused() {
        let foreign = MetricAttributes::Prometheus { labels: Arc::default() };
        assert!(Named("temporal_c".into()).key(&foreign).is_err());
    }
}
