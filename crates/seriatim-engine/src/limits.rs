//! Limits of a command, each with its reason.

/// Changes of one command. Bounds one event, and how long one command blocks its partition.
pub const CHANGES_MAX: usize = 100;

/// Documents and child records in a command's argument: a long order, not an import.
pub const ARGUMENT_ROWS_MAX: usize = 1_000;

/// Bytes of an idempotency key: it is stored with the event and is part of a key of the store.
pub const IDEMPOTENCY_KEY_BYTES_MAX: usize = 200;

/// Partitions of a built-in application: more than the cores of a server, or than the servers of a cluster. Each has a task and
/// memory.
pub const BUILT_IN_PARTITIONS_MAX: u16 = 256;

/// How many times a command may need values that were not read before. Bounds reads that depend on reads.
pub const READ_ROUNDS_MAX: usize = 32;

/// Commands in one group. Bounds how long the first of them waits for the last.
pub const GROUP_COMMANDS_MAX: usize = 4_096;

/// Bytes of one group's entries: well below what one append may have.
pub const GROUP_BYTES_MAX: usize = 4 << 20;

/// Bytes of a record or of a view's row. The same limit as for one entry of the log, so that everything that one event creates
/// fits. Half of what a store accepts. A larger value from an older log is stored in parts and must not grow.
pub const DERIVED_VALUE_BYTES_MAX: usize = 8 << 20;

/// Bytes of the key of a view's row. Half of what a store accepts, so that a key made from it also fits.
pub const ROW_KEY_BYTES_MAX: usize = 16 << 10;

/// Bytes of everything that is derived from one command, keys included: several large records, not a hundred of them. A command
/// is always staged completely, so the limit of unflushed bytes can be exceeded by this much. The same number of bytes may be read
/// for one command, in addition to [`LOAD_BYTES_MAX`].
pub const COMMAND_DERIVED_BYTES_MAX: usize = 64 << 20;

/// Bytes of values that are read in advance for waiting commands or by a recovery, and bytes that a recovery derives before it
/// makes room: two of the largest records, or all of the usual ones. Other values are read when they are needed.
pub const LOAD_BYTES_MAX: usize = 16 << 20;

/// Bytes of the name of a series or of a block sequence: it is part of an address.
pub const NAME_BYTES_MAX: usize = 200;

/// Numbers that one call takes from a series. One event has all of them, so this only bounds how long the draw blocks the
/// partition: some tens of microseconds.
pub const SERIES_COUNT_MAX: u64 = 10_000;

/// Bytes of a note or a reason. It is stored permanently with its number.
pub const SERIES_TEXT_BYTES_MAX: usize = 1_000;

/// Bytes of a series' format: every answer has one made from it.
pub const SERIES_FORMAT_BYTES_MAX: usize = 200;

/// Digits that a series' format may ask for: as many as the largest integer has.
pub const SERIES_FORMAT_DIGITS_MAX: usize = 20;

/// Numbers of a block. A crash can waste all of them.
pub const BLOCK_SIZE_MAX: u64 = 1 << 32;

/// Numbers that one call allocates from a block sequence: a mistyped count must not use up the sequence.
pub const ALLOCATE_MAX: u64 = seriatim_blocks::ALLOCATE_MAX;

/// Applications that are read from the registry at once: far more than one server has.
pub const APPLICATIONS_MAX: usize = 10_000;

/// Tokens. All are kept in memory, because every request checks them.
pub const TOKENS_MAX: u64 = 10_000;

/// Scopes of one token. Every request checks all of them.
pub const TOKEN_SCOPES_MAX: usize = 100;

/// Bytes of a token's note.
pub const TOKEN_NOTE_BYTES_MAX: usize = 200;
