//! Block sequences: ids that may have gaps.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

fn one() -> u64 {
    1
}

fn default_block_size() -> u64 {
    4_096
}

/// Creates a block sequence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"first": 1, "block_size": 4096}))]
pub struct PutBlocks {
    /// The first number.
    #[serde(default = "one")]
    pub first: u64,
    /// How many numbers are reserved at once. A crash wastes at most that many.
    #[serde(default = "default_block_size")]
    #[schema(minimum = 1)]
    pub block_size: u64,
}

impl Default for PutBlocks {
    /// From 1, in blocks of the default size.
    fn default() -> Self {
        Self { first: 1, block_size: default_block_size() }
    }
}

/// Allocates numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Allocate {
    /// How many consecutive numbers.
    #[schema(minimum = 1, maximum = 4_294_967_296_u64, example = 100)]
    pub count: u64,
}

/// Numbers that were allocated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Allocated {
    /// The first of them.
    pub first: u64,
    /// How many consecutive numbers.
    pub count: u64,
}

/// The state of a block sequence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BlockSequence {
    /// Its name.
    pub name: String,
    /// The first number.
    pub first: u64,
    /// How many numbers are reserved at once.
    pub block_size: u64,
    /// The number that is probably allocated next.
    pub next: u64,
    /// All numbers before this one are reserved.
    pub reserved: u64,
    /// At most this many numbers are reserved and will never be given out.
    pub wasted: u64,
}

/// A page of block sequences.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BlockSequences {
    /// Ascending by name.
    pub blocks: Vec<BlockSequence>,
    /// The `after` of the next page; none on the last page.
    pub next: Option<String>,
}
