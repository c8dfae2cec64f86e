//! A command from request to answer, and how each wrong request is refused.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod desk;
mod support;

use std::time::Duration;

use desk::{Desk, is_same, with_desk};
use serde_json::{Value as Json, json};
use seriatim_engine::{
    App, Argument, Change, Engine, Found, Options, Request, RequestError, SubmitError, Value, projector,
};
use seriatim_env::simulate;
use seriatim_storage::memory::{MemoryLog, MemoryStore};
use seriatim_storage::{Log, ReadLimit, Store};
use seriatim_storage_testing::faulty::Operation;
use seriatim_types::{ErrorKind, Partition, PartitionOffset, RecordId};
use support::{customer, definition, invoice, options, workspace};

#[test]
fn the_same_key_gives_the_same_answer_also_after_a_restart() {
    with_desk(|desk| async move {
        let request = invoice("1").idempotency_key("a");
        let first = desk.submit(&request).await.unwrap();
        assert!(!first.repeated);
        is_same(&first, &desk.submit(&request).await.unwrap());
        // It is looked up before the expected offset, which is not part of the body.
        is_same(&first, &desk.submit(&request.clone().expected_offset(77)).await.unwrap());
        let error = desk.submit(&invoice("2").idempotency_key("a")).await.unwrap_err();
        assert_eq!((error.kind(), error), (ErrorKind::Conflict, SubmitError::KeyReused("a".to_owned())));
        let desk = desk.reopen().await;
        is_same(&first, &desk.submit(&request).await.unwrap());
        assert!(desk.submit(&invoice("2").idempotency_key("a")).await.is_err());
        // Another workspace has keys of its own.
        let other = workspace(&desk.engine, "other").await;
        assert!(
            !desk.engine.submit("till", other, &invoice("2").idempotency_key("a")).await.unwrap().repeated
        );
        assert_eq!(desk.events().await, 1);
        assert_eq!(desk.count().await, json!(1));
        desk.engine.close().await;
    });
}

#[test]
fn two_at_once_with_one_key_are_one_event() {
    with_desk(|desk| async move {
        let request = invoice("1").idempotency_key("a");
        let other = invoice("2").idempotency_key("a");
        let answers = desk.together(vec![request.clone(), request.clone(), other, request.clone()]).await;
        assert_eq!(desk.faults.count(Operation::Append), 1, "they were one group");
        let first = answers[0].as_ref().unwrap();
        assert!(!first.repeated);
        is_same(first, answers[1].as_ref().unwrap());
        is_same(first, answers[3].as_ref().unwrap());
        assert_eq!(answers[2], Err(SubmitError::KeyReused("a".to_owned())));
        assert_eq!(desk.events().await, 1);
        desk.engine.close().await;
    });
}

#[test]
fn a_repeat_waits_while_the_first_command_is_in_progress() {
    with_desk(|desk| async move {
        let request = invoice("1").idempotency_key("a");
        let hold = desk.faults.hold_answers(Operation::Append);
        let first = desk.spawn(desk.shop, request.clone());
        hold.reached(1).await;
        let again = desk.spawn(desk.shop, request.clone());
        desk.step_aside().await;
        assert!(!again.is_finished());
        hold.release();
        let first = first.await.unwrap().unwrap();
        is_same(&first, &again.await.unwrap().unwrap());
        desk.engine.close().await;
    });
}

#[test]
fn a_key_is_forgotten_after_its_window_and_not_before() {
    simulate(1, |env| async move {
        let window = Duration::from_secs(60);
        let desk = Desk::open(env, Options { idempotency_window: Some(window), ..options() }).await;
        let request = invoice("1").idempotency_key("a");
        let first = desk.submit(&request).await.unwrap();
        desk.env.sleep(window).await;
        is_same(&first, &desk.submit(&request).await.unwrap());
        desk.env.sleep(Duration::from_millis(10)).await;
        let second = desk.submit(&request).await.unwrap();
        assert!(!second.repeated);
        assert_eq!(second.number(1, "number"), Some(2));
        desk.engine.close().await;
    });
}

#[test]
fn an_expected_offset_is_the_offset_that_the_command_follows() {
    with_desk(|desk| async move {
        let moved = |expected, found| {
            let workspace = desk.shop;
            Err(SubmitError::Moved { workspace, expected, found })
        };
        assert_eq!(desk.submit(&invoice("1").expected_offset(1)).await, moved(1, 0));
        desk.submit(&invoice("1").expected_offset(0)).await.unwrap();
        assert_eq!(desk.submit(&invoice("1").expected_offset(0)).await, moved(0, 1));
        // Two who have read the same: one wins, also within one group.
        let request = invoice("2").expected_offset(1);
        let answers = desk.together(vec![request.clone(), request]).await;
        assert_eq!(answers[0].as_ref().unwrap().workspace_offset.get(), 2);
        assert_eq!(answers[1], moved(1, 2));
        assert_eq!(answers[1].as_ref().unwrap_err().kind(), ErrorKind::Conflict);
        let next = desk.submit(&invoice("3")).await.unwrap();
        assert_eq!((next.number(1, "number"), next.workspace_offset.get()), (Some(3), 3));
        desk.engine.close().await;
    });
}

#[test]
fn a_singleton_has_a_reserved_id_and_is_created_once() {
    with_desk(|desk| async move {
        let settings = || Change::create("Settings", 1);
        let exists =
            SubmitError::SingletonExists { document: "Settings".to_owned(), id: RecordId::new(65_536) };
        let twice = Request::changes([settings(), Change::create("Settings", 2)]);
        assert_eq!(desk.submit(&twice).await, Err(exists.clone()));
        let error =
            desk.submit(&Request::new("Misbehave").args(json!({"how": "two singletons"}))).await.unwrap_err();
        assert_eq!(
            (error.kind(), error.to_string().as_str()),
            (ErrorKind::Conflict, "Settings exists already")
        );
        let one = Request::changes([settings().field("currency", "EUR")]);
        let answers = desk.together(vec![one.clone(), one.clone()]).await;
        assert_eq!(answers[0].as_ref().unwrap().ids, [(1, RecordId::new(65_536))]);
        assert_eq!(answers[1], Err(exists.clone()));
        let desk = desk.reopen().await;
        assert_eq!(desk.submit(&one).await, Err(exists));
        let update = Request::changes([Change::update(RecordId::new(65_536)).field("currency", "CHF")]);
        desk.submit(&update).await.unwrap();
        assert_eq!(desk.record(RecordId::new(65_536)).await, [("currency".to_owned(), json!("CHF"))]);
        let all = desk.engine.records("till", desk.shop, "Settings", None, 10).await.unwrap();
        assert_eq!(all.len(), 1);
        // An event that creates only a singleton leaves the record sequence where it was.
        assert_eq!(desk.submit(&customer("Ada")).await.unwrap().id(1).unwrap().get(), 322_685_000_131_072);
        desk.engine.close().await;
    });
}

/// A request as a client would send it.
fn request(json: Json) -> Request {
    serde_json::from_value(json).unwrap()
}

#[test]
fn each_wrong_request_is_refused_with_its_own_message() {
    with_desk(|desk| async move {
        let ada = desk.submit(&customer("Ada")).await.unwrap().id(1).unwrap().get();
        let bill = desk.submit(&invoice("1")).await.unwrap().id(1).unwrap().get();
        let order = Request::new("PlaceOrder").args(json!({"id": 1}));
        let order = desk.submit(&order).await.unwrap().id(1).unwrap().get();
        let create = |document: &str, fields: Json| json!({"changes": [{"create": document, "id": 1, "fields": fields}]});
        let invoice = |fields: Json| create("Invoice", fields);
        let place = |args: Json| json!({"command": "PlaceOrder", "args": args});
        let nowhere = 322_680_000_999_999u64;
        let table: Vec<(Json, String)> = vec![
            (json!({"command": "Fly"}), "command Fly is not defined".into()),
            (json!({}), "the command changes nothing: send at least one change".into()),
            (json!({"args": 1, "changes": []}), "command sys.Change: it takes no argument".into()),
            (json!({"command": "Ping", "args": 1}), "command Ping: it takes no argument".into()),
            (json!({"command": "Ping", "unlogged_args": 1}), "command Ping: it takes no unlogged argument".into()),
            (json!({"command": "PlaceOrder"}), "command PlaceOrder: it takes a document as its argument".into()),
            (place(json!(7)), "command PlaceOrder: a document is an object with \"id\", \"fields\" and \"children\"".into()),
            (place(json!({"id": 1, "create": "Order"})), "command PlaceOrder: a document of the argument has no \"create\"".into()),
            (place(json!({"id": 1, "fields": 1})), "command PlaceOrder: \"fields\" has to be an object".into()),
            (place(json!({"id": 1, "children": {}})), "command PlaceOrder: \"children\" has to be an array".into()),
            (place(json!({"id": 1, "children": [{"id": 2}]})), "command PlaceOrder: a child needs \"create\" with its document's name".into()),
            (
                place(json!({"id": 1, "children": [{"id": 2, "create": "OrderOption"}]})),
                "document OrderOption is a child of OrderLine: its parent has to be one".into(),
            ),
            (
                place(json!({"id": 1, "children": [{"id": 2, "create": "Customer", "fields": {"name": "x"}}]})),
                "document Customer is not a child record: leave its parent out".into(),
            ),
            (place(json!({"fields": {}})), "a create takes a raw id from 1 to 65535, not 0: the real one is in the answer".into()),
            (place(json!({"id": 1, "children": [{"id": 1, "create": "OrderLine"}]})), "raw id 1 is used twice".into()),
            (create("Nothing", json!({})), "document Nothing is not defined".into()),
            (create("Order", json!({})), "document Order is an O document: it is created as a command's argument".into()),
            (create("OrderLine", json!({})), "document OrderLine is an O document: it is created as a command's argument".into()),
            (invoice(json!({"colour": 1})), "document Invoice has no field colour".into()),
            (invoice(json!({"number": 1})), "field number of document Invoice is drawn from a sequence: leave it out".into()),
            (create("Customer", json!({})), "field name of document Customer is required".into()),
            (create("Customer", json!({"name": null})), "field name of document Customer is required".into()),
            (create("Customer", json!({"name": 1})), "field name of document Customer takes a string, not 1".into()),
            (
                create("Customer", json!({"name": "x", "since": "tea"})),
                "field since of document Customer takes a moment such as \"2026-11-15T18:00:00Z\", not before 1970, not \"tea\"".into(),
            ),
            (
                invoice(json!({"total": "tea"})),
                "field total of document Invoice takes a decimal number, best as a string such as \"99.50\", of at most 28 digits, not \"tea\"".into(),
            ),
            (invoice(json!({"paid": 1})), "field paid of document Invoice takes true or false, not 1".into()),
            (invoice(json!({"customer": "Ada"})), "field customer of document Invoice takes the id of a record, not \"Ada\"".into()),
            (
                create("InvoiceLine", json!({"count": 1.5})),
                "document InvoiceLine is a child of Invoice: its parent has to be one".into(),
            ),
            (invoice(json!({"customer": 7})), "raw id 7 is not created by this command".into()),
            (invoice(json!({"customer": nowhere})), format!("record {nowhere} does not exist in this workspace")),
            (
                invoice(json!({"customer": bill})),
                format!("field customer of document Invoice refers to Customer, and record {bill} is a Invoice"),
            ),
            (
                invoice(json!({"customer": 1})),
                "field customer of document Invoice refers to Customer, and record 1 is a Invoice".into(),
            ),
            (
                json!({"changes": [{"create": "InvoiceLine", "id": 1, "parent": ada}]}),
                "document InvoiceLine is a child of Invoice: its parent has to be one".into(),
            ),
            (
                json!({"changes": [{"create": "InvoiceLine", "id": 1, "parent": 9}]}),
                "raw id 9 is not created by this command".into(),
            ),
            (
                json!({"changes": [{"create": "InvoiceLine", "id": 1, "parent": nowhere}]}),
                format!("record {nowhere} does not exist in this workspace"),
            ),
            (
                json!({"changes": [{"create": "Invoice", "id": 1, "parent": ada}]}),
                "document Invoice is not a child record: leave its parent out".into(),
            ),
            (
                json!({"changes": [{"create": "Invoice", "id": 65536}]}),
                "a create takes a raw id from 1 to 65535, not 65536: the real one is in the answer".into(),
            ),
            (
                json!({"changes": [{"create": "Invoice", "id": ada}]}),
                format!("a create takes a raw id from 1 to 65535, not {ada}: the real one is in the answer"),
            ),
            (
                json!({"changes": [{"create": "Invoice"}]}),
                "a create takes a raw id from 1 to 65535, not 0: the real one is in the answer".into(),
            ),
            (
                json!({"changes": [{"create": "Invoice", "id": 1}, {"create": "Invoice", "id": 1}]}),
                "raw id 1 is used twice".into(),
            ),
            (
                json!({"command": "PlaceOrder", "args": {"id": 1}, "changes": [{"create": "Invoice", "id": 1}]}),
                "raw id 1 is used twice".into(),
            ),
            (
                json!({"changes": [{"update": bill}, {"fields": {}}]}),
                "change 1 has to have either \"create\" with a document's name or \"update\" with a record's id".into(),
            ),
            (
                json!({"changes": [{"create": "Invoice", "id": 1, "update": bill}]}),
                "change 0 has to have either \"create\" with a document's name or \"update\" with a record's id".into(),
            ),
            (
                json!({"changes": [{"update": bill, "id": 1}]}),
                "change 0 has to have either \"create\" with a document's name or \"update\" with a record's id".into(),
            ),
            (json!({"changes": [{"update": 1}]}), "record 1 does not exist in this workspace".into()),
            (json!({"changes": [{"update": nowhere}]}), format!("record {nowhere} does not exist in this workspace")),
            (
                json!({"changes": [{"create": "Invoice", "id": 1}, {"update": 1}]}),
                "record 1 does not exist in this workspace".into(),
            ),
            (
                json!({"changes": [{"update": order}]}),
                format!("record {order} is a Order, an O document: it is part of its event and cannot be updated"),
            ),
            (
                json!({"changes": [{"update": ada, "fields": {"name": null}}]}),
                "field name of document Customer is required".into(),
            ),
            (
                json!({"changes": [{"update": bill, "fields": {"number": 5}}]}),
                "field number of document Invoice is drawn from a sequence: leave it out".into(),
            ),
            (
                json!({"changes": vec![json!({"update": bill, "fields": {"total": "1"}}); 101]}),
                "a command may have 100 changes, this one has 101: send less at once".into(),
            ),
            (
                place(json!({"id": 1, "children": (2..=1001).map(|id| json!({"id": id, "create": "OrderLine"})).collect::<Vec<_>>()})),
                "a command may have 1000 documents in its argument, this one has 1001: send less at once".into(),
            ),
        ];
        let before = desk.events().await;
        for (body, message) in &table {
            let error = desk.submit(&request(body.clone())).await.unwrap_err();
            assert_eq!(&error.to_string(), message, "{body}");
            assert_eq!(error.kind(), ErrorKind::Invalid, "{body}");
            assert!(matches!(error, SubmitError::Request(_)), "{body}");
        }
        for key in [String::new(), "k".repeat(201)] {
            let error = desk.submit(&support::invoice("1").idempotency_key(&*key)).await.unwrap_err();
            let message = format!("an idempotency key has 1 to 200 bytes, this one has {}", key.len());
            assert_eq!(error.to_string(), message);
        }
        let depot = desk.engine.create_workspace("till", "depot", None).await.unwrap().0.id;
        let not_here = desk.engine.submit("till", depot, &support::invoice("1")).await.unwrap_err();
        assert_eq!(not_here.to_string(), "workspaces of kind depot do not have document Invoice");
        let not_here = desk.engine.submit("till", depot, &Request::new("PlaceOrder")).await.unwrap_err();
        assert_eq!(not_here.to_string(), "workspaces of kind depot do not have command PlaceOrder");
        let refused = Request::new("Misbehave").args(json!({}));
        assert_eq!(desk.submit(&refused).await, Err(RequestError::Refused("how?".to_owned()).into()));
        assert_eq!(desk.events().await, before, "nothing of this has taken an offset");
        assert_eq!(desk.submit(&support::invoice("1")).await.unwrap().number(1, "number"), Some(2));
        println!("{} wrong requests", table.len() + 5);
        desk.engine.close().await;
    });
}

#[test]
fn a_hundred_changes_are_not_too_many() {
    with_desk(|desk| async move {
        let changes = (1..=100).map(|raw| Change::create("Invoice", raw));
        let answer = desk.submit(&Request::changes(changes)).await.unwrap();
        assert_eq!(answer.ids.len(), 100);
        assert_eq!(answer.number(100, "number"), Some(100));
        let last = Request::changes([Change::create("Invoice", 65_535)]);
        assert_eq!(desk.submit(&last).await.unwrap().number(65_535, "number"), Some(101));
        desk.engine.close().await;
    });
}

#[test]
fn numbers_are_drawn_depth_first_in_the_argument_then_in_the_order_of_the_changes() {
    with_desk(|desk| async move {
        let ada = desk.submit(&customer("Ada")).await.unwrap().id(1).unwrap();
        let order = json!({
            "id": 10, "fields": {"customer": 31},
            "children": [
                {"create": "OrderLine", "id": 11, "children": [{"create": "OrderOption", "id": 12}]},
                {"create": "OrderLine", "id": 13, "children": [{"create": "OrderOption", "id": 14}]},
            ],
        });
        // Raw ids fall while ids rise; references point forward and back, across argument and changes, and out of an
        // update.
        let request = Request {
            changes: vec![
                Change::create("Invoice", 30).field("corrects", 20).field("customer", 31).field("about", 14),
                Change::update(ada).field("friend", 31),
                Change::create("InvoiceLine", 29).parent(20),
                Change::create("Customer", 31).field("name", "Bob").field("friend", ada.get()),
                Change::create("Invoice", 20).field("about", 30),
            ],
            ..Request::new("PlaceOrder").args(order)
        };
        let answer = desk.submit(&request).await.unwrap();
        let base = 322_680_000_131_072;
        let id = |raw: u16| answer.id(raw).unwrap().get();
        let drawn = [10, 11, 12, 13, 14, 30, 29, 20].map(id);
        assert_eq!(drawn, std::array::from_fn(|place| base + place as u64));
        assert_eq!(id(31), ada.get() + 1);
        assert_eq!((answer.number(30, "number"), answer.number(20, "number")), (Some(1), Some(2)));
        let events = desk.engine.events("till", desk.shop, answer.workspace_offset, 1).await.unwrap();
        let Argument::Document(rows) = &events[0].event.argument else { panic!("{events:?}") };
        let tree: Vec<_> = rows
            .iter()
            .map(|row| (row.id.get() - base, row.parent.map(|parent| parent.get() - base)))
            .collect();
        assert_eq!(tree, [(0, None), (1, Some(0)), (2, Some(1)), (3, Some(0)), (4, Some(3))]);
        assert_eq!(rows[0].fields[0].1, Value::Reference(RecordId::new(id(31))));
        let field = |name: &str, value: Json| (name.to_owned(), value);
        let expected = [
            field("about", json!(id(14))),
            field("corrects", json!(id(20))),
            field("customer", json!(id(31))),
            field("number", json!(1)),
        ];
        assert_eq!(desk.record(RecordId::new(id(30))).await, expected);
        assert_eq!(
            desk.record(RecordId::new(id(20))).await,
            [field("about", json!(id(30))), field("number", json!(2))]
        );
        assert_eq!(desk.record(ada).await, [field("friend", json!(id(31))), field("name", json!("Ada"))]);
        let lines = desk.engine.records("till", desk.shop, "InvoiceLine", None, 10).await.unwrap();
        assert_eq!(lines[0].parent, answer.id(20));
        let found = desk.engine.record("till", desk.shop, RecordId::new(id(12))).await.unwrap().unwrap();
        let Found::InEvent { row, place } = found else { panic!("{found:?}") };
        assert_eq!((row.parent, place.workspace_offset), (answer.id(11), answer.workspace_offset));
        desk.engine.close().await;
    });
}

#[test]
fn an_unlogged_argument_reaches_the_command_and_is_in_no_byte_of_the_event() {
    with_desk(|desk| async move {
        let secret = "correct horse battery staple";
        for command in ["Check", "Note"] {
            let mut request = Request::new(command).args(json!({"for": "Ada"}));
            request.unlogged_args = Some(json!(secret));
            let request = request.idempotency_key(command);
            let answer = desk.submit(&request).await.unwrap();
            let expected = json!({"length": secret.len(), "args": {"for": "Ada"}});
            assert_eq!(answer.result, (command == "Check").then_some(expected));
            // It is no part of what makes a request the same.
            let mut again = request.clone();
            again.unlogged_args = Some(json!("another"));
            is_same(&answer, &desk.submit(&again).await.unwrap());
            let events = desk.engine.events("till", desk.shop, answer.workspace_offset, 1).await.unwrap();
            assert!(events[0].event.unlogged);
            let application = desk.engine.schema("till").unwrap().id();
            let partition = Partition { application, id: answer.partition };
            let read = desk.log.clone();
            let read =
                Log::new(read).read(partition, PartitionOffset::FIRST, ReadLimit::default()).await.unwrap();
            assert!(!read.is_empty());
            let bytes = read.as_bytes();
            assert!(!bytes.windows(7).any(|window| window == b"battery"));
            assert!(bytes.windows(3).any(|window| window == b"Ada"));
        }
        desk.engine.close().await;
    });
}

#[test]
fn a_command_of_the_application_reads_records_and_views_and_creates_more() {
    with_desk(|desk| async move {
        let ada = desk.submit(&customer("Ada")).await.unwrap().id(1).unwrap();
        let bill = |ids: &[RecordId]| {
            let ids: Vec<u64> = ids.iter().map(|id| id.get()).collect();
            Request::new("Bill").args(json!({"customers": ids}))
        };
        // What it reads is in the overlay, then only in the store, then in the group.
        for restart in [false, true] {
            let desk = if restart {
                &Desk::open_on(desk.env.clone(), desk.log.clone(), desk.store.clone(), options()).await
            } else {
                &desk
            };
            let answer = desk.submit(&bill(&[ada])).await.unwrap();
            let result = answer.result.unwrap();
            let events = if restart { 2 } else { 1 };
            assert_eq!((&result["ticket"], &result["events"]), (&json!(99 + events), &json!(events)));
            let made = RecordId::new(result["invoices"][0].as_u64().unwrap());
            let extra = json!({"name": "Ada", "events": events});
            let field = |name: &str, value: Json| (name.to_owned(), value);
            let expected =
                [field("customer", json!(ada.get())), field("extra", extra), field("number", json!(events))];
            assert_eq!(desk.record(made).await, expected);
            if restart {
                let rename = Request::changes([Change::update(ada).field("name", "Eve")]);
                let answers = desk.together(vec![rename, bill(&[ada]), bill(&[ada, ada])]).await;
                let results: Vec<Json> = answers[1..]
                    .iter()
                    .map(|answer| answer.as_ref().unwrap().result.clone().unwrap())
                    .collect();
                assert_eq!((&results[0]["events"], &results[1]["events"]), (&json!(4), &json!(5)));
                let last = RecordId::new(results[1]["invoices"][1].as_u64().unwrap());
                assert_eq!(desk.record(last).await[1], field("extra", json!({"name": "Eve", "events": 5})));
                assert_eq!(desk.record(last).await[2], field("number", json!(5)));
                let lines = desk.engine.records("till", desk.shop, "InvoiceLine", None, 10).await.unwrap();
                assert_eq!(lines.len(), 5);
                let missing = desk.submit(&bill(&[RecordId::new(ada.get() + 9)])).await.unwrap_err();
                assert_eq!(missing.kind(), ErrorKind::NotFound);
                assert_eq!(desk.submit(&bill(&[])).await.unwrap().result.unwrap()["ticket"], json!(104));
            }
            desk.engine.close().await;
        }
    });
}

#[test]
fn a_command_sees_the_effects_of_those_before_it_in_its_group() {
    with_desk(|desk| async move {
        let ada = desk.submit(&customer("Ada")).await.unwrap().id(1).unwrap();
        let bill = || Request::new("Bill").args(json!({"customers": [ada.get()]}));
        let rename = |name: &str| Request::changes([Change::update(ada).field("name", name)]);
        let answers = desk.together(vec![bill(), rename("Bea"), bill(), rename("Cleo"), bill()]).await;
        assert_eq!(desk.faults.count(Operation::Append), 1, "they were one group");
        for (place, name, events) in [(0, "Ada", 1), (2, "Bea", 3), (4, "Cleo", 5)] {
            let result = answers[place].as_ref().unwrap().result.clone().unwrap();
            let made = RecordId::new(result["invoices"][0].as_u64().unwrap());
            let extra = ("extra".to_owned(), json!({"name": name, "events": events}));
            assert_eq!(desk.record(made).await[1], extra);
        }
        desk.engine.close().await;
    });
}

#[test]
fn what_an_applications_code_does_wrong_refuses_only_its_own_command() {
    with_desk(|desk| async move {
        let misbehave = |how: &str| Request::new("Misbehave").args(json!({"how": how}));
        let note = |what: &str| Request::new("Note").args(json!({"projector": what}));
        let order = desk.submit(&Request::new("PlaceOrder").args(json!({"id": 1}))).await.unwrap();
        let mut update = misbehave("update");
        update.args =
            Some(json!({"how": "update", "id": order.id(1).unwrap().get(), "fields": {"note": "x"}}));
        let requests = vec![
            invoice("1"),
            misbehave("panic"),
            misbehave("panic late"),
            note("panic"),
            note("refuse"),
            misbehave("refuse"),
            misbehave("create order"),
            update,
            customer("Ada"),
            invoice("2"),
        ];
        let answers = desk.together(requests).await;
        assert_eq!(desk.faults.count(Operation::Append), 1, "they were one group");
        let texts: Vec<(ErrorKind, String)> = answers
            .iter()
            .filter_map(|answer| answer.as_ref().err())
            .map(|error| (error.kind(), error.to_string()))
            .collect();
        let expected = [
            (ErrorKind::Internal, "defect in command Misbehave: as it was told"),
            (ErrorKind::Internal, "defect in command Misbehave: after it has drawn"),
            (ErrorKind::Invalid, "view strict: the projector panicked: the projector was told to"),
            (ErrorKind::Invalid, "view strict: this event is not welcome"),
            (ErrorKind::Conflict, "not today"),
            (ErrorKind::Invalid, "document Order is an O document: it is created as a command's argument"),
        ];
        for ((kind, text), expected) in texts.iter().zip(expected) {
            assert_eq!((*kind, text.as_str()), expected);
        }
        assert_eq!(texts.len(), 7);
        assert_eq!(texts[6].0, ErrorKind::Invalid);
        assert!(
            texts[6].1.contains("is a Order, an O document: it is part of its event and cannot be updated")
        );
        // None of them has taken a number.
        assert_eq!(answers[0].as_ref().unwrap().number(1, "number"), Some(1));
        assert_eq!(answers[9].as_ref().unwrap().number(1, "number"), Some(2));
        assert_eq!(answers[8].as_ref().unwrap().id(1).unwrap().get(), 322_685_000_131_072);
        assert_eq!(desk.count().await, json!(4));
        let desk = desk.reopen().await;
        assert_eq!(desk.count().await, json!(4));
        desk.engine.close().await;
    });
}

/// A view whose row is first read from the store, kept by a projector that trusts its closure to be called.
fn counting_app() -> App {
    App::new(definition())
        .projector(projector("strict", |event, rows| {
            let mut seen = None;
            rows.fold(&["n".into()], |row| {
                let count = row.and_then(|row| row.as_u64()).unwrap_or(0) + 1;
                seen = Some(count);
                Some(json!(count))
            });
            // Not called for an event that is in already, which happens only when it is applied again.
            match seen {
                Some(count) if count == event.place.workspace_offset.get() => Ok(()),
                Some(count) => Err(format!("counted {count} at {}", event.place.workspace_offset)),
                None => Err("it was not called".to_owned()),
            }
        }))
        .projector(projector("second", |_, rows| {
            rows.fold(&["n".into()], |row| Some(json!(row.and_then(|row| row.as_u64()).unwrap_or(0) + 1)));
            Ok(())
        }))
}

#[test]
fn a_projector_is_not_blamed_for_a_row_that_had_to_be_read_first() {
    simulate(1, |env| async move {
        let (log, store) = (MemoryLog::new(), MemoryStore::new());
        for round in 0..3u64 {
            let (log, store) = (Log::new(log.reopen()), Store::new(store.reopen()));
            let engine = Engine::open(env.clone(), log, store, [counting_app()], options()).await.unwrap();
            assert!(engine.wait_ready(Duration::from_secs(1)).await);
            let shop = workspace(&engine, "shop").await;
            // Read from the store the first time, in the overlay after that.
            for place in 1..=2 {
                let answer = engine.submit("till", shop, &Request::new("Ping")).await.unwrap();
                assert_eq!(answer.workspace_offset.get(), round * 2 + place);
            }
            engine.close().await;
        }
    });
}
