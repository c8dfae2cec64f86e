//! Workflows to try things with: `greet`, `order` and its child `ship`.
//!
//! ```text
//! greet  activity greeting
//! order  activity charge ──► signal approve, or a timer ──► child ship (activity pack)
//!        query status; update change_item, until it is shipped
//! ```
//!
//! They use nothing but the workflow API, so the same code runs on any host.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use seriatim_workflow::{Activity, ChildWorkflow, Context, Exit, Failure, Registry};

use crate::{Activities, ActivityContext, ActivityInfo};

const GREETING: Activity<String, String> = Activity::new("greeting");
const CHARGE: Activity<Order, String> = Activity::new("charge");
const PACK: Activity<String, String> = Activity::new("pack");
const SHIP: ChildWorkflow<String, String> = ChildWorkflow::new("ship");

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
    /// How long an approval is waited for; then the order is shipped all the same.
    pub patience_ms: u64,
}

impl Default for Order {
    fn default() -> Self {
        Self { item: "tea".to_owned(), amount: 995, patience_ms: 5_000 }
    }
}

/// What came of an order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shipped {
    /// What was ordered.
    pub item: String,
    /// The payment.
    pub charge: String,
    /// `signal`, or `timer` if nobody has approved it in time.
    pub approved_by: String,
    /// Where the parcel is.
    pub parcel: String,
}

/// The workflows.
#[must_use]
pub fn workflows() -> Registry {
    Registry::new().workflow("greet", greet).workflow("order", order).workflow("ship", ship)
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
#[derive(Clone)]
struct Progress(Arc<Mutex<(Stage, String)>>);

impl Progress {
    fn lock(&self) -> MutexGuard<'_, (Stage, String)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reach(&self, stage: Stage) {
        self.lock().0 = stage;
    }

    /// Whether the item can still be another one.
    fn may_change(&self, item: &str) -> Result<(), Failure> {
        if item.is_empty() {
            return Err(Failure::non_retryable("Item", "an order has to be of something"));
        }
        match self.lock().0 {
            Stage::Charging | Stage::AwaitingApproval => Ok(()),
            Stage::Shipping => Err(Failure::non_retryable("TooLate", "the order is being shipped")),
        }
    }

    /// Makes it another item, and says which it was.
    fn change(&self, item: String) -> String {
        std::mem::replace(&mut self.lock().1, item)
    }

    /// Answers the query `status` and takes the update `change_item`.
    fn offer(&self, ctx: &Context) {
        let (asked, validated, changed) = (self.clone(), self.clone(), self.clone());
        ctx.on_query("status", move |(): ()| Ok(asked.lock().0));
        ctx.on_update(
            "change_item",
            move |item: &String| validated.may_change(item),
            move |_, item| std::future::ready(Ok(changed.change(item))),
        );
    }
}

async fn order(ctx: Context, order: Option<Order>) -> Result<Shipped, Exit> {
    let order = order.unwrap_or_default();
    let progress = Progress(Arc::new(Mutex::new((Stage::Charging, order.item.clone()))));
    progress.offer(&ctx);
    let charge = ctx.activity(CHARGE, order.clone()).timeout(ATTEMPT_MAX).await?;
    progress.reach(Stage::AwaitingApproval);
    let patience = Duration::from_millis(order.patience_ms);
    let approved =
        ctx.within(patience, |ctx| async move {
            ctx.signals::<Option<serde_json::Value>>("approve").next().await
        })
        .await;
    let approved_by = match approved {
        Ok(signal) => {
            signal?;
            "signal"
        }
        Err(_) => "timer",
    };
    progress.reach(Stage::Shipping);
    let item = progress.lock().1.clone();
    let child = format!("{}.ship", ctx.info().workflow_id);
    let parcel = ctx.child(SHIP, item.clone()).id(child).await?;
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
        .register("greeting", move |context: ActivityContext, name: String| {
            of_greeting(context.info());
            async move { Ok::<_, Failure>(format!("Hello, {name}!")) }
        })
        .register("charge", move |context: ActivityContext, order: Order| {
            of_charge(context.info());
            async move {
                if order.amount == 0 {
                    return Err(Failure::non_retryable("Amount", "an order has to cost something"));
                }
                Ok(format!("{} cents for {}", order.amount, order.item))
            }
        })
        .register("pack", move |context: ActivityContext, item: String| {
            of_pack(context.info());
            async move { Ok::<_, Failure>(format!("a parcel of {item}")) }
        })
}
