//! Lists, counts, requeues and purges of rows of the outbox.

use std::time::Duration;

use store_core::{
    Direction, ErrorKind, OutboxFilter, OutboxQuery, OutboxSettlement, OutboxStatus, PurgeOutbox, RequeueOutbox,
};

use super::helpers::{
    LEASE, all_rows, claim_one_row, claim_rows, claimed_payloads, commit_rows, commit_rows_one_by_one, dead_letter,
    expect_claimed_payloads, list_rows, load_row, mail_row, new_row, outbox, payloads, try_settle,
};
use crate::{
    Given, Verdict,
    check::{expect, expect_eq, expect_kind},
    given::id,
};

/// Writes four rows in two lanes for two targets: one is delivered, one a dead letter, one claimed, one pending.
async fn create_one_row_of_each_status(given: &Given) -> Verdict {
    commit_rows(given, [mail_row("a"), mail_row("b"), new_row("mail", "bob", "c"), new_row("hook", "bob", "d")])
        .await?;
    let rows = claim_rows(given, 3).await?;
    try_settle(given, &rows[0], OutboxSettlement::Delivered).await??;
    try_settle(given, &rows[1], dead_letter()).await?.map(drop).map_err(Into::into)
}

/// A row must match all parts of a filter. An empty list of statuses matches nothing. Both directions return the same
/// rows.
pub(super) async fn lists_filter_by_lane_target_and_status(given: &Given) -> Verdict {
    create_one_row_of_each_status(given).await?;
    let no_filter = OutboxFilter::default;
    for (filter, wanted) in [
        (no_filter(), "a b c d"),
        (no_filter().of_lane(id("mail")), "a b c"),
        (no_filter().for_target(id("bob")), "c d"),
        (no_filter().of_lane(id("mail")).for_target(id("bob")), "c"),
        (no_filter().of_lane(id("none")), ""),
        (no_filter().in_status([OutboxStatus::Pending, OutboxStatus::Delivered]), "a d"),
        (no_filter().in_status([OutboxStatus::DeadLetter, OutboxStatus::Delivered, OutboxStatus::Pending]), "a b d"),
        (no_filter().of_lane(id("mail")).in_status([OutboxStatus::DeadLetter, OutboxStatus::Claimed]), "b c"),
        (no_filter().for_target(id("bob")).in_status([OutboxStatus::Claimed]), "c"),
        (no_filter().in_status([OutboxStatus::Claimed, OutboxStatus::Claimed]), "c"),
        (no_filter().in_status([]), ""),
    ] {
        expect_eq(payloads(&list_rows(given, filter.clone()).await?), wanted)?;
        let backward = OutboxQuery::new(filter).with_direction(Direction::Backward);
        let mut rows = outbox(given)?.list_outbox(backward).await?.items;
        rows.reverse();
        expect_eq(payloads(&rows), wanted)?;
    }
    Ok(())
}

/// The counts by status are exact, whatever the filter is.
pub(super) async fn counts_are_exact(given: &Given) -> Verdict {
    create_one_row_of_each_status(given).await?;
    let no_filter = OutboxFilter::default;
    for (filter, wanted) in [
        (no_filter(), (1, 1, 1, 1)),
        (no_filter().of_lane(id("mail")), (0, 1, 1, 1)),
        (no_filter().for_target(id("bob")), (1, 1, 0, 0)),
        (no_filter().of_lane(id("hook")).for_target(id("bob")), (1, 0, 0, 0)),
        (no_filter().in_status([OutboxStatus::Claimed]), (0, 1, 0, 0)),
        (no_filter().in_status([]), (0, 0, 0, 0)),
        (no_filter().of_lane(id("none")), (0, 0, 0, 0)),
    ] {
        let counts = outbox(given)?.count_outbox(&filter).await?;
        expect_eq((counts.pending, counts.claimed, counts.delivered, counts.dead_letter), wanted)?;
    }
    Ok(())
}

/// Dead letters can be requeued by id or by lane. All their attempts are then available again. Each id has its own
/// answer.
pub(super) async fn dead_letters_are_requeued_with_all_their_attempts(given: &Given) -> Verdict {
    commit_rows(given, [mail_row("a").with_max_attempts(1), mail_row("b"), mail_row("c"), new_row("hook", "ada", "d")])
        .await?;
    for claimed_row in claim_rows(given, 2).await? {
        try_settle(given, &claimed_row, dead_letter()).await??;
    }
    let ids: Vec<_> = all_rows(given).await?.into_iter().map(|row| row.id).collect();
    let store = outbox(given)?;
    let request = RequeueOutbox::ids([ids[0].clone(), ids[2].clone(), id("unknown")]);
    let answers = store.requeue_outbox(request).await?;
    let outcomes: Vec<_> = answers.into_iter().map(|answer| answer.outcome.map_err(|error| error.kind())).collect();
    expect_eq(outcomes, vec![Ok(()), Err(ErrorKind::InvalidTransition), Err(ErrorKind::NotFound)])?;
    let requeued_row = load_row(given, &ids[0]).await?;
    expect_eq(
        (requeued_row.status, requeued_row.attempts, requeued_row.finished_at),
        (OutboxStatus::Pending, 0, None),
    )?;
    expect_eq(requeued_row.last_error.as_deref(), Some("gone"))?;
    expect_eq(store.requeue_outbox(RequeueOutbox::of_lane(id("hook"), 10)).await?.len(), 0)?;
    let other_answers = store.requeue_outbox(RequeueOutbox::oldest(10)).await?;
    expect_eq(other_answers.into_iter().map(|answer| answer.id).collect::<Vec<_>>(), vec![ids[1].clone()])?;
    expect_kind(store.requeue_outbox(RequeueOutbox::oldest(0)).await, ErrorKind::Invalid)?;
    expect_kind(store.requeue_outbox(RequeueOutbox::oldest(1_001)).await, ErrorKind::Invalid)?;
    let mut rows = claim_rows(given, 9).await?;
    rows.sort_by_key(|claimed_row| claimed_row.row.payload.as_str().to_owned());
    expect_eq(claimed_payloads(&rows), "a b c")
}

/// A requeue without ids requeues the oldest dead letters, up to its limit.
pub(super) async fn the_oldest_dead_letters_are_requeued_up_to_the_limit(given: &Given) -> Verdict {
    commit_rows_one_by_one(given, &["a", "b", "c"]).await?;
    for claimed_row in claim_rows(given, 3).await? {
        try_settle(given, &claimed_row, dead_letter()).await??;
    }
    let ids: Vec<_> = all_rows(given).await?.into_iter().map(|row| row.id).collect();
    for wanted in [&ids[..2], &ids[2..], &[]] {
        let answers = outbox(given)?.requeue_outbox(RequeueOutbox::oldest(2)).await?;
        expect_eq(answers.into_iter().map(|answer| answer.id).collect::<Vec<_>>(), wanted.to_vec())?;
    }
    Ok(())
}

/// A purge removes final rows that ended strictly before the given time, up to its limit, and no others. A dry run
/// returns how many these are and changes nothing.
pub(super) async fn a_purge_removes_records_that_ended_before_its_time(given: &Given) -> Verdict {
    commit_rows_one_by_one(given, &["a", "b", "c", "d"]).await?;
    for settlement in [OutboxSettlement::Delivered, dead_letter(), OutboxSettlement::Delivered] {
        let claimed_row = claim_one_row(given).await?;
        try_settle(given, &claimed_row, settlement).await??;
        given.advance(Duration::from_secs(10)).await;
    }
    let rows = all_rows(given).await?;
    let third_end = rows[2].finished_at.unwrap_or(store_core::Timestamp::MIN);
    let store = outbox(given)?;
    expect_eq(store.purge_outbox(PurgeOutbox::new(third_end).dry()).await?, 2)?;
    expect_eq(all_rows(given).await?, rows.clone())?;
    expect_kind(store.purge_outbox(PurgeOutbox::new(third_end).with_limit(0)).await, ErrorKind::Invalid)?;
    expect_eq(store.purge_outbox(PurgeOutbox::new(third_end).with_limit(1)).await?, 1)?;
    expect_eq(payloads(&all_rows(given).await?), "b c d")?;
    expect_eq(store.purge_outbox(PurgeOutbox::new(third_end)).await?, 1)?;
    expect_eq(store.purge_outbox(PurgeOutbox::new(third_end)).await?, 0)?;
    expect_eq(store.purge_outbox(PurgeOutbox::new(store_core::Timestamp::MAX)).await?, 1)?;
    expect_eq(payloads(&all_rows(given).await?), "d")?;
    expect_claimed_payloads(given, "d").await?;
    expect(store.load_outbox(&rows[0].id).await?.is_none(), "a purged row is found")
}

/// A purge that names rows removes them whatever their status: a consumer that holds one loses its claim.
pub(super) async fn a_purge_can_name_rows(given: &Given) -> Verdict {
    let store = outbox(given)?;
    commit_rows_one_by_one(given, &["a", "b", "c"]).await?;
    let held = claim_one_row(given).await?;
    let rows = all_rows(given).await?;
    let ids = vec![rows[0].id.clone(), rows[2].id.clone(), id("unknown")];
    let dry = PurgeOutbox::of(ids.clone()).dry();
    expect_eq((store.purge_outbox(dry).await?, all_rows(given).await?.len()), (2, 3))?;
    expect_eq(store.purge_outbox(PurgeOutbox::of(ids)).await?, 2)?;
    let left: Vec<_> = all_rows(given).await?.into_iter().map(|row| row.id).collect();
    expect_eq(left, vec![rows[1].id.clone()])?;
    let lost = store.extend_outbox(held.extend(LEASE)).await;
    expect_kind(lost, ErrorKind::ClaimLost).map(drop)
}
