//! Audits: completeness, who got a number, forecasts, and files that a third party can verify.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use serde_json::{Value as Json, json};
use seriatim_engine::audit::{Broken, Raised, Verified, VerifyError, verify};
use seriatim_engine::definition::{Application, CommandDefinition, KindDefinition, SequenceDefinition, shop};
use seriatim_engine::{App, Change, CommandError, Context, Engine, NextRequest, Options, Request};
use seriatim_env::{Env, simulate};
use seriatim_storage::memory::{MemoryLog, MemoryStore};
use seriatim_storage::{Digest, Entries, Header, Log, ReadLimit, Store};
use seriatim_types::{ErrorKind, Number, Partition, PartitionOffset, WorkspaceId, WorkspaceOffset};

/// Draws so many, raises, draws so many again, raises again, and draws so many at the end.
fn take(context: &mut Context<'_, '_>) -> Result<Json, CommandError> {
    let args = context.args().clone();
    for _ in 0..args["before"].as_u64().unwrap_or(0) {
        context.draw("Ticket")?;
    }
    if let Some(next) = args["raise"].as_u64() {
        context.raise("Ticket", Number::new(next))?;
    }
    for _ in 0..args["after"].as_u64().unwrap_or(0) {
        context.draw("Ticket")?;
    }
    if let Some(next) = args["raise_again"].as_u64() {
        context.raise("Ticket", Number::new(next))?;
    }
    for _ in 0..args["at_end"].as_u64().unwrap_or(0) {
        context.draw("Ticket")?;
    }
    Ok(Json::Null)
}

fn app() -> App {
    let definition = Application::builder("till")
        .partitions(1)
        .sequence(SequenceDefinition::with_ranges("Ticket", &[1..=20, 1_000..=9_999]))
        .command(CommandDefinition::with_json("Take").sequences(["Ticket"]))
        .kind(KindDefinition::new("desk"))
        .build();
    App::new(definition.unwrap()).command("Take", take)
}

async fn submit(engine: &Engine, workspace: WorkspaceId, args: Json) {
    engine.submit("till", workspace, &Request::new("Take").args(args)).await.unwrap();
}

fn with_desk<F: Future<Output = ()>>(scenario: impl FnOnce(Env, Log, Engine, WorkspaceId) -> F) {
    simulate(1, |env| async move {
        let (log, store) = (Log::new(MemoryLog::new()), Store::new(MemoryStore::new()));
        let engine =
            Engine::open(env.clone(), log.clone(), store, [app()], Options::default()).await.unwrap();
        assert!(engine.wait_ready(Duration::from_secs(60)).await);
        let (desk, _) = engine.create_workspace("till", "desk", None).await.unwrap();
        scenario(env, log, engine.clone(), desk.id).await;
        engine.close().await;
    });
}

fn number(value: u64) -> Option<Number> {
    Some(Number::new(value))
}

#[test]
fn a_sequence_is_complete_with_its_raises_explained() {
    with_desk(|env, _, engine, desk| async move {
        let audit = engine.audit("till", desk, "Ticket").await.unwrap();
        assert_eq!((audit.numbers.first, audit.events, audit.digest), (None, 0, Digest::ZERO));
        assert!(audit.is_complete());
        let other = engine.create_workspace("till", "desk", None).await.unwrap().0.id;
        for count in 1..=5 {
            submit(&engine, desk, json!({"after": count})).await;
            submit(&engine, other, json!({"after": 1})).await;
            submit(&engine, desk, json!({})).await;
        }
        env.sleep(Duration::from_millis(5)).await;
        let raised = env.now();
        submit(&engine, desk, json!({"before": 7, "raise": 1_500, "after": 2})).await;
        submit(&engine, desk, json!({"raise": 2_000})).await;
        submit(&engine, desk, json!({"after": 1})).await;
        let audit = engine.audit("till", desk, "Ticket").await.unwrap();
        assert!(audit.is_complete(), "{audit:?}");
        assert_eq!(
            (audit.numbers.first, audit.numbers.last, audit.numbers.count),
            (number(1), number(2_000), 25)
        );
        assert_eq!(audit.events, 13);
        let offset = WorkspaceOffset::new(11).unwrap();
        let first = Raised { offset, time: raised, from: Number::new(1_002), to: Number::new(1_500) };
        assert_eq!(audit.numbers.raises.list[0], first);
        assert_eq!(audit.numbers.raises.total, 2);
        let error = engine.audit("till", desk, "Tea").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        let error = engine.audit("till", WorkspaceId::new(5), "Ticket").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
    });
}

#[test]
fn every_number_leads_to_its_event_and_no_other_does() {
    with_desk(|_, _, engine, desk| async move {
        let mut expected = vec![None; 3_100];
        let mut next = 1;
        for event in 1..=40_u64 {
            // A third of the events draw nothing.
            let count = event % 3;
            submit(&engine, desk, json!({"after": count})).await;
            for _ in 0..count {
                expected[next] = Some(event);
                next = if next == 20 { 1_000 } else { next + 1 };
            }
        }
        submit(&engine, desk, json!({"raise": 3_000, "after": 1})).await;
        expected[3_000] = Some(41);
        for (number, event) in expected.into_iter().enumerate() {
            let found = engine.who_got("till", desk, "Ticket", Number::new(number as u64)).await.unwrap();
            assert_eq!(found.map(|placed| placed.place.workspace_offset.get()), event, "{number}");
        }
    });
}

#[test]
fn an_audit_goes_through_many_parts_of_a_workspace_log() {
    with_desk(|_, _, engine, desk| async move {
        for _ in 0..4_200 {
            submit(&engine, desk, json!({"after": 1})).await;
        }
        let audit = engine.audit("till", desk, "Ticket").await.unwrap();
        assert!(audit.is_complete(), "{audit:?}");
        assert_eq!((audit.events, audit.numbers.count, audit.numbers.last), (4_200, 4_200, number(5_179)));
        let found = engine.who_got("till", desk, "Ticket", Number::new(5_100)).await.unwrap().unwrap();
        assert_eq!(found.place.workspace_offset.get(), 4_121);
        let file = engine.audit_file("till", desk).await.unwrap().all().await.unwrap();
        assert_eq!(verify(file.as_bytes(), Some(audit.digest)).unwrap().events, 4_200);
    });
}

#[test]
fn a_changed_event_breaks_the_chain_behind_it() {
    with_desk(|_, log, engine, desk| async move {
        for _ in 0..5 {
            submit(&engine, desk, json!({"after": 1})).await;
        }
        let partition =
            Partition { application: engine.schema("till").unwrap().id(), ..Partition::new(0, 0) };
        let at = |offset| PartitionOffset::new(offset).unwrap();
        let read = log.read(partition, at(2), ReadLimit::entries(2)).await.unwrap();
        let entries: Vec<_> = read.iter().map(|(_, entry)| entry).collect();
        // Event 3 again, with another number, and everything about it right but its past.
        let owner = log.take(partition).await.unwrap();
        let mut forged = Entries::new(owner.next_append_id());
        let mut draws: Vec<_> = entries[1].draws().collect();
        draws[0].first = Number::new(7);
        let header = Header {
            workspace: desk,
            kind: entries[1].kind(),
            workspace_offset: entries[1].workspace_offset(),
            time: entries[1].time(),
            body_digest: entries[1].body_digest(),
            draws: &draws,
            raises: &[],
        };
        forged.push(&header, entries[0].chain(), entries[1].body()).unwrap();
        log.append_unverified(&owner, at(3), &forged).await.unwrap();
        let audit = engine.audit("till", desk, "Ticket").await.unwrap();
        assert!(!audit.is_complete());
        let broken = Broken {
            offset: WorkspaceOffset::new(4).unwrap(),
            problem: "the event does not continue the chain",
        };
        assert_eq!((audit.broken.total, &audit.broken.list[..]), (1, &[broken][..]));
        assert_eq!((audit.numbers.gaps.total, audit.numbers.duplicates.total), (1, 2));
    });
}

/// A file of a desk with some events, the head after the second of them, and the head at the end.
fn with_file(scenario: fn(String, Digest, Digest)) {
    with_desk(|_, _, engine, desk| async move {
        for args in [json!({"after": 2}), json!({"after": 3})] {
            submit(&engine, desk, args).await;
        }
        let published = engine.audit("till", desk, "Ticket").await.unwrap().digest;
        for args in [json!({"raise": 10, "after": 1}), json!({})] {
            submit(&engine, desk, args).await;
        }
        let head = engine.audit("till", desk, "Ticket").await.unwrap().digest;
        let file = engine.audit_file("till", desk).await.unwrap().all().await.unwrap();
        scenario(file, published, head);
    });
}

#[test]
fn a_file_is_verified_against_a_head_published_earlier() {
    with_file(|file, published, head| {
        let verified: Verified = verify(file.as_bytes(), Some(published)).unwrap();
        assert_eq!((&*verified.application, verified.events, verified.head), ("till", 4, head));
        assert_eq!(verified.published_at.map(WorkspaceOffset::get), Some(2));
        let (name, tickets) = verified.sequences.last().unwrap();
        assert_eq!((&**name, tickets.count, tickets.raises.total), ("Ticket", 6, 1));
        assert!(tickets.gaps.is_empty() && tickets.duplicates.is_empty());
        assert_eq!(
            verify(file.as_bytes(), Some(head)).unwrap().published_at.map(WorkspaceOffset::get),
            Some(4)
        );
        assert_eq!(verify(file.as_bytes(), None).unwrap().published_at, None);
        let error = verify(file.as_bytes(), Some(Digest::of(b"another"))).unwrap_err();
        assert!(matches!(error, VerifyError::OtherChain { .. }), "{error}");
        assert_eq!(error.kind(), ErrorKind::Corrupt);
    });
}

#[test]
fn a_file_that_was_changed_anywhere_is_refused() {
    with_file(|file, _, _| {
        let lines: Vec<&str> = file.lines().collect();
        assert_eq!(lines.len(), 6);
        let without = |left_out: usize| {
            let kept = lines.iter().enumerate().filter(|(place, _)| *place != left_out);
            kept.map(|(_, line)| format!("{line}\n")).collect::<String>()
        };
        for left_out in 1..=4 {
            let error = verify(without(left_out).as_bytes(), None).unwrap_err();
            assert!(matches!(error, VerifyError::Order { .. } | VerifyError::LastLine { .. }), "{error}");
        }
        assert!(matches!(verify(without(5).as_bytes(), None).unwrap_err(), VerifyError::CutOff));
        // Any digit of an event, of the workspace or of the last line.
        let (mut changed, first_event) = (0, lines[0].len() + 1);
        for place in 0..file.len() {
            let byte = file.as_bytes()[place];
            let in_workspace = file[..place].rfind("\"workspace\":").is_some_and(|at| place < at + 27);
            if !byte.is_ascii_digit() || (place < first_event && !in_workspace) {
                continue;
            }
            let mut bytes = file.clone().into_bytes();
            bytes[place] = if byte == b'9' { b'8' } else { byte + 1 };
            verify(&bytes[..], None).unwrap_err();
            changed += 1;
        }
        assert!(changed > 300, "{changed}");
        let newer = file.replacen("\"seriatim_audit\":1", "\"seriatim_audit\":2", 1);
        assert!(matches!(verify(newer.as_bytes(), None).unwrap_err(), VerifyError::Newer { found: 2 }));
        let more = format!("{file}{}\n", lines[5]);
        assert!(matches!(verify(more.as_bytes(), None).unwrap_err(), VerifyError::Line { line: 7, .. }));
        assert!(verify(&b""[..], None).is_err() && verify(&b"{}\n"[..], None).is_err());
    });
}

#[test]
fn a_first_line_that_does_not_list_what_was_drawn_is_refused_under_a_genuine_head() {
    with_file(|file, published, head| {
        let first: Json = serde_json::from_str(file.lines().next().unwrap()).unwrap();
        let with_first = |first: &Json| {
            let rest: Vec<&str> = file.lines().skip(1).collect();
            format!("{first}\n{}\n", rest.join("\n"))
        };
        assert!(verify(with_first(&first).as_bytes(), Some(head)).is_ok());
        let place = first["sequences"].as_array().unwrap().len() - 1;
        assert_eq!(first["sequences"][place]["name"], "Ticket");
        let mut another_id = first.clone();
        another_id["sequences"][place]["id"] = json!(999);
        let mut none = first.clone();
        none["sequences"].as_array_mut().unwrap().pop();
        for (first, expected) in [(&another_id, head), (&none, head), (&another_id, published)] {
            let error = verify(with_first(first).as_bytes(), Some(expected)).unwrap_err();
            let VerifyError::Unlisted { offset, .. } = error else { panic!("{error}") };
            assert_eq!((offset.get(), error.kind()), (1, ErrorKind::Corrupt));
        }
        let mut twice = first.clone();
        let other = json!({"id": 999, "name": "Ticket", "first": 1, "ranges": [[1, 5]]});
        twice["sequences"].as_array_mut().unwrap().push(other);
        let mut same_id = first.clone();
        let mut other = first["sequences"][place].clone();
        other["name"] = json!("Other");
        same_id["sequences"].as_array_mut().unwrap().push(other);
        for first in [twice, same_id] {
            let error = verify(with_first(&first).as_bytes(), Some(head)).unwrap_err();
            assert!(matches!(error, VerifyError::Line { line: 1, .. }), "{error}");
        }
    });
}

#[test]
fn an_event_that_raises_twice_explains_both_gaps() {
    with_desk(|_, _, engine, desk| async move {
        submit(&engine, desk, json!({"before": 1, "raise": 5, "after": 2, "raise_again": 11, "at_end": 1}))
            .await;
        // Nothing is drawn from the first raise: the second takes its place.
        submit(&engine, desk, json!({"before": 1, "raise": 1_500, "raise_again": 2_000, "at_end": 1})).await;
        submit(&engine, desk, json!({"after": 1})).await;
        let audit = engine.audit("till", desk, "Ticket").await.unwrap();
        assert!(audit.is_complete(), "{audit:?}");
        let raises = audit.numbers.raises.list.iter().map(|raised| (raised.from.get(), raised.to.get()));
        assert_eq!(raises.collect::<Vec<_>>(), [(2, 5), (7, 11), (13, 2_000)]);
        let file = engine.audit_file("till", desk).await.unwrap().all().await.unwrap();
        let verified = verify(file.as_bytes(), Some(audit.digest)).unwrap();
        assert_eq!(verified.sequences.last().unwrap().1, audit.numbers);
    });
}

#[test]
fn files_of_records_and_series_list_everything_that_was_drawn() {
    simulate(1, |env| async move {
        let (log, store) = (Log::new(MemoryLog::new()), Store::new(MemoryStore::new()));
        let apps = [App::new(shop())];
        let engine = Engine::open(env.clone(), log, store, apps, Options::default()).await.unwrap();
        let (corner, _) = engine.create_workspace("shop", "store", Some("corner")).await.unwrap();
        for document in ["Customer", "Invoice"] {
            let create = Change::create(document, 1);
            let create = if document == "Customer" { create.field("name", "Ada") } else { create };
            engine.submit("shop", corner.id, &Request::changes([create])).await.unwrap();
        }
        engine.series().next("s", &NextRequest { count: 3, ..NextRequest::default() }).await.unwrap();
        engine.series().raise("s", 10, "why", None).await.unwrap();
        let series = engine.series().state("s").await.unwrap().workspace;
        for (application, workspace) in [("shop", corner.id), ("series", series)] {
            let file = engine.audit_file(application, workspace).await.unwrap().all().await.unwrap();
            let verified = verify(file.as_bytes(), None).unwrap();
            assert!(verified.events == 2, "{verified:?}");
            assert!(verified.sequences.iter().all(|(_, numbers)| numbers.gaps.is_empty()), "{verified:?}");
        }
        engine.close().await;
    });
}

#[test]
fn a_forecast_follows_the_rate_of_late() {
    with_desk(|env, _, engine, desk| async move {
        assert_eq!(engine.forecast("till", desk, "Ticket").await.unwrap().runs_out, None);
        let begun = env.now();
        for _ in 0..20 {
            submit(&engine, desk, json!({"after": 1})).await;
            env.sleep(Duration::from_secs(3)).await;
        }
        let forecast = engine.forecast("till", desk, "Ticket").await.unwrap();
        assert_eq!((forecast.remaining, forecast.drawn, forecast.since), (9_000, 20, Some(begun)));
        // 20 a minute, and a little slower for the commands themselves.
        assert!((28_700..=28_800).contains(&forecast.per_day), "{forecast:?}");
        let left = forecast.runs_out.unwrap().as_millis() - env.now().as_millis();
        assert!((27_000_000..27_100_000).contains(&left), "{left}");
    });
}
