//! Mistakes that do not compile.
//!
//! A sequencing transaction has an order of steps, and the types enforce it. Each mistake below is followed by the same code
//! without the wrong line, which compiles.
//!
//! # Two transactions at once
//!
//! ```compile_fail,E0499
//! # use seriatim_sequencer::{Derived, Pin, Sequencer, builtin};
//! fn number<D: Derived>(sequencer: &mut Sequencer<D>, pin: &Pin) {
//!     let mut group = sequencer.group().unwrap();
//!     let mut one = group.begin(pin).unwrap();
//!     let mut other = group.begin(pin).unwrap();
//!     one.draw(builtin::RECORD_ID).unwrap();
//! }
//! ```
//!
//! ```
//! # use seriatim_sequencer::{Derived, Pin, Sequencer, builtin};
//! fn number<D: Derived>(sequencer: &mut Sequencer<D>, pin: &Pin) {
//!     let mut group = sequencer.group().unwrap();
//!     let mut one = group.begin(pin).unwrap();
//!     one.draw(builtin::RECORD_ID).unwrap();
//! }
//! ```
//!
//! # Draw after stage
//!
//! ```compile_fail,E0382
//! # use seriatim_sequencer::{Derived, Event, Pin, Sequencer, builtin};
//! fn number<D: Derived>(sequencer: &mut Sequencer<D>, pin: &Pin, event: &Event<'_>) {
//!     let mut group = sequencer.group().unwrap();
//!     let mut transaction = group.begin(pin).unwrap();
//!     transaction.stage(event).unwrap();
//!     transaction.draw(builtin::RECORD_ID).unwrap();
//! }
//! ```
//!
//! ```
//! # use seriatim_sequencer::{Derived, Event, Pin, Sequencer, builtin};
//! fn number<D: Derived>(sequencer: &mut Sequencer<D>, pin: &Pin, event: &Event<'_>) {
//!     let mut group = sequencer.group().unwrap();
//!     let mut transaction = group.begin(pin).unwrap();
//!     transaction.stage(event).unwrap();
//! }
//! ```
//!
//! # Begin after seal
//!
//! ```compile_fail,E0382
//! # use seriatim_sequencer::{Derived, Pin, Sealed, Sequencer};
//! fn number<D: Derived>(sequencer: &mut Sequencer<D>, pin: &Pin) -> Sealed {
//!     let mut group = sequencer.group().unwrap();
//!     let sealed = group.seal();
//!     group.begin(pin).unwrap();
//!     sealed
//! }
//! ```
//!
//! ```
//! # use seriatim_sequencer::{Derived, Pin, Sealed, Sequencer};
//! fn number<D: Derived>(sequencer: &mut Sequencer<D>, pin: &Pin) -> Sealed {
//!     let mut group = sequencer.group().unwrap();
//!     let sealed = group.seal();
//!     sealed
//! }
//! ```
//!
//! # Commit without a receipt
//!
//! ```compile_fail,E0061
//! # use seriatim_sequencer::{Derived, Sealed, Sequencer};
//! # use seriatim_storage::Receipt;
//! fn publish<D: Derived<Values = ()>>(sequencer: &mut Sequencer<D>, sealed: Sealed, receipt: Receipt) {
//!     sequencer.commit(sealed).unwrap();
//! }
//! ```
//!
//! ```
//! # use seriatim_sequencer::{Derived, Sealed, Sequencer};
//! # use seriatim_storage::Receipt;
//! fn publish<D: Derived<Values = ()>>(sequencer: &mut Sequencer<D>, sealed: Sealed, receipt: Receipt) {
//!     sequencer.commit(sealed, receipt).unwrap();
//! }
//! ```
//!
//! # Commit twice
//!
//! ```compile_fail,E0382
//! # use seriatim_sequencer::{Derived, Sealed, Sequencer};
//! # use seriatim_storage::Receipt;
//! fn publish<D: Derived<Values = ()>>(sequencer: &mut Sequencer<D>, sealed: Sealed, one: Receipt, other: Receipt) {
//!     sequencer.commit(sealed, one).unwrap();
//!     sequencer.commit(sealed, other).unwrap();
//! }
//! ```
//!
//! ```
//! # use seriatim_sequencer::{Derived, Sealed, Sequencer};
//! # use seriatim_storage::Receipt;
//! fn publish<D: Derived<Values = ()>>(sequencer: &mut Sequencer<D>, sealed: Sealed, one: Receipt, other: Receipt) {
//!     sequencer.commit(sealed, one).unwrap();
//! }
//! ```
//!
//! # An offset of the wrong kind
//!
//! ```compile_fail,E0308
//! # use seriatim_sequencer::{Sealed, Staged};
//! # use seriatim_storage::Log;
//! async fn append(log: &Log, sealed: &Sealed, staged: Staged) {
//!     let at = staged.workspace_offset;
//!     log.append(sealed.owner(), at, sealed.entries()).await.unwrap();
//! }
//! ```
//!
//! ```
//! # use seriatim_sequencer::{Sealed, Staged};
//! # use seriatim_storage::Log;
//! async fn append(log: &Log, sealed: &Sealed, staged: Staged) {
//!     let at = staged.partition_offset;
//!     log.append(sealed.owner(), at, sealed.entries()).await.unwrap();
//! }
//! ```
