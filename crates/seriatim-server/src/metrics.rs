//! All metrics of the server.

use std::time::Duration;

use axum::http::StatusCode;
use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};
use metrics_exporter_prometheus::PrometheusHandle;
use seriatim_env::{Env, Shutdown};

/// How often measured values are aggregated. Until then each value is kept separately.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(5);

/// Metrics of the server.
#[derive(Debug)]
pub(crate) struct HttpMetrics {
    answers: [Counter; 5],
    pub(crate) seconds: Histogram,
    pub(crate) in_flight: Gauge,
    pub(crate) shed: Counter,
    pub(crate) timed_out: Counter,
    pub(crate) panics: Counter,
    pub(crate) connections: Gauge,
    pub(crate) streams: Gauge,
    pub(crate) stuck: Gauge,
}

impl HttpMetrics {
    pub(crate) fn new() -> Self {
        let answers = ["1xx", "2xx", "3xx", "4xx", "5xx"];
        Self {
            answers: answers.map(|status| counter!("seriatim_http_requests_total", "status" => status)),
            seconds: histogram!("seriatim_http_request_seconds"),
            in_flight: gauge!("seriatim_http_requests_in_flight"),
            shed: counter!("seriatim_http_requests_shed_total"),
            timed_out: counter!("seriatim_http_requests_timed_out_total"),
            panics: counter!("seriatim_http_panics_total"),
            connections: gauge!("seriatim_http_connections"),
            streams: gauge!("seriatim_http_streams"),
            stuck: gauge!("seriatim_partitions_stuck"),
        }
    }

    pub(crate) fn count(&self, status: StatusCode) {
        let class = usize::from(status.as_u16() / 100).clamp(1, 5);
        self.answers[class - 1].increment(1);
    }
}

/// Increments a gauge, and decrements it when dropped.
#[derive(Debug)]
pub(crate) struct GaugeGuard(Gauge);

impl GaugeGuard {
    pub(crate) fn new(gauge: &Gauge) -> Self {
        gauge.increment(1);
        Self(gauge.clone())
    }
}

impl Drop for GaugeGuard {
    fn drop(&mut self) {
        self.0.decrement(1);
    }
}

/// Aggregates measured values regularly, so that memory does not grow while no one requests the metrics.
pub(crate) async fn run_upkeep(env: Env, handle: PrometheusHandle, stop: Shutdown) {
    while stop.run_until_cancelled(env.sleep(UPKEEP_INTERVAL)).await.is_some() {
        handle.run_upkeep();
    }
}
