//! The store of a folder, a scratch store, and the free space on their disk.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use seriatim_env::Env;
use seriatim_storage::{DiskSpace, ScratchStore, Store, StoreError};

use crate::scratch::{open_scratch, remove_scratch};
use crate::space::{FreeSpace, NearlyFull};
use crate::store::remove_discarded;
use crate::{SpaceCheck, StoreOptions, TreeStore};

/// The folder of the store.
pub(crate) const STORE: &str = "store";

/// What a storage derives, in a folder that the caller has locked.
#[derive(Debug)]
pub(crate) struct LocalStores {
    env: Env,
    directory: PathBuf,
    space: Arc<FreeSpace>,
    space_check: Option<SpaceCheckOf>,
    store: Store,
}

/// A space check that can be printed.
#[derive(Clone)]
struct SpaceCheckOf(SpaceCheck);

impl std::fmt::Debug for SpaceCheckOf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SpaceCheck")
    }
}

impl LocalStores {
    /// Opens the store, and removes what an earlier process left. `cells` is where a store of format 1 is migrated to.
    pub(crate) fn open(
        env: &Env,
        directory: &Path,
        space: Arc<FreeSpace>,
        mut options: StoreOptions,
        cells: Option<&Path>,
    ) -> Result<Self, StoreError> {
        if options.space_check.is_none() {
            let space = space.clone();
            options.space_check = Some(Arc::new(move || {
                space.check().map_err(|NearlyFull { free_bytes, needed_bytes }| (free_bytes, needed_bytes))
            }));
        }
        remove_discarded(directory)?;
        remove_scratch(directory)?;
        let space_check = options.space_check.clone().map(SpaceCheckOf);
        let store = match cells {
            Some(cells) => TreeStore::open_with_cells(env.clone(), &directory.join(STORE), cells, options)?,
            None => TreeStore::open(env.clone(), &directory.join(STORE), options)?,
        };
        let (env, directory, store) = (env.clone(), directory.to_owned(), Store::new(store));
        Ok(Self { env, directory, space, space_check, store })
    }

    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(crate) fn space(&self) -> &Arc<FreeSpace> {
        &self.space
    }

    /// What refuses writes before the disk is full.
    pub(crate) fn space_check(&self) -> Option<SpaceCheck> {
        self.space_check.as_ref().map(|check| check.0.clone())
    }

    pub(crate) fn disk_space(&self) -> DiskSpace {
        let NearlyFull { free_bytes, needed_bytes } = self.space.measure();
        DiskSpace { free_bytes, needed_bytes }
    }

    /// An empty store on the same disk, for one run of the doctor. There is at most one at a time.
    pub(crate) async fn scratch(&self) -> Result<ScratchStore, StoreError> {
        open_scratch(&self.env, &self.directory).await
    }
}
