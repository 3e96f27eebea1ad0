//! Steps of the mailbox. Each runs on the store and on the model.

use std::time::Duration;

use store_core::{
    ClaimRequest, ClaimedDispatch, Claims, Commit, Dispatch, DispatchClaim, DispatchCounts, DispatchId, Enqueued,
    Expect, Interrupt, Interrupted, MailboxStore, NewDispatch, Purge, Purged, ReadyThread, Reclaimed, Requeue, Result,
    Settled, Settlement, StateChange, ThreadId, When,
};

use super::{
    draft::ago,
    names::{named, value},
    ops::{MailOp, SettleOp},
    pair::{Outcome, Pair, agree},
    seen::Seen,
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
async fn ask(side: &dyn MailboxStore, op: &MailOp, now: store_core::Timestamp) -> String {
    match op {
        MailOp::Enqueue { dispatch, thread, priority, key, delay, attempts } => {
            let mut new = NewDispatch::new(named("t", *thread), named("r", *thread))
                .with_id(named("d", *dispatch))
                .with_priority(*priority)
                .with_max_attempts(u32::from(*attempts));
            new.dedupe_key = key.map(|key| named("k", key));
            new.available = delay.map_or(When::Now, |delay| When::In(millis(delay)));
            side.enqueue(vec![new]).await.seen()
        }
        MailOp::Cancel { dispatch } => side.cancel(&named("d", *dispatch)).await.seen(),
        MailOp::Interrupt { thread, key, take_over } => {
            let mut request = Interrupt::new(named("t", *thread)).because("stop");
            request.key = key.map(|key| named("k", key));
            request.take_over = *take_over;
            side.interrupt(request).await.seen()
        }
        MailOp::Reclaim { limit } => side.reclaim(u32::from(*limit)).await.seen(),
        MailOp::Purge { older, limit, dry_run } => {
            let mut purge = Purge::new(ago(now, *older));
            (purge.limit, purge.dry_run) = (u32::from(*limit), *dry_run);
            side.purge(purge).await.seen()
        }
        MailOp::Requeue { dispatch } => side.requeue(Requeue::ids([named("d", *dispatch)])).await.seen(),
        MailOp::Look { thread, dispatch } => {
            let thread: ThreadId = named("t", *thread);
            let counts = (side.count_dispatches(Some(&thread)).await, side.count_dispatches(None).await);
            let one = side.load_dispatch(&named("d", *dispatch)).await;
            format!("{} {} {:?} {}", counts.0.seen(), counts.1.seen(), side.load_epoch(&thread).await.ok(), one.seen())
        }
        _ => String::new(),
    }
}

impl Pair {
    /// Runs a step of the mailbox. Does nothing if the store has no mailbox.
    pub(super) async fn mail(&mut self, op: &MailOp) -> Outcome {
        let (Some(real), Some(twin)) = (self.real.mailbox.clone(), self.twin.mailbox.clone()) else { return Ok(()) };
        match op {
            MailOp::Claim { limit, thread, dispatch, lease } => {
                let mut request = ClaimRequest::new(id("w"), millis(*lease)).up_to(u32::from(*limit));
                request.thread = thread.map(|thread| named("t", thread));
                request.dispatch = dispatch.map(|dispatch| named("d", dispatch));
                let (ours, theirs) = (real.claim(request.clone()).await, twin.claim(request).await);
                agree(&ours, &theirs)?;
                let both = ours.map(|claims| claims.claimed).into_iter().flatten();
                self.held.extend(both.zip(theirs.map(|claims| claims.claimed).into_iter().flatten()));
                Ok(())
            }
            MailOp::Extend { which, lease } => {
                let Some((ours, theirs)) = self.claim_at(*which) else { return Ok(()) };
                let by = millis(*lease);
                agree(&real.extend(&ours.claim(), by).await, &twin.extend(&theirs.claim(), by).await)
            }
            MailOp::Start { which, instance } => {
                let Some((ours, theirs)) = self.claim_at(*which) else { return Ok(()) };
                let started = real.start(&ours.claim(), named("i", *instance)).await;
                agree(&started, &twin.start(&theirs.claim(), named("i", *instance)).await)
            }
            MailOp::Settle { which, settlement: op } => {
                let Some((ours, theirs)) = self.claim_at(*which) else { return Ok(()) };
                let settled = real.settle(vec![(ours.claim(), settlement(*op))]).await;
                agree(&settled, &twin.settle(vec![(theirs.claim(), settlement(*op))]).await)
            }
            MailOp::Write { which, number, absent, settlement: op } => {
                let Some((ours, theirs)) = self.claim_at(*which) else { return Ok(()) };
                let commit = |claimed: &ClaimedDispatch| {
                    let state = StateChange::new().set("mail", value(*number));
                    let mut commit = Commit::new(claimed.dispatch.thread.clone()).with_state(state);
                    commit.expect = if *absent { Expect::Absent } else { Expect::Any };
                    commit.settle = op.map(settlement);
                    commit.fenced(claimed.fence())
                };
                let written = self.real.commits.commit(commit(&ours)).await;
                self.commit_twin(written, commit(&theirs)).await
            }
            _ => {
                let now = self.now();
                let (ours, theirs) = (ask(&*real, op, now).await, ask(&*twin, op, now).await);
                crate::check::expect_eq(ours, theirs)
            }
        }
    }

    /// Returns one of all claims so far, as the store and as the model returned it. The last three are chosen more
    /// often.
    fn claim_at(&self, which: u8) -> Option<(ClaimedDispatch, ClaimedDispatch)> {
        let recent = if which < 160 { 3 } else { usize::MAX };
        let from = self.held.len().saturating_sub(recent);
        let held = self.held.get(from..)?;
        held.get(usize::from(which) % held.len().max(1)).cloned()
    }
}

/// The counters of claim numbers must be equal. Their incarnations may differ.
impl Seen for Dispatch {
    fn seen(&self) -> String {
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

impl Seen for DispatchClaim {
    fn seen(&self) -> String {
        let mut claim = self.clone();
        claim.number.incarnation = 0;
        format!("{claim:?}")
    }
}

impl Seen for Claims {
    fn seen(&self) -> String {
        let claimed: Vec<_> = self.claimed.iter().map(|claimed| claimed.dispatch.seen()).collect();
        format!("{claimed:?} {:?}", self.missed)
    }
}

impl Seen for Interrupted {
    fn seen(&self) -> String {
        let Self { epoch, superseded, claimed, at, deduplicated, .. } = self;
        let fence = self.fence.as_ref().map(|fence| (fence.epoch, fence.claim.counter));
        format!("{epoch} {superseded} {claimed:?} {at} {deduplicated} {fence:?}")
    }
}

macro_rules! as_it_is {
    ($($type:ty),*) => {$(
        impl Seen for $type {
            fn seen(&self) -> String {
                format!("{self:?}")
            }
        }
    )*};
}

as_it_is!(Enqueued, Settled, Reclaimed, Purged, DispatchCounts, ReadyThread);

impl<T: Seen> Seen for (DispatchId, Result<T>) {
    fn seen(&self) -> String {
        format!("{} {}", self.0, self.1.seen())
    }
}
