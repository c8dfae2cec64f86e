//! The server's program: one build per machine, in the folder where the gate `.ci/run` keeps what it has installed.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

/// As in `.ci/run`: a new version is installed beside the old one.
const VERSION: &str = "1.5.1";

/// Where the program is, built if need be and possible; else why it is not.
pub(super) fn find() -> Result<PathBuf, String> {
    let folder = cache().ok_or("there is no home folder to keep it in: set XDG_CACHE_HOME")?;
    let place = folder.join(format!("temporal-{VERSION}"));
    let program = place.join("temporal");
    if program.exists() {
        return Ok(program);
    }
    let failed = |error: std::io::Error| format!("{}: {error}", place.display());
    fs::create_dir_all(&folder).map_err(failed)?;
    // Held until this function returns: a second process then finds the program.
    let lock = File::create(folder.join(format!("temporal-{VERSION}.lock"))).map_err(failed)?;
    lock.lock().map_err(failed)?;
    if !program.exists() {
        build(&folder, &place)?;
    }
    Ok(program)
}

fn cache() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")))?;
    Some(cache.join("seriatim-ci"))
}

/// Built beside its place and moved there whole, so that no process sees half a program.
fn build(folder: &Path, place: &Path) -> Result<(), String> {
    let scratch = tempfile::tempdir_in(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let package = format!("github.com/temporalio/cli/cmd/temporal@v{VERSION}");
    let built =
        Command::new("go").args(["install", "-p", "2", &package]).env("GOBIN", scratch.path()).output();
    let output = built.map_err(|error| format!("it is built with Go, and `go` does not run: {error}"))?;
    if !output.status.success() {
        return Err(format!("`go install {package}` failed: {}", String::from_utf8_lossy(&output.stderr)));
    }
    fs::create_dir_all(place)
        .and_then(|()| fs::rename(scratch.path().join("temporal"), place.join("temporal")))
        .map_err(|error| format!("{}: {error}", place.display()))
}
