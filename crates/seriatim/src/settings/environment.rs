//! Settings from the environment.

use super::layers::{Origin, Value};
use super::nearest::nearest;
use super::table::{SETTINGS, Setting};
use super::value::Kind;
use crate::error::CliError;

/// Reads the settings among some variables. A name that is similar to a setting's is an error; other variables that begin with
/// `SERIATIM_` belong to other programs and are ignored.
pub(super) fn read(variables: impl Iterator<Item = (String, String)>) -> Result<Vec<Value>, CliError> {
    let known: Vec<(String, &'static Setting)> =
        SETTINGS.iter().map(|setting| (setting.variable(), setting)).collect();
    let mut values = Vec::new();
    for (name, text) in variables.filter(|(name, _)| name.starts_with("SERIATIM_")) {
        let Some((_, setting)) = known.iter().find(|(variable, _)| *variable == name) else {
            match nearest(&name, known.iter().map(|(variable, _)| variable.as_str())) {
                Some(near) if name != super::flags::CONFIG_VARIABLE => {
                    return Err(CliError::usage(format!("unknown variable {name}: did you mean {near}?")));
                }
                _ => continue,
            }
        };
        // An empty variable counts as not set.
        if text.is_empty() {
            continue;
        }
        let texts = match setting.kind {
            Kind::Files => text.split(',').map(|part| part.trim().to_owned()).collect(),
            _ => vec![text],
        };
        let value = Value::new(setting, texts, Origin::Environment(name.clone()));
        values.push(value.map_err(|problem| CliError::usage(format!("{name}: {problem}")))?);
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_all(variables: &[(&str, &str)]) -> Result<Vec<String>, String> {
        let variables = variables.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
        let values = read(variables).map_err(|error| error.to_string())?;
        Ok(values.iter().map(|value| format!("{} {}", value.setting.name, value.texts.join("+"))).collect())
    }

    #[test]
    fn variables_are_settings_and_misspelled_names_are_errors() {
        type Row<'a> = (&'a [(&'a str, &'a str)], Result<&'a [&'a str], &'a str>);
        let table: [Row<'_>; 7] = [
            (&[("SERIATIM_LISTEN", "127.0.0.1:1"), ("HOME", "/")], Ok(&["listen 127.0.0.1:1"])),
            (&[("SERIATIM_APPS", "a.toml, b.toml")], Ok(&["apps a.toml+b.toml"])),
            (&[("SERIATIM_LISTEN", "")], Ok(&[])),
            (&[("SERIATIM_REQUIRE_REAL", "1"), ("SERIATIM_FULL", "1")], Ok(&[])),
            (&[("SERIATIM_CONFIG", "x.toml")], Ok(&[])),
            (
                &[("SERIATIM_LISTNE", "1")],
                Err("unknown variable SERIATIM_LISTNE: did you mean SERIATIM_LISTEN?"),
            ),
            (&[("SERIATIM_QUEUE_MAX", "x")], Err("SERIATIM_QUEUE_MAX: \"x\" is not a whole number")),
        ];
        for (variables, expected) in table {
            let expected = expected.map(|values| values.iter().map(|value| (*value).to_owned()).collect());
            assert_eq!(read_all(variables), expected.map_err(str::to_owned), "{variables:?}");
        }
    }
}
