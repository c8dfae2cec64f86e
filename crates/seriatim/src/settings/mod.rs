//! Settings: defaults ← `seriatim.toml` ← `SERIATIM_*` ← flags.
//!
//! [`SETTINGS`] is the one list of them. The file's keys, the environment's variables, the flags of `serve`, the output of
//! `config` and the table in `docs/cli.md` all come from it, or are checked against it.

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
