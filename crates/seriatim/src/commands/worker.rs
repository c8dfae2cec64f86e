//! `seriatim worker`.

use std::net::SocketAddr;

use clap::Args;

use super::cluster::Cluster;
use crate::context::Context;
use crate::error::CliError;

/// Runs the workflows on a Temporal cluster.
///
/// Polls a task queue and runs the demo workflows `greet` and `order`. To run your own workflows, use the library, as
/// docs/temporal.md shows. On SIGTERM or SIGINT the worker finishes the tasks in progress, returns the others, and exits with 0.
/// It logs according to the settings log_level and log_format. Needs the cargo feature `temporal`, which is off by default.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  seriatim worker --temporal 127.0.0.1:7233 --task-queue orders
  seriatim worker --temporal 127.0.0.1:7233 --task-queue orders --metrics 127.0.0.1:9464
  seriatim worker --temporal eu-west-1.aws.api.temporal.io:7233 --namespace shop.a1b2c --task-queue orders    with TEMPORAL_API_KEY set
  seriatim worker --temporal temporal.internal:7233 --task-queue orders --tls-ca ca.pem --tls-cert me.pem --tls-key me.key")]
pub(crate) struct Worker {
    /// The cluster: HOST:PORT, http://HOST:PORT or https://HOST:PORT.
    #[arg(id = "url", long = "temporal", value_name = "URL")]
    url: String,
    /// The task queue to poll.
    #[arg(long, value_name = "QUEUE")]
    task_queue: String,
    /// The address at which Prometheus can read metrics.
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<SocketAddr>,
    #[command(flatten)]
    cluster: Cluster,
}

impl Worker {
    #[cfg(not(feature = "temporal"))]
    pub(crate) async fn run(self, _: &Context) -> Result<(), CliError> {
        Err(super::cluster::absent("`worker`"))
    }

    #[cfg(feature = "temporal")]
    pub(crate) async fn run(self, context: &Context) -> Result<(), CliError> {
        use crate::running::{announce, start_logging, stop_on_signals};
        use seriatim_temporal::WorkerOptions;
        use seriatim_workflow_host::demo;

        let settings = context.settings()?;
        start_logging(&settings)?;
        let env = &context.env;
        let stop = stop_on_signals(env)?;
        if let Some(address) = self.metrics {
            serve_metrics(env, address)?;
        }
        let Some(connection) = stop.run_until_cancelled(self.cluster.connect(env, &self.url)).await else {
            return Ok(());
        };
        let connection = connection?;
        let namespace = self.cluster.namespace().to_owned();
        let ready = format!(
            "seriatim works on the queue {} of namespace {namespace} at {}, stop it with Ctrl-C",
            self.task_queue,
            connection.url()
        );
        let options = WorkerOptions { namespace, ..WorkerOptions::new(self.task_queue) };
        let (workflows, activities) = (demo::workflows(), demo::activities());
        let worker = seriatim_temporal::Worker::new(env.clone(), connection, workflows, activities, options)?;
        announce(env, &settings, tracing::Level::INFO, &ready)?;
        Ok(worker.run(stop).await?)
    }
}

/// Serves metrics in the format of Prometheus until the process ends.
#[cfg(feature = "temporal")]
fn serve_metrics(env: &seriatim_env::Env, address: SocketAddr) -> Result<(), CliError> {
    let wrong = |error: &dyn std::fmt::Display| CliError::unavailable(format!("{address}: {error}"));
    let exporter = metrics_exporter_prometheus::PrometheusBuilder::new().with_http_listener(address);
    let (recorder, serving) = exporter.build().map_err(|error| wrong(&error))?;
    metrics::set_global_recorder(recorder).map_err(|error| wrong(&error))?;
    drop(env.spawn(async move {
        if let Err(error) = serving.await {
            tracing::error!(?error, "metrics are no longer served");
        }
    }));
    Ok(())
}
