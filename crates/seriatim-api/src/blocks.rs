//! Block sequences: ids that may have gaps.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

fn one() -> u64 {
    1
}

fn usual_size() -> u64 {
    4_096
}

/// Creates a block sequence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"first": 1, "block_size": 4096}))]
pub struct PutBlocks {
    /// Where it begins.
    #[serde(default = "one")]
    pub first: u64,
    /// How many numbers are reserved at once: a crash wastes as many.
    #[serde(default = "usual_size")]
    #[schema(minimum = 1)]
    pub block_size: u64,
}

impl Default for PutBlocks {
    /// From 1, in blocks of the usual size.
    fn default() -> Self {
        Self { first: 1, block_size: usual_size() }
    }
}

/// Allocates numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Allocate {
    /// How many, in a row.
    #[schema(minimum = 1, maximum = 4_294_967_296_u64, example = 100)]
    pub count: u64,
}

/// Numbers that were allocated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Allocated {
    /// The first of them.
    pub first: u64,
    /// How many, in a row.
    pub count: u64,
}

/// How a block sequence stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BlockSequence {
    /// Its name.
    pub name: String,
    /// Where it began.
    pub first: u64,
    /// How many numbers are reserved at once.
    pub block_size: u64,
    /// The number that is likely to come next.
    pub next: u64,
    /// Every number before this one is reserved.
    pub reserved: u64,
    /// Numbers that nobody will get, at most.
    pub wasted: u64,
}

/// A page of block sequences.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BlockSequences {
    /// Ascending by name.
    pub blocks: Vec<BlockSequence>,
    /// What the next page lies behind.
    pub next: Option<String>,
}
