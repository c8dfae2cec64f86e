//! A command's way from request to answer, and everything that can be wrong with it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value as Json, json};
use seriatim_engine::{
    Answer, App, Argument, Change, Engine, Found, Options, Request, RequestError, SubmitError, Value,
    projector,
};
use seriatim_env::{Env, Task, simulate};
use seriatim_storage::memory::{MemoryLog, MemoryStore};
use seriatim_storage::{Log, ReadLimit, Store};
use seriatim_storage_testing::faulty::{Fault, Faults, FaultyLog, FaultyStore, Operation};
use seriatim_types::{ErrorKind, Partition, PartitionOffset, RecordId, WorkspaceId, WorkspaceOffset};
use support::{customer, definition, invoice, open_with, options, till, workspace};

/// A till in memory whose storage can be told to fail.
struct Desk {
    env: Env,
    log: MemoryLog,
    store: MemoryStore,
    faults: Faults,
    engine: Engine,
    shop: WorkspaceId,
}

impl Desk {
    async fn open(env: Env, options: Options) -> Self {
        let (log, store) = (MemoryLog::new(), MemoryStore::new());
        Self::open_on(env, log, store, options).await
    }

    async fn open_on(env: Env, log: MemoryLog, store: MemoryStore, options: Options) -> Self {
        let faults = Faults::new(&env);
        let faulty_log = Log::new(FaultyLog::new(Arc::new(log.reopen()), &faults));
        let faulty_store = Store::new(FaultyStore::new(Arc::new(store.reopen()), &faults));
        let engine = open_with(&env, faulty_log, faulty_store, options).await;
        let shop = workspace(&engine, "shop").await;
        Self { env, log, store, faults, engine, shop }
    }

    async fn reopen(self) -> Self {
        self.engine.close().await;
        Self::open_on(self.env, self.log, self.store, options()).await
    }

    async fn submit(&self, request: &Request) -> Result<Answer, SubmitError> {
        self.engine.submit("till", self.shop, request).await
    }

    fn spawn(&self, workspace: WorkspaceId, request: Request) -> Task<Result<Answer, SubmitError>> {
        let engine = self.engine.clone();
        self.env.spawn(async move { engine.submit("till", workspace, &request).await })
    }

    /// Submits requests so that they are one group: the append of another workspace's command is held meanwhile.
    async fn together(&self, requests: Vec<Request>) -> Vec<Result<Answer, SubmitError>> {
        let other = workspace(&self.engine, "other").await;
        let third = workspace(&self.engine, "third").await;
        let partition = |workspace| self.engine.partition_of("till", workspace).unwrap();
        let other = if partition(other) == partition(self.shop) { other } else { third };
        assert_eq!(partition(other), partition(self.shop));
        // So that nothing has to be read for the group itself.
        self.engine.submit("till", other, &Request::new("Ping")).await.unwrap();
        let hold = self.faults.hold(Operation::Append);
        let blocker = self.spawn(other, Request::new("Ping"));
        hold.reached(1).await;
        self.faults.reset_counts();
        let mut tasks = Vec::new();
        for request in requests {
            tasks.push(self.spawn(self.shop, request));
            self.step_aside().await;
        }
        hold.release();
        blocker.await.unwrap().unwrap();
        let mut answers = Vec::new();
        for task in tasks {
            answers.push(task.await.unwrap());
        }
        answers
    }

    /// Lets the others run until they wait.
    async fn step_aside(&self) {
        self.env.sleep(Duration::from_micros(1)).await;
    }

    async fn events(&self) -> usize {
        self.engine.events("till", self.shop, WorkspaceOffset::FIRST, 10_000).await.unwrap().len()
    }

    async fn count(&self) -> Json {
        let rows = self.engine.view("till", self.shop, "count", &[], None, 10).await.unwrap();
        rows.into_iter().next().map_or(json!(0), |(_, row)| row)
    }

    async fn record(&self, id: RecordId) -> Vec<(String, Json)> {
        let found = self.engine.record("till", self.shop, id).await.unwrap();
        let Some(Found::Record(record)) = found else { panic!("{found:?}") };
        let schema = self.engine.schema("till").unwrap().document(record.document).unwrap();
        let named =
            |(id, value): &(_, Value)| (schema.field_by_id(*id).unwrap().name.to_string(), value.to_json());
        let mut fields: Vec<_> = record.fields.iter().map(named).collect();
        fields.sort_by(|a, b| a.0.cmp(&b.0));
        fields
    }
}

fn with_desk<F: Future<Output = ()>>(scenario: impl FnOnce(Desk) -> F) {
    simulate(1, |env| async move {
        let scenario = scenario(Desk::open(env.clone(), options()).await);
        env.timeout(Duration::from_secs(3_600), scenario).await.expect("nothing hangs");
    });
}

fn is_same(first: &Answer, again: &Answer) {
    assert_eq!(again, &Answer { repeated: true, ..first.clone() });
}

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
fn a_repeat_while_the_first_is_on_its_way_waits_for_it() {
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
                format!("record {order} is a Order, an O document: it stands in its event and is not updated"),
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
        assert!(texts[6].1.contains("is a Order, an O document: it stands in its event and is not updated"));
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

#[test]
fn a_full_queue_is_busy() {
    simulate(1, |env| async move {
        let desk = Desk::open(env, Options { queue_max: 3, ..options() }).await;
        let hold = desk.faults.hold(Operation::Append);
        let first = desk.spawn(desk.shop, Request::new("Ping"));
        hold.reached(1).await;
        // One group's worth is taken off the queue when the append begins; these stay in it.
        let waiting: Vec<_> = (0..3).map(|_| desk.spawn(desk.shop, Request::new("Ping"))).collect();
        desk.step_aside().await;
        let error = desk.submit(&Request::new("Ping")).await.unwrap_err();
        assert_eq!((error.kind(), error), (ErrorKind::Busy, SubmitError::QueueFull(3)));
        hold.release();
        for task in waiting.into_iter().chain([first]) {
            task.await.unwrap().unwrap();
        }
        desk.submit(&Request::new("Ping")).await.unwrap();
        assert_eq!(desk.events().await, 5);
        desk.engine.close().await;
    });
}

#[test]
fn commands_that_wait_are_bounded_in_bytes_until_they_are_answered() {
    simulate(1, |env| async move {
        let desk = Desk::open(env, Options { queue_bytes_max: 100_000, ..options() }).await;
        let note = || Request::new("Note").args(json!({"text": "x".repeat(60_000)}));
        let hold = desk.faults.hold(Operation::Append);
        let first = desk.spawn(desk.shop, note());
        hold.reached(1).await;
        // It is on its way, and not answered.
        let error = desk.submit(&note()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Busy);
        assert!(matches!(error, SubmitError::QueueBytesFull(60_000..)), "{error}");
        let small = desk.spawn(desk.shop, Request::new("Ping"));
        desk.step_aside().await;
        assert!(!small.is_finished(), "there is room for it");
        hold.release();
        first.await.unwrap().unwrap();
        small.await.unwrap().unwrap();
        desk.submit(&note()).await.unwrap();
        assert_eq!(desk.events().await, 3);
        desk.engine.close().await;
    });
}

#[test]
fn a_backlog_is_busy_after_a_while_and_goes_on_when_the_store_heals() {
    simulate(1, |env| async move {
        let begin_wait = Duration::from_millis(200);
        let desk =
            Desk::open(env, Options { unflushed_max: 40, flush_at: 10, begin_wait, ..options() }).await;
        desk.faults.fail(Operation::Write, Fault::Refuse);
        let mut done = 0;
        let (error, waited) = loop {
            let start = desk.env.instant();
            match desk.submit(&invoice("1")).await {
                Ok(_) => done += 1,
                Err(error) => break (error, desk.env.instant() - start),
            }
            assert!(done < 100, "memory is bounded");
        };
        assert!(done > 3);
        assert_eq!(error.kind(), ErrorKind::Busy);
        assert!(error.to_string().starts_with("server is busy: "), "{error}");
        assert!((begin_wait..begin_wait * 2).contains(&waited), "{waited:?}");
        // What is committed can be read all the while.
        assert_eq!(desk.events().await, done);
        desk.faults.heal();
        desk.env.sleep(Duration::from_secs(1)).await;
        assert_eq!(
            desk.submit(&invoice("1")).await.unwrap().number(1, "number"),
            i64::try_from(done + 1).ok()
        );
        let desk = desk.reopen().await;
        assert_eq!(desk.count().await, json!(done + 1));
        desk.engine.close().await;
    });
}

#[test]
fn commands_that_were_being_loaded_do_not_wait_for_a_backlog_to_end() {
    for seed in 0..20 {
        simulate(seed, |env| async move {
            let begin_wait = Duration::from_millis(200);
            let desk =
                Desk::open(env, Options { unflushed_max: 40, flush_at: 10, begin_wait, ..options() }).await;
            let mut cold = Vec::new();
            for name in 0..16 {
                cold.push(workspace(&desk.engine, &format!("cold {name}")).await);
            }
            // In a new life nothing of them is in memory.
            let desk =
                desk.reopen_with(Options { unflushed_max: 40, flush_at: 10, begin_wait, ..options() }).await;
            desk.faults.fail(Operation::Write, Fault::Refuse);
            desk.faults.delay(Operation::GetMany | Operation::Append, Duration::from_millis(5));
            let tasks: Vec<_> = (0..200).map(|n| desk.spawn(cold[n % 16], invoice("1"))).collect();
            let (mut done, mut busy) = (0, 0);
            let all = async {
                for task in tasks {
                    match task.await.unwrap() {
                        Ok(_) => done += 1,
                        Err(error) => {
                            assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
                            busy += 1;
                        }
                    }
                }
            };
            desk.env.timeout(Duration::from_secs(10), all).await.expect("everybody is answered");
            assert!(done > 0 && busy > 0, "{done} done, {busy} busy");
        });
    }
}

impl Desk {
    async fn reopen_with(self, options: Options) -> Self {
        self.engine.close().await;
        Self::open_on(self.env, self.log, self.store, options).await
    }
}

#[test]
fn a_log_in_doubt_is_settled_and_nobody_waits_for_ever() {
    for fault in [Fault::LoseRequest, Fault::LoseReply] {
        simulate(1, |env| async move {
            let desk = Desk::open(env, options()).await;
            desk.faults.fail_nth(Operation::Append, 1, fault);
            let first = desk.submit(&invoice("1")).await;
            match fault {
                Fault::LoseReply => assert_eq!(first.unwrap().number(1, "number"), Some(1)),
                _ => assert_eq!(first.unwrap_err().kind(), ErrorKind::Unavailable),
            }
            let next = desk.submit(&invoice("2")).await.unwrap();
            assert_eq!(next.number(1, "number"), Some(if fault == Fault::LoseReply { 2 } else { 1 }));
            // Nor can it be asked what became of it: those who wait behind are told, too.
            desk.faults.fail_nth(Operation::Append, 1, fault);
            desk.faults.fail(Operation::Take, Fault::Refuse);
            let doubtful = desk.spawn(desk.shop, invoice("3").idempotency_key("3"));
            desk.step_aside().await;
            let behind = desk.spawn(desk.shop, invoice("4"));
            let both = async { (doubtful.await.unwrap().unwrap_err(), behind.await.unwrap().unwrap_err()) };
            let both = desk.env.timeout(Duration::from_secs(10), both).await;
            let (doubtful, behind) = both.expect("everybody is answered");
            assert_eq!(doubtful.kind(), ErrorKind::InDoubt, "{doubtful}");
            assert_eq!(behind.kind(), ErrorKind::Unavailable, "{behind}");
            desk.faults.heal();
            desk.env.sleep(Duration::from_secs(1)).await;
            let again = desk.submit(&invoice("3").idempotency_key("3")).await.unwrap();
            assert_eq!(again.repeated, fault == Fault::LoseReply);
            let last = desk.submit(&invoice("5")).await.unwrap().number(1, "number").unwrap();
            assert_eq!(last, if fault == Fault::LoseReply { 4 } else { 3 });
            assert_eq!(desk.count().await, json!(last));
            desk.engine.close().await;
        });
    }
}

#[test]
fn a_command_whose_caller_has_gone_is_done_all_the_same() {
    with_desk(|desk| async move {
        let hold = desk.faults.hold(Operation::Append);
        let tasks: Vec<_> = (0..3).map(|_| desk.spawn(desk.shop, invoice("1"))).collect();
        hold.reached(1).await;
        desk.step_aside().await;
        tasks.iter().for_each(Task::cancel);
        drop(tasks);
        hold.release();
        desk.env.sleep(Duration::from_millis(1)).await;
        assert_eq!(desk.events().await, 3);
        assert_eq!(desk.submit(&invoice("2")).await.unwrap().number(1, "number"), Some(4));
        desk.engine.close().await;
    });
}

#[test]
fn what_comes_after_the_end_is_told_so() {
    with_desk(|desk| async move {
        let hold = desk.faults.hold(Operation::Append);
        let first = desk.spawn(desk.shop, invoice("1"));
        hold.reached(1).await;
        let engine = desk.engine.clone();
        let closing = desk.env.spawn(async move { engine.close().await });
        desk.step_aside().await;
        let late = desk.spawn(desk.shop, invoice("2"));
        desk.step_aside().await;
        hold.release();
        first.await.unwrap().unwrap();
        assert_eq!(late.await.unwrap(), Err(SubmitError::Closed));
        closing.await.unwrap();
        assert_eq!(desk.submit(&invoice("3")).await, Err(SubmitError::Closed));
    });
}

/// Puts a value where the next invoice goes.
async fn sabotage_next_invoice(desk: &Desk, next: u64) {
    let schema = desk.engine.schema("till").unwrap();
    let partition = desk.engine.partition_of("till", desk.shop).unwrap();
    let storage = [&schema.id().get().to_be_bytes()[..], &partition.get().to_be_bytes()].concat();
    let kind = schema.document_by_name("Invoice").unwrap().id.get().to_be_bytes();
    let clustering = [&b"w"[..], &desk.shop.get().to_be_bytes(), &kind, &next.to_be_bytes()].concat();
    let key = seriatim_storage::Key::new(&storage, &clustering);
    Store::new(desk.store.clone()).put(key, &[1]).await.unwrap();
}

#[test]
fn what_was_read_before_a_flush_is_read_again_when_a_group_is_staged_a_second_time() {
    with_desk(|desk| async move {
        let next = desk.submit(&invoice("1")).await.unwrap().id(1).unwrap().get() + 1;
        sabotage_next_invoice(&desk, next).await;
        let once = Request::new("Ping").idempotency_key("once");
        let load = desk.faults.hold(Operation::GetMany);
        let first = desk.spawn(desk.shop, once.clone());
        load.reached(1).await;
        // Both come too late for the first group, and are loaded while it is on its way: the store has no such key.
        let second = desk.spawn(desk.shop, once);
        let guilty = desk.spawn(desk.shop, invoice("1"));
        desk.step_aside().await;
        let append = desk.faults.hold_answers(Operation::Append);
        load.release();
        append.reached(1).await;
        desk.step_aside().await;
        // The first group leaves the overlay while the store is asked for the second one's new keys.
        let ask = desk.faults.hold(Operation::GetMany);
        desk.faults.reset_counts();
        append.release();
        let first = first.await.unwrap().unwrap();
        ask.reached(1).await;
        desk.env.sleep(Duration::from_secs(1)).await;
        assert!(desk.faults.count(Operation::Write) > 0);
        ask.release();
        assert!(matches!(guilty.await.unwrap(), Err(SubmitError::Taken { .. })));
        is_same(&first, &second.await.unwrap().unwrap());
        assert_eq!(desk.events().await, 2);
        desk.engine.close().await;
    });
}

#[test]
fn a_recovery_goes_on_when_a_flush_takes_away_what_it_was_about_to_read() {
    for seed in 0..3 {
        simulate(seed, |env| async move {
            let desk = Desk::open(env, options()).await;
            // A life that flushes nothing.
            desk.faults.fail(Operation::Write, Fault::Refuse);
            for _ in 0..11 {
                let changes = (1..=100).map(|raw| Change::create("Invoice", raw));
                desk.submit(&Request::changes(changes)).await.unwrap();
            }
            for _ in 0..1_100 {
                desk.submit(&invoice("1")).await.unwrap();
            }
            desk.engine.close().await;
            let (log, store) = (desk.log.reopen(), desk.store.reopen());
            let faults = Faults::new(&desk.env);
            faults.delay(Operation::GetMany, Duration::from_millis(30));
            let log = Log::new(FaultyLog::new(Arc::new(log), &faults));
            let store = Store::new(FaultyStore::new(Arc::new(store), &faults));
            let often = Options { flush_interval: Duration::from_millis(1), ..options() };
            let engine = open_with(&desk.env, log, store, often).await;
            assert!(faults.count(Operation::Write) > 2, "it was flushed on the way");
            assert_eq!(check_all(&engine, &[desk.shop]).await, 1_111);
            engine.close().await;
        });
    }
}

#[test]
fn a_record_does_not_go_back_while_a_recovery_applies_its_changes_again() {
    simulate(1, |env| async move {
        let desk = Desk::open(env, options()).await;
        let ada = desk.submit(&customer("0")).await.unwrap().id(1).unwrap();
        let partition = Partition {
            application: desk.engine.schema("till").unwrap().id(),
            id: desk.engine.partition_of("till", desk.shop).unwrap(),
        };
        let storage =
            [&partition.application.get().to_be_bytes()[..], &partition.id.get().to_be_bytes()].concat();
        for n in 1..5_000 {
            let rename = Request::changes([Change::update(ada).field("name", n.to_string())]);
            desk.submit(&rename).await.unwrap();
        }
        desk.engine.close().await;
        // The checkpoint is lost, the values are not: everything is applied again, one page of the log at a time.
        let mut batch = seriatim_storage::Batch::new();
        batch.remove(seriatim_storage::Key::new(&storage, b"k"));
        let store = Store::new(desk.store.reopen());
        store.write(batch, seriatim_storage::Durability::Synced).await.unwrap();
        let faults = Faults::new(&desk.env);
        let log = Log::new(FaultyLog::new(Arc::new(desk.log.reopen()), &faults));
        // The registry is not part of it.
        faults.delay(Operation::Read, Duration::from_millis(100));
        // Reads do not wait for the recovery, so that there are many of them.
        let hasty = Options { begin_wait: Duration::from_millis(1), ..options() };
        let engine = Engine::open(desk.env.clone(), log, store, [till()], hasty).await.unwrap();
        let Desk { env, log, store, faults: _, shop, .. } = desk;
        let desk = Desk { env, log, store, faults, engine, shop };
        let mut looks = 0;
        while !desk.engine.wait_ready(Duration::from_millis(5)).await {
            // Not while it is at work: an earlier name would be seen.
            match desk.engine.record("till", desk.shop, ada).await {
                Ok(_) => assert_eq!(desk.record(ada).await, [("name".to_owned(), json!("4999"))]),
                Err(error) => assert_eq!(error.kind(), ErrorKind::Busy, "{error}"),
            }
            looks += 1;
        }
        assert!(looks > 1, "the recovery was seen at work");
        assert_eq!(desk.record(ada).await, [("name".to_owned(), json!("4999"))]);
        assert_eq!(desk.count().await, json!(5_000));
        desk.engine.close().await;
    });
}

#[test]
fn many_clients_in_any_order_leave_one_dense_log_that_counts_once() {
    let mut groups = 0;
    for seed in 0..60 {
        groups += simulate(seed, |env| async move {
            let small = Options {
                unflushed_max: 60,
                flush_at: 7,
                flush_interval: Duration::from_millis(5),
                ..options()
            };
            let desk = Desk::open(env, Options { begin_wait: Duration::from_secs(10), ..small }).await;
            let mut shops = vec![desk.shop];
            for name in ["b", "c", "d"] {
                shops.push(workspace(&desk.engine, name).await);
            }
            desk.faults
                .delay(Operation::Append | Operation::Write | Operation::GetMany, Duration::from_millis(3));
            desk.faults.chance(Operation::Write, Fault::LoseReply, 0.1);
            desk.faults.chance(Operation::Append, Fault::LoseReply, 0.05);
            desk.faults.chance(Operation::Append, Fault::LoseRequest, 0.05);
            desk.faults.reset_counts();
            let clients: Vec<_> = (0..8u64)
                .map(|client| {
                    desk.env.spawn(client_of(desk.engine.clone(), desk.env.clone(), shops.clone(), client))
                })
                .collect();
            let mut acknowledged = 0;
            for client in clients {
                acknowledged += client.await.unwrap();
            }
            desk.faults.heal();
            let groups = desk.faults.count(Operation::Append);
            let counted = check_all(&desk.engine, &shops).await;
            assert_eq!(counted, acknowledged, "every command is repeated until it is acknowledged");
            let desk = Desk { engine: desk.engine.clone(), ..desk };
            let desk = desk.reopen().await;
            assert_eq!(check_all(&desk.engine, &shops).await, acknowledged);
            desk.engine.close().await;
            groups
        });
    }
    println!("60 orders, {groups} groups");
}

/// Ten commands, each repeated until it is acknowledged.
async fn client_of(engine: Engine, env: Env, shops: Vec<WorkspaceId>, client: u64) -> u64 {
    for n in 0..10u64 {
        let shop = shops[usize::try_from(env.random_below(4)).unwrap()];
        let request = match env.random_below(3) {
            0 => Request::changes([Change::create("Invoice", 1), Change::create("Invoice", 2)]),
            1 => Request::new("Bill").args(json!({"customers": []})),
            _ => customer("somebody"),
        };
        let request = request.idempotency_key(format!("{client} {n}"));
        loop {
            match engine.submit("till", shop, &request).await {
                Ok(_) => break,
                Err(error) => assert!(
                    matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::InDoubt | ErrorKind::Busy),
                    "{error}"
                ),
            }
        }
    }
    10
}

/// Workspace offsets and invoice numbers are dense, and the view has counted each event once; returns how many there are.
async fn check_all(engine: &Engine, shops: &[WorkspaceId]) -> u64 {
    let mut all = 0;
    for shop in shops {
        let events = engine.events("till", *shop, WorkspaceOffset::FIRST, 10_000).await.unwrap();
        let mut number = 0;
        let schema = engine.schema("till").unwrap().document_by_name("Invoice").unwrap();
        for (event, offset) in events.iter().zip(1..) {
            assert_eq!(event.place.workspace_offset.get(), offset);
            for row in event.event.created().filter(|row| row.document == schema.id) {
                number += 1;
                let field = schema.field("number").unwrap().id;
                assert!(
                    row.fields.contains(&(field, Value::Integer(number))),
                    "{row:?} has to have number {number}"
                );
            }
        }
        let records = engine.records("till", *shop, "Invoice", None, 10_000).await.unwrap();
        assert_eq!(records.len() as i64, number);
        let rows = engine.view("till", *shop, "count", &[], None, 10).await.unwrap();
        let counted = rows.first().map_or(0, |(_, row)| row.as_u64().unwrap());
        assert_eq!(counted, events.len() as u64);
        all += counted;
    }
    all
}
