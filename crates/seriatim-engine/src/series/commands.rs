//! The application `series`: definition, commands and views.
//!
//! ```text
//! view      row's key    row
//! settings  "settings"   { "first", "format" }; none: 1 and just the number
//! counts    "counts"     { "voided", "raised" }; none: nothing was
//! voids     number       { "reason", "at", "offset" }
//! ```

use std::ops::RangeInclusive;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value as Json, json};
use seriatim_types::{Number, WorkspaceOffset};

use super::{KIND, NAME, SEQUENCE, SeriesFormat};
use crate::app::App;
use crate::command::{Command, CommandError, Context};
use crate::definition::{
    Application, CommandDefinition, DefinitionError, KindDefinition, SequenceDefinition,
};
use crate::limits::{SERIES_COUNT_MAX, SERIES_TEXT_BYTES_MAX};
use crate::projector::{Projected, Rows, projector};
use crate::view::KeyPart;

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
        .partitions(8)
        .sequence(SequenceDefinition::new(SEQUENCE, 1))
        .command(CommandDefinition::with_json(SETTINGS).sequences([SEQUENCE]))
        .command(CommandDefinition::with_json(NEXT).sequences([SEQUENCE]))
        .command(CommandDefinition::with_json(VOID))
        .command(CommandDefinition::with_json(RAISE).sequences([SEQUENCE]))
        .kind(KindDefinition::new(KIND))
        .build()?;
    let app = App::new(definition)
        .command(SETTINGS, Settled(settings))
        .command(NEXT, Settled(next))
        .command(VOID, void)
        .command(RAISE, raise)
        .projector(projector(SETTINGS_VIEW, project_settings))
        .projector(projector(COUNTS_VIEW, project_counts))
        .projector(projector(VOIDS_VIEW, project_voids));
    Ok(app)
}

/// A command that reads the settings each time.
struct Settled(fn(&mut Context<'_, '_>) -> Result<Json, CommandError>);

impl Command for Settled {
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

/// Where a series begins, and how its numbers are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Settings {
    pub(super) first: u64,
    pub(super) format: SeriesFormat,
}

impl Settings {
    /// Those that a row holds; without one, those of a series that was used without.
    pub(super) fn of(row: Option<&Json>) -> Self {
        let first = row.and_then(|row| row["first"].as_u64()).unwrap_or(1);
        // What is stored was checked when it was set.
        let format = row.and_then(|row| row["format"].as_str()?.parse().ok()).unwrap_or_default();
        Self { first, format }
    }
}

fn parse<T: DeserializeOwned>(context: &Context<'_, '_>) -> Result<T, CommandError> {
    T::deserialize(context.args()).map_err(|error| CommandError::Invalid(error.to_string()))
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
    Err(CommandError::Invalid(format!("\"{what}\" has to be from 1 to {}", NUMBERS.end())))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SettingsArgs {
    first: u64,
    format: String,
}

/// Says where a series begins and how its numbers are written: its first event, or never. The same again is fine.
fn settings(context: &mut Context<'_, '_>) -> Result<Json, CommandError> {
    let args: SettingsArgs = parse(context)?;
    let first = check_number("first", args.first)?;
    let format: SeriesFormat =
        args.format.parse().map_err(|error| CommandError::Invalid(format!("{error}")))?;
    let asked = Settings { first: first.get(), format };
    let row = context.row(SETTINGS_VIEW, &settings_key())?;
    let is_first = context.offset() == WorkspaceOffset::FIRST;
    if !is_first {
        let present = Settings::of(row.as_ref());
        if present != asked {
            return Err(CommandError::Conflict(format!(
                "the series is in use, begins at {} and has format {}: it keeps them",
                present.first, present.format
            )));
        }
    }
    let mut next = context.next(SEQUENCE)?;
    if is_first && asked.first > 1 {
        // Before the first event a sequence stands at 1, or behind what a restored copy has to skip.
        let target = Number::new(asked.first).advance(next.get() - 1);
        next = target.filter(|target| NUMBERS.contains(&target.get())).unwrap_or(Number::LAST_IN_JSON);
        context.raise(SEQUENCE, next)?;
    }
    let (first, format) = (asked.first, asked.format.to_string());
    Ok(json!({"created": is_first, "first": first, "format": format, "next": next.get()}))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NextArgs {
    count: u64,
    #[serde(default)]
    note: Option<String>,
}

/// Takes the next numbers, in a row.
fn next(context: &mut Context<'_, '_>) -> Result<Json, CommandError> {
    let NextArgs { count, note } = parse(context)?;
    if !(1..=SERIES_COUNT_MAX).contains(&count) {
        return Err(CommandError::Invalid(format!(
            "\"count\" has to be from 1 to {SERIES_COUNT_MAX}, not {count}"
        )));
    }
    check_text("note", note.as_deref().unwrap_or_default())?;
    let settings = Settings::of(context.row(SETTINGS_VIEW, &settings_key())?.as_ref());
    let number = context.draw(SEQUENCE)?;
    for _ in 1..count {
        context.draw(SEQUENCE)?;
    }
    Ok(json!({"number": number.get(), "count": count, "text": settings.format.text(number.get())}))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct VoidArgs {
    number: u64,
    reason: String,
}

/// Marks a number as void. That it was taken, and not skipped, the handle has looked up in the log.
fn void(context: &mut Context<'_, '_>) -> Result<Json, CommandError> {
    let VoidArgs { number, reason } = parse(context)?;
    check_number("number", number)?;
    check_reason(&reason)?;
    let next = context.next(SEQUENCE)?.get();
    if number >= next {
        return Err(CommandError::NotFound(format!("number {number} was not taken: the next one is {next}")));
    }
    if context.row(VOIDS_VIEW, &void_key(number))?.is_some() {
        return Err(CommandError::Conflict(format!("number {number} is void already")));
    }
    Ok(json!({"number": number, "next": next}))
}

fn check_reason(reason: &str) -> Result<(), CommandError> {
    if reason.trim().is_empty() {
        return Err(CommandError::Invalid("\"reason\" has to say something".to_owned()));
    }
    check_text("reason", reason)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RaiseArgs {
    next: u64,
    reason: String,
}

/// Makes a series go on from a later number.
fn raise(context: &mut Context<'_, '_>) -> Result<Json, CommandError> {
    let RaiseArgs { next, reason } = parse(context)?;
    let next = check_number("next", next)?;
    check_reason(&reason)?;
    let from = context.next(SEQUENCE)?;
    if next < from {
        return Err(CommandError::Conflict(format!(
            "the series stands at {from}: it is raised upwards, not to {next}"
        )));
    }
    context.raise(SEQUENCE, next)?;
    Ok(json!({"from": from.get(), "next": next.get()}))
}

fn project_settings(event: &Projected<'_>, rows: &mut Rows<'_>) -> Result<(), String> {
    if &*event.event.command != SETTINGS {
        return Ok(());
    }
    let result = event.event.json_result().unwrap_or_default();
    if result["created"] == Json::Bool(true) {
        rows.fold(&settings_key(), |_| Some(json!({"first": result["first"], "format": result["format"]})));
    }
    Ok(())
}

fn project_counts(event: &Projected<'_>, rows: &mut Rows<'_>) -> Result<(), String> {
    let count = match &*event.event.command {
        VOID => "voided",
        RAISE => "raised",
        _ => return Ok(()),
    };
    rows.fold(&counts_key(), |row| {
        let mut row = row.unwrap_or_else(|| json!({"voided": 0, "raised": 0}));
        row[count] = json!(row[count].as_u64().unwrap_or(0) + 1);
        Some(row)
    });
    Ok(())
}

fn project_voids(event: &Projected<'_>, rows: &mut Rows<'_>) -> Result<(), String> {
    if &*event.event.command != VOID {
        return Ok(());
    }
    let args = event.event.json_argument().unwrap_or_default();
    let number = args["number"].as_u64().ok_or("Void without a number")?;
    let (at, offset) = (event.place.time.as_millis(), event.place.workspace_offset.get());
    rows.fold(&void_key(number), |_| Some(json!({"reason": args["reason"], "at": at, "offset": offset})));
    Ok(())
}
