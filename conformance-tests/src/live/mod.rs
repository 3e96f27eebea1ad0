//! Cases about the live channel and wake-ups (promises LV of the contract).

mod closing;
mod deliver;
mod deliver_or_queue;
mod dropped_calls;
mod helpers;
mod wait;

/// Passes the list of the cases of this area to the macro `$callback`. Each item of the list has the file, the case,
/// the promises of the contract that the case tests, and what the case needs.
#[doc(hidden)]
#[macro_export]
macro_rules! live {
    ($callback:ident $($arguments:tt)*) => {
        $crate::$callback! { [$($arguments)*] live
            deliver: commands_arrive_as_they_were_sent ["LV-1"] [Live];
            deliver: a_command_reaches_only_its_target ["LV-1", "LV-4"] [Live];
            deliver: delivered_means_accepted ["LV-2"] [Live];
            deliver: a_delivery_without_a_timely_answer_is_unknown ["LV-2"] [Live];
            deliver: a_receiver_may_answer_until_the_deadline ["LV-2"] [Live];
            deliver: opening_again_ends_the_earlier_receiver ["LV-3"] [Live];
            deliver: commands_of_a_sender_arrive_in_order ["LV-4"] [Live, Race];
            deliver: an_earlier_attempt_gets_nothing ["LV-5"] [Live];
            deliver: an_unreadable_command_is_refused ["LV-6"] [Live];
            deliver: tenants_have_their_own_targets ["TN-2"] [Live];
            deliver_or_queue: input_is_delivered_live_or_queued ["LV-12", "LV-7"] [Threads, Live];
            deliver_or_queue: input_enters_the_log_once ["LV-12", "PR-20"] [Threads, Live, Race];
            wait: new_work_wakes_waiting_workers ["LV-8"] [WakeUps];
            wait: the_end_of_a_claim_wakes_waiting_workers ["LV-8"] [WakeUps];
            wait: a_settling_commit_wakes_waiting_workers ["LV-8"] [WakeUps, Fenced];
            wait: a_wait_ends_at_its_timeout ["LV-8"] [WakeUps];
            wait: a_dispatch_that_becomes_due_wakes_waiting_workers ["LV-10"] [WakeUps, Time];
            wait: an_expired_lease_wakes_waiting_workers ["LV-10", "MB-29"] [WakeUps, Time];
            wait: a_worker_that_never_waits_finds_all_work ["LV-11"] [Time];
            closing: live_channel_and_wake_ups_exist_if_and_only_if_declared ["PR-1"] [];
            closing: closing_ends_receivers ["PR-8", "TN-8"] [Live];
            closing: closing_ends_waits ["PR-8", "TN-8"] [WakeUps];
            closing: a_dropped_call_loses_no_command_and_no_wake_up ["PR-11"] [Live, WakeUps];
            dropped_calls: a_dropped_call_on_a_target_leaves_nothing_locked ["PR-11", "PR-12"] [Live];
            dropped_calls: a_dropped_wait_leaves_nothing_locked ["PR-11", "PR-12"] [WakeUps];
        }
    };
}

live!(case_slice);
