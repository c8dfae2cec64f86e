//! What the trust levels do when somebody has written where the next number leads.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::path::Path;
use std::sync::Arc;

use seriatim_engine::doctor::Treatment;
use seriatim_engine::{Engine, Found, Options, PartitionStatus, StoreKey, SubmitError, Value};
use seriatim_env::{Env, simulate};
use seriatim_storage::memory::{MemoryLog, MemoryStore};
use seriatim_storage::{Batch, Digest, Durability, Entries, Header, Log, ReadLimit, Store};
use seriatim_storage_file::{FileOptions, FileStorage};
use seriatim_storage_testing::faulty::{Faults, FaultyLog, Operation};
use seriatim_types::TrustLevel::{self, TrustAll, VerifyAll, VerifyEvents};
use seriatim_types::{
    ErrorKind, Partition, PartitionOffset, RecordId, Timestamp, WorkspaceId, WorkspaceOffset,
};
use support::{customer, invoice, open_with, options, workspace};

/// An engine at a trust level, and the storage under it.
struct Place {
    env: Env,
    engine: Engine,
    log: Log,
    store: Store,
    level: TrustLevel,
    /// The victim, another workspace of its partition, and one of the other partition.
    victim: WorkspaceId,
    neighbour: WorkspaceId,
    far: WorkspaceId,
}

impl Place {
    async fn open(env: &Env, log: Log, store: Store, level: TrustLevel) -> Self {
        let options = Options { trust_level: level, ..options() };
        let engine = open_with(env, log.clone(), store.clone(), options).await;
        let victim = workspace(&engine, "victim").await;
        let far = workspace(&engine, "far").await;
        let neighbour = workspace(&engine, "neighbour").await;
        let partition = |workspace| engine.partition_of("till", workspace).unwrap();
        assert_eq!(partition(victim), partition(neighbour));
        assert_ne!(partition(victim), partition(far));
        Self { env: env.clone(), engine, log, store, level, victim, neighbour, far }
    }

    async fn reopen(self) -> Self {
        self.engine.close().await;
        Self::open(&self.env, self.log, self.store, self.level).await
    }

    fn partition(&self) -> Partition {
        let application = self.engine.schema("till").unwrap().id();
        Partition { application, id: self.engine.partition_of("till", self.victim).unwrap() }
    }

    /// The key of a family, as `keys.rs` lays it out.
    fn key(&self, family: u8, kind: &[u8], number: u64) -> StoreKey {
        let Partition { application, id } = self.partition();
        let storage = [&application.get().to_be_bytes()[..], &id.get().to_be_bytes()].concat();
        let workspace = self.victim.get().to_be_bytes();
        StoreKey::new(&storage, &[&[family][..], &workspace, kind, &number.to_be_bytes()].concat())
    }

    fn record_key(&self, id: u64) -> StoreKey {
        let kind = self.engine.schema("till").unwrap().document_by_name("Invoice").unwrap().id;
        self.key(b'w', &kind.get().to_be_bytes(), id)
    }

    async fn invoice(&self, workspace: WorkspaceId) -> Result<(i64, u64, u64), SubmitError> {
        let answer = self.engine.submit("till", workspace, &invoice("2.50")).await?;
        Ok((answer.number(1, "number").unwrap(), answer.id(1).unwrap().get(), answer.workspace_offset.get()))
    }

    /// The other workspaces continue.
    async fn others_continue(&self) {
        for workspace in [self.neighbour, self.far] {
            let before = self.invoice(workspace).await.unwrap();
            assert_eq!(self.invoice(workspace).await.unwrap(), (before.0 + 1, before.1 + 1, before.2 + 1));
        }
    }

    /// A value in the way of the next command is named, again and again, and costs nothing.
    async fn is_refused(&self, key: &StoreKey, what: &'static str, first: (i64, u64, u64)) {
        for _ in 0..3 {
            let error = self.invoice(self.victim).await.unwrap_err();
            assert_eq!(error, SubmitError::Taken { what, key: key.clone() });
            assert_eq!(error.kind(), ErrorKind::Conflict);
            assert!(error.to_string().contains(&key.to_string()), "{error}");
            self.others_continue().await;
        }
        let there = self.store.get(key.as_key()).await.unwrap();
        assert_eq!(there.as_deref(), Some(&[1][..]), "what was in the way is still as it was");
        let mut batch = Batch::new();
        batch.remove(key.as_key());
        self.store.write(batch, Durability::Buffered).await.unwrap();
        let next = self.invoice(self.victim).await.unwrap();
        assert_eq!(next, (first.0 + 1, first.1 + 1, first.2 + 1), "a refused command takes no number");
    }

    /// A value in the way is overwritten, and what is read is what the log says, also after a restart.
    async fn overwrites(self, first: (i64, u64, u64)) {
        let next = self.invoice(self.victim).await.unwrap();
        assert_eq!(next, (first.0 + 1, first.1 + 1, first.2 + 1));
        self.others_continue().await;
        self.is_as_the_log_says(next).await;
        let place = self.reopen().await;
        place.is_as_the_log_says(next).await;
        assert_eq!(place.invoice(place.victim).await.unwrap().0, next.0 + 1);
        place.engine.close().await;
    }

    async fn is_as_the_log_says(&self, (number, id, offset): (i64, u64, u64)) {
        let found = self.engine.record("till", self.victim, RecordId::new(id)).await.unwrap();
        let Some(Found::Record(record)) = found else { panic!("{found:?}") };
        let invoice = self.engine.schema("till").unwrap().document_by_name("Invoice").unwrap();
        let field = invoice.field("number").unwrap().id;
        assert_eq!(record.field(field), Some(&Value::Integer(number)));
        let from = WorkspaceOffset::new(offset).unwrap();
        let events = self.engine.events("till", self.victim, from, 1).await.unwrap();
        assert!(events[0].event.created().any(|row| row.id.get() == id));
    }

    async fn sabotage_record(self) {
        let first = self.invoice(self.victim).await.unwrap();
        let key = self.record_key(first.1 + 1);
        self.store.put(key.as_key(), &[1]).await.unwrap();
        if self.level.verifies_records() {
            self.is_refused(&key, "record", first).await;
            self.engine.close().await;
        } else {
            self.overwrites(first).await;
        }
    }

    async fn sabotage_workspace_log(self) {
        let first = self.invoice(self.victim).await.unwrap();
        let key = self.key(b'l', &[], first.2 + 1);
        self.store.put(key.as_key(), &[1]).await.unwrap();
        if self.level.verifies_events() {
            self.is_refused(&key, "event of the workspace's log", first).await;
            self.engine.close().await;
        } else {
            self.overwrites(first).await;
        }
    }

    /// Somebody else takes the partition and appends an event of the victim.
    async fn append_as_somebody_else(&self, log: &Log) -> PartitionOffset {
        let owner = log.take(self.partition()).await.unwrap();
        let mut previous = (Digest::ZERO, WorkspaceOffset::FIRST);
        let read = log.read(self.partition(), PartitionOffset::FIRST, ReadLimit::default()).await.unwrap();
        for (_, entry) in read.iter().filter(|(_, entry)| entry.workspace() == self.victim) {
            previous = (entry.chain(), entry.workspace_offset().next().unwrap());
        }
        // A version, no flags, the name's length, the name, no changes.
        let body = b"\x01\x00\x04Ping\x00";
        let header = Header {
            workspace: self.victim,
            kind: self.engine.schema("till").unwrap().kind_by_name("store").unwrap().id,
            workspace_offset: previous.1,
            time: Timestamp::from_millis(0),
            body_digest: Digest::of(body),
            draws: &[],
            raises: &[],
        };
        let mut entries = Entries::new(owner.next_append_id());
        entries.push(&header, previous.0, body).unwrap();
        log.append(&owner, owner.tail(), &entries).await.unwrap().first()
    }

    async fn the_doctor_looks_at_all_but_the_stopped_one(&self) {
        let scratch = Store::new(MemoryStore::new());
        let report = self.engine.doctor(&scratch, Treatment::Check, &mut |_| {}).await.unwrap();
        let skipped: Vec<_> = report.problems.iter().map(|problem| problem.partition).collect();
        assert_eq!(skipped, [self.partition()], "{report:?}");
        let text = report.problems[0].error.to_string();
        assert!(text.ends_with("stop the server, then run `seriatim doctor --storage URL`"), "{text}");
    }

    /// `other` is a second log on the same entries; `checks` says whether the log looks at every level.
    async fn sabotage_partition_log(self, other: &Log, checks: bool) {
        let first = self.invoice(self.victim).await.unwrap();
        let at = self.append_as_somebody_else(other).await;
        if !checks {
            let next = self.invoice(self.victim).await.unwrap();
            assert_eq!(next, (first.0 + 1, first.1 + 1, first.2 + 1));
            let read = self.log.read(self.partition(), at, ReadLimit::entries(1)).await.unwrap();
            let (_, entry) = read.iter().next().unwrap();
            assert_eq!(entry.workspace_offset().get(), next.2, "what was there is overwritten");
            assert!(!entry.body().ends_with(b"Ping\0"));
            return self.overwrites(next).await;
        }
        let error = self.invoice(self.victim).await.unwrap_err();
        let SubmitError::NotHere { partition, .. } = &error else { panic!("{error:?}") };
        assert_eq!(*partition, self.partition().to_string());
        // The partition belongs to another owner; the other one continues.
        let id = usize::from(self.partition().id.get());
        let status = &self.engine.partitions("till").unwrap()[id].status;
        assert!(matches!(status, PartitionStatus::Elsewhere { .. }), "{status:?}");
        for workspace in [self.victim, self.neighbour] {
            let error = self.invoice(workspace).await.unwrap_err();
            assert!(matches!(error, SubmitError::NotHere { .. }), "{error:?}");
        }
        self.invoice(self.far).await.unwrap();
        self.the_doctor_looks_at_all_but_the_stopped_one().await;
        // Taken again, what stands in the log is the truth.
        let place = self.reopen().await;
        let next = place.invoice(place.victim).await.unwrap();
        assert_eq!(next, (first.0 + 1, first.1 + 1, first.2 + 2));
        place.others_continue().await;
        place.engine.close().await;
    }
}

/// All three of a level, in memory, where the log leaves the check to the level.
fn in_memory(level: TrustLevel) {
    for cell in 0..3 {
        simulate(cell, |env| async move {
            let log = MemoryLog::new();
            let (backend, store) = (Log::new(log.clone()), Store::new(MemoryStore::new()));
            let place = Place::open(&env, backend, store, level).await;
            match cell {
                0 => place.sabotage_record().await,
                1 => place.sabotage_workspace_log().await,
                _ => place.sabotage_partition_log(&Log::new(log), level.verifies_events()).await,
            }
        });
    }
}

/// The same on files, where the log always checks.
fn on_files(level: TrustLevel) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    for cell in 0..3 {
        let directory = tempfile::tempdir().unwrap();
        runtime.block_on(async {
            let (env, storage) = open_files(directory.path()).await;
            let place = Place::open(&env, storage.log().clone(), storage.store().clone(), level).await;
            match cell {
                0 => place.sabotage_record().await,
                1 => place.sabotage_workspace_log().await,
                _ => place.sabotage_partition_log(storage.log(), true).await,
            }
            storage.close().await.unwrap();
        });
    }
}

async fn open_files(directory: &Path) -> (Env, FileStorage) {
    let env = Env::real();
    let options = FileOptions { free_bytes_min: 0, ..FileOptions::default() };
    let storage = FileStorage::open(&env, directory, options).await.unwrap();
    (env, storage)
}

#[test]
fn sequences_trust_level_0() {
    in_memory(VerifyAll);
    on_files(VerifyAll);
}

#[test]
fn sequences_trust_level_1() {
    in_memory(VerifyEvents);
    on_files(VerifyEvents);
}

#[test]
fn sequences_trust_level_2() {
    in_memory(TrustAll);
    on_files(TrustAll);
}

#[test]
fn of_one_group_only_the_guilty_command_is_refused() {
    simulate(1, |env| async move {
        let faults = Faults::new(&env);
        let log = Log::new(FaultyLog::new(Arc::new(MemoryLog::new()), &faults));
        let place = Place::open(&env, log, Store::new(MemoryStore::new()), VerifyAll).await;
        let first = place.invoice(place.victim).await.unwrap();
        let key = place.record_key(first.1 + 1);
        place.store.put(key.as_key(), &[1]).await.unwrap();
        // While an append is held, what comes next gathers in one group.
        let hold = faults.hold(Operation::Append);
        let submit = |workspace, request| {
            let engine = place.engine.clone();
            env.spawn(async move { engine.submit("till", workspace, &request).await })
        };
        let blocker = submit(place.neighbour, customer("first"));
        hold.reached(1).await;
        faults.reset_counts();
        let before = submit(place.victim, customer("before"));
        let mut guilty = Vec::new();
        for _ in 0..2 {
            guilty.push(submit(place.victim, invoice("1")));
        }
        let after = submit(place.victim, customer("after"));
        let beside = submit(place.neighbour, invoice("1"));
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        hold.release();
        blocker.await.unwrap().unwrap();
        for guilty in guilty {
            let error = guilty.await.unwrap().unwrap_err();
            assert_eq!(error, SubmitError::Taken { what: "record", key: key.clone() });
        }
        let (before, after) = (before.await.unwrap().unwrap(), after.await.unwrap().unwrap());
        let mut offsets = [before.workspace_offset.get(), after.workspace_offset.get()];
        offsets.sort_unstable();
        assert_eq!(offsets, [first.2 + 1, first.2 + 2]);
        assert_eq!(beside.await.unwrap().unwrap().workspace_offset.get(), 2);
        assert_eq!(faults.count(Operation::Append), 1, "they were one group");
        place.engine.close().await;
    });
}

#[test]
fn a_value_in_the_way_does_not_stop_a_recovery() {
    for level in [VerifyEvents, TrustAll] {
        simulate(1, |env| async move {
            let (log, store) = (MemoryLog::new(), MemoryStore::new());
            let never = Options { flush_interval: std::time::Duration::from_secs(3_600), ..options() };
            let never = Options { trust_level: level, ..never };
            let engine = open_with(&env, Log::new(log.clone()), Store::new(store.clone()), never).await;
            let victim = workspace(&engine, "victim").await;
            let place = Place {
                env: env.clone(),
                engine,
                log: Log::new(log.clone()),
                store: Store::new(store.clone()),
                level,
                victim,
                neighbour: victim,
                far: victim,
            };
            let first = place.invoice(victim).await.unwrap();
            let key = place.record_key(first.1);
            // Nothing is flushed: the next start finds this instead of the record, and the event in the log.
            place.store.put(key.as_key(), &[1]).await.unwrap();
            let again = Options { trust_level: level, ..options() };
            let engine = open_with(&env, Log::new(log), Store::new(store), again).await;
            let place = Place { engine, ..place };
            place.is_as_the_log_says(first).await;
            assert_eq!(place.invoice(victim).await.unwrap().0, first.0 + 1);
            place.engine.close().await;
        });
    }
}
