//! The list of all settings.

use super::value::Kind;

/// A setting: its names and its default.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    /// Its key in the file; the variable and the flag are made from it.
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// As it would be written in the environment; `None`: not set.
    pub(crate) default: Option<&'static str>,
    /// One sentence, for `--help` and for the table in the docs.
    pub(crate) doc: &'static str,
    /// Whether `serve` has a flag for it. The other settings are for commands that send requests to a server.
    pub(crate) of_serve: bool,
}

impl Setting {
    /// The variable of the environment.
    pub(crate) fn variable(&self) -> String {
        format!("SERIATIM_{}", self.name.to_uppercase())
    }

    /// The flag, without its dashes. A flag that can be repeated is in the singular.
    pub(crate) fn flag(&self) -> String {
        let name = if self.kind == Kind::Files { self.name.trim_end_matches('s') } else { self.name };
        name.replace('_', "-")
    }
}

const fn serving(name: &'static str, kind: Kind, default: &'static str, doc: &'static str) -> Setting {
    Setting { name, kind, default: Some(default), doc, of_serve: true }
}

/// In the order in which they are shown.
pub(crate) const SETTINGS: &[Setting] = &[
    serving(
        "listen",
        Kind::Address,
        "127.0.0.1:7400",
        "The address to listen on. Without tokens only loopback is allowed; port 0 means any free port.",
    ),
    serving(
        "storage",
        Kind::Storage,
        "file:./seriatim-data",
        "Where the data is stored: file:DIRECTORY, memory: for a trial whose data is lost at the end, or the URL of a log elsewhere.",
    ),
    Setting {
        name: "local",
        kind: Kind::Directory,
        default: None,
        doc: "The directory for what is derived from a log elsewhere; ./seriatim-local if it is not set. Storages of other kinds have none.",
        of_serve: true,
    },
    Setting {
        name: "apps",
        kind: Kind::Files,
        default: None,
        doc: "Application definitions. Without any, the demo application shop is served.",
        of_serve: true,
    },
    Setting {
        name: "tls_cert",
        kind: Kind::File,
        default: None,
        doc: "The certificate chain, PEM. With tls_key the server uses https.",
        of_serve: true,
    },
    Setting {
        name: "tls_key",
        kind: Kind::File,
        default: None,
        doc: "The certificate's private key, PEM.",
        of_serve: true,
    },
    serving("log_format", Kind::Choice(&["text", "json"]), "text", "How log lines are written, to stderr."),
    serving(
        "log_level",
        Kind::Filter,
        "warn",
        "The lowest level that is logged: error, warn, info, debug or trace, also by part (warn,seriatim_engine=debug).",
    ),
    serving(
        "trust_level",
        Kind::TrustLevel,
        "verify-all",
        "Which writes check first whether a value already exists: verify-all, verify-events or trust-all, or 0, 1 or 2.",
    ),
    serving(
        "unflushed_max",
        Kind::Count,
        "50000",
        "The largest number of values that wait to be written to the store. Bounds memory.",
    ),
    serving("unflushed_bytes_max", Kind::Count, "33554432", "The same, in bytes."),
    serving("flush_at", Kind::Count, "10000", "A write starts when this many values of a partition wait."),
    serving(
        "flush_interval",
        Kind::Duration,
        "500ms",
        "The longest time that a value waits before it is written to the store.",
    ),
    serving(
        "uncheckpointed_events_max",
        Kind::Count,
        "200000",
        "The largest number of events, over all partitions, whose derived data is not yet durable. Bounds a restart after a crash.",
    ),
    serving("uncheckpointed_bytes_max", Kind::Count, "134217728", "The same, in bytes."),
    serving(
        "cache_numbers",
        Kind::Count,
        "100000",
        "The largest number of numbers that are cached, over all partitions.",
    ),
    serving(
        "cached_workspaces",
        Kind::Count,
        "100000",
        "The largest number of workspace descriptors that are cached.",
    ),
    serving(
        "open_blocks",
        Kind::Count,
        "1000",
        "The largest number of block sequences that are open, each with a block in memory.",
    ),
    serving(
        "built_in_partitions",
        Kind::CountOf(1, 256),
        "8",
        "The number of partitions of series and of workflows when a storage is created: 1 to 256. An existing storage keeps its number.",
    ),
    serving(
        "begin_wait",
        Kind::Duration,
        "200ms",
        "How long commands wait while a partition recovers or is backlogged, before they are refused as busy.",
    ),
    serving(
        "queue_max",
        Kind::CountOf(1, 1_000_000),
        "4096",
        "The largest number of commands that wait in a partition: 1 to 1000000.",
    ),
    serving(
        "queue_bytes_max",
        Kind::CountOf(1 << 20, u64::MAX),
        "67108864",
        "The largest size in bytes of the commands that wait, over all partitions: at least 1048576.",
    ),
    serving(
        "idempotency_window",
        Kind::DurationOrForever,
        "forever",
        "How long an idempotency key is kept: a duration, or forever for as long as the log exists.",
    ),
    serving(
        "workflow_retention",
        Kind::DurationOrForever,
        "forever",
        "How long runs of workflows are listed after they have ended: a duration, or forever.",
    ),
    serving(
        "free_bytes_min",
        Kind::Count,
        "536870912",
        "Writes are refused while less than this is free on the disk.",
    ),
    serving(
        "body_bytes_max",
        Kind::CountOf(1, u64::MAX),
        "1048576",
        "The largest size of a request's body in bytes.",
    ),
    serving(
        "header_bytes_max",
        Kind::CountOf(8_192, 1 << 30),
        "65536",
        "The largest size of a request's head in bytes, at least 8192.",
    ),
    serving(
        "header_timeout",
        Kind::Timeout,
        "60s",
        "How long a connection may take to send a request's head, and how long it may be idle between two requests.",
    ),
    serving(
        "request_timeout",
        Kind::Timeout,
        "30s",
        "How long a request may take. Streams, audits and administration have no such limit.",
    ),
    serving(
        "connections_max",
        Kind::CountOf(1, u64::MAX),
        "20000",
        "The largest number of connections at a time; others wait to be accepted.",
    ),
    serving(
        "requests_max",
        Kind::CountOf(1, u64::MAX),
        "10000",
        "The largest number of requests in progress; others are refused as busy.",
    ),
    serving("stop_patience", Kind::Duration, "30s", "How long a stop waits for requests in progress."),
    serving(
        "stuck_after",
        Kind::Timeout,
        "30s",
        "A partition is reported as stuck if work waits and there is no progress for this long.",
    ),
    Setting {
        name: "server",
        kind: Kind::Url,
        default: Some("http://127.0.0.1:7400"),
        doc: "The server that commands use.",
        of_serve: false,
    },
    Setting {
        name: "tls_ca",
        kind: Kind::File,
        default: None,
        doc: "PEM certificates of the issuers that commands trust for an https server, instead of the system's.",
        of_serve: false,
    },
    Setting {
        name: "token",
        kind: Kind::Secret,
        default: None,
        doc: "The bearer token that commands send. It has no flag, because other processes can read flags; it is never printed.",
        of_serve: false,
    },
];

/// The setting with a name.
pub(crate) fn setting(name: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_is_a_value_of_its_kind() {
        for setting in SETTINGS {
            if let Some(default) = setting.default {
                assert_eq!(setting.kind.check(default), Ok(()), "{}", setting.name);
            }
        }
    }

    #[test]
    fn the_docs_list_every_setting_as_it_is() {
        let docs = include_str!("../../../../docs/cli.md");
        let rows: Vec<&str> = docs.lines().filter(|line| line.contains("`SERIATIM_")).collect();
        let row = |setting: &Setting| {
            let default = match setting.default {
                Some(default) => format!("`{default}`"),
                None => String::new(),
            };
            let flag = if setting.of_serve { format!("`--{}`", setting.flag()) } else { String::new() };
            let Setting { name, doc, .. } = setting;
            let variable = setting.variable();
            let row = format!("| `{name}` | `{variable}` | {flag} | {default} | {doc} |");
            row.replace("|  |", "| |")
        };
        let table: Vec<&str> = rows.into_iter().filter(|line| line.starts_with("| `")).collect();
        let expected: Vec<String> = SETTINGS.iter().map(row).collect();
        assert_eq!(
            table.join("\n"),
            expected.join("\n"),
            "the table in docs/cli.md should be:\n\n{}\n",
            expected.join("\n")
        );
    }
}
