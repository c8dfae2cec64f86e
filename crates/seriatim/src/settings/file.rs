//! Settings from `seriatim.toml`.

use std::path::Path;

use toml::de::{DeTable, DeValue};

use super::layers::{Origin, Value};
use super::nearest::nearest;
use super::table::{SETTINGS, setting};
use crate::error::CliError;

/// The file that is read by default.
pub(super) const FILE: &str = "seriatim.toml";

/// Reads the settings of a file. A file that was named has to exist.
pub(super) fn read(named: Option<&Path>) -> Result<Vec<Value>, CliError> {
    let path = named.unwrap_or(Path::new(FILE));
    match std::fs::read_to_string(path) {
        Ok(text) => parse(path, &text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && named.is_none() => Ok(Vec::new()),
        Err(error) => Err(CliError::usage(format!("{} cannot be read: {error}", path.display()))),
    }
}

fn parse(path: &Path, text: &str) -> Result<Vec<Value>, CliError> {
    let line_of = |byte: usize| 1 + text.bytes().take(byte).filter(|byte| *byte == b'\n').count();
    let wrong = |byte: usize, problem: String| {
        CliError::usage(format!("{}:{}: {problem}", path.display(), line_of(byte)))
    };
    let table = DeTable::parse(text);
    let table = table.map_err(|error| {
        let byte = error.span().map_or(0, |span| span.start);
        wrong(byte, error.message().to_owned())
    })?;
    let mut values = Vec::new();
    for (key, value) in table.get_ref() {
        let name = key.get_ref();
        let Some(setting) = setting(name) else {
            return Err(wrong(key.span().start, unknown(name)));
        };
        let problem = |problem: String| wrong(value.span().start, format!("{name}: {problem}"));
        let texts = texts(value.get_ref()).map_err(problem)?;
        let origin = Origin::File { path: path.to_owned(), line: line_of(key.span().start) };
        values.push(Value::new(setting, texts, origin).map_err(problem)?);
    }
    Ok(values)
}

fn unknown(name: &str) -> String {
    match nearest(name, SETTINGS.iter().map(|setting| setting.name)) {
        Some(near) => format!("unknown key {name}: did you mean {near}?"),
        None => format!("unknown key {name}: `seriatim config` lists the known ones"),
    }
}

fn texts(value: &DeValue<'_>) -> Result<Vec<String>, String> {
    match value {
        DeValue::Array(values) => values.iter().map(|value| text(value.get_ref())).collect(),
        value => Ok(vec![text(value)?]),
    }
}

fn text(value: &DeValue<'_>) -> Result<String, String> {
    match value {
        DeValue::String(text) => Ok(text.to_string()),
        DeValue::Integer(integer) if integer.radix() == 10 => Ok(integer.as_str().to_owned()),
        value => Err(format!("a {} is no value here: write a text or a decimal number", value.type_str())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_error(text: &str) -> String {
        parse(Path::new("seriatim.toml"), text).unwrap_err().to_string()
    }

    #[test]
    fn each_key_has_its_value_and_its_line() {
        let text =
            "# ours\nlisten = \"127.0.0.1:9\"\nunflushed_max = 1_000\napps = [\"a.toml\", \"b.toml\"]\n";
        let values = parse(Path::new("x.toml"), text).unwrap();
        let mut found: Vec<String> = values
            .iter()
            .map(|value| format!("{} {:?} {}", value.setting.name, value.texts, value.origin))
            .collect();
        found.sort();
        assert_eq!(
            found,
            [
                "apps [\"a.toml\", \"b.toml\"] x.toml:4",
                "listen [\"127.0.0.1:9\"] x.toml:2",
                "unflushed_max [\"1000\"] x.toml:3",
            ]
        );
    }

    #[test]
    fn an_error_names_its_line() {
        let table = [
            ("\nlistne = \"x\"\n", "seriatim.toml:2: unknown key listne: did you mean listen?"),
            ("colour = 1\n", "seriatim.toml:1: unknown key colour: `seriatim config` lists the known ones"),
            (
                "listen = 7400\n",
                "seriatim.toml:1: listen: \"7400\" is not an address with a port, such as 127.0.0.1:7400 or localhost:7400",
            ),
            (
                "queue_max = 1.5\n",
                "seriatim.toml:1: queue_max: a float is no value here: write a text or a decimal number",
            ),
            (
                "\n\nlisten = [\"127.0.0.1:1\", \"127.0.0.1:2\"]",
                "seriatim.toml:3: listen: it has one value, not 2",
            ),
        ];
        for (text, expected) in table {
            assert_eq!(parse_error(text), expected);
        }
        assert!(parse_error("a = 1\nlisten = \n").starts_with("seriatim.toml:2: "));
    }
}
