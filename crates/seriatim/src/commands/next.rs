//! `seriatim next`.

use clap::Args;
use seriatim_api::NextRequest;
use seriatim_engine::SeriesFormat;

use crate::context::Context;
use crate::error::CliError;
use crate::output::Output;
use crate::target::ServerTarget;

/// Takes the next number of a series from a running server and prints it.
///
/// The number is on disk before it is printed. The series is made when it is first used. With a key of your own the same
/// key gives the same number again, so that a script that was interrupted can be run again; without one a key is made up,
/// and a lost answer is asked for again with it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  seriatim next acme.invoices
  seriatim next acme.invoices --key order-7781 --note 'for Ada'
  seriatim next tickets --count 10 --json")]
pub(crate) struct Next {
    /// The series: 1 to 200 of A-Z a-z 0-9 . _ -
    series: String,
    /// The idempotency key: the same key gives the same number.
    #[arg(long, value_name = "IDEMPOTENCY_KEY")]
    key: Option<String>,
    /// How many numbers, in a row; one is printed per line.
    #[arg(long, value_name = "N", default_value_t = 1)]
    count: u64,
    /// What the number is for; kept with it.
    #[arg(long)]
    note: Option<String>,
    /// The server's answer as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerTarget,
}

impl Next {
    pub(crate) async fn run(self, context: &Context) -> Result<(), CliError> {
        let client = self.server.client(context)?;
        let mut series = client.series(&self.series);
        if let Some(key) = &self.key {
            series = series.with_key(key);
        }
        let taken = series.take(&NextRequest { count: self.count, note: self.note }).await?;
        let mut output = Output::new();
        if self.json {
            output.json(&taken)?;
            return output.flush();
        }
        output.line(&taken.text)?;
        if taken.count > 1 {
            // The answer has only the first one written out.
            let format = series.state().await?.format.parse::<SeriesFormat>();
            let format =
                format.map_err(|error| CliError::unavailable(format!("the series' format: {error}")))?;
            for number in taken.number + 1..taken.number + taken.count {
                output.line(format.text(number))?;
            }
        }
        if taken.repeated {
            eprintln!("seriatim: taken before, with the same key");
        }
        output.flush()
    }
}
