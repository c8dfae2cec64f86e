//! Tokens: made once, kept as digests, revoked at once, also on a fenced copy.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use seriatim_engine::{Access, Engine, Options, Scope};
use seriatim_env::{Env, simulate};
use seriatim_storage::memory::{MemoryLog, MemoryStore};
use seriatim_storage::{Log, Store};
use seriatim_types::ErrorKind;

struct World {
    env: Env,
    log: MemoryLog,
    store: MemoryStore,
}

impl World {
    fn new(env: Env) -> Self {
        Self { log: MemoryLog::new(), store: MemoryStore::new(), env }
    }

    async fn open(&self) -> Engine {
        let (log, store) = (Log::new(self.log.reopen()), Store::new(self.store.reopen()));
        Engine::open(self.env.clone(), log, store, [], Options::default()).await.unwrap()
    }
}

#[test]
fn a_key_makes_one_token_whose_secret_is_shown_once() {
    simulate(1, |env| async move {
        let engine = World::new(env).open().await;
        let once = async |scope: &str| engine.tokens().create_once(&scopes(&[scope]), None, "setup").await;
        let made = once("*:admin").await.unwrap();
        let again = once("*:admin").await.unwrap_err();
        assert_eq!(again.kind(), ErrorKind::Conflict);
        assert!(again.to_string().contains("revoke"), "{again}");
        assert_eq!(once("shop:read").await.unwrap_err().kind(), ErrorKind::Conflict);
        assert_eq!(engine.tokens().list(None, 10).await.unwrap(), [made.token]);
        assert!(engine.tokens().verify(made.secret.reveal()).is_some());
        engine.close().await;
    });
}

fn scopes(texts: &[&str]) -> Vec<Scope> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

#[test]
fn a_token_is_valid_until_it_is_revoked_also_after_a_restart() {
    simulate(1, |env| async move {
        let world = World::new(env);
        let engine = world.open().await;
        assert!(engine.tokens().is_empty());
        let admin = engine.tokens().create(&scopes(&["*:admin"]), Some("me")).await.unwrap();
        let till = engine.tokens().create(&scopes(&["shop:write", "series:read"]), None).await.unwrap();
        engine.close().await;

        let engine = world.open().await;
        assert!(!engine.tokens().is_empty());
        assert!(engine.tokens().verify(admin.secret.reveal()).unwrap().allow(None, Access::Admin));
        let grants = engine.tokens().verify(till.secret.reveal()).unwrap();
        assert!(grants.allow(Some("shop"), Access::Write) && grants.allow(Some("series"), Access::Read));
        assert!(!grants.allow(Some("series"), Access::Write) && !grants.allow(None, Access::Read));
        let listed = engine.tokens().list(None, 10).await.unwrap();
        assert_eq!(listed.len(), 2);
        assert!(listed.contains(&till.token));

        engine.tokens().revoke(&till.token.id).await.unwrap();
        assert_eq!(engine.tokens().verify(till.secret.reveal()), None);
        let error = engine.tokens().revoke(&till.token.id).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        engine.close().await;
        let engine = world.open().await;
        assert_eq!(engine.tokens().verify(till.secret.reveal()), None);
        assert_eq!(engine.tokens().list(None, 10).await.unwrap(), [admin.token]);
        engine.close().await;
    });
}

#[test]
fn somebody_can_always_administer() {
    simulate(2, |env| async move {
        let engine = World::new(env).open().await;
        let error = engine.tokens().create(&scopes(&["shop:admin"]), None).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains("*:admin"), "{error}");
        assert!(engine.tokens().is_empty(), "a token that was refused is not there");
        let first = engine.tokens().create(&scopes(&["*:admin"]), None).await.unwrap().token;
        let other = engine.tokens().create(&scopes(&["shop:read"]), None).await.unwrap().token;
        let error = engine.tokens().revoke(&first.id).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict);
        let second = engine.tokens().create(&scopes(&["*:admin"]), None).await.unwrap().token;
        engine.tokens().revoke(&first.id).await.unwrap();
        engine.tokens().revoke(&other.id).await.unwrap();
        engine.tokens().revoke(&second.id).await.unwrap();
        assert!(engine.tokens().is_empty());
        engine.close().await;
    });
}

#[test]
fn a_token_that_was_never_created_is_refused() {
    simulate(3, |env| async move {
        let engine = World::new(env).open().await;
        let created = engine.tokens().create(&scopes(&["*:admin"]), None).await.unwrap();
        let secret = created.secret.reveal().to_owned();
        let id = &created.token.id;
        let wrong = format!("seriatim_{id}_{}", "0".repeat(64));
        for text in ["", "seriatim_", "seriatim__", id, &wrong, &secret[1..], &secret[..secret.len() - 1]] {
            assert_eq!(engine.tokens().verify(text), None, "{text}");
        }
        assert!(engine.tokens().create(&[], None).await.is_err());
        let debug = format!("{created:?} {engine:?}");
        let (_, bare) = secret.rsplit_once('_').unwrap();
        assert!(!debug.contains(bare));
        engine.close().await;
    });
}

#[test]
fn tokens_are_made_and_revoked_on_a_fenced_copy() {
    simulate(4, |env| async move {
        let world = World::new(env);
        let engine = world.open().await;
        let old = engine.tokens().create(&scopes(&["*:admin"]), None).await.unwrap();
        engine.close().await;
        let (log, store) = (Log::new(world.log.reopen()), Store::new(world.store.reopen()));
        Engine::fence(world.env.clone(), log, store).await.unwrap();
        let engine = world.open().await;
        assert!(engine.fenced().is_some());
        let new = engine.tokens().create(&scopes(&["*:admin"]), None).await.unwrap();
        engine.tokens().revoke(&old.token.id).await.unwrap();
        assert!(engine.tokens().verify(new.secret.reveal()).is_some());
        assert_eq!(engine.tokens().verify(old.secret.reveal()), None);
        engine.close().await;
    });
}
