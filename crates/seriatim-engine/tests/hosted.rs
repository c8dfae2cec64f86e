//! Built-in applications that a crate above the engine brings: only their host writes, and their keys never expire.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::time::Duration;

use serde_json::json;
use seriatim_engine::definition::{Application, CommandDefinition, KindDefinition};
use seriatim_engine::doctor::{Doctor, Treatment};
use seriatim_engine::{App, BuiltIn, Engine, OpenError, Options, Request, SubmitError, projector};
use seriatim_env::{Env, simulate};
use seriatim_storage::memory::{MemoryLog, MemoryStore};
use seriatim_storage::{Log, Store};
use seriatim_types::{ApplicationId, ErrorKind, PartitionId, WorkspaceOffset};
use support::{invoice, options, till, workspace};

const WINDOW: Duration = Duration::from_secs(60);

fn definition(name: &str) -> Application {
    let builder = Application::builder(name).partitions(3).kind(KindDefinition::new("mailbox"));
    builder.command(CommandDefinition::with_json("Post")).build().unwrap()
}

fn built_in(name: &str, id: u32, keeps_keys: bool) -> App {
    App::new(definition(name)).built_in(BuiltIn {
        id: ApplicationId::new(id),
        keeps_keys,
        refuses_workspaces: "a mailbox is made by its host",
        refuses_commands: Some("mail is posted by its host"),
        partitions_by_option: false,
    })
}

/// Keeps the last letter of each mailbox, by workspace, and lists the mailboxes of a partition.
fn mail() -> App {
    built_in("mail", 3, true).projector(projector("letters", |event, rows| {
        let letter = event.event.json_argument().unwrap_or_default();
        rows.put(&["last".into()], &letter);
        let workspace = event.place.workspace.get().cast_signed();
        rows.in_common().put(&["mailbox".into(), workspace.into()], &letter);
        Ok(())
    }))
}

async fn open(env: &Env, log: &Log, store: &Store, apps: impl IntoIterator<Item = App>) -> Engine {
    let options = Options { idempotency_window: Some(WINDOW), ..options() };
    let engine = Engine::open(env.clone(), log.clone(), store.clone(), apps, options).await.unwrap();
    assert!(engine.wait_ready(Duration::from_secs(60)).await);
    engine
}

fn storage() -> (Log, Store) {
    (Log::new(MemoryLog::new()), Store::new(MemoryStore::new()))
}

fn post(text: &str) -> Request {
    Request::new("Post").args(json!(text))
}

#[test]
fn only_its_host_writes_to_a_built_in_application() {
    simulate(1, |env| async move {
        let (log, store) = storage();
        let engine = open(&env, &log, &store, [till(), mail()]).await;
        assert_eq!(engine.applications(), ["till"], "built-in ones are not listed");
        let names: Vec<String> = engine.all_partitions().into_iter().map(|(name, _)| name).collect();
        let expected = [("sys", 1), ("series", 8), ("mail", 3), ("till", 2)];
        let expected = expected.iter().flat_map(|(name, count)| std::iter::repeat_n(*name, *count));
        assert_eq!(names, expected.collect::<Vec<_>>(), "built-in ones are opened first");

        let mail = engine.hosted("mail").unwrap();
        let (ada, created) = mail.register("mailbox", "ada").await.unwrap();
        assert!(created);
        assert_eq!(mail.register("mailbox", "ada").await.unwrap(), (ada, false));
        assert_eq!((mail.find("ada").await.unwrap(), mail.find("bob").await.unwrap()), (Some(ada), None));
        assert_eq!(mail.last_offset(ada).await.unwrap(), None);
        mail.submit(ada, "mailbox", post("hello"), None).await.unwrap();
        assert_eq!(mail.last_offset(ada).await.unwrap(), Some(WorkspaceOffset::FIRST));
        let rows = mail.rows(ada, "letters", None, 10).await.unwrap();
        assert_eq!(rows, [(vec!["last".into()], json!("hello"))]);
        let partition = engine.partition_of("mail", ada).unwrap();
        let found = mail.common_rows(partition, "letters", &["mailbox".into()], None, 10).await.unwrap();
        assert_eq!(found.len(), 1);
        let none = mail.common_rows(PartitionId::new(9), "letters", &[], None, 10).await.unwrap();
        assert!(none.is_empty());

        let refused = engine.submit("mail", ada, &post("from a user")).await.unwrap_err();
        assert_eq!(
            (refused.kind(), refused.to_string()),
            (ErrorKind::Invalid, "mail is posted by its host".into())
        );
        let refused = engine.create_workspace("mail", "mailbox", Some("bob")).await.unwrap_err();
        assert_eq!(refused.to_string(), "a mailbox is made by its host");
        let unknown = [engine.hosted("till").unwrap_err(), engine.hosted("none").unwrap_err()];
        assert!(
            unknown.iter().all(|error| matches!(error, SubmitError::UnknownApplication(_))),
            "{unknown:?}"
        );
        engine.close().await;
    });
}

#[test]
fn a_built_in_application_has_one_host_at_a_time() {
    simulate(1, |env| async move {
        let (log, store) = storage();
        let engine = open(&env, &log, &store, [mail()]).await;
        let mail = engine.hosted("mail").unwrap();
        let claim = mail.claim().unwrap();
        assert!(mail.claim().is_none());
        claim.release();
        let second = mail.claim().unwrap();
        claim.release();
        drop(claim);
        assert!(mail.claim().is_none(), "a claim that was released has nothing more to release");
        drop(second);
        assert!(mail.claim().is_some());
        engine.close().await;
    });
}

#[test]
fn keys_of_a_built_in_application_that_keeps_them_never_leave() {
    simulate(1, |env| async move {
        let (log, store) = storage();
        let engine = open(&env, &log, &store, [mail(), till()]).await;
        let (mail, shop) = (engine.hosted("mail").unwrap(), workspace(&engine, "shop").await);
        let (ada, _) = mail.register("mailbox", "ada").await.unwrap();
        let keyed = || post("once").idempotency_key("letter".to_owned());
        let send = async |identity| mail.submit(ada, "mailbox", keyed(), Some(identity)).await;
        let bill = async |key: &str| {
            let request = invoice("1").idempotency_key(key.to_owned());
            engine.submit("till", shop, &request).await.unwrap().repeated
        };
        assert!(!send("a").await.unwrap().repeated && !bill("old").await);
        env.sleep(WINDOW * 10).await;
        // Time passes in both partitions, and what is due is swept.
        mail.submit(ada, "mailbox", post("more"), None).await.unwrap();
        assert!(!bill("new").await);
        env.sleep(Duration::from_secs(10)).await;
        assert!(!bill("old").await, "the keys of users expire");
        assert!(send("a").await.unwrap().repeated);
        assert!(matches!(send("b").await, Err(SubmitError::KeyReused(_))), "another identity");
        let found = mail.event_with_key(ada, "letter").await.unwrap().unwrap();
        assert_eq!(found.event.json_argument(), Some(json!("once")));
        assert!(mail.event_with_key(ada, "other").await.unwrap().is_none());
        engine.close().await;
    });
}

#[test]
fn a_built_in_application_has_a_reserved_number_of_its_own() {
    simulate(1, |env| async move {
        let (log, store) = storage();
        let attempt = async |apps: Vec<App>| {
            let opened = Engine::open(env.clone(), log.clone(), store.clone(), apps, options()).await;
            match opened {
                Ok(engine) => {
                    engine.close().await;
                    None
                }
                Err(error) => Some(error),
            }
        };
        for (id, other) in [(1, 4), (2, 4), (16, 4), (4, 4)] {
            let apps = vec![built_in("a", id, true), built_in("b", other, true)];
            let error = attempt(apps).await.unwrap();
            assert!(matches!(error, OpenError::NumberTaken { .. }), "{id}: {error}");
            assert_eq!(error.kind(), ErrorKind::Invalid);
        }
        assert!(attempt(vec![mail()]).await.is_none());
        // A user cannot take the name of a built-in application that the storage knows, and the other way round.
        let error = attempt(vec![App::new(definition("mail"))]).await.unwrap();
        assert!(matches!(error, OpenError::NameTaken(_)), "{error}");
        assert!(attempt(vec![mail(), App::new(definition("own"))]).await.is_none());
        let error = attempt(vec![built_in("own", 5, true)]).await.unwrap();
        assert!(matches!(error, OpenError::NameTaken(_)), "{error}");
        let known = Engine::stored_applications(env.clone(), log.clone(), store.clone()).await.unwrap();
        assert_eq!(known, [definition("own")], "without the built-in ones");
    });
}

#[test]
fn the_doctor_checks_a_built_in_application_that_it_is_given_and_reports_one_that_it_is_not() {
    simulate(1, |env| async move {
        let (log, store) = storage();
        let engine = open(&env, &log, &store, [mail(), till()]).await;
        let mail_app = engine.hosted("mail").unwrap();
        let (ada, _) = mail_app.register("mailbox", "ada").await.unwrap();
        mail_app.submit(ada, "mailbox", post("hello"), None).await.unwrap();
        engine.close().await;
        for (apps, unchecked) in [(vec![mail()], 0), (vec![], 3)] {
            let doctor = Doctor::new(env.clone(), log.clone(), store.clone(), apps).with_accepted();
            let scratch = Store::new(MemoryStore::new());
            let report = doctor.run(&scratch, Treatment::Check, &mut |_| {}).await.unwrap();
            assert!(report.is_clean(), "{report:?}");
            assert_eq!(report.unchecked.len(), unchecked, "{:?}", report.unchecked);
        }
    });
}
