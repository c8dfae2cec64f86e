//! Limits of a command, each with its reason.

/// Changes of one command. Bounds one event, and how long one command holds up its partition.
pub const CHANGES_MAX: usize = 100;

/// Documents and child records in a command's argument: a long order, not an import.
pub const ARGUMENT_ROWS_MAX: usize = 1_000;

/// Bytes of an idempotency key: it is stored with the event and is part of a key of the store.
pub const IDEMPOTENCY_KEY_BYTES_MAX: usize = 200;

/// How often a command may ask for something that was not read before: bounds reads that depend on reads.
pub const READ_ROUNDS_MAX: usize = 32;

/// Commands in one group. Bounds how long the first of them waits for the last.
pub const GROUP_COMMANDS_MAX: usize = 4_096;

/// Bytes of one group's entries: well below what one append may have.
pub const GROUP_BYTES_MAX: usize = 4 << 20;
