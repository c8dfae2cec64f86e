//! A till: an application that has one of everything, and ways to open it.
#![allow(dead_code, reason = "each suite uses a part of it")]

use std::time::Duration;

use serde_json::{Map, Value as Json, json};
use seriatim_engine::definition::{
    Application, CommandDefinition, DocumentDefinition, DocumentKind, FieldDefinition, FieldType,
    KindDefinition, SequenceDefinition,
};
use seriatim_engine::{App, Change, CommandError, Context, Engine, Options, Request, projector};
use seriatim_env::Env;
use seriatim_storage::{Log, Store};
use seriatim_types::WorkspaceId;

pub(crate) fn definition() -> Application {
    let document = DocumentDefinition::new;
    let child = DocumentDefinition::child;
    Application::builder("till")
        .partitions(2)
        .sequence(SequenceDefinition::new("InvoiceNumber", 1))
        .sequence(SequenceDefinition::new("TicketNumber", 100))
        .document(
            document("Customer", DocumentKind::C)
                .with(FieldDefinition::new("name", FieldType::Text).required())
                .field("since", FieldType::Timestamp)
                .field("friend", FieldType::to("Customer")),
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
            child("OrderLine", "Order").field("item", FieldType::Text).field("quantity", FieldType::Integer),
        )
        .document(child("OrderOption", "OrderLine").field("text", FieldType::Text))
        .document(
            document("Invoice", DocumentKind::W)
                .field("customer", FieldType::to("Customer"))
                .field("corrects", FieldType::to("Invoice"))
                .field("about", FieldType::Reference(None))
                .field("total", FieldType::Decimal)
                .field("paid", FieldType::Bool)
                .field("extra", FieldType::Json)
                .with(FieldDefinition::drawn("number", "InvoiceNumber")),
        )
        .document(
            child("InvoiceLine", "Invoice").field("text", FieldType::Text).field("count", FieldType::Integer),
        )
        .command(CommandDefinition::with_document("PlaceOrder", "Order"))
        .command(CommandDefinition::with_json("Note").unlogged())
        .command(CommandDefinition::new("Ping"))
        .command(CommandDefinition::with_json("Bill").sequences(["TicketNumber"]))
        .command(CommandDefinition::with_json("Misbehave"))
        .command(CommandDefinition::with_json("Check").unlogged())
        .kind(KindDefinition::new("store"))
        .kind(KindDefinition::new("depot").documents(["Customer"]).commands(["Ping"]))
        .build()
        .unwrap()
}

/// The application with its code: two commands that read and create, one that does everything wrong, and two views.
pub(crate) fn till() -> App {
    App::new(definition())
        .command("Bill", bill)
        .command("Misbehave", misbehave)
        .command("Check", check)
        // How many events each workspace has had: each must be counted once.
        .projector(projector("count", |_, rows| {
            rows.fold(&["events".into()], |row| {
                Some(json!(row.and_then(|row| row.as_u64()).unwrap_or(0) + 1))
            });
            Ok(())
        }))
        // Refuses, and panics, when it is told to.
        .projector(projector("strict", |event, _| {
            let args = event.event.json_argument().unwrap_or_default();
            assert!(args["projector"] != json!("panic"), "the projector was told to");
            if args["projector"] == json!("refuse") {
                return Err("this event is not welcome".to_owned());
            }
            Ok(())
        }))
}

/// Creates an invoice for each id of `customers`, with what their record and the view `count` say.
fn bill(context: &mut Context<'_, '_>) -> Result<Json, CommandError> {
    let args = context.args().clone();
    let events = context.row("count", &["events".into()])?;
    let ticket = context.draw("TicketNumber")?;
    let mut made = Vec::new();
    for id in args["customers"].as_array().into_iter().flatten() {
        let id = seriatim_types::RecordId::new(id.as_u64().unwrap_or(0));
        let record = context.record(id)?;
        let record = record.ok_or_else(|| CommandError::NotFound(format!("customer {id} is not there")))?;
        let name = context.schema().document_by_name("Customer").and_then(|customer| customer.field("name"));
        let name = name.and_then(|field| record.field(field.id)).map(seriatim_engine::Value::to_json);
        let fields = json!({"customer": id.get(), "extra": {"name": name, "events": events}});
        let Json::Object(fields) = fields else { continue };
        let invoice = context.create("Invoice", None, &fields)?;
        let line = json!({"text": "fee", "count": 1});
        context.create("InvoiceLine", Some(invoice), line.as_object().unwrap_or(&Map::new()))?;
        made.push(invoice.get());
    }
    Ok(json!({"ticket": ticket.get(), "invoices": made, "events": events}))
}

fn misbehave(context: &mut Context<'_, '_>) -> Result<Json, CommandError> {
    let fields = |json: Json| json.as_object().cloned().unwrap_or_default();
    let args = context.args().clone();
    match args["how"].as_str() {
        Some("panic") => panic!("as it was told"),
        Some("panic late") => {
            context.create("Customer", None, &fields(json!({"name": "unknown"})))?;
            panic!("after it has drawn");
        }
        Some("refuse") => Err(CommandError::Conflict("not today".to_owned())),
        Some("two singletons") => {
            context.create("Settings", None, &Map::new())?;
            context.create("Settings", None, &Map::new())?;
            Ok(Json::Null)
        }
        Some("create order") => {
            context.create("Order", None, &Map::new())?;
            Ok(Json::Null)
        }
        Some("update") => {
            let id = seriatim_types::RecordId::new(args["id"].as_u64().unwrap_or(0));
            context.update(id, &fields(args["fields"].clone()))?;
            Ok(Json::Null)
        }
        _ => Err(CommandError::Invalid("how?".to_owned())),
    }
}

/// Says what the unlogged argument was.
fn check(context: &mut Context<'_, '_>) -> Result<Json, CommandError> {
    let length = context.unlogged_args().and_then(Json::as_str).map(str::len);
    Ok(json!({"length": length, "args": context.args()}))
}

pub(crate) fn options() -> Options {
    Options {
        flush_interval: Duration::from_millis(50),
        retry: Duration::from_millis(20),
        ..Options::default()
    }
}

/// Opens the till and waits until it takes commands.
pub(crate) async fn open_with(env: &Env, log: Log, store: Store, options: Options) -> Engine {
    let engine = Engine::open(env.clone(), log, store, [till()], options).await.unwrap();
    assert!(engine.wait_ready(Duration::from_secs(60)).await, "{:?}", engine.partitions("till"));
    engine
}

pub(crate) async fn workspace(engine: &Engine, name: &str) -> WorkspaceId {
    engine.create_workspace("till", "store", Some(name)).await.unwrap().0.id
}

pub(crate) fn invoice(total: &str) -> Request {
    Request::changes([Change::create("Invoice", 1).field("total", total)])
}

pub(crate) fn customer(name: &str) -> Request {
    Request::changes([Change::create("Customer", 1).field("name", name)])
}
