//! `seriatim inspect series`.

use clap::Args;

use super::Listing;
use crate::context::Context;
use crate::error::CliError;
use crate::output::or_dash;
use crate::target::Target;

/// Series: the next number, voids and raises.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  seriatim inspect series
  seriatim inspect series acme.invoices --json")]
pub(super) struct Series {
    /// Only this one.
    name: Option<String>,
    /// One JSON object per line.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: Target,
}

impl Series {
    pub(super) async fn run(self, context: &Context) -> Result<(), CliError> {
        let columns = ["series", "next", "first", "remaining", "voids", "raises", "format"];
        let mut listing = Listing::new(self.json, &columns);
        let row = |series: &seriatim_api::Series| {
            let [first, remaining, voids, raises] =
                [series.first, series.remaining, series.voids, series.raises]
                    .map(|number| number.to_string());
            let (name, format) = (series.series.clone(), series.format.clone());
            vec![name, or_dash(series.next), first, remaining, voids, raises, format]
        };
        let work = async |client: &seriatim_client::Client| {
            if let Some(name) = &self.name {
                return listing.page(&[client.series(name).state().await?], row);
            }
            let mut after: Option<String> = None;
            loop {
                let page = client.series_list(after.as_deref()).await?;
                listing.page(&page.series, row)?;
                match page.series.last() {
                    Some(last) => after = Some(last.series.clone()),
                    None => return Ok(()),
                }
            }
        };
        self.target.read(context, work).await?;
        listing.end()
    }
}
