//! One run, from its start to its end, and the client that follows it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use crate::client::{Client, is_stuck};
use crate::steps::{Dice, Program, SIGNAL, Tally, UPDATE};

/// The largest number of runs with a fault that are left stuck until the end. Each new process tries all of them again.
const LEFT_STUCK_MAX: usize = 40;

/// How long a stuck run may take to report its reason after the last restart of the server.
const OUTCOME_WAIT_MAX: Duration = Duration::from_secs(120);

/// A program that was started.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    pub(crate) id: String,
    pub(crate) program: Program,
    /// Whether it also receives input of the wrong type.
    pub(crate) gets_wrong_input: bool,
}

/// The state of all runs so far.
#[derive(Default)]
pub(crate) struct Runs {
    pub(crate) all: Mutex<Vec<Run>>,
    pub(crate) open: AtomicUsize,
    /// Runs with a loop that have not ended.
    pub(crate) loops: AtomicUsize,
    pub(crate) left_stuck: AtomicUsize,
    /// Good runs that had to be retried, because an activation took too long on a busy machine.
    pub(crate) late: AtomicU64,
    /// How many stuck runs reported their reason, by fault.
    pub(crate) reasons: Mutex<BTreeMap<String, u64>>,
    /// Violations of what is checked.
    pub(crate) wrong: Mutex<Vec<String>>,
}

impl Runs {
    pub(crate) fn report(&self, text: String) {
        println!("WRONG: {text}");
        self.wrong.lock().unwrap().push(text);
    }

    pub(crate) fn take_wrong(&self) -> Vec<String> {
        std::mem::take(&mut self.wrong.lock().unwrap())
    }
}

/// Starts a run, sends the signals and updates that it waits for, and follows it until it has ended or is left stuck.
pub(crate) async fn follow(client: Client, runs: Arc<Runs>, run: Run, dice: Dice) {
    runs.open.fetch_add(1, Ordering::Relaxed);
    let has_loop = run.program.has_loop();
    runs.loops.fetch_add(usize::from(has_loop), Ordering::Relaxed);
    let mut follower = RunFollower { client, runs: Arc::clone(&runs), run, dice };
    follower.follow().await;
    runs.loops.fetch_sub(usize::from(has_loop), Ordering::Relaxed);
    runs.open.fetch_sub(1, Ordering::Relaxed);
}

struct RunFollower {
    client: Client,
    runs: Arc<Runs>,
    run: Run,
    dice: Dice,
}

impl RunFollower {
    async fn follow(&mut self) {
        let (id, input) = (self.run.id.clone(), json!(self.run.program));
        let body = json!({"type": "program", "id": id, "input": input});
        let (status, answer) = self.client.post("/v1/workflows", Some(&id), &body).await;
        if status != 201 {
            return self.runs.report(format!("the start of {id} was answered {status} {answer}"));
        }
        self.runs.all.lock().unwrap().push(self.run.clone());
        self.signal().await;
        self.update().await;
        self.wait().await;
    }

    async fn signal(&mut self) {
        for number in 0..self.run.program.signals() {
            if self.run.gets_wrong_input {
                self.send("signals/go", &format!("wrong-{number}"), &json!("many"), 200).await;
            }
            self.send("signals/go", &format!("go-{number}"), &json!(SIGNAL), 200).await;
        }
    }

    async fn update(&mut self) {
        for number in 0..self.run.program.updates {
            if self.run.gets_wrong_input {
                self.send("updates/add", &format!("wrong-{number}"), &json!("many"), 400).await;
                self.send("updates/add", &format!("zero-{number}"), &json!(0), 400).await;
            }
            self.send("updates/add", &format!("add-{number}"), &json!(UPDATE), 200).await;
        }
    }

    /// Sends a signal or an update to the run until it is answered.
    async fn send(&self, what: &str, key: &str, input: &Value, expected: u16) {
        let (path, key) = (format!("/v1/workflows/{}/{what}", self.run.id), format!("{what}-{key}"));
        loop {
            let (status, answer) = self.client.post(&path, Some(&key), &json!({"input": input})).await;
            match status {
                _ if status == expected => return,
                503 if is_stuck(&answer) && self.run.program.fault().is_none() => self.retry_late_run().await,
                // The run is stuck: it accepts nothing, and will not end by itself.
                503 | 409 if self.run.program.fault().is_some() => return,
                _ => {
                    let id = &self.run.id;
                    return self.runs.report(format!("{what} of {id} was answered {status} {answer}"));
                }
            }
        }
    }

    /// Retries a good run that is stuck because an activation took too long while others used the processors.
    async fn retry_late_run(&self) {
        let (_, shown) = self.client.get(&format!("/v1/workflows/{}", self.run.id)).await;
        match shown["stuck"].as_str() {
            Some(reason) if !reason.contains("has not returned for") => {
                self.runs.report(format!("{} has no fault, and is stuck: {reason}", self.run.id));
            }
            _ => drop(self.runs.late.fetch_add(1, Ordering::Relaxed)),
        }
        self.client.post(&format!("/v1/workflows/{}/retry", self.run.id), None, &json!({})).await;
        self.client.env.sleep(Duration::from_millis(500)).await;
    }

    async fn wait(&mut self) {
        let fault = self.run.program.fault();
        let mut retries = if self.dice.one_in(4) { 1 } else { 0 };
        loop {
            let (status, shown) = self.client.get(&format!("/v1/workflows/{}?wait=1", self.run.id)).await;
            if status != 200 {
                let id = &self.run.id;
                return self.runs.report(format!("{id} was started, and is answered {status} {shown}"));
            }
            if shown["status"] != "running" {
                return;
            }
            let Some(fault) = fault else {
                if shown["stuck"].is_string() {
                    self.retry_late_run().await;
                }
                continue;
            };
            let Some((id, reason)) = stuck_below(&self.client, &self.run.id).await else { continue };
            if !reason.contains(fault.reason()) && !reason.contains("has not returned for") {
                return self.runs.report(format!("{id} has the fault {fault:?}, and is stuck: {reason}"));
            }
            *self.runs.reasons.lock().unwrap().entry(format!("{fault:?}")).or_default() += 1;
            if retries > 0 {
                retries -= 1;
                self.client.post(&format!("/v1/workflows/{id}/retry"), None, &json!({})).await;
                continue;
            }
            let is_left = !self.run.program.has_loop() && self.dice.one_in(4);
            if is_left && self.runs.left_stuck.fetch_add(1, Ordering::Relaxed) < LEFT_STUCK_MAX {
                return;
            }
            let path = format!("/v1/workflows/{id}/terminate");
            self.client.post(&path, Some("end"), &json!({"reason": "it is stuck"})).await;
        }
    }
}

/// The stuck run and its reason: the run itself, or a child that it waits for.
pub(crate) async fn stuck_below(client: &Client, id: &str) -> Option<(String, String)> {
    let mut waiting = vec![id.to_owned()];
    while let Some(id) = waiting.pop() {
        let (_, shown) = client.get(&format!("/v1/workflows/{id}")).await;
        if let Some(reason) = shown["stuck"].as_str() {
            return Some((id, reason.to_owned()));
        }
        let pending = shown["pending"].as_array().into_iter().flatten();
        let children = pending.filter(|operation| operation["kind"] == "child_workflow");
        waiting.extend(children.filter_map(|child| child["target"].as_str()).map(str::to_owned));
    }
    None
}

/// How a run ended, and the effects in its result; or what is wrong with it.
pub(crate) async fn verdict(client: &Client, run: &Run) -> Result<(&'static str, Vec<String>), String> {
    let (id, program) = (&run.id, &run.program);
    let (status, shown) = client.get(&format!("/v1/workflows/{id}")).await;
    let until = client.env.instant() + OUTCOME_WAIT_MAX;
    // A new process tries a stuck run again: until then the run is only open, without a reason.
    while shown["status"] == "running"
        && client.env.instant() < until
        && stuck_below(client, id).await.is_none()
    {
        client.env.sleep(Duration::from_millis(200)).await;
    }
    if status != 200 {
        return Err(format!("{id} is lost: {status} {shown}"));
    }
    match (shown["status"].as_str().unwrap_or_default(), program.fault()) {
        ("completed", None) => {
            let tally: Tally = serde_json::from_value(shown["result"].clone())
                .map_err(|error| format!("the result of {id}: {error}"))?;
            if tally.sum == program.sum() {
                return Ok(("completed", tally.effects));
            }
            Err(format!("{id} ended with {}, not with {}: {program:?}", tally.sum, program.sum()))
        }
        ("terminated", Some(_)) => Ok(("terminated while it was stuck", Vec::new())),
        // Its child was terminated.
        ("failed", Some(_)) => Ok(("failed after its child was terminated", Vec::new())),
        ("running", Some(fault)) => match stuck_below(client, id).await {
            Some((_, reason)) if reason.contains(fault.reason()) => Ok(("stuck with its reason", Vec::new())),
            Some((_, reason)) => Err(format!("{id} has the fault {fault:?}, and is stuck: {reason}")),
            None => Err(format!("{id} is neither ended nor stuck: {shown}")),
        },
        (status, fault) => Err(format!("{id} with fault {fault:?} is {status}: {shown}")),
    }
}
