//! Series: numbers by name.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use seriatim_engine::definition::{Application, KindDefinition};
use seriatim_engine::{App, Engine, NextRequest, OpenError, Options, Series};
use seriatim_env::{Env, simulate};
use seriatim_storage::memory::{MemoryLog, MemoryStore};
use seriatim_storage::{Log, Store};
use seriatim_types::ErrorKind;

async fn open(env: &Env, log: &MemoryLog, store: &MemoryStore) -> Engine {
    let (log, store) = (Log::new(log.reopen()), Store::new(store.reopen()));
    let engine = Engine::open(env.clone(), log, store, [], Options::default()).await.unwrap();
    assert!(engine.wait_ready(Duration::from_secs(60)).await);
    engine
}

fn with_engine<F: Future<Output = ()>>(scenario: impl FnOnce(Env, Engine) -> F) {
    simulate(1, |env| async move {
        let engine = open(&env, &MemoryLog::new(), &MemoryStore::new()).await;
        scenario(env, engine.clone()).await;
        engine.close().await;
    });
}

fn many(count: u64) -> NextRequest {
    NextRequest { count, ..NextRequest::default() }
}

async fn take(series: &Series<'_>, name: &str) -> u64 {
    series.next(name, &many(1)).await.unwrap().number
}

#[test]
fn a_series_begins_at_1_when_it_is_first_used() {
    with_engine(|_, engine| async move {
        let series = engine.series();
        let first = series.next("a.b-c_1", &many(1)).await.unwrap();
        assert_eq!((first.number, first.count, &*first.text, first.repeated), (1, 1, "1", false));
        let three = series.next("a.b-c_1", &many(3)).await.unwrap();
        assert_eq!((three.number, three.count, &*three.text), (2, 3, "2"));
        assert_eq!(take(&series, "a.b-c_1").await, 5);
        assert_eq!(take(&series, "other").await, 1);
        let state = series.state("a.b-c_1").await.unwrap();
        assert_eq!((state.first, state.next, state.voided, state.raised), (1, Some(6), 0, 0));
        assert_eq!(state.remaining, (1 << 53) - 6);
        assert_eq!(series.state("nothing").await.unwrap_err().kind(), ErrorKind::NotFound);
        for bad in ["", "a b", "a/b"] {
            assert_eq!(series.next(bad, &many(1)).await.unwrap_err().kind(), ErrorKind::Invalid);
        }
        for count in [0, 10_001] {
            assert_eq!(series.next("other", &many(count)).await.unwrap_err().kind(), ErrorKind::Invalid);
        }
        assert_eq!(series.next("other", &many(10_000)).await.unwrap().number, 2);
        assert_eq!(take(&series, "other").await, 10_002);
    });
}

#[test]
fn two_first_uses_at_once_end_in_one_series() {
    for seed in 1..20 {
        simulate(seed, |env| async move {
            let engine = open(&env, &MemoryLog::new(), &MemoryStore::new()).await;
            let tasks = (0..8).map(|_| {
                let engine = engine.clone();
                env.spawn(async move { engine.series().next("new", &many(2)).await.unwrap().number })
            });
            let mut numbers = Vec::new();
            for task in tasks.collect::<Vec<_>>() {
                numbers.push(task.await.unwrap());
            }
            numbers.sort_unstable();
            assert_eq!(numbers, [1, 3, 5, 7, 9, 11, 13, 15]);
            assert_eq!(engine.series().list(None, 10).await.unwrap().len(), 1);
            engine.close().await;
        });
    }
}

#[test]
fn settings_are_said_once() {
    with_engine(|_, engine| async move {
        let series = engine.series();
        assert!(series.put("inv", 100, "INV-{number:06}").await.unwrap());
        assert!(!series.put("inv", 100, "INV-{number:06}").await.unwrap());
        let events =
            engine.events("series", series.state("inv").await.unwrap().workspace, one(), 10).await.unwrap();
        assert_eq!(events.len(), 1, "the same again leaves nothing behind");
        for (first, format) in [(101, "INV-{number:06}"), (100, "{number}")] {
            assert_eq!(series.put("inv", first, format).await.unwrap_err().kind(), ErrorKind::Conflict);
        }
        let taken = series.next("inv", &many(1)).await.unwrap();
        assert_eq!((taken.number, &*taken.text), (100, "INV-000100"));
        let state = series.state("inv").await.unwrap();
        assert_eq!((state.first, state.next, state.raised), (100, Some(101), 0));
        // Used without settings: the plain ones are the same, others are not.
        assert_eq!(take(&series, "plain").await, 1);
        assert!(!series.put("plain", 1, "{number}").await.unwrap());
        assert_eq!(series.put("plain", 1, "P{number}").await.unwrap_err().kind(), ErrorKind::Conflict);
        for (first, format) in [(0, "{number}"), (1 << 53, "{number}"), (1, "none")] {
            assert_eq!(series.put("bad", first, format).await.unwrap_err().kind(), ErrorKind::Invalid);
        }
        assert_eq!(take(&series, "bad").await, 1, "what was refused has left nothing");
    });
}

#[test]
fn a_refused_request_does_not_create_a_series() {
    with_engine(|_, engine| async move {
        let series = engine.series();
        let long = "n".repeat(1_025);
        let asked = [
            many(0),
            many(10_001),
            NextRequest { note: Some(long.clone()), ..many(1) },
            NextRequest { idempotency_key: Some(String::new()), ..many(1) },
            NextRequest { idempotency_key: Some("k".repeat(201)), ..many(1) },
        ];
        for request in &asked {
            let error = series.next("new", request).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        }
        let raises = [
            (0, "moved", None),
            (1 << 53, "moved", None),
            (5, " ", None),
            (5, &*long, None),
            (5, "moved", Some("")),
        ];
        for (next, reason, key) in raises {
            let error = series.raise("new", next, reason, key).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        }
        for (first, format) in [(0, "{number}"), (1 << 53, "{number}"), (1, "none")] {
            let error = series.put("new", first, format).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        }
        for (number, reason, key) in [(0, "torn", None), (1, "", None), (1, "torn", Some(""))] {
            series.void("new", number, reason, key).await.unwrap_err();
        }
        assert_eq!(series.state("new").await.unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(series.list(None, 10).await.unwrap(), []);
    });
}

fn one() -> seriatim_types::WorkspaceOffset {
    seriatim_types::WorkspaceOffset::FIRST
}

#[test]
fn the_same_key_gives_the_same_number_again() {
    simulate(1, |env| async move {
        let (log, store) = (MemoryLog::new(), MemoryStore::new());
        let engine = open(&env, &log, &store).await;
        let keyed = NextRequest { count: 2, note: Some("order 7".into()), idempotency_key: Some("k".into()) };
        let first = engine.series().next("s", &keyed).await.unwrap();
        assert_eq!((first.number, first.repeated), (1, false));
        engine.close().await;
        for store in [store, MemoryStore::new()] {
            let engine = open(&env, &log, &store).await;
            let again = engine.series().next("s", &keyed).await.unwrap();
            assert_eq!((again.number, again.count, again.text, again.repeated), (1, 2, "1".to_owned(), true));
            let other = NextRequest { count: 3, ..keyed.clone() };
            assert_eq!(engine.series().next("s", &other).await.unwrap_err().kind(), ErrorKind::Conflict);
            assert_eq!(engine.series().state("s").await.unwrap().next, Some(3));
            engine.close().await;
        }
    });
}

#[test]
fn a_series_is_raised_upwards_only() {
    with_engine(|_, engine| async move {
        let series = engine.series();
        assert_eq!(take(&series, "s").await, 1);
        series.raise("s", 5_001, "moved in", None).await.unwrap();
        assert_eq!(take(&series, "s").await, 5_001);
        let down = series.raise("s", 5_001, "back", None).await.unwrap_err();
        assert_eq!(down.kind(), ErrorKind::Conflict);
        assert_eq!(series.raise("s", 6_000, " ", None).await.unwrap_err().kind(), ErrorKind::Invalid);
        assert_eq!(series.raise("s", 1 << 53, "too far", None).await.unwrap_err().kind(), ErrorKind::Invalid);
        let state = series.state("s").await.unwrap();
        assert_eq!((state.next, state.raised), (Some(5_002), 1));
        // A series may begin by being moved in.
        series.raise("fresh", 42, "moved in", None).await.unwrap();
        assert_eq!(take(&series, "fresh").await, 42);
    });
}

#[test]
fn a_series_ends_with_its_last_number_and_takes_none_beyond() {
    with_engine(|_, engine| async move {
        let series = engine.series();
        series.raise("s", (1 << 53) - 2, "near the end", None).await.unwrap();
        assert_eq!(series.next("s", &many(3)).await.unwrap_err().kind(), ErrorKind::Exhausted);
        assert_eq!(series.next("s", &many(2)).await.unwrap().number, (1 << 53) - 2);
        assert_eq!(series.next("s", &many(1)).await.unwrap_err().kind(), ErrorKind::Exhausted);
        let state = series.state("s").await.unwrap();
        assert_eq!((state.next, state.remaining), (None, 0));
    });
}

#[test]
fn who_got_a_number_is_found_among_voids_and_raises() {
    with_engine(|_, engine| async move {
        let series = engine.series();
        series.put("s", 10, "{number}").await.unwrap();
        for turn in 0..40_u64 {
            let note = Some(format!("note {turn}"));
            let key = turn.is_multiple_of(2).then(|| format!("key {turn}"));
            series.next("s", &NextRequest { count: 3, note, idempotency_key: key }).await.unwrap();
            if turn < 20 && turn.is_multiple_of(5) {
                series.void("s", 10 + turn * 3, "torn", None).await.unwrap();
            }
            if turn == 19 {
                series.raise("s", 1_000, "a new book", None).await.unwrap();
            }
        }
        let check = async |number: u64, turn: u64, first: u64| {
            let issued = series.who("s", number).await.unwrap();
            assert_eq!((issued.number, issued.first, issued.count), (number, first, 3));
            assert_eq!(issued.note, Some(format!("note {turn}")));
            assert_eq!(issued.idempotency_key, turn.is_multiple_of(2).then(|| format!("key {turn}")));
            let void = issued.void.map(|void| void.reason);
            assert_eq!(
                void.is_some(),
                number < 1_000 && number == first && turn.is_multiple_of(5),
                "{number}"
            );
        };
        for turn in 0..20 {
            for place in 0..3 {
                check(10 + turn * 3 + place, turn, 10 + turn * 3).await;
            }
        }
        for turn in 20..40 {
            let first = 1_000 + (turn - 20) * 3;
            check(first + 1, turn, first).await;
        }
        for (number, word) in [
            (9, "Settings"),
            (1, "Settings"),
            (70, "a new book"),
            (999, "a new book"),
            (1_060, "not taken yet"),
        ] {
            let error = series.who("s", number).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotFound);
            assert!(error.to_string().contains(word), "{number}: {error}");
        }
        assert_eq!(series.who("unknown", 1).await.unwrap_err().kind(), ErrorKind::NotFound);
    });
}

#[test]
fn a_taken_number_is_voided_once() {
    with_engine(|_, engine| async move {
        let series = engine.series();
        series.next("s", &many(3)).await.unwrap();
        series.void("s", 2, "torn", Some("k")).await.unwrap();
        series.void("s", 2, "torn", Some("k")).await.unwrap();
        assert_eq!(series.void("s", 2, "again", None).await.unwrap_err().kind(), ErrorKind::Conflict);
        assert_eq!(series.void("s", 4, "future", None).await.unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(series.void("s", 3, "", None).await.unwrap_err().kind(), ErrorKind::Invalid);
        assert_eq!(series.void("none", 1, "torn", None).await.unwrap_err().kind(), ErrorKind::NotFound);
        series.raise("s", 10, "a gap", None).await.unwrap();
        assert_eq!(series.void("s", 7, "skipped", None).await.unwrap_err().kind(), ErrorKind::NotFound);
        let voids = series.voids("s", None, 10).await.unwrap();
        assert_eq!(voids.iter().map(|void| (void.number, &*void.reason)).collect::<Vec<_>>(), [(2, "torn")]);
        assert!(series.voids("s", Some(2), 10).await.unwrap().is_empty());
        assert_eq!(series.state("s").await.unwrap().voided, 1);
        assert_eq!(take(&series, "s").await, 10, "a void takes no number");
    });
}

#[test]
fn series_are_listed_by_name() {
    with_engine(|_, engine| async move {
        let series = engine.series();
        for name in ["b", "a", "c", "a.1"] {
            take(&series, name).await;
        }
        let names = async |after: Option<&str>, limit| {
            let states = series.list(after, limit).await.unwrap();
            states.into_iter().map(|state| (state.name, state.next.unwrap())).collect::<Vec<_>>()
        };
        let expected = |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), 2)).collect::<Vec<_>>();
        assert_eq!(names(None, 10).await, expected(&["a", "a.1", "b", "c"]));
        assert_eq!(names(None, 2).await, expected(&["a", "a.1"]));
        assert_eq!(names(Some("a.1"), 10).await, expected(&["b", "c"]));
    });
}

#[test]
fn everything_comes_back_from_the_log_alone() {
    simulate(1, |env| async move {
        let log = MemoryLog::new();
        let engine = open(&env, &log, &MemoryStore::new()).await;
        let series = engine.series();
        series.put("s", 7, "S{number}").await.unwrap();
        series.next("s", &many(2)).await.unwrap();
        series.void("s", 8, "torn", None).await.unwrap();
        series.raise("s", 20, "moved", None).await.unwrap();
        let before = series.state("s").await.unwrap();
        engine.close().await;
        let engine = open(&env, &log, &MemoryStore::new()).await;
        let series = engine.series();
        assert_eq!(series.state("s").await.unwrap(), before);
        assert_eq!(series.who("s", 8).await.unwrap().void.unwrap().reason, "torn");
        assert_eq!(series.next("s", &many(1)).await.unwrap().text, "S20");
        engine.close().await;
    });
}

#[test]
fn the_name_of_the_application_is_taken() {
    simulate(1, |env| async move {
        let application = |name: &str| {
            let built = Application::builder(name).partitions(1).kind(KindDefinition::new("k")).build();
            App::new(built.unwrap())
        };
        let (log, store) = (Log::new(MemoryLog::new()), Store::new(MemoryStore::new()));
        let opened = Engine::open(env.clone(), log, store, [application("series")], Options::default()).await;
        assert!(matches!(opened, Err(OpenError::NameTaken(name)) if name == "series"));
        let (log, store) = (Log::new(MemoryLog::new()), Store::new(MemoryStore::new()));
        let engine =
            Engine::open(env.clone(), log, store, [application("own")], Options::default()).await.unwrap();
        assert_eq!(engine.applications(), ["own"]);
        let made = engine.create_workspace("series", "series", Some("not a name!")).await.unwrap_err();
        assert_eq!(made.kind(), ErrorKind::Invalid);
        engine.close().await;
    });
}
