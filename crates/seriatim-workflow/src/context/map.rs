//! The same code for many items, some at a time.

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use seriatim_types::sync::Mutex;

use super::concurrency::OpenBranch;
use super::{BoxFuture, BranchNode, Context};
use crate::runtime::{Cell, WaitingFor};

impl Context {
    /// Runs `code` for each item, at most `width` at a time. The results are in the order of the items. Dropping the
    /// future cancels what has not ended.
    ///
    /// Each item has a branch of its own, numbered by its place, whatever the order in which they end.
    #[track_caller]
    pub fn map_concurrently<I, T, Fut>(
        &self,
        items: impl IntoIterator<Item = I>,
        width: NonZeroUsize,
        code: impl Fn(Self, I) -> Fut + Send + Sync + 'static,
    ) -> BoxFuture<Vec<T>>
    where
        I: Send + 'static,
        T: Send + 'static,
        Fut: Future<Output = T> + Send + 'static,
    {
        let map = Map::open(self, items.into_iter().collect(), width, code, Location::caller());
        Box::pin(map.results())
    }

    /// Runs `code` for each item, all at once. The results are in the order of the items.
    #[track_caller]
    pub fn join_all<I, T, Fut>(
        &self,
        items: impl IntoIterator<Item = I>,
        code: impl Fn(Self, I) -> Fut + Send + Sync + 'static,
    ) -> BoxFuture<Vec<T>>
    where
        I: Send + 'static,
        T: Send + 'static,
        Fut: Future<Output = T> + Send + 'static,
    {
        let map = Map::open(self, items.into_iter().collect(), NonZeroUsize::MAX, code, Location::caller());
        Box::pin(map.results())
    }
}

struct Work<I, T> {
    /// Items that are not begun, with their places.
    waiting: VecDeque<(usize, I)>,
    results: Vec<Option<T>>,
    left: usize,
}

/// A map that is under way: a few tasks that take one item after another.
struct Map<I, T> {
    ctx: Context,
    work: Arc<Mutex<Work<I, T>>>,
    done: Cell<()>,
    workers: Vec<OpenBranch>,
}

impl<I: Send + 'static, T: Send + 'static> Map<I, T> {
    fn open<Fut>(
        parent: &Context,
        items: Vec<I>,
        width: NonZeroUsize,
        code: impl Fn(Context, I) -> Fut + Send + Sync + 'static,
        site: &'static Location<'static>,
    ) -> Self
    where
        Fut: Future<Output = T> + Send + 'static,
    {
        let count = items.len();
        let indices = u32::try_from(count).unwrap_or(u32::MAX);
        let base = parent.node.children.fetch_add(indices, Ordering::Relaxed);
        let mut ctx = parent.clone();
        ctx.scope = parent.scope.child();
        let work = Work {
            waiting: items.into_iter().enumerate().collect(),
            results: (0..count).map(|_| None).collect(),
            left: count,
        };
        let mut map = Self { ctx, work: Arc::new(Mutex::new(work)), done: Cell::new(), workers: Vec::new() };
        if count == 0 {
            map.done.set(());
        }
        let code = Arc::new(code);
        for worker in 0..width.get().min(count) {
            let (ctx, work, done, code) =
                (map.ctx.clone(), Arc::clone(&map.work), map.done.clone(), Arc::clone(&code));
            let task = async move {
                while let Some((place, item)) = { work.lock().waiting.pop_front() } {
                    let value = code(item_context(&ctx, base, place), item).await;
                    let mut work = work.lock();
                    work.results[place] = Some(value);
                    work.left -= 1;
                    let is_last = work.left == 0;
                    drop(work);
                    if is_last {
                        done.set(());
                    }
                }
            };
            let branch = item_context(&map.ctx, base, worker).node.branch.clone();
            let shared = Arc::clone(&map.ctx.shared);
            let waker = shared.spawn(branch, Box::pin(task));
            map.workers.push(OpenBranch { waker, scope: Arc::clone(&map.ctx.scope), shared, site });
        }
        map
    }

    async fn results(self) -> Vec<T> {
        self.done.wait(&self.ctx.shared.sched, WaitingFor::Branches).await;
        self.work.lock().results.iter_mut().filter_map(Option::take).collect()
    }
}

impl<I, T> Drop for Map<I, T> {
    fn drop(&mut self) {
        self.workers.iter().for_each(|worker| worker.stop("no longer awaited"));
    }
}

/// The context of the item at this place.
fn item_context(ctx: &Context, base: u32, place: usize) -> Context {
    let index = base.saturating_add(u32::try_from(place).unwrap_or(u32::MAX)).saturating_add(1);
    let node = BranchNode::new(ctx.node.branch.child(index));
    Context { shared: Arc::clone(&ctx.shared), node, scope: Arc::clone(&ctx.scope) }
}
