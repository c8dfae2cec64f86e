//! One conformance suite per port: tests that every backend must pass.
//!
//! A backend author writes a fixture that opens the backend, and runs a suite with one line. Each clause becomes a
//! `#[test]` of its own, with a fresh fixture, on a real runtime with several threads:
//!
//! ```
//! use seriatim_storage::{Log, memory::MemoryLog};
//! use seriatim_storage_testing::conformance::LogFixture;
//!
//! struct Memory(MemoryLog);
//!
//! impl LogFixture for Memory {
//!     async fn open(&self) -> Log {
//!         Log::new(self.0.reopen())
//!     }
//!
//!     fn always_verifies(&self) -> bool {
//!         false
//!     }
//! }
//!
//! seriatim_storage_testing::log_conformance!(Memory(MemoryLog::new()));
//! # fn main() {}
//! ```
//!
//! A log that several processes share passes a second suite, [`shared_log_conformance!`](crate::shared_log_conformance), whose
//! fixture opens several handles at the same time.
//!
//! An append whose outcome is in doubt does not fail a clause: it is settled by a take-over and a read.
//!
//! The suites measure no time: a clause waits for what must happen, and fails if that takes longer than two minutes. What
//! only a crash can show (that an answer is given after the sync) belongs to the backend's own tests.

#[doc(hidden)]
pub mod cells;
#[doc(hidden)]
pub mod log;
#[doc(hidden)]
pub mod shared;
#[doc(hidden)]
pub mod store;
#[cfg(test)]
mod tests;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use seriatim_env::{Env, Task};

use seriatim_storage::{Cells, Log, Store};

/// The time limit of a clause. A clause that takes longer is stuck. All clauses need far less, also on a busy machine.
const CLAUSE_TIMEOUT: Duration = Duration::from_secs(120);

/// How many tasks contend for one partition or key.
const TASKS: usize = 16;

/// How to open the log under test.
pub trait LogFixture: Send + Sync + 'static {
    /// Opens the log: empty at first, and after a close with everything that was appended.
    fn open(&self) -> impl Future<Output = Log> + Send;

    /// Whether [`Log::append_unverified`] checks epoch and tail nevertheless, because that costs nothing here.
    fn always_verifies(&self) -> bool {
        true
    }
}

/// How to open the log under test, if several processes can share it.
pub trait SharedLogFixture: Send + Sync + 'static {
    /// Opens another handle on the log, as another process does. The handles that were opened before stay open. Each is closed
    /// by itself.
    fn open(&self) -> impl Future<Output = Log> + Send;
}

/// How to open the store under test.
pub trait StoreFixture: Send + Sync + 'static {
    /// Opens the store: empty at first, and after a close with everything that was written.
    fn open(&self) -> impl Future<Output = Store> + Send;
}

/// How to open the cells under test.
pub trait CellsFixture: Send + Sync + 'static {
    /// Opens the cells: empty at first, and after a close with everything that was written.
    fn open(&self) -> impl Future<Output = Cells> + Send;
}

type OpenFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

trait Opener<T>: Send + Sync {
    fn open(&self) -> OpenFuture<'_, T>;
}

struct LogOpener<F>(F);

impl<F: LogFixture> Opener<Log> for LogOpener<F> {
    fn open(&self) -> OpenFuture<'_, Log> {
        Box::pin(self.0.open())
    }
}

struct SharedLogOpener<F>(F);

impl<F: SharedLogFixture> Opener<Log> for SharedLogOpener<F> {
    fn open(&self) -> OpenFuture<'_, Log> {
        Box::pin(self.0.open())
    }
}

struct StoreOpener<F>(F);

impl<F: StoreFixture> Opener<Store> for StoreOpener<F> {
    fn open(&self) -> OpenFuture<'_, Store> {
        Box::pin(self.0.open())
    }
}

struct CellsOpener<F>(F);

impl<F: CellsFixture> Opener<Cells> for CellsOpener<F> {
    fn open(&self) -> OpenFuture<'_, Cells> {
        Box::pin(self.0.open())
    }
}

/// The backend under test. It hides the type of the fixture, so that clauses are compiled once and not once per backend.
#[doc(hidden)]
pub struct Subject<T> {
    env: Env,
    opener: Box<dyn Opener<T>>,
    always_verifies: bool,
}

impl<T> fmt::Debug for Subject<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Subject")
    }
}

impl<T> Subject<T> {
    async fn open(&self) -> T {
        self.opener.open().await
    }

    /// Starts one task per index, all at the same time.
    fn tasks<V, F>(&self, count: usize, task: impl Fn(usize) -> F) -> Vec<Task<V>>
    where
        V: Send + 'static,
        F: Future<Output = V> + Send + 'static,
    {
        (0..count).map(|index| self.env.spawn(task(index))).collect()
    }
}

/// Lets other tasks run. With a backend that never waits, a loop would block its thread.
async fn yield_once() {
    tokio::task::yield_now().await;
}

/// The return values of the tasks, in order.
async fn join<V>(tasks: Vec<Task<V>>) -> Vec<V> {
    let mut values = Vec::new();
    for task in tasks {
        values.push(task.await.unwrap_or_else(|error| panic!("{error}")));
    }
    values
}

#[doc(hidden)]
pub type Clause<T> = fn(Subject<T>) -> Pin<Box<dyn Future<Output = ()> + Send>>;

#[doc(hidden)]
pub fn run_log<F: LogFixture>(fixture: impl FnOnce() -> F, clause: Clause<Log>) {
    run_log_within(CLAUSE_TIMEOUT, fixture, clause);
}

#[doc(hidden)]
pub fn run_log_within<F: LogFixture>(limit: Duration, fixture: impl FnOnce() -> F, clause: Clause<Log>) {
    run(
        || {
            let fixture = fixture();
            let always_verifies = fixture.always_verifies();
            (Box::new(LogOpener(fixture)), always_verifies)
        },
        limit,
        clause,
    );
}

#[doc(hidden)]
pub fn run_shared_log<F: SharedLogFixture>(fixture: impl FnOnce() -> F, clause: Clause<Log>) {
    run_shared_log_within(CLAUSE_TIMEOUT, fixture, clause);
}

#[doc(hidden)]
pub fn run_shared_log_within<F: SharedLogFixture>(
    limit: Duration,
    fixture: impl FnOnce() -> F,
    clause: Clause<Log>,
) {
    run(|| (Box::new(SharedLogOpener(fixture())), true), limit, clause);
}

#[doc(hidden)]
pub fn run_store<F: StoreFixture>(fixture: impl FnOnce() -> F, clause: Clause<Store>) {
    run(|| (Box::new(StoreOpener(fixture())), true), CLAUSE_TIMEOUT, clause);
}

#[doc(hidden)]
pub fn run_cells<F: CellsFixture>(fixture: impl FnOnce() -> F, clause: Clause<Cells>) {
    run(|| (Box::new(CellsOpener(fixture())), true), CLAUSE_TIMEOUT, clause);
}

fn run<T>(fixture: impl FnOnce() -> (Box<dyn Opener<T>>, bool), limit: Duration, clause: Clause<T>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(4)
        .enable_all()
        .build()
        .expect("a runtime starts");
    runtime.block_on(async {
        let env = Env::real();
        let (opener, always_verifies) = fixture();
        let subject = Subject { env: env.clone(), opener, always_verifies };
        // A separate task, so that the clause runs on the worker threads, like everything else.
        let mut clause = env.spawn(clause(subject));
        match env.timeout(limit, &mut clause).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => panic!("{error}"),
            Err(_) => panic!("the clause did not finish within {limit:?}: it is stuck"),
        }
    });
}

/// Runs every clause of the Log port on a [`LogFixture`]: one `#[test]` per clause, each with a fresh fixture.
#[macro_export]
macro_rules! log_conformance {
    ($fixture:expr) => {
        $crate::log_conformance! { @($fixture)
            append:
                an_append_can_be_read_when_it_is_answered
                a_receipt_names_log_partition_and_range
                appends_of_any_size_are_dense
                entries_of_megabytes_are_read_as_written
                the_largest_append_is_accepted
                an_append_of_as_many_entries_as_allowed_is_accepted
                thousands_of_entries_are_kept_in_order
                partitions_are_written_at_the_same_time;
            bulletin:
                the_value_posted_last_is_read
                posted_values_are_there_after_reopen
                a_list_has_the_values_whose_keys_begin_with_its_prefix_in_order
                a_removed_value_is_absent_also_after_reopen
                posts_of_many_tasks_are_all_kept
                a_post_that_is_too_large_is_refused
                a_bulletin_is_closed_with_its_log;
            close:
                a_closed_log_refuses_every_call
                a_log_may_be_closed_twice
                waiting_followers_get_an_error_when_the_log_is_closed
                closing_answers_appends_in_progress
                appends_acknowledged_while_the_log_closes_are_kept;
            contention:
                one_append_wins_each_offset
                owners_that_replace_each_other_lose_nothing
                a_reader_reads_only_whole_appends;
            follow:
                a_follower_reads_existing_entries_and_then_new_ones
                a_follower_may_start_before_the_partition_exists
                a_follower_waits_for_the_offset_that_it_was_given
                many_followers_read_every_entry
                no_entry_is_missed_while_eight_writers_append
                a_follower_that_is_cancelled_skips_nothing
                an_offset_counts_as_committed_when_it_can_be_read;
            identity:
                a_log_has_no_identity_until_it_gets_one
                an_identity_is_created_once_and_kept_after_reopen
                of_many_that_identify_a_log_all_get_the_identity_of_the_first;
            pipeline:
                appends_are_written_in_the_order_of_their_calls
                an_append_after_a_refused_one_is_refused_too
                of_two_appends_at_one_offset_the_first_wins
                an_append_continues_when_its_future_is_dropped;
            read:
                an_unknown_partition_is_empty
                at_and_after_the_tail_there_is_nothing
                a_read_returns_what_its_limit_of_entries_allows
                a_read_returns_what_its_limit_of_bytes_allows
                a_read_is_bounded_whatever_its_limit_is
                headers_and_bodies_are_read_byte_for_byte;
            refuse:
                a_stale_owner_is_refused
                an_append_before_the_tail_is_a_conflict
                an_append_after_the_tail_is_a_conflict
                a_stale_owner_with_a_wrong_offset_gets_the_error_of_a_stale_owner
                a_refused_append_leaves_nothing_after_reopen
                an_append_whose_reply_was_lost_is_recognized_when_it_is_repeated
                a_written_append_is_recognized_after_its_partition_was_taken_over
                an_owner_of_another_log_is_refused
                a_malformed_append_is_refused;
            reopen:
                everything_appended_is_there_after_reopen
                entries_are_read_byte_for_byte_after_reopen
                appends_continue_at_the_tail_after_reopen
                append_ids_are_unique_across_reopens
                an_empty_log_is_empty_after_reopen
                a_follower_reads_what_was_appended_before_the_reopen;
            restore:
                a_first_take_can_have_a_later_epoch
                of_many_first_takes_one_succeeds
                copied_entries_keep_their_bytes_and_append_ids
                a_copied_entry_of_a_later_epoch_is_refused;
            take:
                a_new_partition_has_the_tail_1
                taking_a_partition_raises_its_epoch
                an_epoch_is_kept_after_reopen
                taking_returns_the_tail_of_the_partition
                owners_are_returned_in_the_order_of_their_partitions
                taking_no_partition_gives_no_owner
                two_applications_with_the_same_partition_number_are_separate
                taking_a_partition_does_not_change_the_others
                the_partitions_are_those_that_were_taken
                of_many_tasks_that_take_a_partition_one_can_append
                an_append_in_progress_when_the_partition_is_taken_is_counted_or_refused;
            take_over:
                a_take_over_raises_the_epoch_that_it_expects
                of_many_take_overs_that_expect_the_same_epoch_one_succeeds
                a_refused_take_over_names_epoch_holder_and_tail_and_changes_nothing
                a_take_over_whose_reply_was_lost_succeeds_when_it_is_repeated
                a_take_over_of_the_same_holder_with_another_id_is_refused
                a_take_over_that_was_followed_by_another_is_not_recognized
                a_take_over_that_expects_too_high_an_epoch_is_refused_as_rewound
                each_partition_of_a_take_over_is_decided_by_itself
                the_holder_of_a_partition_is_known_after_reopen
                an_append_in_progress_when_the_partition_is_taken_over_is_in_the_tail_or_never_written;
            unverified:
                an_unverified_append_at_the_tail_is_written
                an_unverified_append_before_the_tail_is_refused_or_overwrites
                an_unverified_append_of_a_stale_owner_is_refused_or_written
                an_unverified_append_leaves_no_gap;
        }
    };
    (@($fixture:expr) $($theme:ident: $($clause:ident)*;)*) => {
        $($(
            #[test]
            fn $clause() {
                $crate::conformance::run_log(
                    || $fixture,
                    |subject| ::std::boxed::Box::pin($crate::conformance::log::$theme::$clause(subject)),
                );
            }
        )*)*
    };
}

/// Runs every clause of a log that several processes share on a [`SharedLogFixture`]: one `#[test]` per clause, each with a fresh
/// fixture. Such a log passes [`log_conformance!`](crate::log_conformance) too.
#[macro_export]
macro_rules! shared_log_conformance {
    ($fixture:expr) => {
        $crate::shared_log_conformance! { @($fixture)
            beside:
                all_handles_have_the_same_identity
                the_bulletin_is_shared_by_all_handles;
            close:
                closing_one_handle_leaves_the_other_usable
                a_follower_continues_when_another_handle_is_closed;
            follow:
                a_follower_reads_what_another_handle_appends
                a_follower_reads_what_was_hinted
                a_wrong_hint_has_no_effect;
            ownership:
                a_take_over_by_one_handle_makes_the_other_stale_by_name
                of_many_take_overs_through_several_handles_one_wins
                a_take_is_recognized_through_every_handle
                a_take_over_refused_through_another_handle_changes_nothing
                after_a_refused_take_over_the_entry_in_question_is_decided
                what_is_in_progress_in_one_handle_when_another_takes_is_counted_or_refused
                a_handle_that_slept_for_long_is_still_refused
                owners_of_several_handles_that_replace_each_other_lose_nothing;
            read:
                entries_appended_through_one_handle_are_read_through_another
                the_tail_counts_what_another_handle_has_acknowledged
                a_partition_taken_through_one_handle_is_known_to_all;
        }
    };
    (@($fixture:expr) $($theme:ident: $($clause:ident)*;)*) => {
        $($(
            #[test]
            fn $clause() {
                $crate::conformance::run_shared_log(
                    || $fixture,
                    |subject| ::std::boxed::Box::pin($crate::conformance::shared::$theme::$clause(subject)),
                );
            }
        )*)*
    };
}

/// Runs every clause of the Store port on a [`StoreFixture`]: one `#[test]` per clause, each with a fresh fixture.
#[macro_export]
macro_rules! store_conformance {
    ($fixture:expr) => {
        $crate::store_conformance! { @($fixture)
            batch:
                the_later_write_of_a_batch_wins
                a_batch_may_cross_partitions
                an_empty_batch_changes_nothing
                a_batch_of_tens_of_thousands_of_writes_is_accepted
                a_batch_of_many_megabytes_is_accepted
                buffered_and_synced_writes_can_be_read
                batches_of_many_tasks_are_all_written
                the_count_of_durable_writes_is_correct;
            close:
                a_closed_store_refuses_every_call
                a_store_may_be_closed_twice
                writes_acknowledged_while_the_store_closes_are_kept;
            get:
                a_value_that_was_put_can_be_read
                an_empty_value_is_a_value
                an_empty_clustering_key_is_a_key
                an_empty_partition_key_is_a_key
                keys_that_join_to_the_same_bytes_are_different_keys
                many_values_are_returned_in_the_order_of_their_keys
                thousands_of_keys_can_be_read_at_once;
            limits:
                the_largest_keys_are_accepted
                the_largest_value_is_accepted
                a_write_that_is_too_large_is_refused_and_writes_nothing;
            scan_during_writes:
                a_key_that_exists_during_the_whole_scan_is_returned_once
                a_scan_continues_after_keys_that_are_removed_during_it;
            put:
                a_put_overwrites
                a_removed_key_is_absent
                values_of_megabytes_are_read_as_written
                keys_and_values_may_have_any_bytes
                a_write_can_be_read_by_every_task_when_it_has_returned;
            reopen:
                everything_written_is_there_after_reopen
                what_was_removed_stays_removed_after_reopen
                a_store_can_be_opened_many_times;
            scan:
                a_scan_ascends_by_bytes
                a_scan_includes_its_start_and_excludes_its_finish
                an_empty_range_gives_nothing
                a_scan_by_prefix_gives_what_begins_with_it
                an_empty_partition_has_nothing_to_scan
                a_scan_stays_in_its_partition
                a_scan_stops_at_its_limit
                a_scan_may_stop_early
                a_finished_scan_stays_finished
                a_scan_over_thousands_of_pairs_gives_each_once
                a_scan_over_large_values_gives_each_once
                a_page_of_a_scan_is_as_full_as_allowed;
        }
    };
    (@($fixture:expr) $($theme:ident: $($clause:ident)*;)*) => {
        $($(
            #[test]
            fn $clause() {
                $crate::conformance::run_store(
                    || $fixture,
                    |subject| ::std::boxed::Box::pin($crate::conformance::store::$theme::$clause(subject)),
                );
            }
        )*)*
    };
}

/// Runs every clause of the Cells port on a [`CellsFixture`]: one `#[test]` per clause, each with a fresh fixture.
#[macro_export]
macro_rules! cells_conformance {
    ($fixture:expr) => {
        $crate::cells_conformance! { @($fixture)
            close:
                closed_cells_refuse_every_call
                cells_may_be_closed_twice;
            keys:
                an_empty_value_in_a_cell_is_a_value
                keys_with_empty_parts_are_different_keys
                the_largest_cells_are_accepted
                a_cell_that_is_too_large_is_refused;
            write:
                an_insert_writes_only_if_there_is_no_value
                a_swap_writes_only_over_the_expected_value
                a_conditional_delete_removes_only_the_expected_value
                written_cells_are_there_after_reopen
                of_many_inserts_one_wins
                of_many_deletes_one_wins
                a_counter_that_is_swapped_counts_every_increment
                inserts_and_deletes_can_be_used_as_a_lock;
        }
    };
    (@($fixture:expr) $($theme:ident: $($clause:ident)*;)*) => {
        $($(
            #[test]
            fn $clause() {
                $crate::conformance::run_cells(
                    || $fixture,
                    |subject| ::std::boxed::Box::pin($crate::conformance::cells::$theme::$clause(subject)),
                );
            }
        )*)*
    };
}
