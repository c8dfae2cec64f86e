//! Every setting, once.

use super::value::Kind;

/// A setting: what it is called everywhere, and what it is unless told.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    /// Its key in the file; the variable and the flag are made from it.
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// As it would stand in the environment; `None`: not set.
    pub(crate) default: Option<&'static str>,
    /// One sentence, for `--help` and for the table in the docs.
    pub(crate) doc: &'static str,
    /// Whether `serve` has a flag for it. The others are of commands that ask a server.
    pub(crate) of_serve: bool,
}

impl Setting {
    /// The variable of the environment.
    pub(crate) fn variable(&self) -> String {
        format!("SERIATIM_{}", self.name.to_uppercase())
    }

    /// The flag, without its dashes. One that may be given more than once is in the singular.
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
        "Where to listen. Without tokens only loopback is allowed; port 0 picks a free one.",
    ),
    serving(
        "storage",
        Kind::Storage,
        "file:./seriatim-data",
        "Where the data lives: file:DIRECTORY, or memory: for a try that leaves nothing behind.",
    ),
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
        doc: "The certificate chain, PEM. With tls_key it makes the server speak https.",
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
        "What is logged: error, warn, info, debug or trace, also by part (warn,seriatim_engine=debug).",
    ),
    serving(
        "trust_level",
        Kind::TrustLevel,
        "verify-all",
        "Which writes look first whether something is there: verify-all, verify-events or trust-all, or 0, 1 or 2.",
    ),
    serving(
        "unflushed_max",
        Kind::Count,
        "50000",
        "Values that may wait to be handed to the store. Bounds memory.",
    ),
    serving("unflushed_bytes_max", Kind::Count, "33554432", "The same, in bytes."),
    serving("flush_at", Kind::Count, "10000", "So many waiting values of a partition start a write."),
    serving(
        "flush_interval",
        Kind::Duration,
        "500ms",
        "What waits is handed to the store after so long at the latest.",
    ),
    serving(
        "uncheckpointed_events_max",
        Kind::Count,
        "200000",
        "Events that the logs of all partitions may be ahead of what is derived durably. Bounds a restart after a crash.",
    ),
    serving("uncheckpointed_bytes_max", Kind::Count, "134217728", "The same, in bytes."),
    serving("cache_numbers", Kind::Count, "100000", "Numbers that are kept in memory, over all partitions."),
    serving("cached_workspaces", Kind::Count, "100000", "Descriptors of workspaces that are kept in memory."),
    serving(
        "open_blocks",
        Kind::Count,
        "1000",
        "Block sequences that are kept open, each with a block in memory.",
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
        "Commands that may wait in a partition, at least 1 and at most a million.",
    ),
    serving(
        "queue_bytes_max",
        Kind::CountOf(1 << 20, u64::MAX),
        "67108864",
        "Bytes of commands that may wait, over all partitions, at least 1048576.",
    ),
    serving(
        "idempotency_window",
        Kind::DurationOrForever,
        "forever",
        "How long an idempotency key is remembered: a duration, or forever for as long as the log.",
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
    serving("body_bytes_max", Kind::CountOf(1, u64::MAX), "1048576", "Bytes that a request's body may have."),
    serving(
        "header_bytes_max",
        Kind::CountOf(8_192, 1 << 30),
        "65536",
        "Bytes that a request's head may have, at least 8192.",
    ),
    serving(
        "header_timeout",
        Kind::Timeout,
        "60s",
        "How long a connection may take to send a request's head, and be idle between two requests.",
    ),
    serving(
        "request_timeout",
        Kind::Timeout,
        "30s",
        "How long a request may take; streams, audits and administration take as long as they take.",
    ),
    serving(
        "connections_max",
        Kind::CountOf(1, u64::MAX),
        "20000",
        "Connections at once; others wait to be accepted.",
    ),
    serving(
        "requests_max",
        Kind::CountOf(1, u64::MAX),
        "10000",
        "Requests at once; others are refused as busy.",
    ),
    serving("stop_patience", Kind::Duration, "30s", "How long stopping waits for what is in flight."),
    serving(
        "stuck_after",
        Kind::Timeout,
        "30s",
        "A partition where work waits and nothing has moved for so long is reported as stuck.",
    ),
    Setting {
        name: "server",
        kind: Kind::Url,
        default: Some("http://127.0.0.1:7400"),
        doc: "The server that commands ask.",
        of_serve: false,
    },
    Setting {
        name: "tls_ca",
        kind: Kind::File,
        default: None,
        doc: "Certificates, PEM, of those who may vouch for an https server that commands ask, instead of the system's.",
        of_serve: false,
    },
    Setting {
        name: "token",
        kind: Kind::Secret,
        default: None,
        doc: "The bearer token that commands bring. It has no flag, because others can see those; it is never printed.",
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
