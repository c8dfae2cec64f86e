use std::collections::HashMap;
use std::sync::Arc;

use seriatim_env::simulate;
use seriatim_storage::memory::MemoryLog;
use seriatim_storage::{Digest, Entries as Appended, Header, Owner};
use seriatim_storage_testing::faulty::{Faults, FaultyLog, Operation};
use seriatim_types::{ApplicationId, Timestamp, WorkspaceKind, WorkspaceOffset};

use super::*;
use crate::command::apply::Derivation;
use crate::command::event::{Argument, Event};
use crate::command::projector::{Projected, Rows, projector};
use crate::definition::{Accepted, Schema, shop};
use crate::derive::{Limits, lock};

const WORKSPACE: WorkspaceId = WorkspaceId::FIRST;

fn end() -> PartitionOffset {
    PartitionOffset::new(u64::MAX).unwrap()
}

fn body(result: &str) -> Vec<u8> {
    let (argument, result) = (Argument::None, Some(result.into()));
    let event = Event {
        command: "Tea".into(),
        argument,
        unlogged: false,
        changes: Vec::new(),
        result,
        idempotency: None,
    };
    let mut bytes = Vec::new();
    event.encode(&mut bytes);
    bytes
}

/// A log, and what is derived from it.
struct World {
    env: Env,
    faults: Faults,
    log: Log,
    owner: Owner,
    derivation: Derivation,
    next: WorkspaceOffset,
    chain: Digest,
    at: PartitionOffset,
}

impl World {
    async fn new(env: Env, project: fn(&Projected<'_>, &mut Rows<'_>) -> Result<(), String>) -> Self {
        let faults = Faults::new(&env);
        let log = Log::new(FaultyLog::new(Arc::new(MemoryLog::new()), &faults));
        let owner = log.take(Partition::new(7, 0)).await.unwrap();
        let accepted = Accepted::accept(None, ApplicationId::new(7), &shop()).unwrap();
        let schema = Arc::new(Schema::new(&accepted).unwrap());
        let derivation =
            Derivation { schema, projectors: vec![Arc::new(projector("view", project))], accepted: None };
        let (next, chain, at) = (WorkspaceOffset::FIRST, Digest::ZERO, owner.tail());
        Self { env, faults, log, owner, derivation, next, chain, at }
    }

    async fn append(&mut self, body: &[u8], body_digest: Digest) {
        let mut entries = Appended::new(self.owner.next_append_id());
        let header = Header {
            workspace: WORKSPACE,
            kind: WorkspaceKind::new(1),
            workspace_offset: self.next,
            time: Timestamp::from_millis(1),
            body_digest,
            draws: &[],
            raises: &[],
        };
        self.chain = entries.push(&header, self.chain, body).unwrap();
        self.next = self.next.next().unwrap();
        self.at = self.log.append(&self.owner, self.at, &entries).await.unwrap().next();
    }

    async fn append_events(&mut self, count: usize, result: &str) {
        for _ in 0..count {
            self.append(&body(result), Digest::of(&body(result))).await;
        }
    }

    fn replay(&self, bodies: Bodies) -> Replay<'_, Derivation> {
        let (partition, first) = (self.owner.partition(), PartitionOffset::FIRST);
        Replay::new(&self.env, &self.log, partition, &self.derivation, bodies, first)
    }
}

/// Keeps everything in memory.
struct Memory<'a> {
    world: &'a World,
    overlay: Mutex<Overlay>,
    values: Values,
    numbers: HashMap<WorkspaceId, Numbers>,
    events: usize,
    /// How many chunks are refused, and how many reads a flush follows.
    refused: usize,
    flushes: usize,
    /// How often the log was read before each chunk was kept.
    reads: Vec<u64>,
}

impl<'a> Memory<'a> {
    fn new(world: &'a World) -> Self {
        let overlay = Mutex::new(Overlay::new(Limits::default(), Arc::default()));
        let (values, numbers) = (Values::new(), HashMap::new());
        Self { world, overlay, values, numbers, events: 0, refused: 0, flushes: 0, reads: Vec::new() }
    }
}

impl Target for Memory<'_> {
    type Error = ReplayError;

    fn overlay(&self) -> &Mutex<Overlay> {
        &self.overlay
    }

    async fn make_room(&mut self) -> Result<(), ReplayError> {
        Ok(())
    }

    async fn read_numbers(&mut self, workspaces: &[WorkspaceId]) -> Vec<Result<Option<Numbers>, ReadError>> {
        workspaces.iter().map(|workspace| Ok(self.numbers.get(workspace).cloned())).collect()
    }

    async fn fetch(&mut self, fetching: Fetching, _: usize) -> Result<Fetched, StoreError> {
        let found = fetching.keys().iter().map(|key| self.values.get(key).cloned()).collect();
        if self.flushes > 0 {
            self.flushes -= 1;
            let _ = lock(&self.overlay).suspend();
        }
        Ok(fetching.finish(found))
    }

    async fn keep(&mut self, chunk: Chunk<'_>) -> Result<(), ReplayError> {
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        if self.refused > 0 {
            self.refused -= 1;
            return Err(LogError::Unavailable("for a moment".to_owned()).into());
        }
        self.reads.push(self.world.faults.count(Operation::Read));
        self.values.extend(chunk.values);
        self.numbers
            .extend(chunk.numbers.into_iter().map(|(workspace, numbers)| (workspace, numbers.clone())));
        self.events += chunk.events;
        Ok(())
    }
}

fn nothing(_: &Projected<'_>, _: &mut Rows<'_>) -> Result<(), String> {
    Ok(())
}

#[test]
fn a_replay_runs_to_an_offset_or_to_the_end_of_the_log_and_can_continue() {
    simulate(1, |env| async move {
        let mut world = World::new(env, nothing).await;
        world.append_events(3, "").await;
        let log = world.log.clone();
        let owner = world.owner.partition();
        let mut memory = Memory::new(&world);
        let mut replay = world.replay(Bodies::Compared);
        replay.run(PartitionOffset::new(3).unwrap(), &mut memory).await.unwrap();
        assert_eq!((replay.at.get(), memory.events), (3, 2), "an offset bounds it");
        replay.run(end(), &mut memory).await.unwrap();
        assert_eq!((replay.at, memory.events), (log.tail(owner).await.unwrap(), 3), "so does the log's end");
        replay.run(end(), &mut memory).await.unwrap();
        assert_eq!(memory.events, 3, "nothing is applied twice");
        let (at, numbers) = (replay.at, memory.numbers[&WORKSPACE].clone());
        world.append_events(2, "").await;
        let mut memory = Memory::new(&world);
        memory.numbers.insert(WORKSPACE, numbers);
        let mut replay = Replay { at, ..world.replay(Bodies::Compared) };
        replay.run(end(), &mut memory).await.unwrap();
        assert_eq!((replay.at, memory.events), (world.at, 2), "later events are applied by a later run");
        assert_eq!(memory.numbers[&WORKSPACE].next_offset(), world.next);
    });
}

#[test]
fn the_next_page_is_read_while_one_is_applied() {
    simulate(1, |env| async move {
        let mut world = World::new(env, nothing).await;
        world.append_events(4, &"x".repeat(300 << 10)).await;
        world.faults.reset_counts();
        let mut memory = Memory::new(&world);
        world.replay(Bodies::Trusted).run(world.at, &mut memory).await.unwrap();
        assert_eq!(memory.events, 4);
        assert_eq!(memory.reads[0], 2, "{:?}", memory.reads);
    });
}

#[test]
fn a_chunk_that_was_not_kept_is_applied_again() {
    simulate(1, |env| async move {
        let mut world = World::new(env, nothing).await;
        world.append_events(2, "").await;
        let mut memory = Memory { refused: 1, ..Memory::new(&world) };
        let mut replay = world.replay(Bodies::Trusted);
        replay.run(end(), &mut memory).await.unwrap_err();
        assert_eq!((replay.at, memory.events), (PartitionOffset::FIRST, 0));
        replay.run(end(), &mut memory).await.unwrap();
        assert_eq!((replay.at, memory.events), (world.at, 2));
    });
}

#[test]
fn what_is_wrong_with_an_event_is_named() {
    simulate(1, |env| async move {
        for (bytes, digest, bodies, expected) in [
            (
                body(""),
                Digest::of(b"another"),
                Bodies::Compared,
                "its body does not match the digest in its header",
            ),
            (body(""), Digest::of(b"another"), Bodies::Trusted, ""),
            (vec![9], Digest::of(&[9]), Bodies::Compared, "it cannot be read: it has no valid version"),
        ] {
            let mut world = World::new(env.clone(), nothing).await;
            world.append_events(1, "").await;
            world.append(&bytes, digest).await;
            let mut memory = Memory::new(&world);
            match world.replay(bodies).run(end(), &mut memory).await {
                Ok(()) => assert_eq!(expected, ""),
                Err(error) => assert_eq!(error.to_string(), format!("event 2: {expected}")),
            }
        }
        let refuse = |_: &Projected<'_>, _: &mut Rows<'_>| Err("no tea".to_owned());
        let mut world = World::new(env.clone(), refuse).await;
        world.append_events(1, "").await;
        let error = world.replay(Bodies::Trusted).run(end(), &mut Memory::new(&world)).await.unwrap_err();
        assert_eq!(error.to_string(), "event 1: it cannot be applied: view view: no tea");
        let mut world = World::new(env, nothing).await;
        world.append_events(1, "").await;
        world.chain = Digest::ZERO;
        world.append_events(1, "").await;
        let error = world.replay(Bodies::Trusted).run(end(), &mut Memory::new(&world)).await.unwrap_err();
        assert!(matches!(error, ReplayError::Event { fault: Fault::Fold(_), .. }), "{error}");
    });
}

#[test]
fn numbers_that_include_an_event_after_the_end_of_the_replay_are_refused() {
    simulate(1, |env| async move {
        let mut world = World::new(env, nothing).await;
        world.append_events(3, "").await;
        let mut memory = Memory::new(&world);
        world.replay(Bodies::Trusted).run(end(), &mut memory).await.unwrap();
        for (to, is_fine) in [(3, false), (4, true)] {
            let to = PartitionOffset::new(to).unwrap();
            match world.replay(Bodies::Trusted).run(to, &mut memory).await {
                Ok(()) => assert!(is_fine),
                Err(ReplayError::Folded { folded, .. }) => assert!(!is_fine && folded.get() == 3),
                Err(error) => panic!("{error}"),
            }
        }
    });
}

/// Reads as many rows as the event names, each only when the one before is known.
fn chained(event: &Projected<'_>, rows: &mut Rows<'_>) -> Result<(), String> {
    let count: i64 = event.event.result.as_deref().unwrap_or_default().parse().unwrap_or(0);
    for number in 0..count {
        let mut is_known = false;
        rows.fold(&[number.into()], |row| {
            is_known = true;
            row
        });
        if !is_known {
            break;
        }
    }
    Ok(())
}

#[test]
fn reads_that_depend_on_reads_are_bounded() {
    simulate(1, |env| async move {
        // The dry run asks for the first row; each of the others is a round.
        for (rows, is_fine) in [(READ_ROUNDS_MAX + 1, true), (READ_ROUNDS_MAX + 2, false)] {
            let mut world = World::new(env.clone(), chained).await;
            world.append_events(1, &rows.to_string()).await;
            let result = world.replay(Bodies::Trusted).run(end(), &mut Memory::new(&world)).await;
            match result {
                Ok(()) => assert!(is_fine),
                Err(ReplayError::Event { fault: Fault::Endless, .. }) => assert!(!is_fine),
                Err(error) => panic!("{error}"),
            }
        }
    });
}

#[test]
fn reading_a_key_again_after_a_flush_does_not_count_as_a_round() {
    simulate(1, |env| async move {
        let mut world = World::new(env, chained).await;
        world.append_events(1, "3").await;
        let mut memory = Memory { flushes: 2 * READ_ROUNDS_MAX, ..Memory::new(&world) };
        world.replay(Bodies::Trusted).run(end(), &mut memory).await.unwrap();
        assert_eq!((memory.events, memory.flushes), (1, 0));
    });
}
