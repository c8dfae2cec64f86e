//! Lookups, by the demo application.

use seriatim_sequencer::builtin::{C_RECORD_ID, FIRST_CUSTOM, RECORD_ID};
use seriatim_types::RecordId;

use super::*;
use crate::{
    Application, Argument, DocumentKind, FieldKind, KindDefinition, RecordScheme, SequenceDefinition, shop,
};

fn schema(application: &Application) -> Schema {
    let accepted = Accepted::accept(None, ApplicationId::new(5), application).unwrap();
    Schema::new(&accepted).unwrap()
}

#[test]
fn the_shop_is_found_both_ways() {
    let schema = schema(&shop());
    assert_eq!((schema.name(), schema.id().get(), schema.partitions().get()), ("shop", 5, 4));
    // Name, number, kind, parent, sequence of ids.
    let table = [
        ("Customer", 1, DocumentKind::C, None, C_RECORD_ID),
        ("Settings", 2, DocumentKind::C, None, C_RECORD_ID),
        ("Order", 3, DocumentKind::O, None, RECORD_ID),
        ("OrderLine", 4, DocumentKind::O, Some("Order"), RECORD_ID),
        ("Invoice", 5, DocumentKind::W, None, RECORD_ID),
        ("InvoiceLine", 6, DocumentKind::W, Some("Invoice"), RECORD_ID),
    ];
    let store = schema.kind_by_name("store").unwrap();
    for (name, id, kind, parent, sequence) in table {
        let document = schema.document_by_name(name).unwrap();
        assert_eq!(schema.document(TypeId::new(id)), Some(document), "{name}");
        let parent = parent.map(|parent| schema.document_by_name(parent).unwrap().id);
        assert_eq!((document.kind, document.parent, document.record_sequence), (kind, parent, sequence));
        assert!(store.has(document.id));
    }
    assert_eq!(schema.document_by_name("Settings").unwrap().singleton, Some(RecordId::new(65_536)));
    assert_eq!(schema.document_by_name("customer"), None);
    assert_eq!(schema.document(TypeId::new(0)), None);

    let invoice = schema.document_by_name("Invoice").unwrap();
    assert_eq!(invoice.field("number").unwrap().draw, Some(FIRST_CUSTOM));
    assert_eq!(invoice.field("customer").unwrap().kind, FieldKind::Reference(Some(TypeId::new(1))));
    assert_eq!(invoice.field("text"), None);
}

#[test]
fn kinds_have_sequences_and_commands() {
    let schema = schema(&shop());
    let store = schema.kind_by_name("store").unwrap();
    assert_eq!(schema.kind(store.id), Some(store));
    assert_eq!(store.sequences(), [RECORD_ID, C_RECORD_ID, FIRST_CUSTOM]);
    assert!(store.has_command("PlaceOrder") && store.has_command("sys.Change") && !store.has_command("x"));
    assert_eq!(schema.command("PlaceOrder").unwrap().argument, Argument::Document(TypeId::new(3)));
    assert!(schema.command("sys.Change").unwrap().argument.is_none());
    let names = ["sys.RecordId", "sys.CRecordId", "InvoiceNumber"];
    let firsts = names.map(|name| schema.sequence_by_name(name).unwrap().first.get());
    assert_eq!(firsts, [322_680_000_131_072, 322_685_000_131_072, 1]);
    assert_eq!(schema.sequence(FIRST_CUSTOM).unwrap().last, seriatim_types::Number::LAST_IN_JSON);
    assert_eq!(schema.sequences().kind(store.id).unwrap().sequences().len(), 3);
}

#[test]
fn a_kind_has_what_it_lists_and_the_commands_that_it_can_take() {
    let mut application = shop();
    application.kinds.push(KindDefinition::new("desk").documents(["Order"]));
    application.kinds.push(KindDefinition::new("till").documents([]).sequences(["Receipt"]));
    application.sequences.push(SequenceDefinition::new("Receipt", 7));
    let schema = schema(&application);
    let id = |name| schema.document_by_name(name).unwrap().id;
    let [desk, till] = ["desk", "till"].map(|name| schema.kind_by_name(name).unwrap());
    assert!(desk.has(id("Order")) && desk.has(id("OrderLine")) && !desk.has(id("Invoice")));
    assert!(desk.has_command("PlaceOrder") && !till.has_command("PlaceOrder"));
    assert_eq!(desk.sequences(), [RECORD_ID, C_RECORD_ID]);
    assert_eq!(till.sequences().len(), 3);
    assert_eq!(schema.sequence(till.sequences()[2]).unwrap().name.as_ref(), "Receipt");
}

#[test]
fn one_sequence_can_serve_all_records() {
    let mut application = shop();
    application.records = RecordScheme::Single;
    let schema = schema(&application);
    assert!(schema.documents().iter().all(|document| document.record_sequence == RECORD_ID));
    assert_eq!(schema.sequence_by_name("sys.RecordId").unwrap().first.get(), 200_001);
    assert_eq!(schema.sequence_by_name("sys.CRecordId"), None);
}
