//! Numbers of documents and fields.

use serde::{Deserialize, Serialize};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(u16);

        impl $name {
            /// The id with this value.
            #[must_use]
            pub const fn new(value: u16) -> Self {
                Self(value)
            }

            /// The plain integer, for encoding and display.
            #[must_use]
            pub const fn get(self) -> u16 {
                self.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

id! {
    /// The number of a document within its application, from 1. It is assigned when the document's name is first accepted,
    /// and is never assigned to another document.
    TypeId
}

id! {
    /// The number of a field within its document, from 1. It is assigned when the field's name is first accepted, and is
    /// never assigned to another field of the document.
    FieldId
}
