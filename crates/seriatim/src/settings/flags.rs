//! Settings from the command line.

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};

use super::layers::{Origin, Value};
use super::table::{SETTINGS, Setting};
use super::value::Kind;

/// Names the settings file.
pub(crate) const CONFIG_VARIABLE: &str = "SERIATIM_CONFIG";

/// The flags of `serve`, one for each setting that has one.
#[derive(Debug, Clone)]
pub(crate) struct Flags {
    pub(crate) values: Vec<Value>,
}

fn arguments() -> impl Iterator<Item = Arg> {
    SETTINGS.iter().filter(|setting| setting.of_serve).map(|setting| {
        let default = match setting.default {
            Some(default) => format!(" [default: {default}]"),
            None => String::new(),
        };
        let kind = setting.kind;
        Arg::new(setting.name)
            .long(setting.flag())
            .value_name(kind.placeholder())
            .help(format!("{}{default}", setting.doc))
            .action(if kind == Kind::Files { ArgAction::Append } else { ArgAction::Set })
            .value_parser(move |text: &str| match kind {
                // The error of the parser would print the text, which may have a secret. It is checked when it is used.
                Kind::Storage => Ok(text.to_owned()),
                _ => kind.check(text).map(|()| text.to_owned()),
            })
    })
}

fn value(setting: &'static Setting, matches: &ArgMatches) -> Option<Value> {
    let texts = matches.get_many::<String>(setting.name)?.cloned().collect();
    Some(Value { setting, texts, origin: Origin::Flag(setting.flag()) })
}

impl FromArgMatches for Flags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let settings = SETTINGS.iter().filter(|setting| setting.of_serve);
        Ok(Self { values: settings.filter_map(|setting| value(setting, matches)).collect() })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for Flags {
    fn augment_args(command: Command) -> Command {
        command.args(arguments())
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}
