//! Every limit of a definition, each with its reason.

/// Characters of a name. Names stand in keys, metrics and messages; a hundred are enough to say what a thing is.
pub const NAME_CHARACTERS_MAX: usize = 100;

/// Documents of an application, child records included. A definition is read whole, and stays far below the size of an
/// event.
pub const DOCUMENTS_MAX: usize = 1_000;

/// Fields of one document. A wider one belongs into child records.
pub const FIELDS_MAX: usize = 1_000;

/// Fields of all documents together. Bounds the stored definition, which must fit into one event.
pub const FIELDS_IN_ALL_MAX: usize = 20_000;

/// Documents in a row from a root to its deepest child record. Bounds the depth of a tree in a command.
pub const DEPTH_MAX: usize = 16;

/// Sequences of an application. Each workspace keeps ten bytes per sequence in one value.
pub const SEQUENCES_MAX: usize = 1_000;

/// Ranges of one sequence. A draw looks through them, and each is compared with those of its space.
pub const RANGES_MAX: usize = 16;

/// Kinds of workspace of an application.
pub const KINDS_MAX: usize = 100;

/// Commands of an application.
pub const COMMANDS_MAX: usize = 1_000;

/// Singletons of an application, retired ones included: as many as there are ids reserved for them.
pub const SINGLETONS_MAX: usize = 512;

/// Bytes of a definition's text. The largest that the other limits allow is smaller; what is larger is not a definition.
pub const TEXT_BYTES_MAX: usize = 4 << 20;

/// Bytes of an accepted definition as JSON, retired names included. It must fit into one event of the registry, which
/// has at most 8 MiB, with room for what stands beside it.
pub const ACCEPTED_BYTES_MAX: usize = 6 << 20;
