//! Cases of events (EV).

mod append;
mod cancel;
mod commit;
mod draft;
mod follow;
mod key;
mod list;
mod trim;

pub(crate) use self::draft::next;

/// The cases of this area.
#[doc(hidden)]
#[macro_export]
macro_rules! event {
    ($then:ident $($with:tt)*) => {
        $crate::$then! { [$($with)*] event
            append: an_event_is_in_each_of_its_scopes ["EV-1"] [];
            append: events_outlive_a_reopen ["EV-1", "EV-3", "PR-9"] [Reopen];
            append: a_draft_has_a_scope_and_a_version ["EV-2"] [];
            append: sequences_are_dense_in_each_scope ["EV-3"] [];
            append: an_append_is_all_or_none ["EV-4"] [];
            append: an_expectation_is_of_the_counter ["EV-8"] [];
            append: one_expectation_has_one_winner ["EV-9"] [Race];
            append: no_event_comes_before_an_earlier_one ["EV-13"] [Race];
            append: an_append_takes_a_fence ["CM-44"] [];
            append: time_is_that_of_the_scopes ["PR-22", "EV-13"] [Time];
            append: the_claim_of_an_append_outlives_a_reopen ["CM-44", "CM-32"] [Reopen];
            append: an_append_has_a_thousand_events_at_most ["ER-9"] [];
            append: a_payload_has_a_limit ["ER-9", "ER-10"] [Limits];
            key: a_repeat_gives_the_first_events ["EV-5"] [];
            key: a_key_has_one_content ["EV-6"] [];
            key: a_key_belongs_to_its_writer ["EV-7"] [];
            key: a_key_is_remembered_for_thirty_days ["EV-5"] [Time];
            list: a_list_goes_on_behind_the_cursor ["EV-10"] [];
            list: filters_miss_and_repeat_nothing ["EV-11"] [Time];
            list: a_scope_tells_how_it_stands ["EV-12"] [];
            list: the_public_sees_public_events ["EV-27"] [];
            trim: the_oldest_are_removed ["EV-23"] [];
            trim: a_trim_by_time_stops_at_the_first_that_is_younger ["EV-23"] [Time];
            trim: a_cursor_below_the_floor_is_refused ["EV-24"] [];
            trim: an_event_stays_in_its_other_scope ["EV-25"] [];
            trim: a_deleted_thread_leaves_its_events ["EV-26", "TH-21", "TH-24"] [];
            follow: a_subscriber_gets_history_and_what_comes ["EV-14"] [Race];
            follow: now_is_behind_all_that_is_there ["EV-15"] [];
            follow: an_append_races_with_a_subscription ["EV-16"] [Race];
            follow: a_slow_subscriber_misses_nothing ["EV-17"] [Race];
            follow: a_bad_start_fails_the_call ["EV-19"] [];
            follow: a_trim_ends_who_is_behind ["EV-19", "EV-24"] [];
            follow: a_dropped_subscription_leaves_nothing ["EV-20"] [];
            follow: every_subscriber_gets_everything ["EV-22"] [Race];
            follow: closing_ends_subscriptions ["PR-8"] [];
            follow: deleting_the_tenant_ends_subscriptions ["TN-8"] [];
            cancel: a_dropped_call_on_events_is_whole_or_nothing ["PR-11", "PR-12", "PR-16"] [Race];
            cancel: an_unknown_end_on_events_is_found_out ["PR-20", "EV-5"] [];
            commit: events_come_with_their_commit ["CM-1", "CM-8", "CM-20"] [];
            commit: events_of_a_commit_are_its_own ["CM-21"] [];
            commit: a_refused_commit_appends_nothing ["CM-1", "CM-22"] [];
            commit: a_repeat_of_a_commit_gives_its_events ["CM-10", "CM-11"] [];
            commit: a_subscriber_sees_whole_commits ["CM-23"] [Race];
            commit: events_have_the_time_of_their_commit ["CM-41"] [];
        }
    };
}

event!(case_slice);
