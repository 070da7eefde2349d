//! The tests, by what they are about. The list below is the one place that names all of them.

mod blobs;
mod collections;
mod connections;
mod declared;
mod documents;
mod guards;
mod input;
mod journals;
mod leases;
mod locks;
mod once;
mod operations;
mod queues;
mod several;
mod slots;

use crate::{Needs, Test};

/// Makes the table of tests, and the macro that makes a `#[test]` of each.
macro_rules! suite {
    ($dollar:tt $($group:ident { $($needs:ident $name:ident,)* })*) => {
        /// Every test of the suite.
        pub const TESTS: &[Test] = &[$($(
            Test { name: stringify!($name), needs: Needs::$needs, run: $group::$name },
        )*)*];

        /// Makes a `#[test]` of each test of the suite. The argument is a function that makes a
        /// [`Subject`](crate::Subject).
        #[macro_export]
        macro_rules! conformance {
            ($dollar make:expr) => {$($(
                #[test]
                fn $name() {
                    let outcome = $dollar crate::run(stringify!($name), $dollar make);
                    outcome.unwrap_or_else(|failure| panic!("{failure}"));
                }
            )*)*};
        }
    };
}

suite! { $
    locks {
        Threads one_holder_among_threads,
        Threads one_holder_among_two_handles,
        Threads a_wait_ends_at_its_deadline,
        Threads a_wait_ends_when_it_is_cancelled,
        Threads a_release_wakes_a_waiter,
        Threads waiters_are_served_in_order,
        Threads a_wait_for_oneself_is_a_deadlock,
        Alone a_dropped_guard_releases,
        Alone busy_names_the_holder,
        Alone fences_grow_over_locks_leases_and_take_overs,
        Alone a_released_fence_is_refused,
        Alone a_proven_write_passes_while_the_lock_is_held,
        Alone a_nested_hold_is_a_proof_and_no_lock,
        Alone an_owner_may_take_its_lock_again,
        Alone a_lock_that_is_taken_fast_is_a_lock,
        Threads a_hold_that_lasts_too_long_is_reported,
        Alone two_spellings_are_one_target,
        Alone shared_locks_are_as_declared,
    }
    leases {
        Alone a_lease_excludes_locks_leases_and_unproven_writes,
        Alone a_proven_write_passes_while_the_lease_runs,
        Threads an_unproven_write_waits_for_the_lease,
        Threads a_lease_expires,
        Threads an_expired_lease_proves_nothing,
        Threads the_wait_for_a_lease_ends_at_its_deadline_and_when_cancelled,
        Alone a_renewal_keeps_the_fence,
        Alone an_acquire_with_a_token_is_idempotent,
        Alone a_take_over_records_its_reason,
        Alone a_take_over_never_takes_a_lock,
        Alone a_former_holder_is_fenced,
        Alone a_lease_that_is_released_twice_is_lost,
        Alone a_lease_is_shown_to_everyone,
    }
    several {
        Alone several_locks_are_taken_once_each,
        Alone several_locks_are_all_or_none,
        Threads several_locks_have_one_deadline,
        Threads several_locks_never_deadlock,
        Alone several_leases_are_all_or_none,
        Threads leases_are_renewed_while_more_are_waited_for,
    }
    slots {
        Threads at_most_so_many_have_a_slot,
        Alone a_full_target_is_busy,
        Threads a_wait_for_a_slot_ends,
        Threads any_slot_that_is_freed_serves_the_waiter,
        Alone callers_with_other_counts_see_the_first_slots,
        Alone slots_and_the_target_itself_are_as_declared,
        Threads a_slot_that_lasts_too_long_is_ended,
    }
    documents {
        Threads no_update_is_lost,
        Threads a_compare_and_set_wins_once,
        Alone another_version_is_a_conflict,
        Alone a_version_never_comes_back,
        Alone a_document_survives_byte_for_byte,
        Alone numbers_and_key_order_survive,
        Alone a_merge_follows_its_rules,
        Alone a_patch_is_applied_whole_or_not_at_all,
        Alone an_update_that_fails_changes_nothing,
        Alone the_same_content_is_no_change,
        Alone a_missing_document_is_none,
        Threads a_watch_wakes_on_a_change,
        Threads a_reader_sees_whole_documents,
    }
    journals {
        Threads batches_are_whole_and_numbered,
        Threads a_reader_sees_whole_batches,
        Alone a_read_begins_and_ends_where_it_is_asked_to,
        Alone lines_survive_byte_for_byte,
        Threads a_follower_sees_each_entry_once_and_in_order,
        Threads a_follower_resumes_by_number,
        Alone lost_entries_are_reported_once,
    }
    guards {
        Alone a_guard_admits_its_holder,
        Alone a_stale_guard_changes_nothing,
        Alone two_fences_of_one_target_are_refused,
        Alone a_guard_on_an_unknown_target_is_refused,
        Alone a_guard_of_the_journal_proves_its_hold,
        Alone a_document_and_a_journal_change_both_or_neither,
        Alone two_stores_never_change_together,
        Alone a_guard_of_another_store_is_invalid,
        Threads a_guarded_batch_is_one_step,
        Threads a_guard_is_checked_when_it_commits,
        Threads a_fence_is_checked_when_it_commits,
        Threads a_version_is_checked_when_it_commits,
        Threads no_guarded_write_lands_after_a_take_over,
    }
    operations {
        Alone a_document_operation_is_done_once,
        Alone a_journal_operation_is_done_once,
        Alone an_update_and_append_operation_is_done_once,
        Threads an_operation_is_done_once_among_threads,
        Alone a_refused_operation_can_be_repeated,
        Alone a_lost_reply_is_not_applied_twice,
    }
    connections {
        Threads a_follower_misses_nothing_across_lost_connections,
        Threads a_watch_wakes_across_lost_connections,
        Threads a_hold_survives_lost_connections,
        Threads a_waiter_is_served_across_lost_connections,
    }
    collections {
        Alone a_collection_lists_and_removes_its_keys,
        Alone a_removed_key_keeps_its_fences_growing,
        Alone a_prune_keeps_what_is_new_and_what_is_held,
        Threads a_prune_by_age_keeps_what_is_young,
        Alone keys_of_journals_are_not_those_of_documents,
    }
    queues {
        Threads a_task_is_given_to_one_worker,
        Alone tasks_are_given_out_oldest_first,
        Alone a_task_is_completed_once,
        Threads an_expired_claim_returns_its_task,
        Threads a_prune_keeps_a_task_that_was_added_again,
        Alone a_failed_task_is_counted_delayed_and_set_aside,
        Threads a_worker_that_waits_is_woken,
        Threads a_wait_for_a_task_ends,
        Alone a_task_with_an_id_is_added_once,
        Alone a_filter_chooses_tasks,
        Alone a_claim_guards_other_writes,
        Alone documents_that_are_no_tasks_hide_none,
    }
    once {
        Threads one_caller_acts_for_many,
        Threads a_failure_reaches_those_who_wait,
        Alone a_turn_that_is_dropped_goes_to_the_next,
        Threads a_result_expires_and_is_erased,
        Alone results_survive_byte_for_byte,
        Alone a_result_that_was_cut_is_none,
    }
    blobs {
        Alone any_bytes_are_kept,
        Alone bytes_have_versions_fences_and_guards,
        Threads no_change_of_bytes_is_lost,
    }
    input {
        Alone bad_batches_are_refused,
        Alone bad_documents_are_refused,
        Alone bad_versions_are_refused,
        Alone bad_leases_are_refused,
        Alone bad_keys_are_refused,
        Alone odd_names_are_kept_or_refused,
    }
    declared {
        Alone what_only_files_have_is_as_declared,
        Alone file_options_are_as_declared,
        Alone header_lines_are_as_declared,
        Alone the_shortest_lease_is_as_declared,
        Alone the_longest_content_is_as_declared,
        Alone a_survey_finds_what_is_held,
    }
}
