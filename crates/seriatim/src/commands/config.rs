//! `seriatim config`.

use clap::Args;
use serde_json::json;

use crate::context::Context;
use crate::error::CliError;
use crate::output::{Output, Table};
use crate::settings::{Flags, Kind, Value};

/// Prints every setting with its value and where the value comes from.
///
/// Takes the flags of `serve`, to show their effect. Secrets are not shown.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  seriatim config
  seriatim config --listen 127.0.0.1:8000 --json
  seriatim --config /etc/seriatim.toml config")]
pub(crate) struct Config {
    /// One JSON object per line.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    flags: Flags,
}

/// A value as it may be shown.
fn shown(value: &Value) -> Vec<String> {
    let hide = |_: &String| "(secret)".to_owned();
    match value.setting.kind {
        Kind::Secret => value.texts.iter().map(hide).collect(),
        Kind::Storage => value.texts.iter().map(|text| seriatim::redacted(text)).collect(),
        _ => value.texts.clone(),
    }
}

impl Config {
    pub(crate) fn run(self, context: &Context) -> Result<(), CliError> {
        let settings = context.settings_with(self.flags)?;
        settings.get::<seriatim::StorageUrl>("storage")?;
        let mut output = Output::new();
        let mut table = Table::new(&["setting", "value", "from"]);
        for value in settings.values() {
            let (name, texts, origin) = (value.setting.name, shown(value), value.origin.to_string());
            if self.json {
                let json_value = match value.setting.kind {
                    Kind::Files => json!(texts),
                    _ => json!(texts.first()),
                };
                output.json(&json!({"setting": name, "value": json_value, "from": origin}))?;
            } else {
                let text = if texts.is_empty() { "-".to_owned() } else { texts.join(", ") };
                table.row([name.to_owned(), text, origin]);
            }
        }
        if !self.json {
            table.print(&mut output)?;
        }
        output.flush()
    }
}
