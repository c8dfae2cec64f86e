//! The layers of settings, and their result.

use std::fmt;
use std::path::{Path, PathBuf};

use super::table::{SETTINGS, Setting};
use super::value::{Kind, Read};
use super::{environment, file};
use crate::error::CliError;

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    Default,
    File { path: PathBuf, line: usize },
    Environment(String),
    Flag(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Environment(name) => f.write_str(name),
            Self::Flag(flag) => write!(f, "--{flag}"),
        }
    }
}

/// A setting's value, checked, and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Value {
    pub(crate) setting: &'static Setting,
    /// Empty if it is not set; only a list has more than one.
    pub(crate) texts: Vec<String>,
    pub(crate) origin: Origin,
}

impl Value {
    /// Checks a value; the error says what is wrong with it.
    pub(super) fn new(setting: &'static Setting, texts: Vec<String>, origin: Origin) -> Result<Self, String> {
        if setting.kind != Kind::Files && texts.len() != 1 {
            return Err(format!("it has one value, not {}", texts.len()));
        }
        texts.iter().try_for_each(|text| setting.kind.check(text))?;
        Ok(Self { setting, texts, origin })
    }

    fn default(setting: &'static Setting) -> Self {
        let texts = setting.default.map(str::to_owned).into_iter().collect();
        Self { setting, texts, origin: Origin::Default }
    }
}

/// Every setting, with its value.
#[derive(Debug)]
pub(crate) struct Settings {
    values: Vec<Value>,
}

impl Settings {
    /// Defaults, then the file, then the environment, then flags: the last one wins.
    pub(crate) fn read(config: Option<&Path>, flags: Vec<Value>) -> Result<Self, CliError> {
        let variables = std::env::vars_os()
            .filter_map(|(name, text)| Some((name.into_string().ok()?, text.into_string().ok()?)));
        Ok(Self::of([file::read(config)?, environment::read(variables)?, flags]))
    }

    fn of(layers: [Vec<Value>; 3]) -> Self {
        let mut values: Vec<Value> = SETTINGS.iter().map(Value::default).collect();
        for value in layers.into_iter().flatten() {
            if let Some(place) = values.iter_mut().find(|place| place.setting == value.setting) {
                *place = value;
            }
        }
        Self { values }
    }

    /// All values, in the order of the table.
    pub(crate) fn values(&self) -> &[Value] {
        &self.values
    }

    pub(super) fn texts(&self, name: &str) -> &[String] {
        let value = self.values.iter().find(|value| value.setting.name == name);
        value.map(|value| &value.texts[..]).unwrap_or_default()
    }

    /// A setting that has a value.
    pub(crate) fn get<T: Read>(&self, name: &str) -> Result<T, CliError> {
        let found = self.find(name)?;
        found.ok_or_else(|| CliError::usage(format!("the setting {name} has no value: set one")))
    }

    /// A setting that may have none.
    pub(crate) fn find<T: Read>(&self, name: &str) -> Result<Option<T>, CliError> {
        let text = self.texts(name).first();
        let value = text.map(|text| T::read(text)).transpose();
        value.map_err(|problem| CliError::usage(format!("{name}: {problem}")))
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::setting;
    use super::*;

    fn value(name: &str, text: &str, origin: Origin) -> Value {
        Value::new(setting(name).unwrap(), vec![text.to_owned()], origin).unwrap()
    }

    #[test]
    fn the_last_layer_wins() {
        let file = |name, text| value(name, text, Origin::File { path: "f".into(), line: 1 });
        let environment = |name, text| value(name, text, Origin::Environment("E".to_owned()));
        let flag = |name, text| value(name, text, Origin::Flag(String::new()));
        let settings = Settings::of([
            vec![file("flush_at", "1"), file("queue_max", "2"), file("open_blocks", "3")],
            vec![environment("queue_max", "20"), environment("open_blocks", "30")],
            vec![flag("open_blocks", "300")],
        ]);
        let found = |name| settings.get::<u64>(name).unwrap();
        assert_eq!(
            [found("flush_at"), found("queue_max"), found("open_blocks"), found("cache_numbers")],
            [1, 20, 300, 100_000]
        );
        assert_eq!(settings.values().len(), SETTINGS.len());
        assert_eq!(settings.find::<String>("token").unwrap(), None);
    }
}
