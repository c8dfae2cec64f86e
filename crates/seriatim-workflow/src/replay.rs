//! Replay: the same activations are given to the code again, and what it asks for is compared with what it asked for
//! then.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    Activation, ActivationFailure, Command, Difference, Instance, InstanceOptions, Job, Numbering, Policy,
    Recorded, Registry,
};

/// A run's history in our own form: each activation with the commands that answered it.
///
/// ```
/// use seriatim_workflow::*;
/// use std::{sync::Arc, time::Duration};
///
/// let registry = Arc::new(Registry::new().workflow("nap", |ctx: Context, seconds: u64| async move {
///     Ok(ctx.timer(Duration::from_secs(seconds)).await?)
/// }));
/// let start = Start::new("nap", "nap-1", vec![Payload::json(&5)?]);
/// let activation = Activation::new("run-1", Time::default(), vec![Job::Start(start.into())]);
/// let completion = Instance::new(Arc::clone(&registry), InstanceOptions::default()).activate(activation.clone());
/// let mut history = History::default();
/// history.push(activation, completion.outcome?);
/// assert!(replay(&registry, &history, Policy::Fail).is_same());
///
/// // The code is changed while runs are open.
/// let changed = Arc::new(Registry::new().workflow("nap", |ctx: Context, seconds: u64| async move {
///     Ok(ctx.timer(Duration::from_secs(2 * seconds)).await?)
/// }));
/// let report = replay(&changed, &history, Policy::Fail);
/// assert!(report.to_string().contains("expected: start_timer 1 at /#1 for 5s"));
/// assert!(report.to_string().contains("actual:   start_timer 1 at /#1 for 10s"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct History {
    /// The activations, from the first.
    pub steps: Vec<Step>,
}

/// One activation and its answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// The jobs of the run.
    pub activation: Activation,
    /// What it asked for; none if it has not answered yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commands: Option<Vec<Command>>,
}

impl History {
    /// Adds an activation and its answer.
    pub fn push(&mut self, activation: Activation, commands: Vec<Command>) {
        self.steps.push(Step { activation, commands: Some(commands) });
    }

    /// The answered steps.
    pub fn answered(&self) -> impl Iterator<Item = (&Activation, &[Command])> {
        self.steps.iter().map_while(|step| Some((&step.activation, step.commands.as_deref()?)))
    }

    /// The commands, for an instance that is to continue where the history ends.
    #[must_use]
    pub fn recorded(&self) -> Recorded {
        self.answered().map(|(_, commands)| commands).collect()
    }

    /// Name of the workflow's code.
    #[must_use]
    pub fn workflow_type(&self) -> &str {
        let start = self.steps.iter().flat_map(|step| &step.activation.jobs).find_map(|job| match job {
            Job::Start(start) => Some(start.workflow_type.as_str()),
            _ => None,
        });
        start.unwrap_or_default()
    }
}

/// What a replay has shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Name of the workflow's code.
    pub workflow_type: String,
    /// The run.
    pub run_id: String,
    /// How many activations were replayed.
    pub activations: usize,
    /// How many commands were compared.
    pub commands: usize,
    /// What is different; the first only, unless differences are just noted.
    pub differences: Vec<Difference>,
    /// Why the replay could not continue, other than a difference.
    pub failure: Option<ActivationFailure>,
}

impl Report {
    /// Whether the code does what the history says, to its end.
    #[must_use]
    pub fn is_same(&self) -> bool {
        self.differences.is_empty() && self.failure.is_none()
    }

    /// As JSON.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::json!({
            "same": self.is_same(),
            "workflow_type": self.workflow_type,
            "run_id": self.run_id,
            "activations": self.activations,
            "commands": self.commands,
            "differences": self.differences,
            "failure": self.failure.as_ref().map(ToString::to_string),
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.is_same() { "same" } else { "DIFFERENT" };
        let Self { workflow_type, run_id, activations, commands, .. } = self;
        write!(f, "{verdict}: {workflow_type} {run_id}, {activations} activations, {commands} commands")?;
        self.differences.iter().try_for_each(|difference| write!(f, "\n{difference}"))?;
        self.failure.as_ref().map_or(Ok(()), |failure| write!(f, "\n{failure}"))
    }
}

/// Reports in JUnit's XML, as CI systems read it: one test case for each history, by the name given with it.
#[must_use]
pub fn junit<'a>(reports: impl IntoIterator<Item = (&'a str, &'a Report)>) -> String {
    let (mut cases, mut tests, mut failures) = (String::new(), 0, 0);
    for (name, report) in reports {
        tests += 1;
        let (name, class) = (escape(name), escape(&report.workflow_type));
        if report.is_same() {
            cases.push_str(&format!("  <testcase classname=\"{class}\" name=\"{name}\"/>\n"));
            continue;
        }
        failures += 1;
        let text = escape(&report.to_string());
        cases.push_str(&format!("  <testcase classname=\"{class}\" name=\"{name}\">\n"));
        cases.push_str(&format!(
            "    <failure message=\"code and history differ\">{text}</failure>\n  </testcase>\n"
        ));
    }
    let suite = format!("<testsuite name=\"replay\" tests=\"{tests}\" failures=\"{failures}\">");
    format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{suite}\n{cases}</testsuite>\n")
}

/// Text as XML has it. Control characters, which XML cannot have, become a replacement character.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '"' => escaped.push_str("&quot;"),
            '\n' | '\t' => escaped.push(letter),
            control if control.is_control() => escaped.push(char::REPLACEMENT_CHARACTER),
            other => escaped.push(other),
        }
    }
    escaped
}

/// Replays a history on the registered code.
///
/// It stops at the first difference, or notes all of them and continues, as the policy says. A step that was not answered
/// yet is not replayed.
#[must_use]
pub fn replay(registry: &Arc<Registry>, history: &History, policy: Policy) -> Report {
    let numbering = Numbering::ByLineage(history.recorded());
    let mut instance = Instance::new(Arc::clone(registry), InstanceOptions { numbering, policy });
    let mut report = Report {
        workflow_type: history.workflow_type().to_owned(),
        run_id: history.steps.first().map(|step| step.activation.run_id.clone()).unwrap_or_default(),
        activations: 0,
        commands: 0,
        differences: Vec::new(),
        failure: None,
    };
    for (activation, commands) in history.answered() {
        report.activations += 1;
        report.commands += commands.len();
        let completion = instance.activate(activation.clone().replaying(true));
        if let Err(failure) = completion.outcome {
            report.failure = (!failure.is_nondeterminism()).then_some(failure);
            break;
        }
    }
    report.differences = instance.differences();
    report
}
