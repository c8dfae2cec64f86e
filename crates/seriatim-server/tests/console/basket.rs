//! A workflow with an update, a query and a signal: the update adds goods, the query counts them, the signal buys them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use seriatim_workflow::{Context, Exit, Failure};

pub(crate) async fn basket(ctx: Context, (): ()) -> Result<Vec<String>, Exit> {
    let goods = ctx.state(Vec::new());
    ctx.on_query("count", &goods, |goods, (): ()| Ok(goods.len()));
    ctx.on_update("add", &goods, not_empty, |goods, good| {
        goods.push(good);
        Ok(goods.clone())
    });
    ctx.signals::<()>("buy").next().await?;
    Ok(goods.get())
}

#[expect(clippy::ptr_arg, reason = "a validator receives the input of the update as its own type")]
fn not_empty(_: &Vec<String>, good: &String) -> Result<(), Failure> {
    if good.is_empty() { Err(Failure::application("Empty", "there is nothing to add")) } else { Ok(()) }
}

/// A workflow that cannot continue until the vase is whole.
pub(crate) async fn vase(is_whole: Arc<AtomicBool>) -> Result<&'static str, Exit> {
    assert!(is_whole.load(Ordering::Relaxed), "the vase is broken");
    Ok("flowers")
}
