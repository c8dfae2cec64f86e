//! Places where a test can make a store fail, or read its files.

use std::path::Path;

use seriatim_storage::StoreError;

/// Marks a place in the code. A test can make it fail for the store in or above this directory.
#[cfg(not(test))]
#[expect(clippy::unnecessary_wraps, reason = "tests make it fail")]
pub(super) fn reach(_directory: &Path, _place: &str) -> Result<(), StoreError> {
    Ok(())
}

#[cfg(test)]
pub(super) use hooks::{Hook, reach};

#[cfg(test)]
mod hooks {
    use seriatim_types::sync::{Mutex, MutexGuard};
    use std::path::PathBuf;
    use std::sync::Arc;

    use super::*;

    type Act = Arc<dyn Fn() -> Result<(), StoreError> + Send + Sync>;

    static HOOKS: Mutex<Vec<(PathBuf, &'static str, Act)>> = Mutex::new(Vec::new());

    fn hooks() -> MutexGuard<'static, Vec<(PathBuf, &'static str, Act)>> {
        HOOKS.lock()
    }

    /// Runs at a place, until this is dropped.
    pub(in crate::store) struct Hook(PathBuf);

    impl Hook {
        pub(in crate::store) fn new(
            directory: &Path,
            place: &'static str,
            act: impl Fn() -> Result<(), StoreError> + Send + Sync + 'static,
        ) -> Self {
            hooks().push((directory.to_owned(), place, Arc::new(act)));
            Self(directory.to_owned())
        }

        /// Makes a place fail.
        pub(in crate::store) fn failing(directory: &Path, place: &'static str) -> Self {
            Self::new(directory, place, move || Err(StoreError::Unavailable(format!("failed {place}"))))
        }
    }

    impl Drop for Hook {
        fn drop(&mut self) {
            hooks().retain(|(directory, ..)| *directory != self.0);
        }
    }

    pub(in crate::store) fn reach(directory: &Path, place: &str) -> Result<(), StoreError> {
        let is_here =
            |hook: &&(PathBuf, &'static str, Act)| directory.starts_with(&hook.0) && hook.1 == place;
        let act = hooks().iter().find(is_here).map(|(.., act)| act.clone());
        act.map_or(Ok(()), |act| act())
    }
}
