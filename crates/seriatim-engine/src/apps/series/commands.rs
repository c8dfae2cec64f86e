//! The application `series`: definition, commands and views.
//!
//! ```text
//! view      row's key    row
//! settings  "settings"   { "first", "format" }; none: 1 and the number alone
//! counts    "counts"     { "voided", "raised" }; none: both are 0
//! voids     number       { "reason", "at", "offset" }
//! ```

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use seriatim_types::{Number, WorkspaceOffset};

use super::{BUILT_IN, BadFormat, KIND, NAME, SEQUENCE, SeriesFormat};
use crate::command::context::{Command, CommandError, Context, answer};
use crate::command::projector::{Projected, Rows, projector};
use crate::command::view::KeyPart;
use crate::definition::{
    Application, CommandDefinition, DefinitionError, KindDefinition, SequenceDefinition,
};
use crate::engine::app::App;
use crate::limits::{SERIES_COUNT_MAX, SERIES_TEXT_BYTES_MAX};

pub(super) const SETTINGS: &str = "Settings";
pub(super) const NEXT: &str = "Next";
pub(super) const VOID: &str = "Void";
pub(super) const RAISE: &str = "Raise";

pub(super) const SETTINGS_VIEW: &str = "settings";
pub(super) const COUNTS_VIEW: &str = "counts";
pub(super) const VOIDS_VIEW: &str = "voids";

/// Numbers that a series can have.
const NUMBERS: RangeInclusive<u64> = 1..=Number::LAST_IN_JSON.get();

/// The application with its code.
pub(crate) fn app() -> Result<App, DefinitionError> {
    let definition = Application::builder(NAME)
        // The option `built_in_partitions` replaces it.
        .partitions(8)
        .sequence(SequenceDefinition::new(SEQUENCE, 1))
        .command(CommandDefinition::with_json(SETTINGS).sequences([SEQUENCE]))
        .command(CommandDefinition::with_json(NEXT).sequences([SEQUENCE]))
        .command(CommandDefinition::with_json(VOID))
        .command(CommandDefinition::with_json(RAISE).sequences([SEQUENCE]))
        .kind(KindDefinition::new(KIND))
        .build()?;
    let app = App::new(definition)
        .built_in(BUILT_IN)
        .command(SETTINGS, ReadsSettings(settings))
        .command(NEXT, ReadsSettings(next))
        .command(VOID, void)
        .command(RAISE, raise)
        .projector(projector(SETTINGS_VIEW, project_settings))
        .projector(projector(COUNTS_VIEW, project_counts))
        .projector(projector(VOIDS_VIEW, project_voids));
    Ok(app)
}

/// A command that always reads the settings.
struct ReadsSettings(fn(&mut Context<'_, '_>) -> Result<Json, CommandError>);

impl Command for ReadsSettings {
    fn run(&self, context: &mut Context<'_, '_>) -> Result<Json, CommandError> {
        (self.0)(context)
    }

    fn reads(&self, _: &Json) -> Vec<(&'static str, Vec<KeyPart>)> {
        vec![(SETTINGS_VIEW, settings_key().to_vec())]
    }
}

pub(super) fn settings_key() -> [KeyPart; 1] {
    [SETTINGS_VIEW.into()]
}

pub(super) fn counts_key() -> [KeyPart; 1] {
    [COUNTS_VIEW.into()]
}

pub(super) fn void_key(number: u64) -> [KeyPart; 1] {
    [KeyPart::Integer(number.cast_signed())]
}

/// The first number of a series, and the format of its numbers. Both are required in a row.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "SettingsRow")]
pub(super) struct Settings {
    pub(super) first: u64,
    pub(super) format: SeriesFormat,
}

impl Default for Settings {
    /// The settings of a series that was first used without settings: it has no row.
    fn default() -> Self {
        Self { first: 1, format: SeriesFormat::default() }
    }
}

impl TryFrom<SettingsRow> for Settings {
    type Error = BadFormat;

    fn try_from(SettingsRow { first, format }: SettingsRow) -> Result<Self, BadFormat> {
        Ok(Self { first, format: format.parse()? })
    }
}

/// A row of the view `settings`.
#[derive(Debug, Serialize, Deserialize)]
struct SettingsRow {
    first: u64,
    format: String,
}

/// A row of the view `counts`. Without a row both are 0.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct CountsRow {
    pub(super) voided: u64,
    pub(super) raised: u64,
}

/// A row of the view `voids`.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct VoidRow {
    pub(super) reason: String,
    pub(super) at: u64,
    pub(super) offset: u64,
}

/// The result of `Settings`.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SettingsResult {
    pub(super) created: bool,
    first: u64,
    format: String,
    next: u64,
}

/// The result of `Next`.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct NextResult {
    pub(super) number: u64,
    pub(super) count: u64,
    pub(super) text: String,
}

/// The result of `Void`.
#[derive(Debug, Serialize)]
struct VoidResult {
    number: u64,
    next: u64,
}

/// The result of `Raise`.
#[derive(Debug, Serialize)]
struct RaiseResult {
    from: u64,
    next: u64,
}

fn check_text(what: &str, text: &str) -> Result<(), CommandError> {
    let (max, found) = (SERIES_TEXT_BYTES_MAX, text.len());
    if found <= max {
        return Ok(());
    }
    Err(CommandError::Invalid(format!("a {what} may have {max} bytes, this one has {found}")))
}

fn check_number(what: &str, number: u64) -> Result<Number, CommandError> {
    if NUMBERS.contains(&number) {
        return Ok(Number::new(number));
    }
    Err(CommandError::Invalid(format!("\"{what}\" must be from 1 to {}", NUMBERS.end())))
}

/// The argument of `Settings`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SettingsArgs {
    pub(super) first: u64,
    pub(super) format: String,
}

/// Refuses a number that cannot be the first of a series.
pub(super) fn check_first(first: u64) -> Result<Number, CommandError> {
    check_number("first", first)
}

/// Sets the first number and the format of a series. It must be the first event of the series. Setting the same again does
/// nothing.
fn settings(context: &mut Context<'_, '_>) -> Result<Json, CommandError> {
    let args: SettingsArgs = context.args_as()?;
    let first = check_first(args.first)?;
    let format: SeriesFormat =
        args.format.parse().map_err(|error| CommandError::Invalid(format!("{error}")))?;
    let asked = Settings { first: first.get(), format };
    let present: Option<Settings> = context.read(SETTINGS_VIEW, &settings_key())?;
    let is_first = context.offset() == WorkspaceOffset::FIRST;
    if !is_first {
        let present = present.unwrap_or_default();
        if present != asked {
            return Err(CommandError::Conflict(format!(
                "the series is in use with first number {} and format {}, which cannot be changed: use another series",
                present.first, present.format
            )));
        }
    }
    let mut next = context.next(SEQUENCE)?;
    if is_first && asked.first > 1 {
        // Before the first event the next number is 1, or a later one if a restored copy has to skip numbers.
        let target = Number::new(asked.first).advance(next.get() - 1);
        next = target.filter(|target| NUMBERS.contains(&target.get())).unwrap_or(Number::LAST_IN_JSON);
        context.raise(SEQUENCE, next)?;
    }
    let (first, format) = (asked.first, asked.format.to_string());
    answer(&SettingsResult { created: is_first, first, format, next: next.get() })
}

/// The argument of `Next`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NextArgs {
    pub(super) count: u64,
    #[serde(default)]
    pub(super) note: Option<String>,
}

/// Checks a request for numbers, as far as that does not depend on the series.
pub(super) fn check_next(count: u64, note: Option<&str>) -> Result<(), CommandError> {
    if !(1..=SERIES_COUNT_MAX).contains(&count) {
        return Err(CommandError::Invalid(format!(
            "\"count\" must be from 1 to {SERIES_COUNT_MAX}, not {count}"
        )));
    }
    check_text("note", note.unwrap_or_default())
}

/// Takes the next numbers, consecutive ones.
fn next(context: &mut Context<'_, '_>) -> Result<Json, CommandError> {
    let NextArgs { count, note } = context.args_as()?;
    check_next(count, note.as_deref())?;
    let settings: Settings = context.read(SETTINGS_VIEW, &settings_key())?.unwrap_or_default();
    let number = context.draw(SEQUENCE)?;
    for _ in 1..count {
        context.draw(SEQUENCE)?;
    }
    answer(&NextResult { number: number.get(), count, text: settings.format.text(number.get()) })
}

/// The argument of `Void`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct VoidArgs {
    pub(super) number: u64,
    pub(super) reason: String,
}

/// Marks a number as void. The handle has checked in the log that the number was taken and not skipped.
fn void(context: &mut Context<'_, '_>) -> Result<Json, CommandError> {
    let VoidArgs { number, reason } = context.args_as()?;
    check_number("number", number)?;
    check_reason(&reason)?;
    let next = context.next(SEQUENCE)?.get();
    if number >= next {
        return Err(CommandError::NotFound(format!("number {number} was not taken: the next one is {next}")));
    }
    if context.row(VOIDS_VIEW, &void_key(number))?.is_some() {
        return Err(CommandError::Conflict(format!("number {number} is void already")));
    }
    answer(&VoidResult { number, next })
}

fn check_reason(reason: &str) -> Result<(), CommandError> {
    if reason.trim().is_empty() {
        return Err(CommandError::Invalid("\"reason\" is empty: say why".to_owned()));
    }
    check_text("reason", reason)
}

/// The argument of `Raise`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RaiseArgs {
    pub(super) next: u64,
    pub(super) reason: String,
}

/// Checks a raise, as far as that does not depend on the series.
pub(super) fn check_raise(next: u64, reason: &str) -> Result<Number, CommandError> {
    let next = check_number("next", next)?;
    check_reason(reason)?;
    Ok(next)
}

/// Makes a series continue from a later number.
fn raise(context: &mut Context<'_, '_>) -> Result<Json, CommandError> {
    let RaiseArgs { next, reason } = context.args_as()?;
    let next = check_raise(next, &reason)?;
    let from = context.next(SEQUENCE)?;
    if next < from {
        return Err(CommandError::Conflict(format!(
            "the next number of the series is {from}, and a series cannot be lowered to {next}: choose a later number"
        )));
    }
    context.raise(SEQUENCE, next)?;
    answer(&RaiseResult { from: from.get(), next: next.get() })
}

fn project_settings(event: &Projected<'_>, rows: &mut Rows<'_>) -> Result<(), String> {
    if &*event.event.command != SETTINGS {
        return Ok(());
    }
    let SettingsResult { created, first, format, .. } = event.event.result_as()?;
    if !created {
        return Ok(());
    }
    rows.fold_as(&settings_key(), |_| Ok(Some(SettingsRow { first, format })))
}

fn project_counts(event: &Projected<'_>, rows: &mut Rows<'_>) -> Result<(), String> {
    let (voided, raised) = match &*event.event.command {
        VOID => (1, 0),
        RAISE => (0, 1),
        _ => return Ok(()),
    };
    rows.fold_as(&counts_key(), |row: Option<CountsRow>| {
        let row = row.unwrap_or_default();
        Ok(Some(CountsRow { voided: row.voided + voided, raised: row.raised + raised }))
    })
}

fn project_voids(event: &Projected<'_>, rows: &mut Rows<'_>) -> Result<(), String> {
    if &*event.event.command != VOID {
        return Ok(());
    }
    let VoidArgs { number, reason } = event.event.argument_as()?;
    let (at, offset) = (event.place.time.as_millis(), event.place.workspace_offset.get());
    rows.fold_as(&void_key(number), |_| Ok(Some(VoidRow { reason, at, offset })))
}
