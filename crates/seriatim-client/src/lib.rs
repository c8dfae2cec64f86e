//! A typed client of a Seriatim server.
//!
//! ```no_run
//! use seriatim_client::{Client, ClientOptions};
//! use seriatim_env::Env;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::connect(Env::real(), "http://127.0.0.1:7400".parse()?, ClientOptions::default())?;
//! let taken = client.series("acme.invoices").next().await?;
//! println!("{}", taken.number);
//! # Ok(())
//! # }
//! ```
//!
//! - **It comes again.** A busy server is asked again after as long as it says, give or take a little; a broken connection
//!   is made anew. [`ClientOptions::patience`] bounds all of it.
//! - **It does nothing twice.** What changes something brings an idempotency key, a random one unless told
//!   ([`Series::with_key`]), and the same one each time it comes again. So `in_doubt` and broken connections are safe to
//!   repeat, and are repeated. What has no key (new tokens, unnamed workspaces) is repeated only if it surely was not done.
//! - **Errors say what to do:** [`ClientError::kind`].
//! - **Logs can be followed:** [`Workspace::follow`] and [`Application::follow`] go on where they were when a
//!   connection breaks or the server restarts.
//! - **Ids can be allocated locally:** [`Blocks::lease`] gives an allocator that asks the server once per block.
//!
//! Handles ([`Series`], [`Blocks`], [`Application`], [`Workspace`], [`Admin`]) are cheap: they hold a name and the client.
#![forbid(unsafe_code)]

mod admin;
mod application;
mod blocks;
mod call;
mod client;
mod error;
mod follow;
mod http_transport;
mod lease;
mod options;
mod retry;
mod series;
mod sse;
mod transport;
mod url;
mod workspace;

pub use admin::Admin;
pub use application::Application;
pub use blocks::Blocks;
pub use client::Client;
pub use error::ClientError;
pub use follow::Follower;
pub use lease::LeasedBlocks;
pub use options::ClientOptions;
/// The requests and answers, as the server has them.
pub use seriatim_api as api;
pub use series::Series;
pub use transport::{Body, Transport, TransportError};
pub use url::{ParseServerUrlError, ServerUrl};
pub use workspace::Workspace;
