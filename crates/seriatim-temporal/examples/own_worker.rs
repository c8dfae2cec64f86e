//! Your own workflow and activity on a Temporal cluster. See docs/temporal.md.
//!
//! ```text
//! temporal server start-dev &
//! cargo run -p seriatim-temporal --example own_worker &
//! temporal workflow execute --type remind --task-queue reminders --input '{"text": "tea is ready", "after_s": 3}'
//! ```
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::time::Duration;

use seriatim_activity::{Activities, ActivityContext};
use seriatim_env::{Env, Shutdown};
use seriatim_temporal::{ConnectOptions, Connection, Worker, WorkerOptions};
use seriatim_workflow::{Activity, Context, Exit, Failure, Registry, Workflow};

#[derive(serde::Deserialize)]
struct Reminder {
    text: String,
    after_s: u64,
}

const REMIND: Workflow<Reminder, usize> = Workflow::new("remind");
const SAY: Activity<String, usize> = Activity::new("say");

/// The same function runs on Seriatim's own log: nothing in it knows where it runs.
async fn remind(ctx: Context, reminder: Reminder) -> Result<usize, Exit> {
    ctx.timer(Duration::from_secs(reminder.after_s)).await?;
    Ok(ctx.activity(SAY, reminder.text).timeout(Duration::from_secs(5)).await?)
}

async fn say(_: ActivityContext, text: String) -> Result<usize, Failure> {
    println!("{text}");
    Ok(text.len())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let env = Env::real();
    let connection = Connection::connect(&env, &ConnectOptions::new("127.0.0.1:7233")).await?;
    let workflows = Registry::new().workflow(REMIND, remind);
    let activities = Activities::new().register(SAY, say);
    let worker = Worker::new(env, connection, workflows, activities, WorkerOptions::new("reminders"))?;
    // A real program cancels this when it is told to stop; see `Worker::run`.
    Ok(worker.run(Shutdown::new()).await?)
}
