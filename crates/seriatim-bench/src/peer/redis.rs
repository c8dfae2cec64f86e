//! A Redis server for the comparison: Debian's package, every write synced before it is answered. A counter without events.

use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use super::free_port;

const START_WAIT: Duration = Duration::from_secs(10);
/// Requests that estimate the rate before it is measured.
const ESTIMATE_REQUESTS: u64 = 5_000;

/// The server, on loopback. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct Redis {
    server: Child,
    port: String,
}

impl Redis {
    /// Starts it in an empty directory. The error says why it is not available.
    pub(crate) fn start(directory: &Path) -> anyhow::Result<Self> {
        let port = free_port()?;
        let mut command = Command::new("redis-server");
        command.args([
            "--bind",
            "127.0.0.1",
            "--port",
            &port.to_string(),
            "--save",
            "",
            "--appendonly",
            "yes",
        ]);
        command.args(["--appendfsync", "always", "--dir"]).arg(directory);
        let server = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        let mut redis =
            Self { server: server.context("redis-server is not installed")?, port: port.to_string() };
        let started = Instant::now();
        // Not with redis-benchmark: it never ends if the connection is refused.
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            ensure!(redis.server.try_wait()?.is_none(), "redis-server ended");
            ensure!(started.elapsed() < START_WAIT, "redis-server does not answer");
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(redis)
    }

    /// Lets clients count for about this long, and returns the counts per second.
    pub(crate) fn drive(&self, clients: usize, duration: Duration) -> anyhow::Result<f64> {
        let estimate = self.bench(clients, ESTIMATE_REQUESTS)?;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count of requests")]
        let requests = (estimate * duration.as_secs_f64()) as u64;
        self.bench(clients, requests.max(ESTIMATE_REQUESTS))
    }

    fn bench(&self, clients: usize, requests: u64) -> anyhow::Result<f64> {
        let mut command = Command::new("redis-benchmark");
        command.args(["-h", "127.0.0.1", "-p", &self.port, "-q", "--csv", "-c", &clients.to_string()]);
        let output = command.args(["-n", &requests.to_string(), "INCR", "counter"]).output()?;
        let output = String::from_utf8(output.stdout)?;
        per_second(&output).with_context(|| format!("redis-benchmark names no rate: {output}"))
    }
}

/// The rate in the last line: `"INCR counter","12345.67",…`.
fn per_second(output: &str) -> Option<f64> {
    output.lines().rev().find_map(|line| line.split(',').nth(1)?.trim_matches('"').parse().ok())
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_the_second_column() {
        let output = "\"test\",\"rps\",\"avg_latency_ms\"\n\"INCR counter\",\"74600.10\",\"0.8\"\n";
        assert_eq!(per_second(output).map(f64::to_bits), Some(74_600.10_f64.to_bits()));
        assert_eq!(per_second("Could not connect"), None);
    }
}
