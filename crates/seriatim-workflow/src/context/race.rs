//! The first of several branches.

use std::panic::Location;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use seriatim_types::sync::Mutex;
use thiserror::Error;

use super::concurrency::OpenBranch;
use super::{BoxFuture, Context};
use crate::runtime::{Cell, Wait, WaitingFor};
use crate::{Exit, Failure, TimeoutType};

/// What happens to the branches that have lost a race.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Losers {
    /// What they have asked for is cancelled, and their code ends where it is: it never runs again.
    #[default]
    Cancel,
    /// They continue by themselves.
    Leave,
}

/// One of two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Either<A, B> {
    /// The first.
    Left(A),
    /// The second.
    Right(B),
}

/// Something was not done in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("not done within {limit:?}")]
pub struct TimedOut {
    /// The time that it had.
    pub limit: Duration,
}

impl From<TimedOut> for Exit {
    fn from(timed_out: TimedOut) -> Self {
        Self::Failed(Failure::timeout(TimeoutType::StartToClose, timed_out.to_string()))
    }
}

type Start<T> = Box<dyn FnOnce(Context) -> Pin<Box<dyn Future<Output = T> + Send>> + Send>;

impl Context {
    /// A race without branches: add some, then await it for the number of the winner, from 0, and its value.
    ///
    /// ```
    /// # use seriatim_workflow::{Context, Exit};
    /// # use std::time::Duration;
    /// # async fn workflow(ctx: Context, _: ()) -> Result<usize, Exit> {
    /// let (winner, _) = ctx
    ///     .race()
    ///     .branch(|ctx| async move { ctx.timer(Duration::from_secs(5)).await })
    ///     .branch(|ctx| async move { ctx.timer(Duration::from_secs(9)).await })
    ///     .await;
    /// # Ok(winner) }
    /// ```
    #[track_caller]
    pub fn race<T: Send + 'static>(&self) -> Race<T> {
        Race { ctx: self.clone(), branches: Vec::new(), losers: Losers::default(), site: Location::caller() }
    }

    /// Races two branches of different types. The loser is cancelled.
    #[track_caller]
    pub fn race2<A, B, FutA, FutB>(
        &self,
        a: impl FnOnce(Self) -> FutA + Send + 'static,
        b: impl FnOnce(Self) -> FutB + Send + 'static,
    ) -> BoxFuture<Either<A, B>>
    where
        A: Send + 'static,
        B: Send + 'static,
        FutA: Future<Output = A> + Send + 'static,
        FutB: Future<Output = B> + Send + 'static,
    {
        let race = self
            .race()
            .branch(|ctx| {
                let future = a(ctx);
                async move { Either::Left(future.await) }
            })
            .branch(|ctx| {
                let future = b(ctx);
                async move { Either::Right(future.await) }
            })
            .into_future();
        Box::pin(async move { race.await.1 })
    }

    /// Runs a branch with a limit on its time. If the time is over first, the branch is cancelled.
    ///
    /// # Errors
    ///
    /// [`TimedOut`] if the time was over first.
    #[track_caller]
    pub fn within<T, Fut>(
        &self,
        limit: Duration,
        code: impl FnOnce(Self) -> Fut + Send + 'static,
    ) -> BoxFuture<Result<T, TimedOut>>
    where
        T: Send + 'static,
        Fut: Future<Output = T> + Send + 'static,
    {
        let race = self.race2(code, move |ctx| async move {
            if ctx.timer(limit).await.is_err() {
                // The whole race was cancelled: the other branch reports that.
                let never = Cell::<()>::new();
                never.wait(&ctx.shared.sched, WaitingFor::Slot).await;
            }
        });
        Box::pin(async move {
            match race.await {
                Either::Left(value) => Ok(value),
                Either::Right(()) => Err(TimedOut { limit }),
            }
        })
    }
}

/// Branches of which the first to end counts.
#[must_use = "a race begins when it is awaited"]
pub struct Race<T> {
    ctx: Context,
    branches: Vec<Start<T>>,
    losers: Losers,
    site: &'static Location<'static>,
}

impl<T: Send + 'static> Race<T> {
    /// Adds a branch. If two end in the same activation, the one whose response came first wins.
    pub fn branch<Fut>(mut self, code: impl FnOnce(Context) -> Fut + Send + 'static) -> Self
    where
        Fut: Future<Output = T> + Send + 'static,
    {
        self.branches.push(Box::new(move |ctx| Box::pin(code(ctx))));
        self
    }

    /// What happens to the branches that lose.
    pub fn losers(mut self, losers: Losers) -> Self {
        self.losers = losers;
        self
    }
}

impl<T: Send + 'static> IntoFuture for Race<T> {
    type Output = (usize, T);
    type IntoFuture = RaceFuture<T>;

    fn into_future(self) -> RaceFuture<T> {
        let cell = Cell::new();
        let wait = cell.wait(&self.ctx.shared.sched, WaitingFor::Branches);
        let open: Open = Arc::default();
        for (index, code) in self.branches.into_iter().enumerate() {
            let ctx = self.ctx.open_branch();
            let (scope, branch, shared) =
                (Arc::clone(&ctx.scope), ctx.node.branch.clone(), Arc::clone(&ctx.shared));
            let future = code(ctx);
            let (winner, others, losers) = (cell.clone(), Arc::clone(&open), self.losers);
            let task = async move {
                let value = future.await;
                if winner.set((index, value)) && losers == Losers::Cancel {
                    stop(&others, Some(index), "lost a race");
                }
            };
            let waker = shared.spawn(branch, Box::pin(task));
            let branch = OpenBranch { waker, scope, shared, site: self.site };
            open.lock().push(branch);
        }
        RaceFuture { wait, open, losers: self.losers }
    }
}

type Open = Arc<Mutex<Vec<OpenBranch>>>;

/// Ends all branches but one, in their order.
fn stop(open: &Open, but: Option<usize>, reason: &str) {
    let open = std::mem::take(&mut *open.lock());
    for (index, branch) in open.into_iter().enumerate() {
        if Some(index) != but {
            branch.stop(reason);
        }
    }
}

/// A race that is under way. Dropping it ends its branches, unless losers are to be left.
#[must_use = "a race has to be awaited"]
pub struct RaceFuture<T> {
    wait: Wait<(usize, T)>,
    open: Open,
    losers: Losers,
}

impl<T> Future for RaceFuture<T> {
    type Output = (usize, T);

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<(usize, T)> {
        self.wait.poll_take(cx)
    }
}

impl<T> Drop for RaceFuture<T> {
    fn drop(&mut self) {
        if self.losers == Losers::Cancel {
            stop(&self.open, None, "no longer awaited");
        }
    }
}
