//! Histories that were tampered with: each change is found, in the activation where it is; but for two kinds that cannot
//! be found, which are shown to be just those.
//!
//! The mark of a patch is a case of its own. Without it the run is one from before the patch existed, and the code goes
//! the old way: the loss shows where old and new ask for different things, and is none where they do not.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::result_large_err, reason = "failures are rare")]

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use common::json;
use common::program::{Chance, play};
use seriatim_workflow::*;

const HISTORIES: u64 = 400;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Mutation {
    Dropped,
    Inserted,
    Repeated,
    ReorderedInBranch,
    ReorderedAcrossBranches,
    AlteredKind,
    AlteredName,
    AlteredInput,
    AlteredDuration,
    AlteredTarget,
    LastAnswerOfOpenHistory,
    PatchMarkLost,
}

/// The two that cannot be found: nothing in the history contradicts them.
const UNDETECTABLE: [Mutation; 2] = [Mutation::ReorderedAcrossBranches, Mutation::LastAnswerOfOpenHistory];

/// The history with one change; none if it does not apply there.
fn mutate(history: &History, mutation: Mutation, step: usize, at: usize) -> Option<History> {
    let mut history = history.clone();
    let is_last = step + 1 == history.steps.len();
    let commands = history.steps[step].commands.as_mut().unwrap();
    if (commands[at].kind() == CommandKind::SetPatch) != (mutation == Mutation::PatchMarkLost)
        && matches!(mutation, Mutation::PatchMarkLost | Mutation::Dropped | Mutation::AlteredName)
    {
        return None;
    }
    match mutation {
        Mutation::PatchMarkLost | Mutation::Dropped => drop(commands.remove(at)),
        Mutation::Inserted => {
            let path = "/9999#1".parse().unwrap();
            let (seq, lineage) = (CommandSeq::new(77_777), Lineage { path, digest: InputDigest::NONE });
            commands.insert(at, Command::StartTimer { seq, lineage, duration: Duration::from_secs(1) });
        }
        Mutation::Repeated => commands.insert(at, commands[at].clone()),
        Mutation::ReorderedInBranch | Mutation::ReorderedAcrossBranches => {
            let branch =
                |command: &Command| command.path().map_or_else(Branch::main, |path| path.branch.clone());
            let is_same = branch(&commands[at]) == branch(commands.get(at + 1)?);
            if is_same != (mutation == Mutation::ReorderedInBranch) {
                return None;
            }
            commands.swap(at, at + 1);
        }
        Mutation::AlteredKind => commands[at] = another_kind(&commands[at])?,
        Mutation::AlteredName => match &mut commands[at] {
            Command::ScheduleActivity { activity_type: name, .. }
            | Command::ScheduleLocalActivity { activity_type: name, .. }
            | Command::StartChild { workflow_type: name, .. }
            | Command::SignalExternal { name, .. } => name.push('x'),
            Command::Fail { failure } => failure.message.push('x'),
            _ => return None,
        },
        Mutation::AlteredInput => match &mut commands[at] {
            Command::ScheduleActivity { input, lineage, .. }
            | Command::ScheduleLocalActivity { input, lineage, .. }
            | Command::StartChild { input, lineage, .. }
            | Command::SignalExternal { input, lineage, .. } => {
                input[0] = json("another");
                lineage.digest = InputDigest::of(input);
            }
            Command::Complete { result } => *result = Some(json("another")),
            _ => return None,
        },
        Mutation::AlteredDuration => match &mut commands[at] {
            Command::StartTimer { duration, .. } => *duration += Duration::from_millis(1),
            _ => return None,
        },
        Mutation::AlteredTarget => match &mut commands[at] {
            Command::ScheduleActivity { options, .. } => options.task_queue.push('x'),
            Command::StartChild { options, .. } => options.workflow_id.push('x'),
            Command::SignalExternal { target: SignalTarget::Workflow(target), .. }
            | Command::CancelExternal { target, .. } => target.workflow_id.push('x'),
            _ => return None,
        },
        Mutation::LastAnswerOfOpenHistory => {
            if !is_last || commands.iter().any(|command| command.kind().ends_the_run()) {
                return None;
            }
            history.steps[step].commands = None;
        }
    }
    Some(history)
}

fn another_kind(command: &Command) -> Option<Command> {
    Some(match command.clone() {
        Command::StartTimer { lineage, .. } => {
            let (activity_type, input, options) = ("a".to_owned(), vec![], Box::default());
            Command::ScheduleActivity { seq: CommandSeq::new(66_666), lineage, activity_type, input, options }
        }
        Command::ScheduleActivity { lineage, activity_type, input, .. } => Command::ScheduleLocalActivity {
            seq: CommandSeq::new(66_666),
            lineage,
            activity_type,
            input,
            options: Box::default(),
        },
        Command::ScheduleLocalActivity { lineage, activity_type, input, .. } => {
            let options = Box::default();
            Command::ScheduleActivity { seq: CommandSeq::new(66_666), lineage, activity_type, input, options }
        }
        Command::CancelExternal { seq, lineage, target, .. } => Command::SignalExternal {
            seq: CommandSeq::new(seq.get()),
            lineage,
            target: SignalTarget::Workflow(target),
            name: String::new(),
            input: vec![],
            headers: Headers::new(),
        },
        Command::CancelTimer { seq, path } => {
            Command::CancelActivity { seq: CommandSeq::new(seq.get()), path }
        }
        Command::CancelActivity { seq, path } => {
            Command::CancelTimer { seq: CommandSeq::new(seq.get()), path }
        }
        Command::Complete { .. } => Command::Cancelled,
        Command::Cancelled => Command::Complete { result: None },
        _ => return None,
    })
}

const ALL: [Mutation; 12] = [
    Mutation::Dropped,
    Mutation::Inserted,
    Mutation::Repeated,
    Mutation::ReorderedInBranch,
    Mutation::ReorderedAcrossBranches,
    Mutation::AlteredKind,
    Mutation::AlteredName,
    Mutation::AlteredInput,
    Mutation::AlteredDuration,
    Mutation::AlteredTarget,
    Mutation::LastAnswerOfOpenHistory,
    Mutation::PatchMarkLost,
];

fn check(
    seed: u64,
    registry: &Arc<Registry>,
    original: &History,
    mutation: Mutation,
    step: usize,
    at: usize,
) -> Option<bool> {
    let mutated = mutate(original, mutation, step, at)?;
    let report = replay(registry, &mutated, Policy::Fail);
    let place = format!("seed {seed}, {mutation:?} at step {step}, command {at}");
    if UNDETECTABLE.contains(&mutation) {
        assert!(report.is_same(), "{place}: cannot be found, and was: {report}");
        return Some(false);
    }
    if mutation == Mutation::PatchMarkLost && report.is_same() {
        return Some(false);
    }
    assert!(!report.is_same(), "{place}: was not found");
    let [first] = &report.differences[..] else { panic!("{place}: {report}") };
    if mutation == Mutation::PatchMarkLost {
        assert!(first.activation as usize > step, "{place}: {report}");
    } else {
        assert_eq!(first.activation as usize, step + 1, "{place}: found too late: {report}");
    }
    let changed = &original.steps[step].commands.as_ref().unwrap()[at];
    let altered = matches!(
        mutation,
        Mutation::AlteredKind | Mutation::AlteredInput | Mutation::AlteredDuration | Mutation::AlteredTarget
    );
    if altered {
        let DifferenceKind::Altered { fields } = &first.kind else { panic!("{place}: {report}") };
        assert!(!fields.is_empty());
        assert_eq!(first.expected.as_ref().unwrap().path.as_ref(), changed.path(), "{place}: {report}");
    }
    Some(true)
}

#[test]
fn every_change_is_found_but_for_two_kinds() {
    let mut counts: BTreeMap<Mutation, (usize, usize)> = BTreeMap::new();
    for seed in 0..HISTORIES {
        let mut chance = Chance(seed);
        // Some end, some are left open.
        let (registry, history) = play(seed, 3, if seed % 2 == 0 { 60 } else { 6 });
        for mutation in ALL {
            for _ in 0..if mutation == Mutation::PatchMarkLost { 30 } else { 3 } {
                let step = match mutation {
                    Mutation::LastAnswerOfOpenHistory => history.steps.len() - 1,
                    _ => chance.index(history.steps.len()),
                };
                let len = history.steps[step].commands.as_ref().unwrap().len();
                if len == 0 {
                    continue;
                }
                if let Some(is_found) = check(seed, &registry, &history, mutation, step, chance.index(len)) {
                    let (found, made) = counts.entry(mutation).or_default();
                    *found += usize::from(is_found);
                    *made += 1;
                }
            }
        }
    }
    for (mutation, (found, made)) in &counts {
        println!("{mutation:?}: {found} of {made} found");
        assert!(*made > 20, "{mutation:?} was hardly tried");
    }
    assert_eq!(counts.len(), ALL.len());
}

#[test]
fn a_change_in_one_branch_does_not_disturb_another() {
    const SECOND: Duration = Duration::from_secs(1);
    fn registry(is_changed: bool) -> Arc<Registry> {
        Arc::new(Registry::new().workflow("test", move |ctx: Context, (): ()| async move {
            ctx.join(
                move |ctx| async move {
                    if is_changed {
                        drop(ctx.timer(2 * SECOND));
                    }
                    ctx.timer(SECOND).await.is_ok()
                },
                |ctx| async move { ctx.timer(3 * SECOND).await.is_ok() },
            )
            .await;
            Ok(())
        }))
    }
    let activation = Activation::new("run", Time::default(), vec![common::start("test", ())]);
    let mut instance = Instance::new(registry(false), InstanceOptions::default());
    let commands = instance.activate(activation.clone()).outcome.unwrap();
    let numbers = |commands: &[Command], path: &str| {
        let found = commands.iter().find(|command| command.path().unwrap().to_string() == path);
        found.unwrap().seq().unwrap().1
    };
    assert_eq!((numbers(&commands, "/1#1"), numbers(&commands, "/2#1")), (1, 2));
    let mut history = History::default();
    history.push(activation.clone(), commands);

    let report = replay(&registry(true), &history, Policy::Fail);
    let text = report.to_string();
    assert!(text.contains("activation 1: another duration"), "{text}");
    assert!(text.contains("expected: start_timer 1 at /1#1 for 1s"), "{text}");
    assert!(text.contains("actual:   start_timer 1 at /1#1 for 2s"), "{text}");
    assert!(text.contains("issued at crates/seriatim-workflow/tests/mutation.rs:"), "{text}");

    // Where differences are only noted, the new operation gets a number above all, and the other branch keeps its own.
    let numbering = Numbering::ByLineage(history.recorded());
    let mut instance = Instance::new(registry(true), InstanceOptions { numbering, policy: Policy::Warn });
    let commands = instance.activate(activation.replaying(true)).outcome.unwrap();
    assert_eq!(numbers(&commands, "/1#2"), 3);
    assert_eq!(numbers(&commands, "/2#1"), 2);
    let kinds: Vec<_> = instance.differences().into_iter().map(|difference| difference.kind).collect();
    assert_eq!(kinds, [DifferenceKind::Altered { fields: vec![Field::Duration] }, DifferenceKind::Inserted]);
    // And its timer fires.
    let fired = Activation::new("run", Time::default(), vec![Job::FireTimer { seq: CommandSeq::new(2) }]);
    assert_eq!(instance.activate(fired).outcome, Ok(vec![]));
}

#[test]
fn zero_and_gaps_are_legal_in_a_history() {
    let registry = Arc::new(Registry::new().workflow("test", |ctx: Context, (): ()| async move {
        let timers = [1, 2, 3].map(|seconds| ctx.timer(Duration::from_secs(seconds)));
        for timer in timers {
            timer.await?;
        }
        Ok(ctx.timer(Duration::from_secs(4)).await?)
    }));
    let timer = |seq: u32, path: &str, seconds: u64| Command::StartTimer {
        seq: CommandSeq::new(seq),
        lineage: Lineage { path: path.parse().unwrap(), digest: InputDigest::NONE },
        duration: Duration::from_secs(seconds),
    };
    let old = [timer(5, "/#1", 1), timer(0, "/#2", 2), timer(2, "/#3", 3)];
    let numbering = Numbering::ByLineage([&old[..]].into_iter().collect());
    let mut instance = Instance::new(registry, InstanceOptions { numbering, policy: Policy::Fail });
    let mut tell = |jobs| instance.activate(Activation::new("run", Time::default(), jobs)).outcome.unwrap();
    assert_eq!(tell(vec![common::start("test", ())]), old);
    let fire = |seq| Job::FireTimer { seq: CommandSeq::new(seq) };
    assert_eq!(tell(vec![fire(0), fire(2), fire(5)]), [timer(6, "/#4", 4)], "above all that are recorded");
}

#[test]
fn a_command_that_moved_to_another_activation_is_found() {
    let registry = |waits: bool| {
        Arc::new(Registry::new().workflow("test", move |ctx: Context, (): ()| async move {
            let timer = ctx.timer(Duration::from_secs(1));
            if waits {
                timer.await?;
            }
            Ok(ctx.activity::<_, ()>("work", ()).await?)
        }))
    };
    let mut history = History::default();
    let mut instance = Instance::new(registry(true), InstanceOptions::default());
    for jobs in [vec![common::start("test", ())], vec![Job::FireTimer { seq: CommandSeq::new(1) }]] {
        let activation = Activation::new("run", Time::default(), jobs);
        history.push(activation.clone(), instance.activate(activation).outcome.unwrap());
    }
    let report = replay(&registry(false), &history, Policy::Fail);
    assert_eq!(report.differences[0].kind, DifferenceKind::Moved { recorded_in: 2 });
    assert_eq!(report.differences[0].activation, 1);
    let same = replay(&registry(true), &history, Policy::Fail);
    let xml = junit([("a<b", &same), ("b", &report)]);
    assert!(xml.contains("<testsuite name=\"replay\" tests=\"2\" failures=\"1\">"), "{xml}");
    assert!(xml.contains("<testcase classname=\"test\" name=\"a&lt;b\"/>"), "{xml}");
    assert!(
        xml.contains("activation 1: the history has it in activation 2\n  expected: schedule_activity"),
        "{xml}"
    );
    let json = report.to_json();
    assert_eq!((&json["same"], &json["differences"][0]["how"]), (&false.into(), &"moved".into()));
}
