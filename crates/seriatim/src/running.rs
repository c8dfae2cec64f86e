//! What every process that goes on until it is told to stop has: a log, and an ear for signals.

use seriatim_env::{Env, Shutdown};
use tokio::signal::unix::{SignalKind, signal};

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

/// Told by SIGTERM and SIGINT.
pub(crate) fn stop_on_signals(env: &Env) -> Result<Shutdown, CliError> {
    let stop = Shutdown::new();
    for kind in [SignalKind::terminate(), SignalKind::interrupt()] {
        let mut signal = signal(kind).map_err(CliError::unavailable)?;
        let told = stop.clone();
        drop(env.spawn(async move {
            signal.recv().await;
            told.cancel();
        }));
    }
    Ok(stop)
}
