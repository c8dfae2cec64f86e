//! A connection to a real server, and what one says who cannot have it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use seriatim_env::Env;
use seriatim_temporal::devserver::{Data, DevServer, NAMESPACE};
use seriatim_temporal::{FetchError, fetch_history};
use seriatim_types::ErrorKind;

#[tokio::test]
async fn a_server_is_reached_and_says_what_it_does_not_have() {
    let env = Env::real();
    for data in [Data::Memory, Data::Synced] {
        let Some(server) = DevServer::start_or_skip(&env, data, "no server was called").await else { return };
        let connection = server.connection();
        let error = fetch_history(connection, NAMESPACE, "absent", None).await.unwrap_err();
        assert!(matches!(error, FetchError::NotFound { .. }), "{error:?}");
        assert!(error.to_string().contains("absent"), "{error}");
        let error = fetch_history(connection, "nowhere", "absent", None).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
        let error = fetch_history(connection, NAMESPACE, "absent", Some("no uuid")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    }
}
