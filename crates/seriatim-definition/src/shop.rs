//! The demo application.

use super::Application;

/// The definition of the demo application, as a user writes it.
pub const SHOP: &str = include_str!("shop.toml");

/// The demo application: customers, orders, and invoices with gap-free numbers.
///
/// # Panics
///
/// Never: the text is constant, and a test reads it.
#[must_use]
pub fn shop() -> Application {
    Application::from_toml(SHOP).expect("the demo application is valid")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        CommandDefinition, DocumentDefinition, DocumentKind, FieldDefinition, FieldType, KindDefinition,
        SequenceDefinition,
    };

    #[test]
    fn builder_and_toml_give_the_same_application() {
        let document = DocumentDefinition::new;
        let child = DocumentDefinition::child;
        let built = Application::builder("shop")
            .partitions(4)
            .sequence(SequenceDefinition::new("InvoiceNumber", 1))
            .document(
                document("Customer", DocumentKind::C)
                    .field("name", FieldType::Text)
                    .field("email", FieldType::Text),
            )
            .document(
                DocumentDefinition::singleton("Settings", DocumentKind::C).field("currency", FieldType::Text),
            )
            .document(
                document("Order", DocumentKind::O)
                    .field("customer", FieldType::to("Customer"))
                    .field("note", FieldType::Text),
            )
            .document(
                child("OrderLine", "Order")
                    .field("item", FieldType::Text)
                    .field("quantity", FieldType::Integer),
            )
            .document(
                document("Invoice", DocumentKind::W)
                    .field("customer", FieldType::to("Customer"))
                    .field("total", FieldType::Decimal)
                    .with(FieldDefinition::drawn("number", "InvoiceNumber")),
            )
            .document(
                child("InvoiceLine", "Invoice")
                    .field("text", FieldType::Text)
                    .field("amount", FieldType::Decimal),
            )
            .command(CommandDefinition::with_document("PlaceOrder", "Order"))
            .kind(KindDefinition::new("store"))
            .build();
        assert_eq!(built.unwrap(), shop());
    }
}
