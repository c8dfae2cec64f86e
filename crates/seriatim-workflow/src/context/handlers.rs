//! What answers queries and takes updates.

use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Context, WorkflowState};
use crate::runtime::{QueryHandler, UpdateCode, UpdateHandler};
use crate::{Failure, Name, Payload, Query, Update};

/// What a query or a validator may not do.
pub(super) const REGISTER: &str = "register a handler";

impl Context {
    /// Answers queries of this name from the state. The handler may only read: it cannot wait, and asking for anything
    /// fails the query. The name is a text or a [`Query`], which fixes the types.
    ///
    /// ```
    /// use seriatim_workflow::{Context, Exit, Query};
    ///
    /// const DONE: Query<(), u32> = Query::new("done");
    ///
    /// # async fn workflow(ctx: Context, _: ()) -> Result<(), Exit> {
    /// let done = ctx.state(0);
    /// ctx.on_query(DONE, &done, |done, ()| Ok(*done));
    /// done.change(|done| *done += 1);
    /// # Ok(()) }
    /// ```
    ///
    /// A handler without state gets that of `&ctx.state(())`.
    pub fn on_query<S, In, Out>(
        &self,
        query: impl Into<Name<Query<In, Out>>>,
        state: &WorkflowState<S>,
        handler: impl Fn(&S, In) -> Result<Out, Failure> + Send + Sync + 'static,
    ) where
        S: Send + Sync + 'static,
        In: DeserializeOwned,
        Out: Serialize,
    {
        let state = state.clone();
        let handler: QueryHandler = Arc::new(move |input| {
            let input = Payload::decode_all(input)?;
            Ok(Payload::json(&state.read(|state| handler(state, input))?)?)
        });
        let mut run = self.shared.lock();
        let before = match self.may_issue(&mut run, REGISTER) {
            true => run.queries.insert(query.into().into_string(), handler),
            false => Some(handler),
        };
        // Its destructor may use the context, so the lock is not held.
        drop(run);
        drop(before);
    }

    /// Takes updates of this name: each is validated, which may only read, then accepted, then handled. What the handler
    /// returns is the update's outcome. The name is a text or an [`Update`], which fixes the types.
    ///
    /// ```
    /// # use seriatim_workflow::{Context, Exit, Failure};
    /// # async fn workflow(ctx: Context, seats: u32) -> Result<(), Exit> {
    /// let seats = ctx.state(seats);
    /// ctx.on_update(
    ///     "book",
    ///     &seats,
    ///     |seats, wanted: &u32| match wanted <= seats {
    ///         true => Ok(()),
    ///         false => Err(Failure::non_retryable("SoldOut", "so many seats are not left")),
    ///     },
    ///     |seats, wanted| {
    ///         *seats -= wanted;
    ///         Ok(*seats)
    ///     },
    /// );
    /// seats.wait_until(|seats| *seats == 0).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// A handler that has to wait is one for [`on_update_async`](Self::on_update_async).
    pub fn on_update<S, In, Out>(
        &self,
        update: impl Into<Name<Update<In, Out>>>,
        state: &WorkflowState<S>,
        validate: impl Fn(&S, &In) -> Result<(), Failure> + Send + Sync + 'static,
        handle: impl Fn(&mut S, In) -> Result<Out, Failure> + Send + Sync + 'static,
    ) where
        S: Send + Sync + 'static,
        In: DeserializeOwned,
        Out: Serialize,
    {
        let changed = state.clone();
        let handle: UpdateCode = Arc::new(move |_, input| {
            let handled = Payload::decode_all(input)
                .map_err(Failure::from)
                .and_then(|input| changed.change(|state| handle(state, input)))
                .and_then(|result| Ok(Payload::json(&result)?));
            Box::pin(std::future::ready(handled))
        });
        self.add_update(update.into().into_string(), state, validate, handle);
    }

    /// Takes updates of this name as [`on_update`](Self::on_update) does, with a handler that can wait: each is handled in
    /// a branch of its own, whose context the handler gets.
    ///
    /// ```
    /// # use seriatim_workflow::{Context, Exit};
    /// # async fn workflow(ctx: Context, _: ()) -> Result<(), Exit> {
    /// let total = ctx.state(0);
    /// ctx.on_update_async("charge", &total, |_, _: &u64| Ok(()), |ctx, total, cents| async move {
    ///     ctx.activity::<_, ()>("charge", cents).await?;
    ///     Ok(total.change(|total| {
    ///         *total += cents;
    ///         *total
    ///     }))
    /// });
    /// # Ok(()) }
    /// ```
    pub fn on_update_async<S, In, Out, Fut>(
        &self,
        update: impl Into<Name<Update<In, Out>>>,
        state: &WorkflowState<S>,
        validate: impl Fn(&S, &In) -> Result<(), Failure> + Send + Sync + 'static,
        handle: impl Fn(Context, WorkflowState<S>, In) -> Fut + Send + Sync + 'static,
    ) where
        S: Send + Sync + 'static,
        In: DeserializeOwned,
        Out: Serialize,
        Fut: Future<Output = Result<Out, Failure>> + Send + 'static,
    {
        let given = state.clone();
        let handle: UpdateCode = Arc::new(move |ctx, input| match Payload::decode_all(input) {
            Ok(input) => {
                let future = handle(ctx, given.clone(), input);
                Box::pin(async move { Ok(Payload::json(&future.await?)?) })
            }
            Err(error) => Box::pin(std::future::ready(Err(error.into()))),
        });
        self.add_update(update.into().into_string(), state, validate, handle);
    }

    fn add_update<S, In>(
        &self,
        name: String,
        state: &WorkflowState<S>,
        validate: impl Fn(&S, &In) -> Result<(), Failure> + Send + Sync + 'static,
        handle: UpdateCode,
    ) where
        S: Send + Sync + 'static,
        In: DeserializeOwned,
    {
        let state = state.clone();
        let validate: QueryHandler = Arc::new(move |input| {
            let input = Payload::decode_all(input)?;
            state.read(|state| validate(state, &input))?;
            Ok(Payload::null())
        });
        let handler = UpdateHandler { validate, handle };
        let mut run = self.shared.lock();
        let before = match self.may_issue(&mut run, REGISTER) {
            true => run.updates.insert(name, handler),
            false => Some(handler),
        };
        // Its destructor may use the context, so the lock is not held.
        drop(run);
        drop(before);
    }

    /// Whether the handlers of all accepted updates have returned. Wait for it before a run ends, so that those who sent the
    /// updates get their answers:
    ///
    /// ```
    /// # use seriatim_workflow::{Context, Exit};
    /// # async fn workflow(ctx: Context, _: ()) -> Result<(), Exit> {
    /// let handlers = ctx.clone();
    /// ctx.wait_until(move || handlers.all_handlers_finished()).await?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn all_handlers_finished(&self) -> bool {
        self.shared.lock().open_updates == 0
    }
}
