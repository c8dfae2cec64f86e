//! The worker of the official Rust SDK, written as in its examples.

use std::time::Duration;

use anyhow::anyhow;
use temporalio_client::{Client, ClientOptions, Connection, ConnectionOptions, Url};
use temporalio_macros::{activities, workflow, workflow_methods};
use temporalio_sdk::activities::{ActivityContext, ActivityError};
use temporalio_sdk::{ActivityOptions, Runtime, Worker, WorkerOptions, WorkflowContext, WorkflowResult};

#[workflow]
#[derive(Default)]
struct Hello;

#[workflow_methods]
impl Hello {
    #[run(name = "hello")]
    async fn run(ctx: &mut WorkflowContext<Self>, name: String) -> WorkflowResult<String> {
        let limit = ActivityOptions::start_to_close_timeout(Duration::from_secs(60));
        Ok(ctx.execute_activity(Activities::hello, name, limit).await?)
    }
}

struct Activities;

#[activities]
impl Activities {
    #[activity]
    async fn hello(_: ActivityContext, name: String) -> Result<String, ActivityError> {
        Ok(format!("Hello, {name}!"))
    }
}

/// Works until the process ends.
pub(super) async fn work(address: &str) -> anyhow::Result<()> {
    let runtime = Runtime::from_current_tokio(Default::default())?;
    let url = Url::parse(&format!("http://{address}"))?;
    let connection = Connection::connect(ConnectionOptions::new(url).build()).await?;
    let client = Client::new(connection, ClientOptions::new("default").build())?;
    let options = WorkerOptions::new("official")
        .register_workflow::<Hello>()
        .map_err(|error| anyhow!("{error}"))?
        .register_activities(Activities)
        .build();
    let mut worker = Worker::new(&runtime, client, options).map_err(|error| anyhow!("{error}"))?;
    worker.run().await.map_err(|error| anyhow!("{error}"))
}
