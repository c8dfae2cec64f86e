//! Evidence in a store of events that its log has lost.
//!
//! A store that is ahead of its log includes events that the log no longer has, and their numbers are in use. A rebuild removes
//! what the log cannot explain, and this evidence with it. So the evidence is collected first.

use seriatim_sequencer::{Numbers, NumbersKey};
use seriatim_storage::{Key, Store};
use seriatim_types::{Partition, PartitionOffset, WorkspaceId};

use super::derive::Examination;
use super::{DoctorError, Report, Telling};
use crate::apps::registry::{self, OWN_NAMES, Registry};
use crate::apps::series;
use crate::command::view::{self, KeyPart};
use crate::derive::Standing;
use crate::derive::keys::{self, Family};

/// A number that was given out, according to the store. Higher ones may have been given out too, because the store is written
/// later than the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LowerBound {
    /// The name for unfencing: `series/S`, `blocks/B` or `APP/WORKSPACE/SEQUENCE`.
    pub name: String,
    /// The highest number in the store.
    pub highest: u64,
    /// Whether unfencing can raise it. It cannot if the log has also lost the event that created its workspace or its block
    /// sequence: a new one starts again at its first number.
    pub known: bool,
}

/// Evidence in the store of events that the log has lost.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lost {
    /// The partitions whose logs have lost events.
    pub partitions: Vec<Partition>,
    /// The first numbers that are known to have been given out, at most [`Lost::KEPT`].
    pub bounds: Vec<LowerBound>,
    /// How many there are.
    pub total: u64,
}

impl Lost {
    /// How many lower bounds are kept. Bounds memory, and is more than an operator raises one by one.
    pub const KEPT: usize = 10_000;

    pub(super) fn has_lost(&self, partition: Partition) -> bool {
        self.partitions.contains(&partition)
    }

    fn note(&mut self, bound: LowerBound) {
        self.total += 1;
        if self.bounds.len() < Self::KEPT {
            self.bounds.push(bound);
        }
    }
}

impl Examination<'_> {
    /// Derives everything, and determines whether the store includes events that the log does not have. Changes only the scratch
    /// store. The registry is surveyed first.
    pub(super) async fn survey(
        &mut self,
        lost: &mut Lost,
        report: &mut Report,
        tell: Telling<'_>,
    ) -> Result<(), DoctorError> {
        let tail = self.tail().await?;
        self.derive(tail, report, tell).await?;
        let standing = self.standing(self.checkpoint().await?, tail).await?;
        // Lost events may have had offsets that other events have now. Then the whole store is evidence.
        let (suspect, is_lost) = match standing {
            // Values of another log are no evidence.
            Standing::Useless(_) => return Ok(()),
            Standing::Beyond(_) | Standing::Rewound { .. } => (PartitionOffset::FIRST, true),
            Standing::Derived(..) | Standing::Bad(_) => (tail, false),
        };
        let has_seen_more = self.survey_numbers(suspect, lost).await?;
        if is_lost || has_seen_more {
            lost.partitions.push(self.partition);
            if self.partition == registry::PARTITION {
                self.survey_blocks(suspect, lost).await?;
            }
        }
        Ok(())
    }

    /// How far the sequences got whose workspaces include an event at `suspect` or after it. Returns whether there are such
    /// workspaces.
    async fn survey_numbers(&self, suspect: PartitionOffset, lost: &mut Lost) -> Result<bool, DoctorError> {
        let mut has_seen_more = false;
        let mut stored = self.store.scan(&keys::storage(self.partition), keys::numbers());
        while let Some((clustering, value)) = stored.next().await? {
            let Some(Family::Numbers(workspace)) = Family::of(&clustering) else { continue };
            let numbers = self.numbers(&value);
            let ahead = numbers.filter(|numbers| numbers.folded().is_some_and(|folded| folded >= suspect));
            if let Some(numbers) = ahead {
                has_seen_more = true;
                self.survey_workspace(workspace, &numbers, lost).await?;
            }
        }
        Ok(has_seen_more)
    }

    /// How far the sequences of a workspace got.
    async fn survey_workspace(
        &self,
        workspace: WorkspaceId,
        there: &Numbers,
        lost: &mut Lost,
    ) -> Result<(), DoctorError> {
        let schema = &self.derivation.schema;
        if schema.id() == registry::ID {
            // Numbers of applications: fencing raises them.
            return Ok(());
        }
        let kind = schema.sequences().kind(there.kind());
        let key = NumbersKey::new(self.partition, workspace);
        let derived = self.scratch.get(key.as_key()).await?.and_then(|bytes| self.numbers(&bytes));
        let derived = derived.unwrap_or_else(|| Numbers::fresh(there.kind(), kind));
        let (place, known) = self.place(workspace).await?;
        for sequence in kind.map(|kind| kind.sequences()).unwrap_or_default() {
            let reached = there.next(kind, sequence.id());
            if reached <= derived.next(kind, sequence.id()) {
                continue;
            }
            let Some(highest) = reached.and_then(|next| next.get().checked_sub(1)) else { continue };
            let of_series = schema.id() == series::ID;
            let name = match schema.sequence(sequence.id()) {
                Some(known) if of_series && &*known.name == series::SEQUENCE => {
                    format!("{}/{place}", series::NAME)
                }
                Some(known) => format!("{}/{place}/{}", schema.name(), known.name),
                None => continue,
            };
            // A series is made by naming it.
            lost.note(LowerBound { name, highest, known: known || of_series });
        }
        Ok(())
    }

    /// The name of a workspace, else its id, and whether the log knows it.
    async fn place(&self, workspace: WorkspaceId) -> Result<(String, bool), DoctorError> {
        let id = i64::try_from(workspace.get()).unwrap_or(i64::MAX);
        let application = i64::from(self.partition.application.get());
        let key = Registry::view("workspaces").row(&[application.into(), id.into()]);
        let mut is_known = true;
        for store in [self.scratch, self.store] {
            let row = store.get(key.as_key()).await?.and_then(|row| view::decode_row(&row).ok()?.1);
            if let Some(found) = row.and_then(|row| registry::read_workspace(workspace, row)) {
                return Ok((found.name.unwrap_or_else(|| workspace.to_string()), is_known));
            }
            is_known = false;
        }
        Ok((workspace.to_string(), false))
    }

    /// How far the block sequences got whose rows include an event at `suspect` or after it.
    async fn survey_blocks(&self, suspect: PartitionOffset, lost: &mut Lost) -> Result<(), DoctorError> {
        let view = Registry::view("blocks");
        let next_of = |bytes: &[u8]| {
            let (folded, row) = view::decode_row(bytes).ok()?;
            Some((folded, row?["next"].as_u64()?))
        };
        let mut stored = self.store.scan(&view.storage, view.range(&[], None));
        while let Some((clustering, value)) = stored.next().await? {
            let name = view.read(&clustering).ok().and_then(|mut parts| parts.pop());
            let Some(KeyPart::Text(name)) = name.filter(|name| !is_own(name)) else { continue };
            let Some((_, next)) = next_of(&value).filter(|(folded, _)| *folded >= suspect) else { continue };
            let derived = self.scratch.get(Key::new(&view.storage, &clustering)).await?;
            let derived = derived.and_then(|bytes| next_of(&bytes)).map(|(_, next)| next);
            if let Some(highest) =
                next.checked_sub(1).filter(|_| derived.is_none_or(|derived| next > derived))
            {
                lost.note(LowerBound { name: format!("blocks/{name}"), highest, known: derived.is_some() });
            }
        }
        Ok(())
    }
}

fn is_own(name: &KeyPart) -> bool {
    matches!(name, KeyPart::Text(name) if name.starts_with(OWN_NAMES))
}

/// Beyond the end of every log.
const BEYOND: PartitionOffset = match PartitionOffset::new(u64::MAX) {
    Some(beyond) => beyond,
    None => PartitionOffset::FIRST,
};

/// Prevents that an engine opens the registry's part of a store before it has been rebuilt, also after appends to its log.
///
/// If the log has lost one event, the fence event gets the offset of that event. Then the checkpoint would be at the end of the log
/// again, although the store does not include the fence event.
pub(super) async fn close_registry(store: &Store) -> Result<(), DoctorError> {
    super::put_checkpoint(store, registry::PARTITION, BEYOND).await
}
