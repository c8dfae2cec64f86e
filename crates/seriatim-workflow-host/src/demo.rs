//! Workflows to try things with: `greet`, `order` and its child `ship`.
//!
//! ```text
//! greet  activity greeting
//! order  activity charge ──► signal approve, or a timer ──► child ship (activity pack)
//!        query status; update change_item, until it is shipped
//! ```
//!
//! They use nothing but the workflow API, so the same code runs on any host.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use seriatim_workflow::{
    Activity, Context, Exit, Failure, Query, Registry, Signal, TimedOut, Update, Workflow,
};

use seriatim_activity::{Activities, ActivityContext, ActivityInfo};

const GREETING: Activity<String, String> = Activity::new("greeting");
const CHARGE: Activity<Order, String> = Activity::new("charge");
const PACK: Activity<String, String> = Activity::new("pack");
const GREET: Workflow<String, String> = Workflow::new("greet");
const ORDER: Workflow<Option<Order>, Shipped> = Workflow::new("order");
const SHIP: Workflow<String, String> = Workflow::new("ship");
const APPROVE: Signal<Option<Value>> = Signal::new("approve");
const STATUS: Query<(), Stage> = Query::new("status");
const CHANGE_ITEM: Update<String, String> = Update::new("change_item");

/// No attempt of a demo's activity takes longer.
const ATTEMPT_MAX: Duration = Duration::from_secs(10);

/// What is ordered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Order {
    /// What.
    pub item: String,
    /// What it costs, in cents.
    pub amount: u64,
    /// How long an approval is waited for; then the order is shipped without it.
    #[serde(rename = "patience_ms")]
    pub approval_timeout_ms: u64,
}

impl Default for Order {
    fn default() -> Self {
        Self { item: "tea".to_owned(), amount: 995, approval_timeout_ms: 5_000 }
    }
}

/// What came of an order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shipped {
    /// What was ordered.
    pub item: String,
    /// The payment.
    pub charge: String,
    /// `signal`, or `timer` if it was not approved in time.
    pub approved_by: String,
    /// Where the parcel is.
    pub parcel: String,
}

/// The workflows.
#[must_use]
pub fn workflows() -> Registry {
    Registry::new().workflow(GREET, greet).workflow(ORDER, order).workflow(SHIP, ship)
}

async fn greet(ctx: Context, name: String) -> Result<String, Exit> {
    Ok(ctx.activity(GREETING, name).timeout(ATTEMPT_MAX).await?)
}

/// How far an order has come: the answer to its query `status`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// The charge is being made.
    Charging,
    /// It waits for its approval.
    AwaitingApproval,
    /// The child ships it.
    Shipping,
}

/// What queries and updates of an order see.
struct Progress {
    stage: Stage,
    item: String,
}

impl Progress {
    /// Whether the item can still be another one.
    fn may_change(&self, item: &str) -> Result<(), Failure> {
        match self.stage {
            _ if item.is_empty() => Err(Failure::non_retryable("Item", "an order has to be of something")),
            Stage::Charging | Stage::AwaitingApproval => Ok(()),
            Stage::Shipping => Err(Failure::non_retryable("TooLate", "the order is being shipped")),
        }
    }
}

async fn order(ctx: Context, order: Option<Order>) -> Result<Shipped, Exit> {
    let order = order.unwrap_or_default();
    let approval_timeout = Duration::from_millis(order.approval_timeout_ms);
    let progress = ctx.state(Progress { stage: Stage::Charging, item: order.item.clone() });
    ctx.on_query(STATUS, &progress, |progress, ()| Ok(progress.stage));
    ctx.on_update(
        CHANGE_ITEM,
        &progress,
        |progress, item| progress.may_change(item),
        |progress, item| Ok(std::mem::replace(&mut progress.item, item)),
    );
    let charge = ctx.activity(CHARGE, order).timeout(ATTEMPT_MAX).await?;
    progress.change(|progress| progress.stage = Stage::AwaitingApproval);
    let approved = ctx.within(approval_timeout, |ctx| async move { ctx.signals(APPROVE).next().await }).await;
    let approved_by = match approved {
        Ok(signal) => signal.map(|_| "signal")?,
        Err(TimedOut { .. }) => "timer",
    };
    progress.change(|progress| progress.stage = Stage::Shipping);
    let item = progress.read(|progress| progress.item.clone());
    let parcel = ctx.child(SHIP, item.clone()).id(format!("{}.ship", ctx.info().workflow_id)).await?;
    Ok(Shipped { item, charge, approved_by: approved_by.to_owned(), parcel })
}

async fn ship(ctx: Context, item: String) -> Result<String, Exit> {
    Ok(ctx.activity(PACK, item).timeout(ATTEMPT_MAX).await?)
}

/// The activities: they compute, and have no effect on anything.
#[must_use]
pub fn activities() -> Activities {
    activities_with(|_| {})
}

/// The activities, with an effect: `effect` is called by each attempt, before it returns.
pub fn activities_with(effect: impl Fn(&ActivityInfo) + Send + Sync + 'static) -> Activities {
    let effect: Arc<dyn Fn(&ActivityInfo) + Send + Sync> = Arc::new(effect);
    let (of_greeting, of_charge, of_pack) = (effect.clone(), effect.clone(), effect);
    Activities::new()
        .register(GREETING, move |context: ActivityContext, name: String| {
            of_greeting(context.info());
            async move { Ok::<_, Failure>(format!("Hello, {name}!")) }
        })
        .register(CHARGE, move |context: ActivityContext, order: Order| {
            of_charge(context.info());
            async move {
                if order.amount == 0 {
                    return Err(Failure::non_retryable("Amount", "an order has to cost something"));
                }
                Ok(format!("{} cents for {}", order.amount, order.item))
            }
        })
        .register(PACK, move |context: ActivityContext, item: String| {
            of_pack(context.info());
            async move { Ok::<_, Failure>(format!("a parcel of {item}")) }
        })
}
