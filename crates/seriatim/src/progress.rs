//! Progress of an operation: a bar on a terminal, otherwise lines.

use std::io::IsTerminal as _;

use indicatif::{ProgressBar, ProgressStyle};

/// The largest number of lines for one operation: one for each tenth.
const PARTS: u64 = 10;

/// Prints progress to stderr.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    /// The current operation, and the tenth that was printed last.
    printed: Option<(String, u64)>,
}

impl Progress {
    pub(crate) fn new() -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{msg} [{bar:30}] {pos}/{len} {eta}");
            let bar = ProgressBar::new(0);
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> "));
            bar
        });
        Self { bar, printed: None }
    }

    /// Shows how much of an operation is done.
    pub(crate) fn show(&mut self, what: &str, done: u64, total: u64) {
        if let Some(bar) = &self.bar {
            bar.set_message(what.to_owned());
            bar.set_length(total);
            bar.set_position(done);
            return;
        }
        let part = done.saturating_mul(PARTS).checked_div(total).unwrap_or(PARTS);
        let before = self.printed.as_ref().filter(|(operation, _)| operation == what).map(|(_, part)| *part);
        // Nothing is printed for an operation without work; otherwise one line for each tenth.
        if total > 0 && before.is_none_or(|before| part > before) {
            eprintln!("seriatim: {what}: {done} of {total}");
            self.printed = Some((what.to_owned(), part));
        }
    }

    /// Ends the output.
    pub(crate) fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
