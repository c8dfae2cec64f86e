//! Every limit of a definition, each with its reason.

/// Characters of a name. Names are part of keys, metrics and messages, so they must be short.
pub const NAME_CHARACTERS_MAX: usize = 100;

/// Documents of an application, child records included. A definition is read as a whole and must fit into one event.
pub const DOCUMENTS_MAX: usize = 1_000;

/// Fields of one document. A document with more data uses child records.
pub const FIELDS_MAX: usize = 1_000;

/// Fields of all documents together. Bounds the stored definition, which must fit into one event.
pub const FIELDS_IN_ALL_MAX: usize = 20_000;

/// Documents on the path from a root document to its deepest child record. Bounds the depth of a tree in a command.
pub const DEPTH_MAX: usize = 16;

/// Sequences of an application. Each workspace keeps ten bytes per sequence in one value.
pub const SEQUENCES_MAX: usize = 1_000;

/// Ranges of one sequence. A draw searches them, and each is compared with all others of its space.
pub const RANGES_MAX: usize = 16;

/// Kinds of workspace of an application.
pub const KINDS_MAX: usize = 100;

/// Commands of an application.
pub const COMMANDS_MAX: usize = 1_000;

/// Singletons of an application, retired ones included. So many ids are reserved for them.
pub const SINGLETONS_MAX: usize = 512;

/// Bytes of a definition's text. The other limits allow no text of this size, so a larger text is refused unread.
pub const TEXT_BYTES_MAX: usize = 4 << 20;

/// Bytes of an accepted definition as JSON, retired names included. It must fit into one event of the registry, which
/// has at most 8 MiB and contains other data too.
pub const ACCEPTED_BYTES_MAX: usize = 6 << 20;
