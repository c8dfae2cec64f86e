//! The sequencer that is measured.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use seriatim_engine::alone::{Options, Sequencer};
use seriatim_env::Env;
use seriatim_sequencer::{Busy, Definition, Event, Pin, Sealed, Sequence, builtin};
use seriatim_storage::{Log, Receipt, Store};
use seriatim_types::{Partition, SequenceId, Timestamp, WorkspaceId, WorkspaceKind};

use super::no_storage::NoLog;

pub(crate) const KIND: WorkspaceKind = WorkspaceKind::new(1);
const INVOICE: SequenceId = SequenceId::new(20);
const PARTITION: Partition = Partition::new(1, 0);
const BODY_BYTES: usize = 300;

/// Two sequences of record ids, and one sequence of the application.
pub(crate) fn definition() -> anyhow::Result<Definition> {
    let mut sequences = builtin::record_sequences();
    sequences.push(Sequence::new(INVOICE, 1));
    Ok(Definition::new([(KIND, sequences)])?)
}

/// The sequencer that is measured, on a log that does nothing.
#[derive(Debug)]
pub(super) struct Subject {
    pub(super) log: Log,
    pub(super) sequencer: Sequencer,
    /// Groups that had to wait for the flusher.
    pub(super) waited: u64,
    body: Vec<u8>,
}

impl Subject {
    pub(super) async fn open(store: Store, options: Options) -> anyhow::Result<Self> {
        let log = Log::new(NoLog);
        let owner = log.take(PARTITION).await?;
        let definition = Arc::new(definition()?);
        let mut sequencer = Sequencer::open(Env::real(), log.clone(), store, owner, definition, options);
        sequencer.wait(Duration::from_secs(10)).await?;
        Ok(Self { log, sequencer, waited: 0, body: vec![7; BODY_BYTES] })
    }

    pub(super) fn body(&self) -> Vec<u8> {
        self.body.clone()
    }

    /// Numbers one event of a workspace, from loading to commit; waits if the sequencer is busy.
    pub(super) async fn number(&mut self, workspace: WorkspaceId, event: &Event<'_>) -> anyhow::Result<()> {
        let pin = self.sequencer.load(KIND, workspace).await?;
        let sealed = match number_event(&mut self.sequencer, &pin, event) {
            Err(error) if error.is::<Busy>() => {
                self.waited += 1;
                self.sequencer.wait(Duration::from_secs(60)).await.context("the flusher does not keep up")?;
                number_event(&mut self.sequencer, &pin, event)?
            }
            sealed => sealed?,
        };
        let receipt = self.log.append(sealed.owner(), sealed.at(), sealed.entries()).await?;
        commit(&mut self.sequencer, sealed, receipt)
    }
}

/// An event whose body is already encoded and hashed.
pub(super) fn event(body: &[u8]) -> Event<'_> {
    Event::new(Timestamp::from_millis(1_767_225_600_000), body)
}

/// Group, begin, three draws, stage, seal. A separate function, so that its instructions can be counted.
#[inline(never)]
pub(super) fn number_event(
    sequencer: &mut Sequencer,
    pin: &Pin,
    event: &Event<'_>,
) -> anyhow::Result<Sealed> {
    let mut group = sequencer.group()?;
    let mut transaction = group.begin(pin)?;
    transaction.draw(builtin::RECORD_ID)?;
    transaction.draw(builtin::C_RECORD_ID)?;
    transaction.draw(INVOICE)?;
    transaction.stage(event)?;
    Ok(group.seal())
}

#[inline(never)]
pub(super) fn commit(sequencer: &mut Sequencer, sealed: Sealed, receipt: Receipt) -> anyhow::Result<()> {
    Ok(sequencer.commit(sealed, receipt)?)
}
