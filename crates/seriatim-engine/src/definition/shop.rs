//! The demo application.

use super::Application;

/// The definition of the demo application, as a user would write it.
pub const SHOP: &str = include_str!("shop.toml");

/// The demo application: customers, orders, and invoices with gap-free numbers.
///
/// # Panics
///
/// Never: a test reads the definition.
#[must_use]
pub fn shop() -> Application {
    Application::from_toml(SHOP).expect("the demo application is sound")
}
