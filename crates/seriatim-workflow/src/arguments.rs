//! What an activity, a child workflow or a signal is given: none, one or several arguments.

use serde::{Deserialize, Serialize};

use crate::{Payload, PayloadError};

/// What can be given to an activity, a child workflow or a signal: any value that can be written as JSON is one argument,
/// `()` is none, and [`args`] makes several.
pub trait Arguments {
    /// The arguments, each in a payload of its own.
    ///
    /// # Errors
    ///
    /// [`PayloadError`] if one of them cannot be written as JSON.
    fn to_payloads(&self) -> Result<Vec<Payload>, PayloadError>;
}

impl<T: Serialize + ?Sized> Arguments for T {
    fn to_payloads(&self) -> Result<Vec<Payload>, PayloadError> {
        let payload = Payload::json(self)?;
        Ok(if payload.is_null() { Vec::new() } else { vec![payload] })
    }
}

/// Several arguments. Made by [`args`]; code that is registered by a constant takes them as such, other code as a tuple.
///
/// ```
/// use seriatim_workflow::{Args, Context, Exit, Registry, Workflow, args};
///
/// const ADD: Workflow<Args<(u32, u32)>, u32> = Workflow::new("add");
///
/// async fn add(_: Context, Args((a, b)): Args<(u32, u32)>) -> Result<u32, Exit> {
///     Ok(a + b)
/// }
///
/// async fn three(ctx: Context, _: ()) -> Result<u32, Exit> {
///     Ok(ctx.child(ADD, args((1, 2))).await?)
/// }
///
/// let registry = Registry::new().workflow(ADD, add).workflow("three", three);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Args<T>(pub T);

/// Several arguments, from a tuple: as functions of other SDKs take them. A handler takes them as a tuple.
///
/// ```
/// # use seriatim_workflow::{Context, Exit, args};
/// # async fn workflow(ctx: Context, (order, cents): (String, u64)) -> Result<(), Exit> {
/// ctx.activity::<_, ()>("charge", args((order, cents))).await?;
/// # Ok(()) }
/// ```
pub const fn args<T>(tuple: T) -> Args<T> {
    Args(tuple)
}

macro_rules! tuples {
    ($(($($name:ident $place:tt),+))*) => {$(
        impl<$($name: Serialize),+> Arguments for Args<($($name,)+)> {
            fn to_payloads(&self) -> Result<Vec<Payload>, PayloadError> {
                Ok(vec![$(Payload::json(&self.0.$place)?),+])
            }
        }
    )*};
}

tuples! {
    (A 0)
    (A 0, B 1)
    (A 0, B 1, C 2)
    (A 0, B 1, C 2, D 3)
    (A 0, B 1, C 2, D 3, E 4)
    (A 0, B 1, C 2, D 3, E 4, F 5)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7)
}
