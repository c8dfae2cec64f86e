//! Exactly once on real threads: every command is sent several times under its key, with delays, while flushes end all
//! the time. No key is executed twice, and no update is lost.
//!
//! A simulation cannot show this: staging does not await, so on one thread no flush ever ends during it.
//!
//! `cargo test -p seriatim-engine --test exactly_once` takes some seconds; with `SERIATIM_FULL=1` it is 512 clients and 60
//! seconds, once with the default options and once with flushes as often as possible (add `--release -- --nocapture` to see
//! the counts).
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, reason = "the counts are the result")]

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value as Json, json};
use seriatim_engine::definition::{
    Application, CommandDefinition, DocumentDefinition, DocumentKind, FieldDefinition, FieldType,
    KindDefinition, SequenceDefinition,
};
use seriatim_engine::doctor::Treatment;
use seriatim_engine::{App, Change, CommandError, Context, Engine, Options, Request, SubmitError, Value};
use seriatim_env::Env;
use seriatim_storage::Store;
use seriatim_storage::memory::MemoryStore;
use seriatim_storage_file::{FileOptions, FileStorage};
use seriatim_types::{ErrorKind, RecordId, WorkspaceId, WorkspaceOffset};

/// Few, so that many commands of one workspace are in flight at once.
const WORKSPACES: usize = 24;

/// How often each command is sent at the most.
const SENDS_MAX: u64 = 3;

struct Scale {
    clients: usize,
    seconds: u64,
}

fn scale() -> Scale {
    match std::env::var_os("SERIATIM_FULL") {
        Some(_) => Scale { clients: 512, seconds: 60 },
        None => Scale { clients: 256, seconds: 4 },
    }
}

/// Accounts with a balance, and entries with a number.
fn ledger() -> App {
    let definition = Application::builder("ledger")
        .partitions(2)
        .sequence(SequenceDefinition::new("EntryNumber", 1))
        .document(DocumentDefinition::new("Account", DocumentKind::C).field("balance", FieldType::Integer))
        .document(
            DocumentDefinition::new("Entry", DocumentKind::W)
                .with(FieldDefinition::drawn("number", "EntryNumber")),
        )
        .command(CommandDefinition::with_json("Add").sequences(["EntryNumber"]))
        .kind(KindDefinition::new("book"))
        .build()
        .unwrap();
    App::new(definition).command("Add", add)
}

/// Reads an account, adds one to its balance, and makes an entry.
fn add(context: &mut Context<'_, '_>) -> Result<Json, CommandError> {
    let id = RecordId::new(context.args()["account"].as_u64().unwrap_or(0));
    let account = context.record(id)?.ok_or_else(|| CommandError::NotFound(format!("account {id}")))?;
    let field = context.schema().document_by_name("Account").and_then(|account| account.field("balance"));
    let balance = match field.and_then(|field| account.field(field.id)) {
        Some(Value::Integer(balance)) => *balance,
        other => return Err(CommandError::Invalid(format!("a balance of {other:?}"))),
    };
    let fields = json!({"balance": balance + 1});
    context.update(id, fields.as_object().unwrap())?;
    context.create("Entry", None, &serde_json::Map::new())?;
    Ok(json!({"balance": balance + 1}))
}

/// An account of a workspace.
#[derive(Debug, Clone, Copy)]
struct Account {
    workspace: WorkspaceId,
    id: RecordId,
}

async fn make_accounts(engine: &Engine) -> Vec<Account> {
    let mut accounts = Vec::new();
    for place in 0..WORKSPACES {
        let name = format!("book {place}").replace(' ', "-");
        let workspace = engine.create_workspace("ledger", "book", Some(&name)).await.unwrap().0.id;
        let create = Request::changes([Change::create("Account", 1).field("balance", 0)]);
        let answer = engine.submit("ledger", workspace, &create).await.unwrap();
        accounts.push(Account { workspace, id: answer.ids[0].1 });
    }
    accounts
}

/// Sends a command until it is answered: busy is tried again, everything else is a failure of the test.
async fn send(env: &Env, engine: &Engine, workspace: WorkspaceId, request: &Request) -> Json {
    loop {
        match engine.submit("ledger", workspace, request).await {
            Ok(answer) => return answer.result.unwrap_or(Json::Null),
            Err(error) if error.kind() == ErrorKind::Busy => env.sleep(Duration::from_millis(5)).await,
            Err(SubmitError::QueueFull(_)) => env.sleep(Duration::from_millis(5)).await,
            Err(error) => panic!("{error}"),
        }
    }
}

/// Sends one command after another, each two or three times at once under one key, until the time is over. Returns how many
/// keys it used of each workspace.
async fn client(
    env: Env,
    engine: Engine,
    name: usize,
    accounts: Arc<Vec<Account>>,
    seconds: u64,
    sent: Arc<AtomicU64>,
) -> HashMap<WorkspaceId, u64> {
    let end = env.instant() + Duration::from_secs(seconds);
    let mut keys = HashMap::new();
    let mut count = 0;
    while env.instant() < end {
        count += 1;
        let place = usize::try_from(env.random_below(accounts.len() as u64)).unwrap();
        let Account { workspace, id } = accounts[place];
        let request = Request::new("Add")
            .args(json!({"account": id.get()}))
            .idempotency_key(format!("client {name}, command {count}"));
        let sends = 2 + env.random_below(SENDS_MAX - 1);
        let mut answers = Vec::new();
        for _ in 0..sends {
            let (env, engine, request) = (env.clone(), engine.clone(), request.clone());
            let delay = Duration::from_micros(env.random_below(30_000));
            answers.push(env.clone().spawn(async move {
                env.sleep(delay).await;
                send(&env, &engine, workspace, &request).await
            }));
        }
        sent.fetch_add(sends, Ordering::Relaxed);
        let mut first = None;
        for answer in answers {
            let answer = answer.await.unwrap();
            let first = first.get_or_insert_with(|| answer.clone());
            assert_eq!(*first, answer, "client {name}, command {count}: two answers under one key");
        }
        *keys.entry(workspace).or_insert(0) += 1;
    }
    keys
}

/// What the log says of a workspace: how many events have a key, and how many of these keys are there twice.
async fn keys_in_log(engine: &Engine, workspace: WorkspaceId) -> (u64, Vec<String>) {
    let mut uses: HashMap<String, u64> = HashMap::new();
    let mut from = WorkspaceOffset::FIRST;
    loop {
        let events = engine.events("ledger", workspace, from, 5_000).await.unwrap();
        let Some(last) = events.last() else { break };
        from = last.place.workspace_offset.next().unwrap();
        for placed in &events {
            if let Some(idempotency) = &placed.event.idempotency {
                *uses.entry(idempotency.key.to_string()).or_insert(0) += 1;
            }
        }
    }
    let twice = uses.iter().filter(|(_, uses)| **uses > 1).map(|(key, _)| key.clone()).collect();
    (uses.values().sum(), twice)
}

async fn balance(engine: &Engine, account: Account) -> i64 {
    let found = engine.record("ledger", account.workspace, account.id).await.unwrap();
    let Some(seriatim_engine::Found::Record(record)) = found else { panic!("{found:?}") };
    match record.fields.first() {
        Some((_, Value::Integer(balance))) => *balance,
        other => panic!("{other:?}"),
    }
}

async fn every_key_is_executed_once(env: &Env, title: &str, options: Options) {
    let Scale { clients, seconds } = scale();
    let directory = tempfile::tempdir().unwrap();
    let files = FileOptions { free_bytes_min: 0, ..FileOptions::default() };
    let storage = FileStorage::open(env, directory.path(), files).await.unwrap();
    let engine =
        Engine::open(env.clone(), storage.log().clone(), storage.store().clone(), [ledger()], options)
            .await
            .unwrap();
    assert!(engine.wait_ready(Duration::from_secs(60)).await);
    let accounts = Arc::new(make_accounts(&engine).await);
    let sent = Arc::new(AtomicU64::new(0));
    let tasks: Vec<_> = (0..clients)
        .map(|name| {
            let (accounts, sent) = (accounts.clone(), sent.clone());
            env.spawn(client(env.clone(), engine.clone(), name, accounts, seconds, sent))
        })
        .collect();
    let mut used: HashMap<WorkspaceId, u64> = HashMap::new();
    for task in tasks {
        for (workspace, keys) in task.await.unwrap() {
            *used.entry(workspace).or_insert(0) += keys;
        }
    }
    let (mut keys, mut twice, mut lost) = (0, Vec::new(), 0);
    for account in accounts.iter() {
        let (events, more) = keys_in_log(&engine, account.workspace).await;
        let expected = used.get(&account.workspace).copied().unwrap_or(0);
        keys += expected;
        twice.extend(more);
        lost += events.abs_diff(u64::try_from(balance(&engine, *account).await).unwrap());
        assert!(events >= expected, "a key that was answered is not in the log");
    }
    let sent = sent.load(Ordering::Relaxed);
    println!(
        "{title}: {clients} clients, {seconds} s: {keys} keys sent {sent} times, {} executed twice, {lost} updates lost",
        twice.len()
    );
    assert_eq!((twice.len(), lost), (0, 0), "executed twice: {twice:?}");
    let scratch = Store::new(MemoryStore::new());
    let report = engine.doctor(&scratch, Treatment::Check, &mut |_| {}).await.unwrap();
    assert!(report.is_clean(), "{report:?}");
    engine.close().await;
    storage.close().await.unwrap();
}

#[test]
fn a_key_is_executed_once_while_flushes_end_on_another_thread() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
    runtime.block_on(async {
        let env = Env::real();
        let often = Options { flush_interval: Duration::from_millis(1), flush_at: 50, ..Options::default() };
        every_key_is_executed_once(&env, "flushed all the time", often).await;
        every_key_is_executed_once(&env, "default options", Options::default()).await;
    });
}
