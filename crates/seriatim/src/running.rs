//! Logging and signals of commands that run until they are stopped.

use serde_json::json;
use seriatim_engine::moment;
use seriatim_env::{Env, Shutdown};
use tokio::signal::unix::{SignalKind, signal};
use tracing::Level;

use crate::error::CliError;
use crate::settings::{LogFormat, Settings};

/// Writes the log to stderr, as the settings say.
pub(crate) fn start_logging(settings: &Settings) -> Result<(), CliError> {
    let filter: String = settings.get("log_level")?;
    let subscriber = tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_env_filter(tracing_subscriber::EnvFilter::new(filter));
    match settings.get("log_format")? {
        LogFormat::Json => subscriber.json().init(),
        LogFormat::Text => subscriber.with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr())).init(),
    }
    Ok(())
}

/// Prints a line at any log level. The line has the format of the log, so that one program can read all of stderr.
pub(crate) fn announce(env: &Env, settings: &Settings, level: Level, message: &str) -> Result<(), CliError> {
    match settings.get("log_format")? {
        LogFormat::Text => eprintln!("{message}"),
        LogFormat::Json => {
            let (time, level) = (moment(env.now()), level.as_str());
            let line = json!({"timestamp": time, "level": level, "fields": {"message": message}, "target": "seriatim"});
            eprintln!("{line}");
        }
    }
    Ok(())
}

/// Prints why a process ends, if its log is JSON. Otherwise the caller prints it, as for every command.
pub(crate) fn report(env: &Env, settings: &Settings, error: CliError) -> CliError {
    match (settings.get("log_format"), error) {
        (Ok(LogFormat::Json), CliError::Failed { exit, message }) => {
            match announce(env, settings, Level::ERROR, &message) {
                Ok(()) => CliError::Reported(exit),
                Err(error) => error,
            }
        }
        (_, error) => error,
    }
}

/// Is cancelled by SIGTERM and SIGINT.
pub(crate) fn stop_on_signals(env: &Env) -> Result<Shutdown, CliError> {
    let stop = Shutdown::new();
    for kind in [SignalKind::terminate(), SignalKind::interrupt()] {
        let mut signal = signal(kind).map_err(CliError::unavailable)?;
        let on_signal = stop.clone();
        drop(env.spawn(async move {
            signal.recv().await;
            on_signal.cancel();
        }));
    }
    Ok(stop)
}
