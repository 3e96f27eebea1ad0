//! Tests of the worker loop, of relays and of maintenance. Each case runs on every store and on compositions of two.

mod claims;
mod composed;
mod effects;
mod failing;
mod faulty_store;
mod lost_answers;
mod maintenance;
#[cfg(feature = "metrics")]
mod metrics;
mod relay;
mod stopping;
mod streams;
mod test_bed;
mod waiting;

use std::time::Duration;

use store_core::{Dispatch, DispatchId, NewDispatch};

use self::test_bed::TestBed;
use crate::{Backoff, WorkerOptions};

/// How long a test waits for something that must happen. No test is expected to take so long.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

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
                    let bed = super::TestBed::$store().await;
                    let result = tokio::time::timeout(super::TEST_TIMEOUT, super::$module::$case(&bed)).await;
                    result.expect("the case took too long");
                    bed.remove().await;
                }
            )*)*
        }
    };
}

on_every_store! {
    claims: each_thread_has_one_attempt_at_a_time a_claim_is_kept_while_its_handler_runs
        a_handler_is_notified_of_a_lost_claim_and_writes_nothing a_handler_is_notified_of_an_interrupt_and_writes_nothing
        an_earlier_attempt_writes_nothing_once_a_new_one_began a_worker_that_hangs_writes_nothing_later
        a_write_that_cannot_carry_the_claim_is_refused a_task_left_running_by_a_handler_writes_nothing;
    failing: failures_are_tried_again_and_then_given_up a_panic_is_a_failure retry_delays_grow_and_use_store_time
        a_failure_decides_how_its_dispatch_is_settled a_policy_judges_errors an_attempt_has_a_deadline;
    stopping: handlers_finish_when_a_worker_stops the_dispatch_of_a_handler_that_does_not_stop_is_released
        a_worker_that_is_dropped_stops_claiming;
    waiting: new_work_is_found_by_waiting new_work_is_found_by_polling failed_work_is_retried_before_a_worker_is_idle;
    lost_answers: a_settlement_without_an_answer_is_repeated an_undeterminable_settlement_is_reported_as_unknown
        the_outcome_of_a_settling_commit_without_an_answer_is_resolved a_handler_is_notified_of_an_unconfirmed_extension
        a_worker_waits_for_an_unavailable_store a_persistent_error_ends_a_worker
        a_failed_idle_check_is_tried_again;
    composed: a_commit_can_settle_its_attempt_only_within_one_store a_tenant_is_deleted_from_both_stores
        tenants_of_both_stores_are_listed_together closing_closes_both_stores;
    effects: an_effect_is_performed_once a_reconciler_is_asked_before_the_handler_is_called
        an_effect_in_doubt_is_handed_to_the_handler a_person_ends_a_doubt what_did_not_happen_is_tried_again
        a_commit_ends_an_effect an_earlier_attempt_begins_no_effect
        a_reconciler_that_fails_keeps_the_handler_from_acting maintenance_removes_old_effects;
    relay: rows_with_one_order_key_are_delivered_in_order failed_deliveries_are_tried_again_and_given_up
        a_delivery_is_notified_when_its_claim_is_lost deliveries_are_released_when_a_relay_stops
        the_outcome_of_a_delivery_without_an_answer_is_resolved a_persistent_error_ends_a_relay;
    maintenance: any_number_of_nodes_can_remove_finished_records lost_claims_are_ended_and_counted_once
        events_and_threads_are_removed_only_on_request maintenance_runs_until_it_is_stopped
        maintenance_removes_old_evaluation_runs;
    streams: checkpoints_are_put_at_a_bounded_rate the_next_attempt_goes_on_with_what_was_received
        an_answer_within_one_interval_writes_no_checkpoint
        maintenance_removes_expired_records_and_unneeded_checkpoints;
}

/// Options without delays after failures.
fn options_without_delays() -> WorkerOptions {
    WorkerOptions::default().with_backoff(Backoff::new(Duration::ZERO, Duration::ZERO))
}

/// Makes a dispatch for a thread.
fn new_dispatch(thread: &str, id: &str) -> NewDispatch {
    NewDispatch::new(thread.parse().unwrap(), "r".parse().unwrap()).with_id(DispatchId::new(id).unwrap())
}

/// Returns the status of a dispatch, how many attempts failed or lost their lease, and how each attempt ended.
fn status_summary(dispatch: &Dispatch) -> (&'static str, u32, Vec<&'static str>) {
    let ends = dispatch.history.iter().map(|attempt| attempt.end.name()).collect();
    (dispatch.status.name(), dispatch.attempts, ends)
}
