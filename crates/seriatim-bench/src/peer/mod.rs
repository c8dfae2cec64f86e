//! Peers that more than one suite uses.

mod bare_file;
mod plain_fjall;
mod postgres;
mod redis;
mod umadb;

pub(crate) use bare_file::BareFile;
pub(crate) use plain_fjall::PlainFjall;
pub(crate) use postgres::{Insert, Postgres};
pub(crate) use redis::Redis;
pub(crate) use umadb::UmaDb;
#[cfg(feature = "umadb")]
pub(crate) use umadb::serve as serve_umadb;

/// A free port on loopback, for servers that bind it themselves.
fn free_port() -> std::io::Result<u16> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}
