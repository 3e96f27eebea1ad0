//! Steps of the mailbox. Each runs on the store and on the model.

use std::time::Duration;

use store_core::{
    ClaimRequest, ClaimedDispatch, Claims, Commit, Dispatch, DispatchClaim, DispatchCounts, DispatchId, Enqueued,
    Expect, Interrupt, Interrupted, MailboxStore, NewDispatch, Purge, Purged, ReadyThread, Reclaimed, Requeue, Result,
    Settled, Settlement, StateChange, ThreadId, When,
};

use super::{
    comparable::Comparable,
    numbered_values::{json_value, numbered_id},
    ops::{MailboxOp, SettleOp},
    pair::{StepResult, StoreModelPair, expect_same},
    requests::past_or_future,
};
use crate::given::id;

fn millis(number: u16) -> Duration {
    Duration::from_millis(u64::from(number))
}

fn settlement(op: SettleOp) -> Settlement {
    match op {
        SettleOp::Ack(number) => Settlement::Ack { result: Some(json_value(number)) },
        SettleOp::Retry(after) => Settlement::Retry { after: millis(after), error: "failed".to_owned() },
        SettleOp::Snooze(after) => Settlement::Snooze { after: millis(after) },
        SettleOp::Release => Settlement::Release,
        SettleOp::DeadLetter => Settlement::DeadLetter { error: "dead".to_owned() },
        SettleOp::Cancel => Settlement::Cancel { reason: "no".to_owned() },
    }
}

/// Runs an operation on the store or on the model, and returns its answer as text. The operation must not refer to a
/// claim.
async fn run_to_text(mailbox: &dyn MailboxStore, op: &MailboxOp, now: store_core::Timestamp) -> String {
    match op {
        MailboxOp::Enqueue { dispatch, thread, priority, key, delay, max_attempts } => {
            let mut draft = NewDispatch::new(numbered_id("t", *thread), numbered_id("r", *thread))
                .with_id(numbered_id("d", *dispatch))
                .with_priority(*priority)
                .with_max_attempts(u32::from(*max_attempts));
            draft.dedupe_key = key.map(|key| numbered_id("k", key));
            draft.available = delay.map_or(When::Now, |delay| When::In(millis(delay)));
            mailbox.enqueue(vec![draft]).await.comparable_text()
        }
        MailboxOp::Cancel { dispatch } => mailbox.cancel(&numbered_id("d", *dispatch)).await.comparable_text(),
        MailboxOp::Interrupt { thread, key, take_over } => {
            let mut request = Interrupt::new(numbered_id("t", *thread)).because("stop");
            request.key = key.map(|key| numbered_id("k", key));
            request.take_over = *take_over;
            mailbox.interrupt(request).await.comparable_text()
        }
        MailboxOp::Reclaim { limit } => mailbox.reclaim(u32::from(*limit)).await.comparable_text(),
        MailboxOp::Purge { older_millis, limit, dry_run } => {
            let mut purge = Purge::new(past_or_future(now, *older_millis));
            (purge.limit, purge.dry_run) = (u32::from(*limit), *dry_run);
            mailbox.purge(purge).await.comparable_text()
        }
        MailboxOp::Requeue { dispatch } => {
            mailbox.requeue(Requeue::ids([numbered_id("d", *dispatch)])).await.comparable_text()
        }
        MailboxOp::ReadCounts { thread, dispatch } => {
            let thread: ThreadId = numbered_id("t", *thread);
            let counts_of_thread = mailbox.count_dispatches(Some(&thread)).await;
            let counts_of_tenant = mailbox.count_dispatches(None).await;
            let loaded_dispatch = mailbox.load_dispatch(&numbered_id("d", *dispatch)).await;
            format!(
                "{} {} {:?} {}",
                counts_of_thread.comparable_text(),
                counts_of_tenant.comparable_text(),
                mailbox.load_epoch(&thread).await.ok(),
                loaded_dispatch.comparable_text()
            )
        }
        _ => String::new(),
    }
}

impl StoreModelPair {
    /// Runs a step of the mailbox. Does nothing if the store has no mailbox.
    pub(super) async fn run_mailbox_step(&mut self, op: &MailboxOp) -> StepResult {
        let (Some(store), Some(model)) = (self.store.mailbox.clone(), self.model.mailbox.clone()) else {
            return Ok(());
        };
        match op {
            MailboxOp::Claim { limit, thread, dispatch, lease } => {
                let mut request = ClaimRequest::new(id("w"), millis(*lease)).up_to(u32::from(*limit));
                request.thread = thread.map(|thread| numbered_id("t", thread));
                request.dispatch = dispatch.map(|dispatch| numbered_id("d", dispatch));
                let (store_claims, model_claims) = (store.claim(request.clone()).await, model.claim(request).await);
                expect_same(&store_claims, &model_claims)?;
                let claims_of_store = store_claims.map(|claims| claims.claimed).into_iter().flatten();
                self.claimed_dispatches
                    .extend(claims_of_store.zip(model_claims.map(|claims| claims.claimed).into_iter().flatten()));
                Ok(())
            }
            MailboxOp::Extend { which, lease } => {
                let Some((store_claim, model_claim)) = self.nth_claim(*which) else { return Ok(()) };
                let by = millis(*lease);
                expect_same(
                    &store.extend(&store_claim.claim(), by).await,
                    &model.extend(&model_claim.claim(), by).await,
                )
            }
            MailboxOp::Start { which, instance } => {
                let Some((store_claim, model_claim)) = self.nth_claim(*which) else { return Ok(()) };
                let started = store.start(&store_claim.claim(), numbered_id("i", *instance)).await;
                expect_same(&started, &model.start(&model_claim.claim(), numbered_id("i", *instance)).await)
            }
            MailboxOp::Settle { which, settlement: op } => {
                let Some((store_claim, model_claim)) = self.nth_claim(*which) else { return Ok(()) };
                let settled = store.settle(vec![(store_claim.claim(), settlement(*op))]).await;
                expect_same(&settled, &model.settle(vec![(model_claim.claim(), settlement(*op))]).await)
            }
            MailboxOp::CommitUnderClaim { which, state_value, expects_absent, settlement: op } => {
                let Some((store_claim, model_claim)) = self.nth_claim(*which) else { return Ok(()) };
                let commit = |claimed: &ClaimedDispatch| {
                    let state = StateChange::new().set("mail", json_value(*state_value));
                    let mut commit = Commit::new(claimed.dispatch.thread.clone()).with_state(state);
                    commit.expect = if *expects_absent { Expect::Absent } else { Expect::Any };
                    commit.settle = op.map(settlement);
                    commit.fenced(claimed.fence())
                };
                let written = self.store.commits.commit(commit(&store_claim)).await;
                self.commit_on_model(written, commit(&model_claim)).await
            }
            _ => {
                let now = self.now();
                let (store_text, model_text) =
                    (run_to_text(&*store, op, now).await, run_to_text(&*model, op, now).await);
                crate::check::expect_eq(store_text, model_text)
            }
        }
    }

    /// Returns one of the earlier claims, as the store and as the model returned it. The last three claims are chosen
    /// more often.
    fn nth_claim(&self, which: u8) -> Option<(ClaimedDispatch, ClaimedDispatch)> {
        let max_candidates = if which < 160 { 3 } else { usize::MAX };
        let first_candidate = self.claimed_dispatches.len().saturating_sub(max_candidates);
        let candidates = self.claimed_dispatches.get(first_candidate..)?;
        candidates.get(usize::from(which) % candidates.len().max(1)).cloned()
    }
}

/// The counters of claim numbers must be equal. Their incarnations may differ.
impl Comparable for Dispatch {
    fn comparable_text(&self) -> String {
        let mut dispatch = self.clone();
        for number in dispatch.history.iter_mut().map(|attempt| &mut attempt.claim) {
            number.incarnation = 0;
        }
        if let Some(claim) = &mut dispatch.claim {
            claim.number.incarnation = 0;
        }
        format!("{dispatch:?}")
    }
}

impl Comparable for DispatchClaim {
    fn comparable_text(&self) -> String {
        let mut claim = self.clone();
        claim.number.incarnation = 0;
        format!("{claim:?}")
    }
}

impl Comparable for Claims {
    fn comparable_text(&self) -> String {
        let claimed: Vec<_> = self.claimed.iter().map(|claimed| claimed.dispatch.comparable_text()).collect();
        format!("{claimed:?} {:?}", self.missed)
    }
}

impl Comparable for Interrupted {
    fn comparable_text(&self) -> String {
        let Self { epoch, superseded, claimed, at, deduplicated, .. } = self;
        let fence = self.fence.as_ref().map(|fence| (fence.epoch, fence.claim.counter));
        format!("{epoch} {superseded} {claimed:?} {at} {deduplicated} {fence:?}")
    }
}

/// Implements [`Comparable`] for types that are compared by their debug text.
macro_rules! compare_debug_text {
    ($($type:ty),*) => {$(
        impl Comparable for $type {
            fn comparable_text(&self) -> String {
                format!("{self:?}")
            }
        }
    )*};
}

compare_debug_text!(Enqueued, Settled, Reclaimed, Purged, DispatchCounts, ReadyThread);

impl<T: Comparable> Comparable for (DispatchId, Result<T>) {
    fn comparable_text(&self) -> String {
        let (id, result) = self;
        format!("{id} {}", result.comparable_text())
    }
}
