//! Transactions that go to the log together.

use std::sync::Arc;

use seriatim_storage::{Entries, Owner};
use seriatim_types::{Partition, PartitionOffset};

use crate::core::{Buffers, Core, Generation};
use crate::shared::Shared;
use crate::{Pin, Stale, Transaction};

/// An open group of transactions. Dropping it is free: none of its numbers was used.
#[derive(Debug)]
#[must_use = "a group that is dropped uses no number: seal it"]
pub struct Group<'a> {
    core: &'a mut Core,
    spare: &'a mut Option<Box<Buffers>>,
    shared: &'a Arc<Shared>,
    owner: &'a Arc<Owner>,
    /// `None` only once the group is sealed.
    buffers: Option<Box<Buffers>>,
}

impl<'a> Group<'a> {
    pub(crate) fn open(
        core: &'a mut Core,
        spare: &'a mut Option<Box<Buffers>>,
        shared: &'a Arc<Shared>,
        owner: &'a Arc<Owner>,
    ) -> Self {
        let append = owner.next_append_id();
        let reused = spare.take();
        let mut buffers = reused.unwrap_or_else(|| Box::new(Buffers::new(append, core.next)));
        core.open(&mut buffers, append);
        shared.enter_transaction();
        let buffers = Some(buffers);
        Self { core, spare, shared, owner, buffers }
    }

    fn buffers(&self) -> &Buffers {
        self.buffers.as_deref().expect("only sealing takes them, and it takes the group too")
    }

    /// Starts a transaction. It borrows the group: one at a time. It sees what is staged for its workspace already.
    ///
    /// # Errors
    ///
    /// [`Stale`] if the workspace was loaded before the last recovery: load it again.
    ///
    /// # Panics
    ///
    /// Never: a group that is sealed is gone.
    pub fn begin(&mut self, workspace: &Pin) -> Result<Transaction<'_>, Stale> {
        let buffers = self.buffers.as_deref_mut();
        let buffers = buffers.expect("only sealing takes them, and it takes the group too");
        self.core.begin(buffers, workspace)?;
        Ok(Transaction::new(self.core, buffers, workspace.slot))
    }

    /// How many transactions are staged.
    #[must_use]
    pub fn len(&self) -> usize {
        self.buffers().entries.len()
    }

    /// Whether nothing is staged.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many workspaces have staged transactions.
    #[must_use]
    pub fn workspaces(&self) -> usize {
        self.buffers().changed().len()
    }

    /// How many bytes the staged entries have.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.buffers().entries.as_bytes().len()
    }

    /// Closes the group: its entries are ready for the log, and nothing is staged until its outcome is known.
    pub fn seal(mut self) -> Sealed {
        self.core.seal();
        Sealed {
            owner: self.owner.clone(),
            generation: self.core.generation,
            shared: self.shared.clone(),
            buffers: self.buffers.take(),
        }
    }
}

impl Drop for Group<'_> {
    fn drop(&mut self) {
        if let Some(buffers) = self.buffers.take() {
            self.core.discard(&buffers);
            self.shared.leave_transaction();
            *self.spare = Some(buffers);
        }
    }
}

/// A closed group on its way to the log. It ends by `commit`, `discard` or `settle`; dropped without one of these its
/// outcome is in doubt, and the sequencer gives out nothing more until it has recovered.
#[derive(Debug)]
#[must_use = "commit, discard or settle it"]
pub struct Sealed {
    owner: Arc<Owner>,
    pub(crate) generation: Generation,
    shared: Arc<Shared>,
    /// `None` only once its outcome is known.
    buffers: Option<Box<Buffers>>,
}

impl Sealed {
    pub(crate) fn buffers(&self) -> &Buffers {
        self.buffers.as_deref().expect("only an outcome takes them, and it takes the group too")
    }

    /// Ends the doubt: whoever calls this knows the outcome.
    pub(crate) fn into_buffers(mut self) -> Option<Box<Buffers>> {
        self.buffers.take()
    }

    /// The owner that the entries are to be appended with.
    #[must_use]
    pub fn owner(&self) -> &Owner {
        &self.owner
    }

    /// The partition.
    #[must_use]
    pub fn partition(&self) -> Partition {
        self.owner.partition()
    }

    /// Where the entries are to be appended.
    #[must_use]
    pub fn at(&self) -> PartitionOffset {
        self.buffers().at
    }

    /// The offset behind them.
    #[must_use]
    pub fn next(&self) -> PartitionOffset {
        self.buffers().next
    }

    /// The entries.
    #[must_use]
    pub fn entries(&self) -> &Entries {
        &self.buffers().entries
    }
}

impl Drop for Sealed {
    fn drop(&mut self) {
        if self.buffers.is_some() {
            self.shared.abandon(self.generation);
        }
    }
}
