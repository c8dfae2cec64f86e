//! How far something is: a bar on a terminal, now and then a line elsewhere.

use std::io::IsTerminal as _;

use indicatif::{ProgressBar, ProgressStyle};

/// Lines that are told of one thing at most: one for each tenth.
const PARTS: u64 = 10;

/// Tells on stderr how far something is.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    /// What is under way, and how many parts of it were told.
    told: Option<(String, u64)>,
}

impl Progress {
    pub(crate) fn new() -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{msg} [{bar:30}] {pos}/{len} {eta}");
            let bar = ProgressBar::new(0);
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> "));
            bar
        });
        Self { bar, told: None }
    }

    /// So much of it is done.
    pub(crate) fn tell(&mut self, what: &str, done: u64, total: u64) {
        if let Some(bar) = &self.bar {
            bar.set_message(what.to_owned());
            bar.set_length(total);
            bar.set_position(done);
            return;
        }
        let part = done.saturating_mul(PARTS).checked_div(total).unwrap_or(PARTS);
        let before = self.told.as_ref().filter(|(told, _)| told == what).map(|(_, part)| *part);
        // Where there is nothing to do, nothing is told; where it goes on, each tenth is.
        if total > 0 && before.is_none_or(|before| part > before) {
            eprintln!("seriatim: {what}: {done} of {total}");
            self.told = Some((what.to_owned(), part));
        }
    }

    /// Nothing more is told.
    pub(crate) fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
