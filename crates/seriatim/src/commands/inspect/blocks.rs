//! `seriatim inspect blocks`.

use clap::Args;
use seriatim_api::BlockSequence;

use super::Listing;
use crate::context::Context;
use crate::error::CliError;
use crate::target::Target;

/// Block sequences: the next number, and how many are wasted.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  seriatim inspect blocks
  seriatim inspect blocks orders --json")]
pub(super) struct Blocks {
    /// Only this one.
    name: Option<String>,
    /// One JSON object per line.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: Target,
}

impl Blocks {
    pub(super) async fn run(self, context: &Context) -> Result<(), CliError> {
        let columns = ["name", "next", "first", "reserved", "block size", "wasted"];
        let mut listing = Listing::new(self.json, &columns);
        let row = |blocks: &BlockSequence| {
            let numbers = [blocks.next, blocks.first, blocks.reserved, blocks.block_size, blocks.wasted];
            std::iter::once(blocks.name.clone()).chain(numbers.map(|number| number.to_string())).collect()
        };
        let work = async |client: &seriatim_client::Client| {
            if let Some(name) = &self.name {
                return listing.page(&[client.blocks(name).state().await?], row);
            }
            let mut after: Option<String> = None;
            loop {
                let page = client.blocks_list(after.as_deref()).await?;
                listing.page(&page.blocks, row)?;
                match page.blocks.last() {
                    Some(last) => after = Some(last.name.clone()),
                    None => return Ok(()),
                }
            }
        };
        self.target.read(context, work).await?;
        listing.end()
    }
}
