//! For those who write workflows: tests with simulated time, faults and replay.
//!
//! [`Simulation`] runs workflows on a host in memory, on one thread and a clock that jumps: a timer of thirty days takes no
//! time. It loses answers of the log, fails activities and crashes the host as the test says, all from a seed, and in the
//! end replays every history that was made. [`assert_replays`] replays histories that were kept as files.
//!
//! ```
//! use std::time::Duration;
//! use seriatim_workflow::{Context, Exit, Failure, Registry};
//! use seriatim_workflow_host::testing::Simulation;
//! use seriatim_workflow_host::{Activities, ActivityContext};
//!
//! async fn remind(ctx: Context, who: String) -> Result<String, Exit> {
//!     ctx.timer(Duration::from_secs(30 * 86_400)).await?;
//!     Ok(ctx.activity("send_mail", &who).await?)
//! }
//!
//! let workflows = Registry::new().workflow("remind", remind);
//! let activities = Activities::new().register("send_mail", |_: ActivityContext, who: String| async move {
//!     Ok::<_, Failure>(format!("told {who}"))
//! });
//! Simulation::new(workflows, activities).run(|host| async move {
//!     host.start("remind", "r-1", &"ada").await;
//!     assert_eq!(host.result::<String>("r-1").await, "told ada");
//! });
//! ```

mod attempts;
mod host;
mod life;
mod replays;
mod simulation;

pub use host::TestHost;
pub use replays::assert_replays;
pub use simulation::Simulation;
