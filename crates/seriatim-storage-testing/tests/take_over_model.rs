//! Every order of events in a small world: the old owner of a partition has an append in progress, and two take the partition
//! over, the old owner itself, to settle that append, and a new one.
//!
//! ```text
//!   old   append X at 2 ──► no answer: in doubt ──► take over (epoch 1) ──► read at 2: the verdict about X ──► append
//!   new                                             take over (epoch 1) ──► append
//! ```
//!
//! The network delivers each message at any point, also long after its sender has stopped waiting, or never. Each reply arrives or
//! is lost. A sender that gets no reply sends the same message again, once. All runs up to a number of events are made, each on a
//! new log in memory, through the code of `Log`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use seriatim_storage::memory::MemoryLog;
use seriatim_storage::{
    AppendError, Digest, Entries, Header, Holder, Log, Owner, ReadLimit, Take, TakeOverError,
};
use seriatim_types::{
    AppendId, Epoch, Partition, PartitionOffset, Timestamp, WorkspaceId, WorkspaceKind, WorkspaceOffset,
};

const PARTITION: Partition = Partition::new(1, 0);

/// The number of events in a run: enough for every outcome that is counted below, several times.
fn events() -> usize {
    if std::env::var_os("SERIATIM_FULL").is_some() { 9 } else { 7 }
}

/// A call on a log in memory, which never waits.
fn now<T>(call: impl Future<Output = T>) -> T {
    match pin!(call).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer,
        Poll::Pending => panic!("a log in memory does not wait"),
    }
}

fn offset(value: u64) -> PartitionOffset {
    PartitionOffset::new(value).unwrap()
}

fn entries(owner: &Owner) -> Entries {
    let mut entries = Entries::new(owner.next_append_id());
    let header = Header {
        workspace: WorkspaceId::FIRST,
        kind: WorkspaceKind::new(1),
        workspace_offset: WorkspaceOffset::FIRST,
        time: Timestamp::from_millis(0),
        body_digest: Digest::of(b""),
        draws: &[],
        raises: &[],
    };
    entries.push(&header, Digest::ZERO, b"").unwrap();
    entries
}

/// How the old owner finds out whether X was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Settling {
    /// As `Log` says: a take-over with the epoch that it has, then a read.
    TakeOver,
    /// Wrong: a read alone.
    Read,
    /// Wrong: a take-over that expects an epoch which is too high, and is refused.
    TooHigh,
    /// Wrong: a refusal counts as success if it names the holder, whatever the id of its take is.
    ByName,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sender {
    Old,
    New,
}

/// What was sent.
#[derive(Debug, Clone)]
enum Message {
    TakeOver,
    Append { owner: Arc<Owner>, at: PartitionOffset, entries: Arc<Entries> },
}

/// One of the two.
#[derive(Debug)]
struct Actor {
    log: Log,
    take: Take,
    /// What it waits for.
    waits: Option<Message>,
    /// How often it sends that again.
    repeats: u32,
}

/// Something that happens.
#[derive(Debug, Clone, Copy)]
enum Event {
    /// The message with this number arrives, and its reply arrives too.
    Deliver(usize),
    /// The message with this number arrives, and its reply is lost.
    LoseReply(usize),
    /// It gets no reply in time.
    TimeOut(Sender),
}

#[derive(Debug)]
struct World {
    settling: Settling,
    actors: [Actor; 2],
    network: Vec<(Sender, Message)>,
    x: (Arc<Owner>, Arc<Entries>),
    /// Whether X is in the log, by what the old owner has found out.
    verdict: Option<bool>,
    /// By epoch: the take that raised it, by an answer.
    owners: BTreeMap<Epoch, Vec<Take>>,
    /// What was acknowledged.
    acknowledged: Vec<(PartitionOffset, AppendId)>,
    outcomes: Outcomes,
}

/// What was seen in all runs together: a model in which nothing happens proves nothing.
#[derive(Debug, Default, PartialEq, Eq)]
struct Outcomes {
    runs: u64,
    written_and_taken_over: u64,
    written_and_deposed: u64,
    not_written_and_taken_over: u64,
    not_written_and_deposed: u64,
    recognized_takes: u64,
    late_appends_refused: u64,
    acknowledged_by_new: u64,
}

impl World {
    fn new(settling: Settling) -> Self {
        let memory = MemoryLog::new();
        let [old, new] = [Log::new(memory.reopen()), Log::new(memory.reopen())];
        let old_take = Take::new(Holder::new("old"), 1);
        let owner = Arc::new(now(old.take_over(PARTITION, None, &old_take)).unwrap());
        let receipt = now(old.append(&owner, offset(1), &entries(&owner))).unwrap();
        let x = Arc::new(entries(&owner));
        let append = Message::Append { owner: owner.clone(), at: offset(2), entries: x.clone() };
        let actor = |log, name, waits| Actor {
            log,
            take: Take::new(Holder::new(name), 2),
            waits: Some(waits),
            repeats: 1,
        };
        // With the wrong rule both have the same name and the same id, as if the id were not compared.
        let other = if settling == Settling::ByName { "old" } else { "new" };
        Self {
            settling,
            actors: [actor(old, "old", append.clone()), actor(new, other, Message::TakeOver)],
            network: vec![(Sender::Old, append), (Sender::New, Message::TakeOver)],
            x: (owner, x),
            verdict: None,
            owners: BTreeMap::from([(Epoch::FIRST, vec![old_take])]),
            acknowledged: vec![(receipt.first(), receipt.append_id())],
            outcomes: Outcomes::default(),
        }
    }

    fn actor(&mut self, sender: Sender) -> &mut Actor {
        &mut self.actors[sender as usize]
    }

    fn events(&self) -> Vec<Event> {
        let mut events = Vec::new();
        for (number, (sender, message)) in self.network.iter().enumerate() {
            let waits = &self.actors[*sender as usize].waits;
            let is_awaited = match (message, waits) {
                (Message::TakeOver, Some(Message::TakeOver)) => true,
                (Message::Append { entries: sent, .. }, Some(Message::Append { entries, .. })) => {
                    Arc::ptr_eq(sent, entries)
                }
                _ => false,
            };
            events.extend(is_awaited.then_some(Event::Deliver(number)));
            events.push(Event::LoseReply(number));
        }
        for sender in [Sender::Old, Sender::New] {
            let actor = &self.actors[sender as usize];
            let in_doubt = matches!(&actor.waits, Some(Message::Append { .. })) && sender == Sender::Old;
            if actor.waits.is_some() && (actor.repeats > 0 || (in_doubt && self.verdict.is_none())) {
                events.push(Event::TimeOut(sender));
            }
        }
        events
    }

    fn send(&mut self, sender: Sender, message: Message) {
        self.actor(sender).waits = Some(message.clone());
        self.network.push((sender, message));
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Deliver(number) | Event::LoseReply(number) => {
                let (sender, message) = self.network.remove(number);
                let arrives = matches!(event, Event::Deliver(_));
                match message {
                    Message::TakeOver => self.deliver_take_over(sender, arrives),
                    Message::Append { owner, at, entries } => {
                        self.deliver_append(sender, &owner, at, &entries, arrives);
                    }
                }
            }
            Event::TimeOut(sender) => self.time_out(sender),
        }
        self.check();
    }

    fn deliver_take_over(&mut self, sender: Sender, arrives: bool) {
        let too_high = self.settling == Settling::TooHigh && sender == Sender::Old;
        let expected = if too_high { Epoch::new(2) } else { Some(Epoch::FIRST) };
        let actor = self.actor(sender);
        let is_known = now(actor.log.holder(PARTITION)).unwrap().is_some_and(|held| held.take == actor.take);
        let answer = now(actor.log.take_over(PARTITION, expected, &actor.take));
        if !arrives {
            return;
        }
        let take = actor.take.clone();
        actor.waits = None;
        let taken_over = answer.is_ok();
        match answer {
            Ok(owner) => {
                self.outcomes.recognized_takes += u64::from(is_known);
                self.owners.entry(owner.epoch()).or_default().push(take);
                let at = owner.tail();
                let owner = Arc::new(owner);
                let entries = Arc::new(entries(&owner));
                self.send(sender, Message::Append { owner, at, entries });
            }
            Err(TakeOverError::Deposed { .. }) => {}
            Err(TakeOverError::Rewound { .. }) => assert!(too_high),
            Err(error) => panic!("{error}"),
        }
        if sender == Sender::Old {
            self.settle(Some(taken_over));
        }
    }

    /// The old owner reads at the offset of X.
    fn settle(&mut self, taken_over: Option<bool>) {
        let is_there = self.found(offset(2)) == Some(self.x.1.append_id());
        self.verdict = Some(is_there);
        let outcomes = &mut self.outcomes;
        match (is_there, taken_over) {
            (true, Some(true)) => outcomes.written_and_taken_over += 1,
            (true, Some(false)) => outcomes.written_and_deposed += 1,
            (false, Some(true)) => outcomes.not_written_and_taken_over += 1,
            (false, Some(false)) => outcomes.not_written_and_deposed += 1,
            (_, None) => {}
        }
    }

    fn deliver_append(
        &mut self,
        sender: Sender,
        owner: &Owner,
        at: PartitionOffset,
        entries: &Arc<Entries>,
        arrives: bool,
    ) {
        let answer = now(self.actor(sender).log.append(owner, at, entries));
        let is_x = Arc::ptr_eq(entries, &self.x.1);
        let is_stale = matches!(answer, Err(AppendError::StaleEpoch { .. }));
        self.outcomes.late_appends_refused += u64::from(is_x && is_stale);
        if !arrives {
            return;
        }
        self.actor(sender).waits = None;
        if let Ok(receipt) = answer {
            self.acknowledged.push((receipt.first(), receipt.append_id()));
            self.outcomes.acknowledged_by_new += u64::from(sender == Sender::New);
        }
    }

    fn time_out(&mut self, sender: Sender) {
        let waits = self.actor(sender).waits.take().unwrap();
        if sender == Sender::Old && self.verdict.is_none() && matches!(waits, Message::Append { .. }) {
            return match self.settling {
                Settling::Read => self.settle(None),
                _ => self.send(sender, Message::TakeOver),
            };
        }
        self.actor(sender).repeats -= 1;
        self.send(sender, waits);
    }

    fn found(&self, at: PartitionOffset) -> Option<AppendId> {
        let read = now(self.actors[0].log.read(PARTITION, at, ReadLimit::entries(1))).unwrap();
        read.iter().next().map(|(_, entry)| entry.append_id())
    }

    /// What must hold after every event.
    fn check(&self) {
        for (epoch, takes) in &self.owners {
            assert_eq!(takes.len(), 1, "epoch {epoch} has several owners: {takes:?}");
        }
        for (at, append) in &self.acknowledged {
            assert_eq!(self.found(*at), Some(*append), "an acknowledged entry at {at} is lost");
        }
        if let Some(verdict) = self.verdict {
            let is_there = self.found(offset(2)) == Some(self.x.1.append_id());
            assert_eq!(is_there, verdict, "the verdict about X is no longer true");
        }
        let mut offsets: Vec<_> = self.acknowledged.iter().map(|(at, _)| at).collect();
        offsets.sort();
        offsets.dedup();
        assert_eq!(offsets.len(), self.acknowledged.len(), "an offset was acknowledged twice");
    }

    /// At the end the old owner repeats X. Once there is a verdict, the answer is the verdict.
    fn check_repeated_append(&self) {
        let (owner, x) = &self.x;
        if let Some(verdict) = self.verdict {
            let answer = now(self.actors[0].log.append(owner, offset(2), x));
            assert_eq!(answer.is_ok(), verdict, "{answer:?}");
            self.check();
        }
    }
}

/// Makes every run. The first events of a run are a path through the numbers of the possible events.
fn explore(settling: Settling, events: usize) -> Outcomes {
    let mut outcomes = Outcomes::default();
    let mut path: Vec<(usize, usize)> = Vec::new();
    loop {
        let mut world = World::new(settling);
        for step in 0..events {
            let possible = world.events();
            if possible.is_empty() {
                break;
            }
            if step == path.len() {
                path.push((0, possible.len()));
            }
            world.happen(possible[path[step].0]);
        }
        world.check_repeated_append();
        outcomes.add(&world.outcomes);
        // The next path: the last event that has another choice.
        while path.last().is_some_and(|(choice, choices)| choice + 1 == *choices) {
            path.pop();
        }
        let Some((choice, _)) = path.last_mut() else { return outcomes };
        *choice += 1;
    }
}

impl Outcomes {
    fn add(&mut self, run: &Self) {
        self.runs += 1;
        self.written_and_taken_over += run.written_and_taken_over;
        self.written_and_deposed += run.written_and_deposed;
        self.not_written_and_taken_over += run.not_written_and_taken_over;
        self.not_written_and_deposed += run.not_written_and_deposed;
        self.recognized_takes += run.recognized_takes;
        self.late_appends_refused += run.late_appends_refused;
        self.acknowledged_by_new += run.acknowledged_by_new;
    }
}

#[test]
fn in_every_order_there_is_one_owner_per_epoch_and_verdicts_stay_true_and_nothing_is_lost() {
    let outcomes = explore(Settling::TakeOver, events());
    println!("{outcomes:#?}");
    for (what, count) in [
        ("runs", outcomes.runs / 10_000),
        ("written, taken over", outcomes.written_and_taken_over),
        ("written, deposed", outcomes.written_and_deposed),
        ("not written, taken over", outcomes.not_written_and_taken_over),
        ("not written, deposed", outcomes.not_written_and_deposed),
        ("a take whose reply was lost is recognized", outcomes.recognized_takes),
        ("a late append is refused", outcomes.late_appends_refused),
        ("the new owner appends", outcomes.acknowledged_by_new),
    ] {
        assert!(count > 0, "it never happened: {what}");
    }
}

/// Shows that the model finds a wrong rule: each of these breaks an invariant in some order.
#[test]
fn other_ways_to_settle_are_found_to_be_wrong() {
    for (settling, problem) in [
        (Settling::Read, "the verdict about X is no longer true"),
        (Settling::TooHigh, "the verdict about X is no longer true"),
        (Settling::ByName, "has several owners"),
    ] {
        let explored = std::panic::catch_unwind(|| explore(settling, events()));
        let panic = explored.expect_err("the model does not notice it");
        let text = panic.downcast_ref::<String>().cloned().unwrap_or_default();
        assert!(text.contains(problem), "{settling:?}: {text}");
    }
}
