//! The store on files passes the conformance suite.

use seriatim_env::Env;
use seriatim_storage::Store;
use seriatim_storage_file::{StoreOptions, TreeStore};
use seriatim_storage_testing::conformance::StoreFixture;

struct Folder(tempfile::TempDir);

impl StoreFixture for Folder {
    async fn open(&self) -> Store {
        let env = Env::real();
        let directory = self.0.path().join("store");
        let open = {
            let env = env.clone();
            move || TreeStore::open(env, &directory, StoreOptions::default())
        };
        Store::new(env.blocking(open).await.expect("it opens"))
    }
}

seriatim_storage_testing::store_conformance!(Folder(tempfile::tempdir().expect("a folder")));
