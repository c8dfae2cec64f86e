//! A typed client of a Seriatim server.
//!
//! ```
//! use seriatim_client::{Client, ClientOptions};
//! use seriatim_env::Env;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let (env, stop) = (Env::real(), seriatim_env::Shutdown::new());
//! # let log = seriatim_storage::Log::new(seriatim_storage::memory::MemoryLog::new());
//! # let store = seriatim_storage::Store::new(seriatim_storage::memory::MemoryStore::new());
//! # let apps = [seriatim_engine::App::new(seriatim_engine::definition::shop())];
//! # let engine = seriatim_engine::Engine::open(env.clone(), log, store, apps, Default::default()).await?;
//! # let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
//! # let address = format!("http://{}", listener.local_addr()?);
//! # let served = env.spawn(seriatim_server::serve(listener, engine.clone(), None, Default::default(), stop.clone()));
//! // For example "http://127.0.0.1:7400".
//! let client = Client::connect(Env::real(), address.parse()?, ClientOptions::default())?;
//!
//! // A gap-free number, durable when the call returns.
//! let taken = client.series("acme.invoices").next().await?;
//! assert_eq!(taken.number, 1);
//!
//! // The same key gives the same number, to any caller.
//! let keyed = client.series("acme.invoices").with_key("order-7");
//! assert_eq!((keyed.next().await?.number, keyed.next().await?.number), (2, 2));
//!
//! // Ids that may have gaps: from memory, with one request per block.
//! client.blocks("orders").put(&Default::default()).await?;
//! let ids = client.blocks("orders").lease(Default::default()).await?;
//! assert_eq!(ids.allocate_one().await?.get(), 1);
//!
//! // Each number has its event, and the log can be followed.
//! let workspace = client.application("series").workspaces(None, 1).await?.workspaces[0].id;
//! let mut log = client.application("series").workspace(workspace).follow(1);
//! assert_eq!(log.next().await?.workspace_offset, 1);
//! # drop(log);
//! # stop.cancel();
//! # served.await??;
//! # engine.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! - **It retries.** The client repeats a request to a busy server after the time that the server gives, with a random part;
//!   it opens a broken connection again. [`ClientOptions::retry_timeout`] limits all retries of a call.
//! - **It does nothing twice.** Each change has an idempotency key, by default a random one ([`Series::with_key`]). All
//!   attempts of a call use the same key. So a call is safe to repeat, and is repeated, if its answer is `in_doubt` or its
//!   connection breaks. A request without a key (new tokens) is repeated only if it certainly was not done.
//! - **Errors say what to do:** [`ClientError::kind`].
//! - **Logs can be followed:** [`Workspace::follow`] and [`Application::follow`] continue from the same offset when a
//!   connection breaks or the server restarts.
//! - **Ids can be allocated locally:** [`Blocks::lease`] gives an allocator that makes one request per block.
//! - **Workflows have types:** serde reads and writes inputs, answers and results. See [`Workflow`].
//!
//! Handles ([`Series`], [`Blocks`], [`Application`], [`Workspace`], [`Workflow`], [`Admin`]) are cheap: they hold a name and the client.
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
mod workflows;
mod workspace;

pub use admin::Admin;
pub use application::Application;
pub use blocks::Blocks;
pub use client::Client;
pub use error::ClientError;
pub use follow::Follower;
pub use lease::LeasedBlocks;
pub use options::ClientOptions;
/// The requests and answers of the HTTP API, as types.
pub use seriatim_api as api;
pub use series::Series;
pub use transport::{Body, Transport, TransportError};
pub use url::{ParseServerUrlError, ServerUrl};
pub use workflows::{Workflow, Workflows};
pub use workspace::Workspace;
