//! The stored form of events and rows of the built-in applications, one of each kind, compared with a text that was written
//! once.

use seriatim_env::{Env, simulate};
use seriatim_storage::memory::{MemoryLog, MemoryStore};
use seriatim_storage::{Log, LogIdentity, ReadLimit, Store};
use seriatim_types::{Partition, PartitionId, PartitionOffset};

use super::{registry, series};
use crate::command::event::{Argument, Event};
use crate::definition::{Application, CommandDefinition, KindDefinition};
use crate::{App, Engine, NextRequest, Options, Scope, Unfence};

const EXPECTED: &str = include_str!("stored_tests.txt");

fn tiny() -> App {
    let definition = Application::builder("tiny").partitions(1).command(CommandDefinition::new("Ping"));
    App::new(definition.kind(KindDefinition::new("room")).build().unwrap())
}

async fn open(env: &Env, log: &Log, store: &Store) -> Engine {
    let engine = Engine::open(env.clone(), log.clone(), store.clone(), [tiny()], Options::default()).await;
    engine.unwrap()
}

/// Writes an event of every kind.
async fn use_everything(env: &Env, log: &Log, store: &Store) {
    let engine = open(env, log, store).await;
    engine.create_workspace("tiny", "room", Some("a")).await.unwrap();
    engine.create_workspace_once("tiny", "room", None, "key").await.unwrap();
    let (numbers, blocks) = (engine.series(), engine.blocks());
    numbers.put("invoices", 100, "INV-{number:06}").await.unwrap();
    numbers.next("invoices", &NextRequest::default()).await.unwrap();
    let request = NextRequest { count: 3, note: Some("for tea".to_owned()), ..NextRequest::default() };
    numbers.next("invoices", &request).await.unwrap();
    numbers.void("invoices", 101, "torn", None).await.unwrap();
    numbers.raise("invoices", 200, "moved in", Some("raise")).await.unwrap();
    blocks.put("orders", 1_000, 10).await.unwrap();
    blocks.allocate("orders", 3).await.unwrap();
    blocks.allocate_once("orders", 2, "key").await.unwrap();
    let tokens = engine.tokens();
    let scopes: Vec<Scope> = vec!["*:admin".parse().unwrap(), "tiny:read".parse().unwrap()];
    tokens.create(&scopes, Some("for the office")).await.unwrap();
    let second = tokens.create_once(&["tiny:write".parse().unwrap()], None, "key").await.unwrap();
    tokens.revoke(&second.token.id).await.unwrap();
    engine.close().await;
    Engine::fence(env.clone(), log.clone(), store.clone()).await.unwrap();
    let engine = open(env, log, store).await;
    let highest = vec![("series/invoices".to_owned(), 300), ("series/new".to_owned(), 7)];
    engine.unfence(&Unfence::HighestAndSkip(highest, 50)).await.unwrap();
    engine.close().await;
}

fn describe(event: &Event) -> String {
    let Event { command, argument, result, idempotency, .. } = event;
    let argument = if let Argument::Json(text) = argument { text } else { "-" };
    let key = idempotency.as_ref().map_or_else(String::new, |used| format!(" {} {}", used.key, used.request));
    format!("{command}{key}\n  {argument}\n  {}\n", result.as_deref().unwrap_or("-"))
}

async fn events(log: &Log, partition: Partition, text: &mut String) {
    let read = log.read(partition, PartitionOffset::FIRST, ReadLimit::entries(1_000)).await.unwrap();
    for (_, entry) in read.iter() {
        let event = Event::decode(entry.body()).unwrap();
        // The definitions of the built-in applications may change.
        if &*event.command != "Accept" || describe(&event).contains("\"tiny\"") {
            text.push_str(&describe(&event));
        }
    }
}

async fn rows(engine: &Engine, text: &mut String) {
    for view in ["applications", "names", "workspaces", "blocks", "fence", "tokens", "token_counts"] {
        let keys = registry::Registry::view(view);
        let range = keys.range(&[], None);
        for (key, value) in engine.sys().partition_of(registry::WORKSPACE).scan(range, 100).await.unwrap() {
            let (_, row) = crate::command::view::decode_row(&value).unwrap();
            let (key, row) = (keys.read(&key).unwrap(), row.unwrap_or_default().to_string());
            if view != "applications" || row.contains("\"tiny\"") {
                text.push_str(&format!("{view} {key:?}\n  {row}\n"));
            }
        }
    }
}

/// Everything that is stored, as text.
fn stored(seed: u64) -> String {
    simulate(seed, |env| async move {
        let (log, store) = (Log::new(MemoryLog::new()), Store::new(MemoryStore::new()));
        // Otherwise the identity would be drawn first, and the order of random keys would be another.
        log.identify(LogIdentity::from_bytes([1; 16])).await.unwrap();
        use_everything(&env, &log, &store).await;
        let mut text = String::new();
        events(&log, registry::PARTITION, &mut text).await;
        for id in (0..8).map(PartitionId::new) {
            events(&log, Partition { application: series::ID, id }, &mut text).await;
        }
        let engine = open(&env, &log, &store).await;
        rows(&engine, &mut text).await;
        engine.close().await;
        text
    })
}

/// The words of a text, with what is between them.
fn words(text: &str) -> Vec<&str> {
    text.split_inclusive(|letter: char| !letter.is_ascii_alphanumeric()).collect()
}

#[test]
fn events_and_rows_of_each_kind_are_stored_as_they_always_were() {
    let (found, other_seed) = (stored(1), stored(2));
    let (found, other_seed, expected) = (words(&found), words(&other_seed), words(EXPECTED));
    assert_eq!((found.len(), other_seed.len()), (expected.len(), expected.len()), "{}", found.concat());
    for (place, word) in found.iter().enumerate() {
        // A word that differs between two seeds is random: a reservation's key, a token's id or its digest.
        let is_random = *word != other_seed[place];
        let around = || found[place.saturating_sub(20)..(place + 5).min(found.len())].concat();
        assert!(is_random || *word == expected[place], "{word} instead of {}: {}", expected[place], around());
    }
}
