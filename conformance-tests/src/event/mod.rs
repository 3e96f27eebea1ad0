//! Cases about events (promises EV of the contract).

mod append;
mod append_key;
mod commit;
mod dropped_calls;
mod helpers;
mod list;
mod subscription;
mod trim;

pub(crate) use self::helpers::next_event;

/// Passes the list of the cases of this area to the macro `$callback`. Each item of the list has the file, the case,
/// the promises of the contract that the case tests, and what the case needs.
#[doc(hidden)]
#[macro_export]
macro_rules! event {
    ($callback:ident $($arguments:tt)*) => {
        $crate::$callback! { [$($arguments)*] event
            append: an_event_is_in_each_of_its_scopes ["EV-1"] [];
            append: events_survive_a_reopen ["EV-1", "EV-3", "PR-9"] [Reopen];
            append: an_event_draft_needs_a_scope_and_a_version ["EV-2"] [];
            append: sequences_are_dense_in_each_scope ["EV-3"] [];
            append: an_append_is_all_or_none ["EV-4"] [];
            append: an_expectation_counts_all_events_ever_appended ["EV-8"] [];
            append: one_of_several_appends_with_the_same_expectation_succeeds ["EV-9"] [Race];
            append: no_event_becomes_visible_before_an_earlier_one ["EV-13"] [Race];
            append: the_fence_of_an_event_append_is_checked ["CM-44"] [];
            append: the_time_of_an_event_follows_earlier_events_of_its_scopes ["PR-22", "EV-13"] [Time];
            append: the_claim_number_of_an_append_survives_a_reopen ["CM-44", "CM-32"] [Reopen];
            append: an_append_has_a_thousand_events_at_most ["ER-9"] [];
            append: a_payload_has_a_limit ["ER-9", "ER-10"] [Limits];
            append_key: a_repeated_append_returns_the_first_events ["EV-5"] [];
            append_key: a_key_with_different_content_is_refused ["EV-6"] [];
            append_key: a_key_belongs_to_its_writer ["EV-7"] [];
            append_key: a_key_is_remembered_for_thirty_days ["EV-5"] [Time];
            list: a_list_continues_after_its_cursor ["EV-10"] [];
            list: a_filtered_walk_misses_and_repeats_nothing ["EV-11"] [Time];
            list: a_scope_reports_its_counters_and_floor ["EV-12"] [];
            list: a_filter_for_public_events_returns_no_others ["EV-27"] [];
            trim: a_trim_removes_the_oldest_events ["EV-23"] [];
            trim: a_trim_by_time_stops_at_the_first_newer_event ["EV-23"] [Time];
            trim: a_cursor_below_the_floor_is_refused ["EV-24"] [];
            trim: an_event_stays_in_its_other_scope ["EV-25"] [];
            trim: a_redacted_event_keeps_its_place ["EV-28"] [];
            trim: a_redaction_forgets_the_key_of_its_append ["EV-28", "EV-5"] [];
            trim: events_survive_the_deletion_of_their_thread ["EV-26", "TH-21", "TH-24"] [];
            subscription: a_subscriber_gets_stored_events_and_then_new_ones ["EV-14"] [Race];
            subscription: a_subscription_from_now_starts_after_all_existing_events ["EV-15"] [];
            subscription: an_append_that_races_with_a_subscription_is_not_lost ["EV-16"] [Race];
            subscription: a_slow_subscriber_misses_nothing ["EV-17"] [Race];
            subscription: an_invalid_start_is_refused ["EV-19"] [];
            subscription: a_trim_ends_subscriptions_that_lag_behind ["EV-19", "EV-24"] [];
            subscription: a_dropped_subscription_affects_nothing_else ["EV-20"] [];
            subscription: every_subscriber_gets_everything ["EV-22"] [Race];
            subscription: closing_ends_subscriptions ["PR-8"] [];
            subscription: deleting_the_tenant_ends_subscriptions ["TN-8"] [];
            dropped_calls: a_dropped_call_on_events_is_all_or_nothing ["PR-11", "PR-12", "PR-16"] [Race];
            dropped_calls: an_unknown_outcome_on_events_can_be_resolved ["PR-20", "EV-5"] [];
            commit: events_are_appended_with_their_commit ["CM-1", "CM-8", "CM-20"] [];
            commit: events_of_a_commit_belong_to_its_thread_or_runs ["CM-21"] [];
            commit: a_refused_commit_appends_nothing ["CM-1", "CM-22"] [];
            commit: a_repeated_commit_returns_its_first_events ["CM-10", "CM-11"] [];
            commit: a_subscriber_sees_whole_commits ["CM-23"] [Race];
            commit: events_have_the_time_of_their_commit ["CM-41"] [];
        }
    };
}

event!(case_slice);
