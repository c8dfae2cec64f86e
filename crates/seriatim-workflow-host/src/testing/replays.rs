//! Histories that were kept are replayed on the code of today.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use seriatim_temporal_history::AnyHistory;
use seriatim_workflow::{Policy, Registry};

/// Replays each history of a file, or of all files in a folder and those below it, on the registered code. All forms
/// that [`AnyHistory`] reads are taken: what `GET /v1/workflows/{id}/history` answers, and Temporal's, JSON or binary.
///
/// ```
/// # use seriatim_workflow::{Context, Exit, Registry};
/// # async fn greet(_: Context, name: String) -> Result<String, Exit> { Ok(name) }
/// # let histories = std::env::temp_dir().join(format!("seriatim-histories-{}", std::process::id()));
/// # std::fs::create_dir_all(&histories)?;
/// # std::fs::write(histories.join("greet.json"), r#"{"steps": []}"#)?;
/// let workflows = Registry::new().workflow("greet", greet);
/// seriatim_workflow_host::testing::assert_replays(&workflows, &histories);
/// # std::fs::remove_dir_all(&histories)?;
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Panics
///
/// With all reports of histories that differ, and of files that cannot be read; and if there is no history at all: then
/// the test would show nothing.
pub fn assert_replays(workflows: &Registry, path: impl AsRef<Path>) {
    let path = path.as_ref();
    let workflows = Arc::new(workflows.clone());
    let (mut replayed, mut problems) = (0, Vec::new());
    let mut files = Vec::new();
    if let Err(error) = collect(path, &mut files) {
        panic!("{}: {error}: name a history, or a folder with histories", path.display());
    }
    for file in files {
        let read = std::fs::read(&file).map_err(|error| error.to_string());
        let histories = read.and_then(|bytes| AnyHistory::read_all(bytes).map_err(|error| error.to_string()));
        let histories = histories.unwrap_or_else(|error| {
            problems.push(format!("{}: {error}", file.display()));
            Vec::new()
        });
        for history in histories {
            replayed += 1;
            let report = history.replay(&workflows, Policy::Fail);
            if !report.is_same() {
                problems.push(format!("{}: {report}", file.display()));
            }
        }
    }
    assert!(problems.is_empty(), "{replayed} histories replayed:\n{}", problems.join("\n"));
    assert!(replayed > 0, "{} has no history: nothing was replayed", path.display());
}

/// The files at this path, in order.
fn collect(path: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    if !path.is_dir() {
        // A file that does not exist is reported when it is read.
        path.metadata()?;
        files.push(path.to_owned());
        return Ok(());
    }
    let mut below: Vec<PathBuf> = Vec::new();
    for entry in std::fs::read_dir(path)? {
        below.push(entry?.path());
    }
    below.sort();
    below.iter().try_for_each(|path| collect(path, files))
}
