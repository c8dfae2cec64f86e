//! The binary and a real Temporal server.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::json;
use seriatim_env::Env;
use seriatim_temporal::devserver::{Data, DevServer, Ended};
use support::Folder;

/// `seriatim worker` that is ready; killed when it is dropped.
struct Worker(Child);

impl Worker {
    fn start(folder: &Folder, arguments: &[&str]) -> Self {
        let all: Vec<&str> = ["worker"].iter().chain(arguments).copied().collect();
        let mut worker = Self(folder.command(&all).stderr(Stdio::piped()).spawn().unwrap());
        let mut line = String::new();
        let mut stderr = BufReader::new(worker.0.stderr.take().unwrap());
        stderr.read_line(&mut line).unwrap();
        assert!(line.starts_with("seriatim works on the queue "), "{line}");
        worker.0.stderr = Some(stderr.into_inner());
        worker
    }

    /// Ends it with a signal; returns its exit code.
    fn end(mut self, signal: &str) -> i32 {
        let killed = Command::new("kill").args([signal, &self.0.id().to_string()]).status().unwrap();
        assert!(killed.success());
        self.0.wait().unwrap().code().unwrap()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_runs_the_demo_and_its_histories_are_fetched_and_replayed() {
    let env = Env::real();
    let untested = "neither `worker` nor `replay --from-temporal` was tried";
    let Some(server) = DevServer::start_or_skip(&env, Data::Memory, untested).await else { return };
    let folder = Folder::new();
    let metrics = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let at = ["--temporal", server.address(), "--task-queue", "demo"];
    let worker = Worker::start(&folder, &[&at[..], &["--metrics", &metrics]].concat());
    server.begin("demo", "greet", "greeting", &[json!("Ada")]).await;
    assert_eq!(server.ended("greeting").await, Ended::Completed(json!("Hello, Ada!")));
    // The worker counts a run after the server has confirmed its end. Other clients may learn of the end before that.
    let mut measured = String::new();
    for _ in 0..300 {
        measured = get(&metrics, "/metrics");
        if measured.contains("temporal_workflow_completed") {
            break;
        }
        env.sleep(Duration::from_millis(100)).await;
    }
    assert!(
        measured.starts_with("HTTP/1.1 200") && measured.contains("temporal_workflow_completed"),
        "{measured}"
    );

    let from = ["replay", "--from-temporal", server.address(), "--workflow-id", "greeting"];
    let same = folder.run(&[&from[..], &["--save", "greeting.bin"]].concat()).fine();
    assert!(same.starts_with("greeting: same: greet "), "{same}");
    assert_eq!(
        folder.run(&["replay", "greeting.bin"]).fine(),
        same.replacen("greeting:", "greeting.bin:", 1)
    );
    let json = folder.run(&[&from[..], &["--json"]].concat()).json();
    assert_eq!((&json[0]["file"], &json[0]["report"]["same"]), (&json!("greeting"), &json!(true)));

    // As if the activity had another name when the history was made.
    let history = std::fs::read(folder.join("greeting.bin")).unwrap();
    std::fs::write(folder.join("changed.bin"), rename(&history, b"\n\x08greeting", b"\n\x08saluting"))
        .unwrap();
    let different = folder.run(&["replay", "changed.bin"]);
    assert_eq!(different.code, 1, "{different:?}");
    assert!(different.stdout.starts_with("changed.bin: DIFFERENT: greet "), "{different:?}");
    assert!(different.stdout.contains("saluting") && different.stdout.contains("greeting"), "{different:?}");

    let unknown = [&from[..4], &["missing"]].concat();
    assert!(folder.run(&unknown).fails(2).contains("no workflow missing in namespace default"));
    let elsewhere = folder.run(&[&from[..], &["--namespace", "elsewhere"]].concat()).fails(2);
    assert!(elsewhere.contains("elsewhere"), "{elsewhere}");
    assert_eq!(worker.end("-TERM"), 0);
    assert_eq!(
        Worker::start(&folder, &["--temporal", server.address(), "--task-queue", "other"]).end("-INT"),
        0
    );
}

/// Every occurrence replaced by one of the same length.
fn rename(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let mut renamed = bytes.to_vec();
    let found: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at..].starts_with(from)).collect();
    assert!(!found.is_empty());
    for at in found {
        renamed[at..at + to.len()].copy_from_slice(to);
    }
    renamed
}

#[test]
fn errors_of_a_cluster_are_explained() {
    let folder = Folder::new();
    let run = |arguments: &[&str]| {
        folder.run(&[&["replay", "--workflow-id", "w", "--from-temporal"], arguments].concat())
    };
    let plain = run(&["http://127.0.0.1:1", "--api-key", "key"]).fails(2);
    assert!(plain.contains("write https://") && !plain.contains("key\n"), "{plain}");
    assert!(run(&["ftp://127.0.0.1:1"]).fails(2).contains("write http:// or https://"));
    assert!(run(&["127.0.0.1:1", "--tls-ca", "none.pem"]).fails(2).contains("none.pem"));
    assert!(run(&["127.0.0.1:1", "--tls-cert", "none.pem"]).fails(2).contains("--tls-key"));
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let busy =
        folder.run(&["worker", "--temporal", "127.0.0.1:1", "--task-queue", "q", "--metrics", &address]);
    assert!(busy.fails(3).contains(&address));
}
