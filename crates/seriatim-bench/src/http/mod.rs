//! Durable gap-free commands over HTTP, the load coming from another process than the server, beside servers of others.

mod beside;
mod connection;
mod load;
mod server;
mod streams;

#[cfg(feature = "umadb")]
pub(crate) use server::say;

use crate::measure::Measure;
use crate::suite::{Run, Suite};

pub(crate) const SUITE: Suite = Suite {
    name: "http",
    about: "gap-free commands over HTTP beside PostgreSQL, UmaDB and Redis; memory; ten thousand event streams",
    run,
    child: Some(server::child),
};

fn run(run: &Run) -> anyhow::Result<Vec<Measure>> {
    let mut measures = beside::measure(run)?;
    measures.extend(streams::measure(run)?);
    Ok(measures)
}
