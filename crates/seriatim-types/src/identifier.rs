//! Identifiers: numbers that name things. They can be compared and shown, not added.

macro_rules! identifier {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name($inner);

        impl $name {
            /// The identifier with this value.
            #[must_use]
            pub const fn new(value: $inner) -> Self {
                Self(value)
            }

            /// The plain integer, for encoding and display.
            #[must_use]
            pub const fn get(self) -> $inner {
                self.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(&self.0, f)
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }
    };
}
pub(crate) use identifier;

identifier! {
    /// An application. Its numeric id is fixed when its definition is first accepted, and never given to another.
    ApplicationId(u32)
}

identifier! {
    /// A workspace: the tenant.
    WorkspaceId(u64)
}

identifier! {
    /// The kind of a workspace: it says which sequences and documents the workspace has.
    WorkspaceKind(u16)
}

identifier! {
    /// A sequence, by its number in the definition.
    SequenceId(u16)
}

impl WorkspaceId {
    /// The first id that is given to a workspace of an application.
    pub const FIRST: Self = Self::new(140_737_488_486_400);
}
