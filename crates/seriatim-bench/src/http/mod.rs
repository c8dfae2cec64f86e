//! Durable gap-free commands over HTTP compared with other servers. The load comes from another process than the server.

mod compare;
mod connection;
mod load;
mod server;
mod streams;

#[cfg(feature = "umadb")]
pub(crate) use server::print_address;

use crate::measure::Measure;
use crate::suite::{Run, Suite};

pub(crate) const SUITE: Suite = Suite {
    name: "http",
    about: "gap-free commands over HTTP compared with PostgreSQL, UmaDB and Redis; memory; ten thousand event streams",
    run,
    child: Some(server::child),
};

fn run(run: &Run) -> anyhow::Result<Vec<Measure>> {
    let mut measures = compare::measure(run)?;
    measures.extend(streams::measure(run)?);
    Ok(measures)
}
