//! Appends a line to a log on disk and reads all lines back. Run it twice: the lines of the first run are still there.
//!
//! `cargo run --example append -- "your text"`
#![allow(clippy::print_stdout, reason = "an example prints to the terminal")]

use std::error::Error;
use std::path::Path;

use seriatim_env::Env;
use seriatim_storage::{Digest, Entries, Header, ReadLimit};
use seriatim_storage_file::{FileOptions, FileStorage};
use seriatim_types::{Partition, PartitionOffset, WorkspaceId, WorkspaceKind, WorkspaceOffset};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let text = std::env::args().nth(1).unwrap_or_else(|| "hello".to_owned());
    let env = Env::real();
    let storage = FileStorage::open(&env, Path::new("seriatim-data"), FileOptions::default()).await?;
    let log = storage.log();

    // Taking the partition ends the ownership of every earlier owner, and returns the tail.
    let owner = log.take(Partition::new(1, 0)).await?;
    let before = log.read(owner.partition(), PartitionOffset::FIRST, ReadLimit::default()).await?;
    let previous = before.iter().last().map(|(_, entry)| (entry.workspace_offset(), entry.chain()));
    let (workspace_offset, chain) = match previous {
        None => (WorkspaceOffset::FIRST, Digest::ZERO),
        Some((last, chain)) => (last.next().ok_or("the log is full")?, chain),
    };

    let mut entries = Entries::new(owner.next_append_id());
    let header = Header {
        workspace: WorkspaceId::FIRST,
        kind: WorkspaceKind::new(1),
        workspace_offset,
        time: env.now(),
        body_digest: Digest::of(text.as_bytes()),
        draws: &[],
        raises: &[],
    };
    entries.push(&header, chain, text.as_bytes())?;
    let receipt = log.append(&owner, owner.tail(), &entries).await?;
    println!("appended at offset {}: it is on disk", receipt.first());

    let all = log.read(owner.partition(), PartitionOffset::FIRST, ReadLimit::default()).await?;
    for (offset, entry) in all.iter() {
        println!(
            "{offset:>4}  {}  {}",
            &entry.chain().to_string()[..12],
            String::from_utf8_lossy(entry.body())
        );
    }
    storage.close().await?;
    Ok(())
}
