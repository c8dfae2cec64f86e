//! Text in columns.

use std::io::{self, Write};

/// How the cells of a column are aligned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// Writes a line of titles and a line per row; columns are as wide as their widest cell.
pub(crate) fn write<const N: usize>(
    out: &mut impl Write,
    columns: &[(&str, Align); N],
    rows: &[[String; N]],
) -> io::Result<()> {
    let titles = columns.map(|(title, _)| title.to_owned());
    let lines = || std::iter::once(&titles).chain(rows);
    let widths: [usize; N] = std::array::from_fn(|i| {
        let width = |line: &[String; N]| line[i].chars().count();
        lines().map(width).max().unwrap_or(0)
    });
    for line in lines() {
        let cells: Vec<_> = (0..N)
            .map(|i| match columns[i].1 {
                Align::Left => format!("{:<width$}", line[i], width = widths[i]),
                Align::Right => format!("{:>width$}", line[i], width = widths[i]),
            })
            .collect();
        writeln!(out, "{}", cells.join("  ").trim_end())?;
    }
    Ok(())
}

/// A figure with about three digits.
pub(crate) fn number(value: f64) -> String {
    let text = match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    };
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let mut grouped = String::new();
    for (i, digit) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i) % 3 == 0 && !grouped.ends_with('-') {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short_and_grouped() {
        for (value, text) in [
            (1_234_567.8, "1,234,568"),
            (-123_456.0, "-123,456"),
            (999.4, "999"),
            (99.94, "99.9"),
            (1.5, "1.50"),
            (0.0123, "0.012"),
        ] {
            assert_eq!(number(value), text);
        }
    }
}
