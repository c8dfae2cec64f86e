//! The time of events.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::time::Duration;

use seriatim_engine::{Engine, Request};
use seriatim_env::{Env, simulate};
use seriatim_storage::memory::{MemoryLog, MemoryStore};
use seriatim_storage::{Log, Store};
use seriatim_types::{Timestamp, WorkspaceId, WorkspaceOffset};
use support::{open_with, options, workspace};

const MINUTE: u64 = 60_000;
const YEAR: u64 = 365 * 24 * 60 * MINUTE;

struct Desk {
    env: Env,
    engine: Engine,
    shop: WorkspaceId,
}

impl Desk {
    async fn open(env: &Env, log: &MemoryLog, store: &MemoryStore) -> Self {
        let (log, store) = (Log::new(log.reopen()), Store::new(store.reopen()));
        let engine = open_with(env, log, store, options()).await;
        let shop = workspace(&engine, "shop").await;
        Self { env: env.clone(), engine, shop }
    }

    /// The time of a new event.
    async fn ping(&self) -> u64 {
        let answer = self.engine.submit("till", self.shop, &Request::new("Ping")).await.unwrap();
        let events = self.engine.events("till", self.shop, WorkspaceOffset::FIRST, 1_000).await.unwrap();
        let event = events.last().unwrap();
        assert_eq!(event.place.workspace_offset, answer.workspace_offset);
        event.place.time.as_millis()
    }

    fn turn_wall_clock(&self, by: i64) {
        let time = self.env.now().as_millis().checked_add_signed(by).unwrap();
        self.env.set_wall_clock(Timestamp::from_millis(time));
    }
}

#[test]
fn time_does_not_go_back_over_a_restart() {
    simulate(1, |env| async move {
        let (log, store) = (MemoryLog::new(), MemoryStore::new());
        let desk = Desk::open(&env, &log, &store).await;
        let first = desk.ping().await;
        desk.engine.close().await;
        desk.turn_wall_clock(-i64::try_from(10 * MINUTE).unwrap());
        // With everything flushed, and with everything to be made anew from the log.
        for store in [store, MemoryStore::new()] {
            let desk = Desk::open(&env, &log, &store).await;
            assert_eq!(desk.ping().await, first);
            desk.engine.close().await;
        }
        env.sleep(Duration::from_millis(11 * MINUTE)).await;
        let desk = Desk::open(&env, &log, &store_of()).await;
        assert_eq!(desk.ping().await, env.now().as_millis(), "it continues when the clock has reached it");
        desk.engine.close().await;
    });
}

fn store_of() -> MemoryStore {
    MemoryStore::new()
}

#[test]
fn a_wall_clock_that_is_ahead_for_half_a_minute_leaves_no_trace() {
    simulate(1, |env| async move {
        let desk = Desk::open(&env, &MemoryLog::new(), &store_of()).await;
        let first = desk.ping().await;
        desk.turn_wall_clock(i64::try_from(YEAR).unwrap());
        let doubted = desk.ping().await;
        assert!((first..first + MINUTE).contains(&doubted), "{doubted}");
        env.sleep(Duration::from_secs(30)).await;
        let later = desk.ping().await;
        assert!((doubted + MINUTE / 2..first + MINUTE).contains(&later), "time continues: {later}");
        desk.turn_wall_clock(-i64::try_from(YEAR).unwrap());
        assert_eq!(desk.ping().await, env.now().as_millis());
        desk.engine.close().await;
    });
}

#[test]
fn a_wall_clock_that_stays_ahead_is_used_after_a_minute() {
    simulate(1, |env| async move {
        let desk = Desk::open(&env, &MemoryLog::new(), &store_of()).await;
        desk.ping().await;
        desk.turn_wall_clock(i64::try_from(YEAR).unwrap());
        assert!(desk.ping().await + YEAR / 2 < env.now().as_millis());
        env.sleep(Duration::from_secs(61)).await;
        assert_eq!(desk.ping().await, env.now().as_millis());
        desk.engine.close().await;
    });
}
