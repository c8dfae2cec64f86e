//! Shows that clauses can fail: each one does for a log that breaks the promise which the clause is about.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use seriatim_env::Env;
use seriatim_storage::Log;

use super::broken_log::{BrokenFixture, Flaw};
use super::listed;
use crate::conformance::{SharedLogFixture, log, run_log_within, run_shared_log_within, shared};
use crate::faulty::{Faults, FaultyLog};

/// A clause that waits for something that does not happen fails after this time. Without a flaw each needs a fraction of it.
const LIMIT: Duration = Duration::from_secs(2);
const LONG_LIMIT: Duration = Duration::from_secs(120);

macro_rules! proofs {
    ($name:ident, $run:ident, $clauses:ident: $($flaw:ident breaks $theme:ident::$clause:ident;)*) => {
        mod $name {
            use super::*;

            /// The clauses of the table.
            pub(super) const PROVEN: &[&str] = &[$(stringify!($clause)),*];

            $(
                #[test]
                fn $clause() {
                    let run = |limit, flaw| {
                        let clause = || $run(limit, || BrokenFixture::new(flaw), |subject| Box::pin($clauses::$theme::$clause(subject)));
                        catch_unwind(AssertUnwindSafe(clause)).is_ok()
                    };
                    assert!(run(LONG_LIMIT, Flaw::None), "it fails for a log without a flaw");
                    assert!(!run(LIMIT, Flaw::$flaw), "it does not notice {:?}", Flaw::$flaw);
                }
            )*
        }
    };
}

proofs! { of_the_shared_log, run_shared_log_within, shared:
    IdentityByHandle breaks beside::all_handles_have_the_same_identity;
    BulletinByHandle breaks beside::the_bulletin_is_shared_by_all_handles;
    ClosesAllHandles breaks close::closing_one_handle_leaves_the_other_usable;
    ClosesAllFollowers breaks close::a_follower_continues_when_another_handle_is_closed;
    WakesByHintOnly breaks follow::a_follower_reads_what_another_handle_appends;
    NeverWakes breaks follow::a_follower_reads_what_was_hinted;
    BelievesHints breaks follow::a_wrong_hint_has_no_effect;
    ChecksOwnersByHandle breaks ownership::a_take_over_by_one_handle_makes_the_other_stale_by_name;
    ComparesThenTakes breaks ownership::of_many_take_overs_through_several_handles_one_wins;
    ForgetsTakeIds breaks ownership::a_take_is_recognized_through_every_handle;
    RaisesTheEpochOnRefusal breaks ownership::a_take_over_refused_through_another_handle_changes_nothing;
    DecidesNothingOnRefusal breaks ownership::after_a_refused_take_over_the_entry_in_question_is_decided;
    WritesAfterATake breaks ownership::what_is_in_progress_in_one_handle_when_another_takes_is_counted_or_refused;
    ForgetsOldEpochs breaks ownership::a_handle_that_slept_for_long_is_still_refused;
    ChecksOwnersByHandle breaks ownership::owners_of_several_handles_that_replace_each_other_lose_nothing;
    ReadsOwnAppends breaks read::entries_appended_through_one_handle_are_read_through_another;
    CountsOwnAppends breaks read::the_tail_counts_what_another_handle_has_acknowledged;
    RemembersOwnTakes breaks read::a_partition_taken_through_one_handle_is_known_to_all;
}

proofs! { of_the_log, run_log_within, log:
    ListsInReverse breaks bulletin::a_list_has_the_values_whose_keys_begin_with_its_prefix_in_order;
    RemovesNothing breaks bulletin::a_removed_value_is_absent_also_after_reopen;
    IdentifiesOnRead breaks identity::a_log_has_no_identity_until_it_gets_one;
    LastIdentityWins breaks identity::an_identity_is_created_once_and_kept_after_reopen;
    ComparesThenIdentifies breaks identity::of_many_that_identify_a_log_all_get_the_identity_of_the_first;
    ReadsNothingAfterATakeOver breaks refuse::a_written_append_is_recognized_after_its_partition_was_taken_over;
    ForgetsNames breaks take_over::a_take_over_raises_the_epoch_that_it_expects;
    ComparesThenTakes breaks take_over::of_many_take_overs_that_expect_the_same_epoch_one_succeeds;
    RaisesTheEpochOnRefusal breaks take_over::a_refused_take_over_names_epoch_holder_and_tail_and_changes_nothing;
    ForgetsTakeIds breaks take_over::a_take_over_whose_reply_was_lost_succeeds_when_it_is_repeated;
    EchoesTakes breaks take_over::a_take_over_of_the_same_holder_with_another_id_is_refused;
    RecognizesOldTakes breaks take_over::a_take_over_that_was_followed_by_another_is_not_recognized;
    TakesIfLower breaks take_over::a_take_over_that_expects_too_high_an_epoch_is_refused_as_rewound;
    TakesAllOrNone breaks take_over::each_partition_of_a_take_over_is_decided_by_itself;
    ForgetsNamesOnReopen breaks take_over::the_holder_of_a_partition_is_known_after_reopen;
    WritesAfterATake breaks
        take_over::an_append_in_progress_when_the_partition_is_taken_over_is_in_the_tail_or_never_written;
}

/// A log that needs hints, with faults around it.
struct FaultyWithHints(BrokenFixture);

impl SharedLogFixture for FaultyWithHints {
    async fn open(&self) -> Log {
        Log::new(FaultyLog::new(Arc::new(self.0.backend()), &Faults::new(&Env::real())))
    }
}

#[test]
fn a_hint_passes_through_a_faulty_log() {
    let fixture = || FaultyWithHints(BrokenFixture::new(Flaw::WakesByHintOnly));
    run_shared_log_within(LONG_LIMIT, fixture, |subject| {
        Box::pin(shared::follow::a_follower_reads_what_was_hinted(subject))
    });
}

#[test]
fn every_clause_of_the_shared_log_is_proven() {
    assert_eq!(of_the_shared_log::PROVEN, listed("shared_log_conformance"));
    // Of the log, those about take-overs, the identity, and what the bulletin has besides get and put.
    let all = listed("log_conformance");
    assert!(of_the_log::PROVEN.iter().all(|clause| all.contains(clause)));
}
