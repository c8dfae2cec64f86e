//! A workflow that can be told and asked everything: goods are added by an update, counted by a query, bought by a signal.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use seriatim_workflow::{Context, Exit, Failure};

pub(crate) async fn basket(ctx: Context, (): ()) -> Result<Vec<String>, Exit> {
    let goods = Arc::new(Mutex::new(Vec::new()));
    let (seen, added) = (goods.clone(), goods.clone());
    ctx.on_query("count", move |(): ()| Ok(seen.lock().unwrap().len()));
    ctx.on_update("add", not_empty, move |_, good: String| {
        let mut goods = added.lock().unwrap();
        goods.push(good);
        let all = goods.clone();
        async move { Ok(all) }
    });
    ctx.signals::<()>("buy").next().await?;
    let bought = goods.lock().unwrap().clone();
    Ok(bought)
}

#[expect(clippy::ptr_arg, reason = "a validator gets what the update was sent with")]
fn not_empty(good: &String) -> Result<(), Failure> {
    if good.is_empty() { Err(Failure::application("Empty", "there is nothing to add")) } else { Ok(()) }
}

/// A workflow that cannot continue until what it needs is there.
pub(crate) async fn vase(is_whole: Arc<AtomicBool>) -> Result<&'static str, Exit> {
    assert!(is_whole.load(Ordering::Relaxed), "the vase is broken");
    Ok("flowers")
}
