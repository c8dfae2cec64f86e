//! The text of a number of a series.

use std::fmt;

use crate::limits::{SERIES_FORMAT_BYTES_MAX, SERIES_FORMAT_DIGITS_MAX};

/// The format of the numbers of a series: text around one `{number}`, or `{number:06}` for at least six digits. `{{` and `}}`
/// are braces. Two numbers never have the same text.
///
/// ```
/// use seriatim_engine::SeriesFormat;
///
/// let format: SeriesFormat = "INV-{number:06}".parse()?;
/// assert_eq!(format.text(17), "INV-000017");
/// assert!("INV".parse::<SeriesFormat>().is_err());
/// # Ok::<(), seriatim_engine::BadFormat>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeriesFormat {
    before: String,
    digits: usize,
    after: String,
}

/// Why a format is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("format {format:?}: {problem}")]
pub struct BadFormat {
    /// The format.
    pub format: String,
    /// What is wrong with it.
    pub problem: String,
}

impl Default for SeriesFormat {
    /// The number alone.
    fn default() -> Self {
        Self { before: String::new(), digits: 1, after: String::new() }
    }
}

impl SeriesFormat {
    /// The text of a number.
    #[must_use]
    pub fn text(&self, number: u64) -> String {
        format!("{}{number:0digits$}{}", self.before, self.after, digits = self.digits)
    }
}

impl fmt::Display for SeriesFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let escaped = |text: &str| text.replace('{', "{{").replace('}', "}}");
        f.write_str(&escaped(&self.before))?;
        match self.digits {
            1 => f.write_str("{number}")?,
            digits => write!(f, "{{number:0{digits}}}")?,
        }
        f.write_str(&escaped(&self.after))
    }
}

impl std::str::FromStr for SeriesFormat {
    type Err = BadFormat;

    fn from_str(format: &str) -> Result<Self, BadFormat> {
        parse(format).map_err(|problem| BadFormat { format: format.to_owned(), problem })
    }
}

fn parse(format: &str) -> Result<SeriesFormat, String> {
    if format.len() > SERIES_FORMAT_BYTES_MAX {
        return Err(format!("it may have at most {SERIES_FORMAT_BYTES_MAX} bytes, and has {}", format.len()));
    }
    if format.chars().any(char::is_control) {
        return Err("it must not contain control characters".to_owned());
    }
    let (mut texts, mut digits) = (vec![String::new()], None);
    let mut rest = format;
    while let Some(at) = rest.find(['{', '}']) {
        let (text, special) = rest.split_at(at);
        let last = texts.last_mut().ok_or("it is empty")?;
        last.push_str(text);
        if special.starts_with("{{") || special.starts_with("}}") {
            last.push_str(&special[..1]);
            rest = &special[2..];
            continue;
        }
        let end = special.find('}').filter(|_| special.starts_with('{'));
        let end = end.ok_or("write a brace that is text twice: {{ or }}")?;
        if digits.is_some() {
            return Err("it has more than one place for the number".to_owned());
        }
        digits = Some(parse_place(&special[1..end])?);
        texts.push(String::new());
        rest = &special[end + 1..];
    }
    let mut texts = texts.into_iter();
    let digits = digits
        .ok_or("it has no place for the number: write {number}, or {number:06} for at least six digits")?;
    let before = texts.next().unwrap_or_default();
    let after = texts.next().unwrap_or_default() + rest;
    Ok(SeriesFormat { before, digits, after })
}

/// Reads the text between the braces: the number of digits.
fn parse_place(place: &str) -> Result<usize, String> {
    let wrong = || {
        format!(
            "{{{place}}} is not {{number}} or {{number:06}}, with up to {SERIES_FORMAT_DIGITS_MAX} digits"
        )
    };
    if place == "number" {
        return Ok(1);
    }
    let digits = place.strip_prefix("number:0").ok_or_else(wrong)?;
    let digits = digits.parse().ok().filter(|_| digits.bytes().all(|byte| byte.is_ascii_digit()));
    digits.filter(|digits| (1..=SERIES_FORMAT_DIGITS_MAX).contains(digits)).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_the_format_says() {
        for (format, number, text) in [
            ("{number}", 7, "7"),
            ("INV-{number:06}", 17, "INV-000017"),
            ("INV-{number:02}/26", 1_234, "INV-1234/26"),
            ("{{{number}}}", 3, "{3}"),
            ("№ {number:020} }}{{", 9_007_199_254_740_991, "№ 00009007199254740991 }{"),
        ] {
            let parsed: SeriesFormat = format.parse().expect(format);
            assert_eq!(parsed.text(number), text);
            assert_eq!(parsed.to_string().parse(), Ok(parsed), "{format}");
        }
    }

    #[test]
    fn what_is_not_a_format_is_refused_and_says_why() {
        for (format, word) in [
            ("", "no place"),
            ("INV", "no place"),
            ("{number}{number}", "more than one"),
            ("{n}", "is not"),
            ("{number:6}", "is not"),
            ("{number:0}", "is not"),
            ("{number:00}", "is not"),
            ("{number:021}", "is not"),
            ("{number:0+6}", "is not"),
            ("{number", "twice"),
            ("}{number}", "twice"),
            ("{number}\n", "control"),
        ] {
            let error = format.parse::<SeriesFormat>().expect_err(format);
            assert!(error.to_string().contains(word), "{format}: {error}");
        }
        assert!(format!("{{number}}{}", "x".repeat(200)).parse::<SeriesFormat>().is_err());
    }
}
