//! Names, and names that fix types.

use std::fmt;
use std::marker::PhantomData;

/// The name of something: a text, or a constant that fixes its types as well.
///
/// Where a function takes `impl Into<Name<Activity<In, Out>>>`, give it a `&str`, a `String` or an [`Activity`].
pub struct Name<Of> {
    text: String,
    of: PhantomData<fn() -> Of>,
}

impl<Of> Name<Of> {
    /// The name as a text.
    #[must_use]
    pub fn into_string(self) -> String {
        self.text
    }
}

impl<Of> From<String> for Name<Of> {
    fn from(text: String) -> Self {
        Self { text, of: PhantomData }
    }
}

impl<Of> From<&String> for Name<Of> {
    fn from(text: &String) -> Self {
        text.clone().into()
    }
}

impl<Of> From<&str> for Name<Of> {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

macro_rules! constants {
    ($($(#[$doc:meta])* $name:ident<$($type:ident),+>;)*) => {$(
        $(#[$doc])*
        pub struct $name<$($type),+> {
            name: &'static str,
            types: PhantomData<fn($($type),+)>,
        }

        impl<$($type),+> $name<$($type),+> {
            /// The one of this name.
            #[must_use]
            pub const fn new(name: &'static str) -> Self {
                Self { name, types: PhantomData }
            }

            /// The name.
            #[must_use]
            pub const fn name(&self) -> &'static str {
                self.name
            }
        }

        impl<$($type),+> Clone for $name<$($type),+> {
            fn clone(&self) -> Self {
                *self
            }
        }

        impl<$($type),+> Copy for $name<$($type),+> {}

        impl<$($type),+> fmt::Debug for $name<$($type),+> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_tuple(stringify!($name)).field(&self.name).finish()
            }
        }

        impl<$($type),+> From<$name<$($type),+>> for Name<$name<$($type),+>> {
            fn from(constant: $name<$($type),+>) -> Self {
                constant.name.into()
            }
        }
    )*};
}

constants! {
    /// The name of an activity with the types of its input and output, for those who call it and for the code that does
    /// it.
    ///
    /// ```
    /// use seriatim_workflow::{Activity, Context, Exit};
    /// use std::time::Duration;
    ///
    /// const CHARGE: Activity<u64, String> = Activity::new("charge");
    ///
    /// async fn pay(ctx: Context, cents: u64) -> Result<String, Exit> {
    ///     Ok(ctx.activity(CHARGE, cents).timeout(Duration::from_secs(10)).await?)
    /// }
    /// ```
    ///
    /// Other types do not compile:
    ///
    /// ```compile_fail
    /// use seriatim_workflow::{Activity, Context, Exit};
    ///
    /// const CHARGE: Activity<u64, String> = Activity::new("charge");
    ///
    /// async fn pay(ctx: Context, _: ()) -> Result<String, Exit> {
    ///     Ok(ctx.activity(CHARGE, "much").await?)
    /// }
    /// ```
    Activity<In, Out>;
    /// The name of a workflow with the types of its input and output: for [`Registry::workflow`](crate::Registry::workflow)
    /// and [`Context::child`](crate::Context::child).
    ///
    /// ```
    /// use seriatim_workflow::{Context, Exit, Registry, Workflow};
    ///
    /// const DOUBLE: Workflow<u32, u32> = Workflow::new("double");
    /// const TWICE: Workflow<u32, u32> = Workflow::new("twice");
    ///
    /// async fn double(_: Context, number: u32) -> Result<u32, Exit> {
    ///     Ok(number * 2)
    /// }
    ///
    /// async fn twice(ctx: Context, number: u32) -> Result<u32, Exit> {
    ///     let once = ctx.child(DOUBLE, number).await?;
    ///     Ok(ctx.child(DOUBLE, once).await?)
    /// }
    ///
    /// let registry = Registry::new().workflow(DOUBLE, double).workflow(TWICE, twice);
    /// assert!(registry.contains("twice"));
    /// ```
    ///
    /// Code of other types does not compile:
    ///
    /// ```compile_fail
    /// use seriatim_workflow::{Context, Exit, Registry, Workflow};
    ///
    /// const DOUBLE: Workflow<u32, u32> = Workflow::new("double");
    ///
    /// async fn double(_: Context, number: u32) -> Result<String, Exit> {
    ///     Ok(number.to_string())
    /// }
    ///
    /// let registry = Registry::new().workflow(DOUBLE, double);
    /// ```
    Workflow<In, Out>;
    /// The name of a signal with the type of its input, for those who send it and for the code that takes it.
    ///
    /// ```
    /// use seriatim_workflow::{Context, Execution, Exit, Signal};
    ///
    /// const APPROVE: Signal<bool> = Signal::new("approve");
    ///
    /// async fn ask(ctx: Context, boss: String) -> Result<bool, Exit> {
    ///     Ok(ctx.signals(APPROVE).next().await?)
    /// }
    ///
    /// async fn approve(ctx: Context, workflow_id: String) -> Result<(), Exit> {
    ///     let run = Execution { workflow_id, ..Execution::default() };
    ///     Ok(ctx.signal_external(run, APPROVE, true).await?)
    /// }
    /// ```
    ///
    /// Another type does not compile:
    ///
    /// ```compile_fail
    /// use seriatim_workflow::{Context, Exit, Signal};
    ///
    /// const APPROVE: Signal<bool> = Signal::new("approve");
    ///
    /// async fn ask(ctx: Context, _: ()) -> Result<String, Exit> {
    ///     Ok(ctx.signals(APPROVE).next().await?)
    /// }
    /// ```
    Signal<In>;
    /// The name of a query with the types of its input and its answer: for [`Context::on_query`](crate::Context::on_query).
    ///
    /// ```compile_fail
    /// use seriatim_workflow::{Context, Exit, Query};
    ///
    /// const DONE: Query<(), u32> = Query::new("done");
    ///
    /// async fn work(ctx: Context, _: ()) -> Result<(), Exit> {
    ///     let done = ctx.state(String::new());
    ///     ctx.on_query(DONE, &done, |done, ()| Ok(done.clone())); // a text, and not a number
    ///     Ok(())
    /// }
    /// ```
    Query<In, Out>;
    /// The name of an update with the types of its input and its answer: for
    /// [`Context::on_update`](crate::Context::on_update).
    ///
    /// ```compile_fail
    /// use seriatim_workflow::{Context, Exit, Update};
    ///
    /// const ADD: Update<u32, u32> = Update::new("add");
    ///
    /// async fn work(ctx: Context, _: ()) -> Result<(), Exit> {
    ///     let sum = ctx.state(0_u32);
    ///     ctx.on_update(ADD, &sum, |_, _| Ok(()), |_, by| Ok(by.to_string())); // a text, and not a number
    ///     Ok(())
    /// }
    /// ```
    Update<In, Out>;
}
