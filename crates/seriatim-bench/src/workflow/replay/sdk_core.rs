//! The core of the official Rust SDK replays a history; the code here only sends the commands of the workflow.

use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, bail, ensure};
use futures_util::stream;
use prost::Message as _;
use temporalio_common::protos::coresdk::workflow_activation::{WorkflowActivation, workflow_activation_job};
use temporalio_common::protos::coresdk::workflow_commands::{
    CompleteWorkflowExecution, ScheduleActivity, workflow_command,
};
use temporalio_common::protos::coresdk::workflow_completion::WorkflowActivationCompletion;
use temporalio_common::protos::temporal::api::history::v1::History;
use temporalio_common::worker::WorkerTaskTypes;
use temporalio_sdk_core::replay::{HistoryForReplay, ReplayWorkerInput};
use temporalio_sdk_core::{PollError, WorkerConfig, WorkerVersioningStrategy, init_replay_worker};
use tokio::runtime::Runtime;

use crate::workflow::core::ACTIVITY_S;

/// Decodes and replays a history, and returns replays per second.
pub(super) fn replay(runtime: &Runtime, bytes: &[u8], operations: u64) -> anyhow::Result<f64> {
    runtime.block_on(async {
        let started = Instant::now();
        let history = HistoryForReplay::new(History::decode(bytes)?, "bench");
        let strategy = WorkerVersioningStrategy::None { build_id: "bench".to_owned() };
        let config = WorkerConfig::builder()
            .namespace("bench")
            .task_queue("bench")
            .task_types(WorkerTaskTypes::workflow_only())
            .versioning_strategy(strategy)
            .build()
            .map_err(|error| anyhow!("{error}"))?;
        let worker = init_replay_worker(ReplayWorkerInput::new(config, stream::iter([history])))?;
        let (mut next, mut spent) = (0, None);
        loop {
            let activation = match worker.poll_workflow_activation().await {
                Ok(activation) => activation,
                Err(PollError::ShutDown) => break,
                Err(error) => bail!("{error}"),
            };
            let run_id = activation.run_id.clone();
            let commands = answer(&activation, operations, &mut next)?;
            let completion = WorkflowActivationCompletion::from_cmds(run_id, commands);
            worker.complete_workflow_activation(completion).await?;
            if next > operations && spent.is_none() {
                spent = Some(started.elapsed());
            }
        }
        worker.finalize_shutdown().await;
        let spent = spent.context("the replay did not end")?;
        Ok(1.0 / spent.as_secs_f64())
    })
}

fn answer(
    activation: &WorkflowActivation,
    operations: u64,
    next: &mut u64,
) -> anyhow::Result<Vec<workflow_command::Variant>> {
    use workflow_activation_job::Variant;
    let mut commands = Vec::new();
    for job in &activation.jobs {
        match job.variant.as_ref().context("a job without a kind")? {
            Variant::InitializeWorkflow(_) | Variant::ResolveActivity(_) => {
                *next += 1;
                commands.push(if *next <= operations { schedule(*next)? } else { complete() });
            }
            Variant::RemoveFromCache(removed) => {
                // This job means that the replay has ended, or that the history did not match.
                ensure!(*next > operations, "evicted after {next} operations: {}", removed.message);
            }
            other => bail!("a job that the history does not contain: {other:?}"),
        }
    }
    Ok(commands)
}

fn schedule(seq: u64) -> anyhow::Result<workflow_command::Variant> {
    let timeout = Duration::from_secs(ACTIVITY_S).try_into();
    Ok(ScheduleActivity {
        seq: u32::try_from(seq)?,
        activity_id: seq.to_string(),
        activity_type: "double".to_owned(),
        task_queue: "bench".to_owned(),
        start_to_close_timeout: Some(timeout.map_err(|_| anyhow!("the timeout is out of range"))?),
        ..ScheduleActivity::default()
    }
    .into())
}

fn complete() -> workflow_command::Variant {
    CompleteWorkflowExecution { result: None }.into()
}
