//! Dropped calls on an outbox, and calls whose outcome is unknown.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use store_core::{
    ClaimOutbox, ClaimToken, ClaimedOutboxRow, Commit, CommitCoordinator, ErrorKind, ExtendOutbox, OutboxFilter,
    OutboxId, OutboxQuery, OutboxSettlement, OutboxStatus, OutboxStore, PurgeOutbox, RequeueOutbox, SettleOutbox,
    ThreadId, Timestamp,
};

use super::helpers::{
    LEASE, claim_one_row, claim_rows, commit_rows, dead_letter, mail_claim_request, mail_row, new_row, outbox,
    try_settle,
};
use crate::{
    Failure, Given, Verdict,
    call::{Calls, call},
    check::{expect_eq, expect_some},
    drop_points::{ClaimCall, DROPPED_CLAIM_COUNT, DropPointTarget, DropPointTest, claim_although_dropped},
    given::id,
    unknown_outcome::{Resolution, ResolveOutcome, check_unknown_outcomes, missing_resolution},
};

/// If the future of a claim is dropped before it returns, the claim is released within 10 s. The number of attempts of
/// the row does not change.
pub(super) async fn a_claim_that_was_not_received_is_released(given: &Given) -> Verdict {
    commit_rows(given, [mail_row("a")]).await?;
    let claim = || -> Result<ClaimCall<ClaimedOutboxRow>, Failure> {
        let store = outbox(given)?;
        Ok(Box::pin(async move { Ok(store.claim_outbox(mail_claim_request(1)).await?.rows.pop()) }))
    };
    for number in 0..DROPPED_CLAIM_COUNT {
        let polls = 1 + number % 3;
        let claimed_row = claim_although_dropped(claim, polls).await?;
        expect_eq(claimed_row.row.attempts, 0)?;
        try_settle(given, &claimed_row, OutboxSettlement::Release).await??;
    }
    Ok(())
}

/// The names of the calls of [`OutboxCalls`] that change something.
const CHANGING_CALLS: [&str; 6] =
    ["commit", "claim_outbox", "extend_outbox", "settle_outbox", "requeue_outbox", "purge_outbox"];

/// The calls on an outbox. For each thread of the test, the lane with the same name has a dead letter, a claimed row
/// and a pending row.
struct OutboxCalls {
    commits: Arc<dyn CommitCoordinator>,
    outbox: Arc<dyn OutboxStore>,
}

/// The dead letter and the claimed row of a lane.
struct Prepared {
    dead_letter_id: OutboxId,
    claimed_row: ClaimedOutboxRow,
}

impl OutboxCalls {
    async fn commit_row(&self, t: &ThreadId) -> Verdict {
        let row = new_row(t.as_str(), "target", "x");
        Ok(self.commits.commit(Commit::new(t.clone()).with_outbox([row])).await.map(drop)?)
    }

    async fn commit_and_claim_row(&self, t: &ThreadId) -> Result<ClaimedOutboxRow, Failure> {
        self.commit_row(t).await?;
        expect_some(self.outbox.claim_outbox(one_row_claim_request(t)).await?.rows.pop(), "row")
    }
}

/// A request to claim a row of the lane `t`.
fn one_row_claim_request(t: &ThreadId) -> ClaimOutbox {
    ClaimOutbox::new(id(t.as_str()), id("w"), 1).with_lease(LEASE)
}

/// A commit of one row, with a commit key.
fn keyed_row_commit(t: &ThreadId) -> Commit {
    Commit::new(t.clone()).with_key(id("dropped")).with_outbox([new_row(t.as_str(), "b", "x")])
}

#[async_trait]
impl DropPointTarget for OutboxCalls {
    type Prepared = Prepared;

    async fn prepare(&self, _given: &Given, t: &ThreadId) -> Result<Prepared, Failure> {
        let dead_row = self.commit_and_claim_row(t).await?;
        self.outbox.settle_outbox(vec![dead_row.settle(dead_letter())]).await?.remove(0)?;
        let claimed_row = self.commit_and_claim_row(t).await?;
        self.commit_row(t).await?;
        Ok(Prepared { dead_letter_id: dead_row.row.id, claimed_row })
    }

    fn calls<'a>(&'a self, t: &'a ThreadId, prepared: &'a Prepared) -> Calls<'a> {
        let (store, Prepared { dead_letter_id, claimed_row }) = (&self.outbox, prepared);
        let filter = || OutboxFilter::default().of_lane(id(t.as_str()));
        vec![
            ("commit", call(self.commits.commit(keyed_row_commit(t)))),
            ("claim_outbox", call(store.claim_outbox(one_row_claim_request(t)))),
            ("extend_outbox", call(store.extend_outbox(claimed_row.extend(LEASE * 10)))),
            ("settle_outbox", call(store.settle_outbox(vec![claimed_row.settle(OutboxSettlement::Delivered)]))),
            ("load_outbox", call(store.load_outbox(dead_letter_id))),
            ("list_outbox", call(store.list_outbox(OutboxQuery::new(filter())))),
            ("count_outbox", call(async move { store.count_outbox(&filter()).await })),
            ("requeue_outbox", call(store.requeue_outbox(RequeueOutbox::ids([dead_letter_id.clone()])))),
            ("purge_outbox", call(store.purge_outbox(PurgeOutbox::new(Timestamp::MAX)))),
        ]
    }

    async fn describe(&self, t: &ThreadId) -> Result<String, Failure> {
        let query = OutboxQuery::new(OutboxFilter::default().of_lane(id(t.as_str())));
        let mut description = String::new();
        for row in self.outbox.list_outbox(query).await?.items {
            description += &format!("{} {:?} {}", row.target, row.status, row.attempts);
            if let Some(claim) = row.claim {
                // The claim was made with one `LEASE`. The call `extend_outbox` extends it to ten.
                let lease = Duration::from_millis(claim.lease_until.as_millis() - row.updated_at.as_millis());
                description += &format!(" long {}", lease > LEASE * 5);
            }
            description += ", ";
        }
        Ok(description)
    }

    async fn make_refused_calls(&self, t: &ThreadId) {
        let (unknown, token) = (|| id::<OutboxId>("unknown"), || ClaimToken::new("another"));
        let commit = || Commit::new(t.clone()).with_outbox([new_row("another", "b", "x")]);
        let wrong_version = store_core::Expect::Version(store_core::Version::new(1_000, 1, 0));
        let _refused = tokio::join!(
            self.outbox.settle_outbox(vec![SettleOutbox::new(unknown(), token(), OutboxSettlement::Delivered)]),
            self.outbox.extend_outbox(ExtendOutbox::new(unknown(), token(), LEASE)),
            self.outbox.requeue_outbox(RequeueOutbox::ids([unknown()])),
            self.commits.commit(commit().expecting(wrong_version))
        );
    }

    async fn check_nothing_locked(&self, t: &ThreadId) -> Verdict {
        self.commit_row(t).await?;
        self.commit_row(&id("another")).await?;
        Ok(self.outbox.purge_outbox(PurgeOutbox::new(Timestamp::MAX)).await.map(drop)?)
    }
}

#[async_trait]
impl ResolveOutcome for OutboxCalls {
    async fn resolve_outcome(&self, call: &str, t: &ThreadId, prepared: &Prepared) -> Result<Resolution, Failure> {
        let (store, Prepared { dead_letter_id, claimed_row }) = (&self.outbox, prepared);
        let status = async |row: &OutboxId| {
            let found = store.load_outbox(row).await?;
            Ok::<_, Failure>(expect_some(found, "row")?.status)
        };
        Ok(match call {
            "commit" => Resolution::ByRepeat(self.commits.commit(keyed_row_commit(t)).await?.deduplicated),
            // If the claim took effect, its row cannot be claimed again before the lease has expired.
            "claim_outbox" => Resolution::ByRepeat(store.claim_outbox(one_row_claim_request(t)).await?.rows.is_empty()),
            "extend_outbox" => {
                store.extend_outbox(claimed_row.extend(LEASE * 10)).await?;
                Resolution::Idempotent
            }
            "settle_outbox" => {
                match store.settle_outbox(vec![claimed_row.settle(OutboxSettlement::Delivered)]).await?.remove(0) {
                    Ok(_) => Resolution::ByRepeat(false),
                    Err(lost) => {
                        expect_eq(lost.kind(), ErrorKind::ClaimLost)?;
                        Resolution::ByRepeat(status(&claimed_row.row.id).await? == OutboxStatus::Delivered)
                    }
                }
            }
            "requeue_outbox" => {
                let repeat_outcome =
                    store.requeue_outbox(RequeueOutbox::ids([dead_letter_id.clone()])).await?.remove(0).outcome;
                expect_eq(status(dead_letter_id).await?, OutboxStatus::Pending)?;
                Resolution::ByRepeat(repeat_outcome.is_err())
            }
            "purge_outbox" => {
                store.purge_outbox(PurgeOutbox::new(Timestamp::MAX)).await?;
                Resolution::Idempotent
            }
            _ => return Err(missing_resolution(call)),
        })
    }
}

fn outbox_calls(given: &Given) -> Result<OutboxCalls, Failure> {
    Ok(OutboxCalls { commits: given.commits()?, outbox: outbox(given)? })
}

/// If a call on an outbox is dropped at any await, it takes effect in full before the next call of the same handle, or
/// never. A dropped claim is released.
pub(super) async fn a_dropped_call_on_an_outbox_is_all_or_nothing(given: &Given) -> Verdict {
    DropPointTest::new(outbox_calls(given)?).run(given, &CHANGING_CALLS).await
}

/// If the answer of a call on an outbox is lost, the caller can find out whether the call took effect, as the
/// documentation of the method says.
pub(super) async fn an_unknown_outcome_on_an_outbox_can_be_resolved(given: &Given) -> Verdict {
    check_unknown_outcomes(given, outbox_calls(given)?, &CHANGING_CALLS).await
}

/// If the answer of a claim is lost, its row can be claimed again, once, after the lease has expired. The lost attempt
/// is counted.
pub(super) async fn a_row_whose_claim_was_lost_can_be_claimed_after_the_lease(given: &Given) -> Verdict {
    commit_rows(given, [mail_row("a")]).await?;
    drop(outbox(given)?.claim_outbox(mail_claim_request(1)).await?);
    expect_eq(claim_rows(given, 1).await?.len(), 0)?;
    given.advance(LEASE).await;
    expect_eq(claim_one_row(given).await?.row.attempts, 1)?;
    expect_eq(claim_rows(given, 1).await?.len(), 0)
}
