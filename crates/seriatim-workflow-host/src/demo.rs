//! Two workflows to try things with: `greet` and `order`.
//!
//! They use nothing but the workflow API, so the same code runs on any host.

use std::time::Duration;

use seriatim_workflow::{Activity, ChildWorkflow, Context, Either, Exit, Failure, Registry, RetryPolicy};
use serde::{Deserialize, Serialize};

use crate::activities::{Activities, ActivityContext};

const GREETING: Activity<String, String> = Activity::new("greeting");
const CHARGE: Activity<Charge, String> = Activity::new("charge");
const PACK: Activity<String, String> = Activity::new("pack");
const SHIP: ChildWorkflow<String, String> = ChildWorkflow::new("ship");
