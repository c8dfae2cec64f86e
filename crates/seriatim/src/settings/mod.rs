//! Settings: defaults ← `seriatim.toml` ← `SERIATIM_*` ← flags.
//!
//! `SETTINGS` is the only list of them. The keys of the file, the variables, the flags of `serve`, the output of `config` and
//! the table in `docs/cli.md` are made from it or checked against it.

mod environment;
mod file;
mod flags;
mod layers;
mod nearest;
mod serving;
mod table;
mod value;

pub(crate) use flags::Flags;
pub(crate) use layers::{Settings, Value};
pub(crate) use serving::LogFormat;
pub(crate) use value::{Kind, ListenAddress};
