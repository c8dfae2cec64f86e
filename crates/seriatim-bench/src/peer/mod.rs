//! Those beside whom more than one suite measures.

mod bare_file;
mod plain_fjall;
mod postgres;

pub(crate) use bare_file::BareFile;
pub(crate) use plain_fjall::PlainFjall;
pub(crate) use postgres::{Insert, Postgres};
