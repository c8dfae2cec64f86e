//! A workflow that can be told and asked everything: goods are added by an update, counted by a query, bought by a signal.

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

#[expect(clippy::ptr_arg, reason = "a validator gets what the update was sent with")]
fn not_empty(_: &Vec<String>, good: &String) -> Result<(), Failure> {
    if good.is_empty() { Err(Failure::application("Empty", "there is nothing to add")) } else { Ok(()) }
}

/// A workflow that cannot continue until what it needs is there.
pub(crate) async fn vase(is_whole: Arc<AtomicBool>) -> Result<&'static str, Exit> {
    assert!(is_whole.load(Ordering::Relaxed), "the vase is broken");
    Ok("flowers")
}
