//! UmaDB, an event store with conditional appends, from the crate registry.
//!
//! Each client appends one event per request to its own stream, on condition that no other client has appended to it. A number per
//! stream needs this check. The clients do not conflict with each other.

use std::net::SocketAddr;

use tokio::runtime::Runtime;

#[cfg(feature = "umadb")]
pub(crate) use with::{UmaDb, serve};
#[cfg(not(feature = "umadb"))]
pub(crate) use without::UmaDb;

#[cfg(feature = "umadb")]
mod with {
    use std::path::Path;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use anyhow::anyhow;
    use seriatim_env::Shutdown;
    use umadb_client::{AsyncUmaDbClient, UmaDbClient};
    use umadb_dcb::{DcbAppendCondition, DcbEvent, DcbEventStoreAsync, DcbQuery, DcbQueryItem};
    use umadb_server::{ServerOptions, StorageOptions, start_server_with_options};

    use super::{Runtime, SocketAddr};
    use crate::writers::Durable;

    const BODY_BYTES: usize = 300;

    /// The clients.
    pub(crate) struct UmaDb {
        clients: Vec<(AsyncUmaDbClient, AtomicU64)>,
    }

    impl UmaDb {
        pub(crate) fn check_available() -> anyhow::Result<()> {
            Ok(())
        }

        pub(crate) fn open(
            runtime: &Runtime,
            address: SocketAddr,
            count: usize,
        ) -> anyhow::Result<Arc<Self>> {
            runtime.block_on(async {
                let mut clients = Vec::with_capacity(count);
                for _ in 0..count {
                    let client = UmaDbClient::new(format!("http://{address}")).connect_async().await;
                    clients.push((client.map_err(|error| anyhow!("{error}"))?, AtomicU64::new(0)));
                }
                Ok(Arc::new(Self { clients }))
            })
        }
    }

    impl Durable for UmaDb {
        async fn write(&self, writer: usize) -> anyhow::Result<()> {
            let (client, position) = &self.clients[writer];
            let tag = format!("stream:{writer}");
            let query = DcbQuery::new().item(DcbQueryItem::new().tags([tag.as_str()]));
            let after = Some(position.load(Ordering::Relaxed)).filter(|&position| position > 0);
            let condition = DcbAppendCondition { fail_if_events_match: query, after };
            let event = DcbEvent {
                event_type: "Invoice".to_owned(),
                tags: vec![tag],
                data: vec![b'x'; BODY_BYTES],
                ..DcbEvent::default()
            };
            let appended = client.append(vec![event], Some(condition), None).await;
            position.store(appended.map_err(|error| anyhow!("{error}"))?, Ordering::Relaxed);
            Ok(())
        }
    }

    /// Runs the server with its default settings until `stop` is cancelled.
    pub(crate) async fn serve(directory: &Path, stop: Shutdown) -> anyhow::Result<()> {
        let address = SocketAddr::from(([127, 0, 0, 1], crate::peer::free_port()?));
        let storage = StorageOptions::default().db_path(directory);
        let options = ServerOptions { listen_addr: address.to_string(), tls: None, api_key: None, storage };
        let (stop_server, stopped) = tokio::sync::oneshot::channel();
        tokio::spawn(async move {
            while tokio::net::TcpStream::connect(address).await.is_err() {
                tokio::task::yield_now().await;
            }
            let _ = crate::http::print_address(address);
            stop.cancelled().await;
            let _ = stop_server.send(());
        });
        start_server_with_options(options, stopped).await.map_err(|error| anyhow!("{error}"))
    }
}

#[cfg(not(feature = "umadb"))]
mod without {
    use std::sync::Arc;

    use super::{Runtime, SocketAddr};
    use crate::writers::Durable;

    /// UmaDB is not part of this build, so no value of this type exists.
    #[derive(Debug)]
    pub(crate) enum UmaDb {}

    impl UmaDb {
        pub(crate) fn check_available() -> anyhow::Result<()> {
            anyhow::bail!("built without the feature umadb, which needs protoc")
        }

        pub(crate) fn open(_: &Runtime, _: SocketAddr, _: usize) -> anyhow::Result<Arc<Self>> {
            Self::check_available().map(|()| unreachable!("UmaDB is not part of this build"))
        }
    }

    impl Durable for UmaDb {
        async fn write(&self, _: usize) -> anyhow::Result<()> {
            match *self {}
        }
    }
}
