//! Settings as options of the parts of a server.

use std::path::{Path, PathBuf};
use std::time::Duration;

use seriatim::{StorageOptions, StorageUrl};
use seriatim_engine::Options;
use seriatim_server::{ServerOptions, TlsFiles};
use seriatim_storage_file::FileOptions;
use seriatim_workflow_host::HostOptions;

use super::Settings;
use super::value::Read;
use crate::error::CliError;

/// The local directory of a shared storage, if none is given.
const LOCAL: &str = "./seriatim-local";

/// How log lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

impl Read for LogFormat {
    fn read(text: &str) -> Result<Self, String> {
        match text {
            "json" => Ok(Self::Json),
            _ => Ok(Self::Text),
        }
    }
}

impl Settings {
    /// The definitions of applications.
    pub(crate) fn apps(&self) -> Vec<PathBuf> {
        self.texts("apps").iter().map(PathBuf::from).collect()
    }

    pub(crate) fn engine_options(&self) -> Result<Options, CliError> {
        Ok(Options {
            trust_level: self.get("trust_level")?,
            unflushed_max: self.get("unflushed_max")?,
            unflushed_bytes_max: self.get("unflushed_bytes_max")?,
            flush_at: self.get("flush_at")?,
            flush_interval: self.get("flush_interval")?,
            uncheckpointed_events_max: self.get("uncheckpointed_events_max")?,
            uncheckpointed_bytes_max: self.get("uncheckpointed_bytes_max")?,
            cache_numbers: self.get("cache_numbers")?,
            begin_wait: self.get("begin_wait")?,
            queue_max: self.get("queue_max")?,
            queue_bytes_max: self.get("queue_bytes_max")?,
            idempotency_window: self.get("idempotency_window")?,
            cached_workspaces: self.get("cached_workspaces")?,
            open_blocks: self.get("open_blocks")?,
            built_in_partitions: self.get("built_in_partitions")?,
            ..Options::default()
        })
    }

    pub(crate) fn host_options(&self) -> Result<HostOptions, CliError> {
        let retention: Option<Duration> = self.get("workflow_retention")?;
        if retention.is_some_and(|retention| retention.is_zero()) {
            let text =
                "workflow_retention is 0, so no result could be read: use a duration above 0, or forever";
            return Err(CliError::usage(text));
        }
        Ok(HostOptions { retention, ..HostOptions::default() })
    }

    pub(crate) fn file_options(&self) -> Result<FileOptions, CliError> {
        Ok(FileOptions { free_bytes_min: self.get("free_bytes_min")?, ..FileOptions::default() })
    }

    /// How a storage is opened. `local` is the flag of the command. The setting is for the storage of the settings, so a command on
    /// another kind of storage does not use it.
    pub(crate) fn storage_options(
        &self,
        url: &StorageUrl,
        local: Option<&Path>,
    ) -> Result<StorageOptions, CliError> {
        let local = match (local, url) {
            (Some(local), _) => Some(local.to_owned()),
            (None, StorageUrl::Shared(_)) => {
                let set = self.find::<String>("local")?;
                Some(set.map_or_else(|| PathBuf::from(LOCAL), PathBuf::from))
            }
            (None, StorageUrl::Memory | StorageUrl::File(_)) => None,
        };
        Ok(StorageOptions { files: self.file_options()?, local })
    }

    pub(crate) fn server_options(&self) -> Result<ServerOptions, CliError> {
        let tls = match (self.find::<String>("tls_cert")?, self.find::<String>("tls_key")?) {
            (Some(certificate), Some(key)) => {
                Some(TlsFiles { certificate: certificate.into(), key: key.into() })
            }
            (None, None) => None,
            (Some(_), None) => {
                return Err(CliError::usage("tls_cert is set, but tls_key is not: TLS needs both"));
            }
            (None, Some(_)) => {
                return Err(CliError::usage("tls_key is set, but tls_cert is not: TLS needs both"));
            }
        };
        Ok(ServerOptions {
            body_bytes_max: self.get("body_bytes_max")?,
            header_bytes_max: self.get("header_bytes_max")?,
            header_timeout: self.get("header_timeout")?,
            request_timeout: self.get("request_timeout")?,
            connections_max: self.get("connections_max")?,
            requests_max: self.get("requests_max")?,
            stop_patience: self.get("stop_patience")?,
            stuck_after: self.get("stuck_after")?,
            tls,
            ..ServerOptions::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_of_the_table_are_those_of_the_parts() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("empty.toml");
        std::fs::write(&file, "").unwrap();
        let read = |path: &Path| Settings::read(Some(path), Vec::new()).unwrap();
        let settings = read(&file);
        assert_eq!(settings.engine_options().unwrap(), Options::default());
        assert_eq!(settings.server_options().unwrap(), ServerOptions::default());
        assert_eq!(settings.file_options().unwrap().free_bytes_min, FileOptions::default().free_bytes_min);
    }
}
