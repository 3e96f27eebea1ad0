//! The worker loop on every store and on compositions of two. The cases are the same for all.

mod ambiguous;
mod bed;
mod claims;
mod composed;
mod failing;
mod faulty;
mod maintenance;
#[cfg(feature = "metrics")]
mod metrics;
mod relay;
mod stopping;
mod waiting;

use std::time::Duration;

use store_core::{Dispatch, DispatchId, NewDispatch};

use self::bed::Bed;
use crate::{Backoff, WorkerOptions};

/// How long a test waits for an event that must come. No test is expected to take so long.
const PATIENCE: Duration = Duration::from_secs(60);

/// Makes a test of each case on each kind of store.
macro_rules! on_every_store {
    ($($module:ident: $($case:ident)*;)*) => {
        on_every_store!(@store memory, $($module: $($case)*;)*);
        on_every_store!(@store file, $($module: $($case)*;)*);
        #[cfg(feature = "postgres")]
        on_every_store!(@store postgres, $($module: $($case)*;)*);
        on_every_store!(@store memory_with_file_mailbox, $($module: $($case)*;)*);
        on_every_store!(@store file_with_memory_mailbox, $($module: $($case)*;)*);
        #[cfg(feature = "sqlite-mailbox")]
        on_every_store!(@store file_with_sqlite_mailbox, $($module: $($case)*;)*);
        #[cfg(feature = "postgres")]
        on_every_store!(@store postgres_with_file_mailbox, $($module: $($case)*;)*);
        #[cfg(feature = "postgres")]
        on_every_store!(@store memory_with_postgres_mailbox, $($module: $($case)*;)*);
        #[cfg(feature = "nats")]
        on_every_store!(@store file_with_nats_mailbox, $($module: $($case)*;)*);
        #[cfg(all(feature = "nats", feature = "postgres"))]
        on_every_store!(@store postgres_with_nats_mailbox, $($module: $($case)*;)*);
    };
    (@store $store:ident, $($module:ident: $($case:ident)*;)*) => {
        mod $store {
            $($(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    let bed = super::Bed::$store().await;
                    let done = tokio::time::timeout(super::PATIENCE, super::$module::$case(&bed)).await;
                    done.expect("it took too long");
                    bed.remove().await;
                }
            )*)*
        }
    };
}

on_every_store! {
    claims: each_thread_has_one_attempt_at_a_time a_claim_is_kept_while_its_handler_runs
        a_lost_claim_is_told_and_writes_nothing an_interrupted_attempt_is_told_and_writes_nothing
        an_earlier_attempt_writes_nothing_once_a_new_one_began a_worker_that_hangs_writes_nothing_later
        what_carries_no_claim_is_refused what_a_handler_left_running_writes_nothing;
    failing: failures_are_tried_again_and_then_given_up a_panic_is_a_failure pauses_grow_by_store_time
        a_failure_says_what_becomes_of_it a_policy_judges_errors an_attempt_has_a_deadline;
    stopping: handlers_finish_when_a_worker_stops what_does_not_end_is_given_back
        a_worker_that_is_dropped_stops_claiming;
    waiting: new_work_is_found_by_waiting new_work_is_found_by_looking what_failed_is_done_before_it_is_idle;
    ambiguous: a_lost_answer_to_a_settlement_is_asked_for_again what_nobody_knows_is_not_called_known
        a_lost_answer_to_a_commit_that_ends_its_claim_is_found_out an_extension_that_is_not_confirmed_is_told
        a_store_that_comes_back_is_waited_for an_error_that_lasts_ends_a_worker
        a_look_at_what_failed_is_tried_again;
    composed: an_attempt_can_end_with_its_commit_in_one_store_only a_tenant_is_deleted_from_both
        tenants_of_both_are_one_list closing_closes_both;
    relay: rows_are_delivered_one_after_the_other failed_deliveries_are_tried_again_and_given_up
        a_delivery_that_lost_its_row_is_told deliveries_are_given_back_when_a_relay_stops
        a_lost_answer_about_a_row_is_found_out an_error_that_lasts_ends_a_relay;
    maintenance: what_is_over_is_removed_by_any_number_of_nodes lost_claims_are_ended_and_counted_once
        events_and_threads_go_when_that_is_asked_for it_runs_until_it_is_stopped;
}

/// Options without delays after failures.
fn options() -> WorkerOptions {
    WorkerOptions::default().with_backoff(Backoff::new(Duration::ZERO, Duration::ZERO))
}

/// Makes a dispatch for a thread.
fn new(thread: &str, id: &str) -> NewDispatch {
    NewDispatch::new(thread.parse().unwrap(), "r".parse().unwrap()).with_id(DispatchId::new(id).unwrap())
}

/// Returns the status of a dispatch, how often it failed, and how its attempts ended.
fn stands(dispatch: &Dispatch) -> (&'static str, u32, Vec<&'static str>) {
    let ends = dispatch.history.iter().map(|attempt| attempt.end.name()).collect();
    (dispatch.status.name(), dispatch.attempts, ends)
}
