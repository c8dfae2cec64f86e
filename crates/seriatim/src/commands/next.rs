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
/// The number is on disk before it is printed. The first use of a name creates the series. With --key the same key gives the
/// same number again, so that an interrupted script can be run again. Without --key the command makes a random key and uses it
/// to repeat the request if an answer is lost.
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
    /// How many consecutive numbers; one is printed per line.
    #[arg(long, value_name = "N", default_value_t = 1)]
    count: u64,
    /// What the number is for. The note is kept with it.
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
            // The answer contains only the first number in the series' format.
            let format = series.state().await?.format.parse::<SeriesFormat>();
            let format = format.map_err(|error| {
                CliError::unavailable(format!("the format of the series cannot be read: {error}"))
            })?;
            for number in taken.number + 1..taken.number + taken.count {
                output.line(format.text(number))?;
            }
        }
        if taken.repeated {
            eprintln!("seriatim: taken earlier, with the same key");
        }
        output.flush()
    }
}
