//! Steps of the mailbox. Each runs on the store and on the model.

use std::time::Duration;

use store_core::{
    ClaimRequest, ClaimedDispatch, Claims, Commit, Dispatch, DispatchClaim, DispatchCounts, DispatchId, Enqueued,
    Expect, Interrupt, Interrupted, MailboxStore, NewDispatch, Purge, Purged, ReadyThread, Reclaimed, Requeue, Result,
    Settled, Settlement, StateChange, ThreadId, When,
};

use super::{
    comparable::Comparable,
    draft::ago,
    names::{numbered_id, value},
    ops::{MailboxOp, SettleOp},
    pair::{Outcome, Pair, expect_same},
};
use crate::given::id;

fn millis(number: u16) -> Duration {
    Duration::from_millis(u64::from(number))
}

fn settlement(op: SettleOp) -> Settlement {
    match op {
        SettleOp::Ack(number) => Settlement::Ack { result: Some(value(number)) },
        SettleOp::Retry(after) => Settlement::Retry { after: millis(after), error: "failed".to_owned() },
        SettleOp::Snooze(after) => Settlement::Snooze { after: millis(after) },
        SettleOp::Release => Settlement::Release,
        SettleOp::DeadLetter => Settlement::DeadLetter { error: "dead".to_owned() },
        SettleOp::Cancel => Settlement::Cancel { reason: "no".to_owned() },
    }
}

/// Runs an operation that refers to no claim on the store or on the model, and returns its answer as text.
async fn run_and_describe(side: &dyn MailboxStore, op: &MailboxOp, now: store_core::Timestamp) -> String {
    match op {
        MailboxOp::Enqueue { dispatch, thread, priority, key, delay, attempts } => {
            let mut new = NewDispatch::new(numbered_id("t", *thread), numbered_id("r", *thread))
                .with_id(numbered_id("d", *dispatch))
                .with_priority(*priority)
                .with_max_attempts(u32::from(*attempts));
            new.dedupe_key = key.map(|key| numbered_id("k", key));
            new.available = delay.map_or(When::Now, |delay| When::In(millis(delay)));
            side.enqueue(vec![new]).await.comparable_text()
        }
        MailboxOp::Cancel { dispatch } => side.cancel(&numbered_id("d", *dispatch)).await.comparable_text(),
        MailboxOp::Interrupt { thread, key, take_over } => {
            let mut request = Interrupt::new(numbered_id("t", *thread)).because("stop");
            request.key = key.map(|key| numbered_id("k", key));
            request.take_over = *take_over;
            side.interrupt(request).await.comparable_text()
        }
        MailboxOp::Reclaim { limit } => side.reclaim(u32::from(*limit)).await.comparable_text(),
        MailboxOp::Purge { older, limit, dry_run } => {
            let mut purge = Purge::new(ago(now, *older));
            (purge.limit, purge.dry_run) = (u32::from(*limit), *dry_run);
            side.purge(purge).await.comparable_text()
        }
        MailboxOp::Requeue { dispatch } => {
            side.requeue(Requeue::ids([numbered_id("d", *dispatch)])).await.comparable_text()
        }
        MailboxOp::Look { thread, dispatch } => {
            let thread: ThreadId = numbered_id("t", *thread);
            let counts = (side.count_dispatches(Some(&thread)).await, side.count_dispatches(None).await);
            let one = side.load_dispatch(&numbered_id("d", *dispatch)).await;
            format!(
                "{} {} {:?} {}",
                counts.0.comparable_text(),
                counts.1.comparable_text(),
                side.load_epoch(&thread).await.ok(),
                one.comparable_text()
            )
        }
        _ => String::new(),
    }
}

impl Pair {
    /// Runs a step of the mailbox. Does nothing if the store has no mailbox.
    pub(super) async fn mail(&mut self, op: &MailboxOp) -> Outcome {
        let (Some(real), Some(model)) = (self.real.mailbox.clone(), self.model.mailbox.clone()) else { return Ok(()) };
        match op {
            MailboxOp::Claim { limit, thread, dispatch, lease } => {
                let mut request = ClaimRequest::new(id("w"), millis(*lease)).up_to(u32::from(*limit));
                request.thread = thread.map(|thread| numbered_id("t", thread));
                request.dispatch = dispatch.map(|dispatch| numbered_id("d", dispatch));
                let (ours, theirs) = (real.claim(request.clone()).await, model.claim(request).await);
                expect_same(&ours, &theirs)?;
                let both = ours.map(|claims| claims.claimed).into_iter().flatten();
                self.claimed_dispatches.extend(both.zip(theirs.map(|claims| claims.claimed).into_iter().flatten()));
                Ok(())
            }
            MailboxOp::Extend { which, lease } => {
                let Some((ours, theirs)) = self.claim_at(*which) else { return Ok(()) };
                let by = millis(*lease);
                expect_same(&real.extend(&ours.claim(), by).await, &model.extend(&theirs.claim(), by).await)
            }
            MailboxOp::Start { which, instance } => {
                let Some((ours, theirs)) = self.claim_at(*which) else { return Ok(()) };
                let started = real.start(&ours.claim(), numbered_id("i", *instance)).await;
                expect_same(&started, &model.start(&theirs.claim(), numbered_id("i", *instance)).await)
            }
            MailboxOp::Settle { which, settlement: op } => {
                let Some((ours, theirs)) = self.claim_at(*which) else { return Ok(()) };
                let settled = real.settle(vec![(ours.claim(), settlement(*op))]).await;
                expect_same(&settled, &model.settle(vec![(theirs.claim(), settlement(*op))]).await)
            }
            MailboxOp::Write { which, number, absent, settlement: op } => {
                let Some((ours, theirs)) = self.claim_at(*which) else { return Ok(()) };
                let commit = |claimed: &ClaimedDispatch| {
                    let state = StateChange::new().set("mail", value(*number));
                    let mut commit = Commit::new(claimed.dispatch.thread.clone()).with_state(state);
                    commit.expect = if *absent { Expect::Absent } else { Expect::Any };
                    commit.settle = op.map(settlement);
                    commit.fenced(claimed.fence())
                };
                let written = self.real.commits.commit(commit(&ours)).await;
                self.commit_on_model(written, commit(&theirs)).await
            }
            _ => {
                let now = self.now();
                let (ours, theirs) =
                    (run_and_describe(&*real, op, now).await, run_and_describe(&*model, op, now).await);
                crate::check::expect_eq(ours, theirs)
            }
        }
    }

    /// Returns one of all claims so far, as the store and as the model returned it. The last three are chosen more
    /// often.
    fn claim_at(&self, which: u8) -> Option<(ClaimedDispatch, ClaimedDispatch)> {
        let recent = if which < 160 { 3 } else { usize::MAX };
        let from = self.claimed_dispatches.len().saturating_sub(recent);
        let claimed_dispatches = self.claimed_dispatches.get(from..)?;
        claimed_dispatches.get(usize::from(which) % claimed_dispatches.len().max(1)).cloned()
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
        format!("{} {}", self.0, self.1.comparable_text())
    }
}
