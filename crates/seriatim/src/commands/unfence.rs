//! `seriatim unfence`.

use std::collections::BTreeMap;

use clap::{ArgGroup, Args};
use seriatim_api::UnfenceRequest;

use crate::context::Context;
use crate::error::CliError;
use crate::output::Output;
use crate::target::Target;

/// Allows a restored copy to give out numbers again.
///
/// Say which numbers may have been given out after the backup: none (--complete), those up to the highest number of each name
/// (--highest), at most N of each name (--skip N), or --highest and --skip together. Skipped numbers are an explained gap in
/// every audit. Names that are not listed stay fenced, unless --skip is given. Idempotency keys that were used after the backup
/// are lost.
#[derive(Debug, Args)]
#[command(
    group = ArgGroup::new("how").required(true).multiple(true).args(["complete", "highest", "skip"]),
    after_help = "\
Examples:
  seriatim unfence --complete
  seriatim unfence --highest series/acme.invoices=1207 --highest shop/corner/InvoiceNumber=88
  seriatim unfence --highest blocks/orders=40960 --skip 1000
  seriatim unfence --skip 1000 --storage file:./restored"
)]
pub(crate) struct Unfence {
    /// Nothing was given out after the backup.
    #[arg(long, conflicts_with_all = ["highest", "skip"])]
    complete: bool,
    /// The highest number that a name may have given out: series/S, blocks/B or APP/WORKSPACE/SEQUENCE.
    #[arg(long, value_name = "NAME=N", value_parser = highest)]
    highest: Vec<(String, u64)>,
    /// How many numbers each name without --highest skips.
    #[arg(long, value_name = "N")]
    skip: Option<u64>,
    /// The answer as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: Target,
}

fn highest(text: &str) -> Result<(String, u64), String> {
    let wrong = || format!("{text:?} is not NAME=N, such as series/acme.invoices=1207");
    let (name, number) = text.rsplit_once('=').ok_or_else(wrong)?;
    Ok((name.to_owned(), number.parse().map_err(|_| wrong())?))
}

/// The largest number that was given for each name. With a smaller one, numbers could be given out twice.
fn largest(highest: &[(String, u64)]) -> BTreeMap<String, u64> {
    let mut largest = BTreeMap::new();
    for (name, number) in highest {
        let place = largest.entry(name.clone()).or_insert(*number);
        *place = *number.max(place);
    }
    largest
}

impl Unfence {
    pub(crate) async fn run(self, context: &Context) -> Result<(), CliError> {
        let Self { complete, highest, skip, .. } = &self;
        let request = UnfenceRequest { complete: *complete, highest: largest(highest), skip: *skip };
        let report =
            self.target.with(context, async |client| Ok(client.admin().unfence(&request).await?)).await?;
        let mut output = Output::new();
        if self.json {
            output.json(&report)?;
        } else if !report.fenced {
            output.line("free: numbers are given out again")?;
        } else {
            for name in &report.free {
                output.line(format!("{name}: free"))?;
            }
            output.line("everything else: fenced")?;
        }
        output.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_name_that_is_given_twice_the_largest_number_counts() {
        let given = [("series/a", 5), ("series/b", 1), ("series/a", 3)];
        let given = given.map(|(name, number)| (name.to_owned(), number));
        let largest: Vec<_> = largest(&given).into_iter().collect();
        assert_eq!(largest, [("series/a".to_owned(), 5), ("series/b".to_owned(), 1)]);
    }
}
