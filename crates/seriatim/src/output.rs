//! Data, on stdout.

use std::fmt::Display;
use std::io::{self, BufWriter, StdoutLock, Write};

use serde::Serialize;

use crate::error::CliError;

/// Writes data to stdout. If its reader closes the output, the command ends, and that is not a failure.
#[derive(Debug)]
pub(crate) struct Output {
    stdout: BufWriter<StdoutLock<'static>>,
}

fn written(result: io::Result<()>) -> Result<(), CliError> {
    result.map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => CliError::Unread,
        _ => CliError::unavailable(format!("stdout cannot be written: {error}")),
    })
}

impl Output {
    pub(crate) fn new() -> Self {
        Self { stdout: BufWriter::new(io::stdout().lock()) }
    }

    /// Prints a line.
    pub(crate) fn line(&mut self, line: impl Display) -> Result<(), CliError> {
        written(writeln!(self.stdout, "{line}"))
    }

    /// Prints text as it is.
    pub(crate) fn text(&mut self, text: &str) -> Result<(), CliError> {
        written(self.stdout.write_all(text.as_bytes()))
    }

    /// Prints something as one line of JSON.
    pub(crate) fn json(&mut self, value: &impl Serialize) -> Result<(), CliError> {
        let line = serde_json::to_string(value).map_err(CliError::unavailable)?;
        self.line(line)
    }

    /// Prints everything that is still buffered.
    pub(crate) fn flush(&mut self) -> Result<(), CliError> {
        written(self.stdout.flush())
    }
}

/// A table: columns are as wide as their widest value, numbers are aligned to the right.
#[derive(Debug)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(columns: &[&str]) -> Self {
        Self { rows: vec![columns.iter().map(|column| (*column).to_owned()).collect()] }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Prints it. Without rows only the names of the columns are printed.
    pub(crate) fn print(self, output: &mut Output) -> Result<(), CliError> {
        let columns = self.rows.first().map_or(0, Vec::len);
        let column = |place: usize| self.rows.iter().filter_map(move |row| row.get(place));
        let width = |place: usize| column(place).map(|cell| cell.chars().count()).max().unwrap_or(0);
        let is_number = |cell: &String| !cell.is_empty() && cell.bytes().all(|byte| byte.is_ascii_digit());
        let numeric = |place: usize| {
            let mut cells = column(place).skip(1);
            // A dash for an absent number is aligned like a number.
            cells.clone().any(is_number) && cells.all(|cell| cell == "-" || is_number(cell))
        };
        let shape: Vec<(usize, bool)> = (0..columns).map(|place| (width(place), numeric(place))).collect();
        for row in &self.rows {
            let cells = row.iter().zip(&shape).map(|(cell, (width, numeric))| {
                if *numeric { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
            });
            let line = cells.collect::<Vec<_>>().join("  ");
            output.line(line.trim_end())?;
        }
        Ok(())
    }
}

/// A value that may be absent, in a table.
pub(crate) fn or_dash(value: Option<impl Display>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

/// Prints items of one kind: one JSON object per line, or a table for each page.
#[derive(Debug)]
pub(crate) struct Listing<'a> {
    json: bool,
    columns: &'a [&'a str],
    output: Output,
    begun: bool,
}

impl<'a> Listing<'a> {
    pub(crate) fn new(json: bool, columns: &'a [&'a str]) -> Self {
        Self { json, columns, output: Output::new(), begun: false }
    }

    /// Prints a page of items.
    pub(crate) fn page<T: Serialize>(
        &mut self,
        items: &[T],
        row: impl Fn(&T) -> Vec<String>,
    ) -> Result<(), CliError> {
        if self.json {
            return items.iter().try_for_each(|thing| self.output.json(thing));
        }
        if items.is_empty() && self.begun {
            return Ok(());
        }
        self.begun = true;
        let mut table = Table::new(self.columns);
        items.iter().for_each(|thing| table.row(row(thing)));
        table.print(&mut self.output)
    }

    pub(crate) fn end(mut self) -> Result<(), CliError> {
        self.output.flush()
    }
}
