//! A PostgreSQL server for the comparison: Debian's packages, default settings, on loopback, in a temporary directory.
//!
//! The clients are those of `pgbench`, which is installed with the server: written in C, prepared statements, one transaction
//! after the other. A commit is durable before it is answered, which is the default.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use rustix::process::{Pid, Signal, getuid, kill_process};

/// The folder where Debian installs all versions.
const PLACE: &str = "/usr/lib/postgresql";
/// The user that runs the server when this program runs as root. PostgreSQL refuses to run as root.
const USERS: [&str; 2] = ["postgres", "nobody"];
const START_WAIT: Duration = Duration::from_secs(20);
const BODY_BYTES: usize = 300;

/// The transaction that a client repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Insert {
    /// Takes the next number from the row of one of the tenants, and inserts an event with it: one statement.
    Counted { tenants: u32 },
    /// Inserts an event with a number from a sequence, which has gaps.
    Gappy,
}

impl Insert {
    fn script(self) -> String {
        let body = "x".repeat(BODY_BYTES);
        match self {
            Self::Counted { tenants } => format!(
                "\\set tenant random(1, {tenants})\n\
                 WITH drawn AS (UPDATE counters SET next = next + 1 WHERE tenant = :tenant RETURNING next) \
                 INSERT INTO numbered (tenant, number, body) SELECT :tenant, next, '{body}' FROM drawn;\n"
            ),
            Self::Gappy => format!("INSERT INTO gappy (tenant, body) VALUES (1, '{body}');\n"),
        }
    }

    fn name(self) -> String {
        match self {
            Self::Counted { tenants } => format!("counted-{tenants}.sql"),
            Self::Gappy => "gappy.sql".to_owned(),
        }
    }
}

/// The server. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct Postgres {
    programs: PathBuf,
    directory: PathBuf,
    port: String,
    user: Option<User>,
    server: Child,
}

#[derive(Debug, Clone, Copy)]
struct User {
    id: u32,
    group: u32,
}

impl Postgres {
    /// Makes a cluster in an empty directory, starts it, and adds the tenants. The error says why it is not available.
    pub(crate) fn start(directory: &Path, tenants: u32) -> anyhow::Result<Self> {
        let programs = newest(Path::new(PLACE)).context("PostgreSQL is not installed")?;
        let directory = fs::canonicalize(directory)?;
        let user = if getuid().is_root() { Some(find_user()?) } else { None };
        if let Some(user) = user {
            allow_traversal(&directory)?;
            chown(&directory, Some(user.id), Some(user.group))?;
        }
        let data = directory.join("data");
        let mut initdb = program(user, &programs.join("initdb"));
        initdb.args(["--auth=trust", "--username=bench", "--no-sync", "-D"]).arg(&data);
        text_of(&initdb.output()?, "initdb")?;
        let log = fs::File::create(directory.join("log"))?;
        let mut server = program(user, &programs.join("postgres"));
        server.arg("-D").arg(&data).arg("-k").arg(&directory);
        // Over the network, like all other servers in the comparison.
        let port = super::free_port()?.to_string();
        server.args(["-c", "listen_addresses=127.0.0.1", "-p", &port]);
        let server = server.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn()?;
        let mut postgres = Self { programs, directory, port, user, server };
        postgres.wait_ready()?;
        let tables = format!(
            "CREATE TABLE counters (tenant int PRIMARY KEY, next bigint NOT NULL);\
             INSERT INTO counters SELECT t, 0 FROM generate_series(1, {tenants}) t;\
             CREATE TABLE numbered (tenant int, number bigint, body text, PRIMARY KEY (tenant, number));\
             CREATE TABLE gappy (id bigserial PRIMARY KEY, tenant int, body text);"
        );
        postgres.query(&tables)?;
        Ok(postgres)
    }

    /// Its name and version.
    pub(crate) fn version(&self) -> anyhow::Result<String> {
        Ok(format!("PostgreSQL {}", self.query("SHOW server_version")?.trim()))
    }

    fn wait_ready(&mut self) -> anyhow::Result<()> {
        let started = Instant::now();
        while self.query("SELECT 1").is_err() {
            ensure!(self.server.try_wait()?.is_none(), "PostgreSQL ended: {}", self.last_log_line());
            ensure!(started.elapsed() < START_WAIT, "PostgreSQL does not answer: {}", self.last_log_line());
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    fn last_log_line(&self) -> String {
        let log = fs::read_to_string(self.directory.join("log")).unwrap_or_default();
        log.lines().last().unwrap_or("its log is empty").to_owned()
    }

    fn client(&self, name: &str) -> Command {
        let mut command = program(self.user, &self.programs.join(name));
        command.args(["-h", "127.0.0.1", "-p", &self.port, "-U", "bench"]).env("PGDATABASE", "postgres");
        command
    }

    fn query(&self, statement: &str) -> anyhow::Result<String> {
        text_of(&self.client("psql").args(["-qAt", "-c", statement]).output()?, "psql")
    }

    /// Lets clients insert for this long, and returns the transactions per second.
    pub(crate) fn drive(&self, insert: Insert, clients: usize, seconds: u32) -> anyhow::Result<f64> {
        let script = self.directory.join(insert.name());
        fs::write(&script, insert.script())?;
        fs::set_permissions(&script, fs::Permissions::from_mode(0o644))?;
        let mut pgbench = self.client("pgbench");
        pgbench.args(["-n", "-M", "prepared", "-j", "2"]);
        pgbench.args(["-c", &clients.to_string(), "-T", &seconds.to_string()]).arg("-f").arg(&script);
        let output = text_of(&pgbench.output()?, "pgbench")?;
        let line = output.lines().find_map(|line| line.strip_prefix("tps = "));
        let figure = line.and_then(|line| line.split(' ').next()).context("pgbench names no rate")?;
        Ok(figure.parse()?)
    }

    /// An error if the numbers of any tenant have a gap.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        let gaps = self.query(
            "SELECT count(*) FROM (SELECT tenant, max(number) m, count(*) c FROM numbered GROUP BY tenant) t WHERE m <> c",
        )?;
        ensure!(gaps.trim() == "0", "the peer's counter rows have gaps in {} tenants", gaps.trim());
        Ok(())
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // PostgreSQL's fast shutdown.
        let pid = i32::try_from(self.server.id()).ok().and_then(Pid::from_raw);
        if pid.is_none_or(|pid| kill_process(pid, Signal::INT).is_err()) {
            let _ = self.server.kill();
        }
        let _ = self.server.wait();
    }
}

/// The programs of the newest version.
fn newest(place: &Path) -> Option<PathBuf> {
    let versions = fs::read_dir(place).ok()?.flatten();
    let version = |path: PathBuf| Some((path.file_name()?.to_str()?.parse::<u32>().ok()?, path.join("bin")));
    versions
        .filter_map(|entry| version(entry.path()))
        .filter(|(_, path)| path.join("pgbench").exists())
        .max()
        .map(|(_, path)| path)
}

fn find_user() -> anyhow::Result<User> {
    let users = fs::read_to_string("/etc/passwd")?;
    for name in USERS {
        let line = users.lines().find(|line| line.split(':').next() == Some(name));
        let Some(line) = line else { continue };
        let number = |place| line.split(':').nth(place).and_then(|field| field.parse().ok());
        if let (Some(id), Some(group)) = (number(2), number(3)) {
            return Ok(User { id, group });
        }
    }
    bail!("PostgreSQL refuses to run as root, and there is no user {}", USERS.join(" or "))
}

/// Gives other users access through the directory of this run.
fn allow_traversal(directory: &Path) -> anyhow::Result<()> {
    let parent = directory.parent().context("a directory without a parent")?;
    for passed in [parent, directory] {
        fs::set_permissions(passed, fs::Permissions::from_mode(0o755))?;
    }
    Ok(())
}

/// A program, run as another user if one is named.
fn program(user: Option<User>, path: &Path) -> Command {
    let Some(User { id, group }) = user else { return Command::new(path) };
    let mut command = Command::new("setpriv");
    command.args([format!("--reuid={id}"), format!("--regid={group}")]).arg("--clear-groups").arg(path);
    // The other user may not have access to the current directory of root.
    command.current_dir("/");
    command
}

fn text_of(output: &Output, name: &str) -> anyhow::Result<String> {
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let mut text = String::new();
    for line in String::from_utf8_lossy(&output.stderr).lines().take(3) {
        let _ = write!(text, " {line}");
    }
    bail!("{name} ended with {}:{text}", output.status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_are_one_statement() {
        let counted = Insert::Counted { tenants: 7 }.script();
        assert!(counted.starts_with("\\set tenant random(1, 7)\nWITH drawn AS (UPDATE"));
        assert_eq!(counted.matches(';').count(), 1);
        assert_eq!(Insert::Gappy.script().matches(';').count(), 1);
    }

    #[test]
    fn the_newest_version_is_taken_by_its_number() {
        let place = tempfile::tempdir().unwrap();
        for version in ["9", "15", "common"] {
            let programs = place.path().join(version).join("bin");
            fs::create_dir_all(&programs).unwrap();
            fs::write(programs.join("pgbench"), "").unwrap();
        }
        assert_eq!(newest(place.path()), Some(place.path().join("15/bin")));
    }
}
