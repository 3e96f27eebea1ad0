//! Cases about mailbox calls whose future is dropped or whose outcome is unknown.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use store_core::{
    ClaimRef, ClaimToken, ClaimedDispatch, DispatchFilter, DispatchId, DispatchQuery, DispatchStatus, Interrupt,
    MailboxStore, PageRequest, Purge, Requeue, Settlement, ThreadId, Timestamp,
};

use super::helpers::{
    LEASE, ack, claim_request, enqueue_all, expect_next_claim, expect_nothing_to_claim, mailbox, new_dispatch, settle,
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
/// the dispatch does not change.
pub(super) async fn a_claim_that_was_not_received_is_released(given: &Given) -> Verdict {
    enqueue_all(given, [new_dispatch("t", "a")]).await?;
    let claim = || -> Result<ClaimCall<ClaimedDispatch>, Failure> {
        let store = mailbox(given)?;
        Ok(Box::pin(async move { Ok(store.claim(claim_request()).await?.claimed.pop()) }))
    };
    for number in 0..DROPPED_CLAIM_COUNT {
        let claimed = claim_although_dropped(claim, 1 + number % 3).await?;
        expect_eq((claimed.dispatch.id.as_str(), claimed.dispatch.attempts), ("a", 0))?;
        settle(given, &claimed, Settlement::Release).await?;
    }
    Ok(())
}

/// The names of the calls of [`MailboxCalls`] that change something.
const CHANGING_CALLS: [&str; 10] = [
    "enqueue",
    "cancel",
    "interrupt",
    "interrupt with a key",
    "claim",
    "extend",
    "start",
    "settle",
    "purge",
    "requeue",
];

/// The mailbox on which the calls are made. Each thread `t` of the test has a dead letter, a claimed dispatch and a
/// queued one. For each `t` there is a second thread with a dispatch that can be claimed.
struct MailboxCalls {
    store: Arc<dyn MailboxStore>,
}

/// Returns the second thread for `t`. It has no claim before a call of the test makes one.
fn second_thread(t: &ThreadId) -> ThreadId {
    id(&format!("{t} free"))
}

fn keyed_interrupt(t: &ThreadId) -> Interrupt {
    Interrupt::new(t.clone()).with_key(id("dropped"))
}

fn dispatch_id(role: &str, t: &ThreadId) -> DispatchId {
    id(&format!("{role} {t}"))
}

impl MailboxCalls {
    async fn enqueue_and_claim(&self, role: &str, t: &ThreadId) -> Result<ClaimedDispatch, Failure> {
        let draft = new_dispatch(t.as_str(), dispatch_id(role, t).as_str());
        self.store.enqueue(vec![draft]).await?.remove(0)?;
        let claims = self.store.claim(claim_request().of_dispatch(dispatch_id(role, t))).await?;
        expect_some(claims.claimed.into_iter().next(), "dispatch")
    }
}

#[async_trait]
impl DropPointTarget for MailboxCalls {
    type Prepared = ClaimedDispatch;

    async fn prepare(&self, _given: &Given, t: &ThreadId) -> Result<ClaimedDispatch, Failure> {
        let (claimed_to_fail, dead_letter) =
            (self.enqueue_and_claim("dead", t).await?, Settlement::DeadLetter { error: "gone".to_owned() });
        self.store.settle(vec![(claimed_to_fail.claim(), dead_letter)]).await?.remove(0)?;
        let claimed = self.enqueue_and_claim("held", t).await?;
        let free = new_dispatch(second_thread(t).as_str(), dispatch_id("free", t).as_str());
        for answer in
            self.store.enqueue(vec![new_dispatch(t.as_str(), dispatch_id("queued", t).as_str()), free]).await?
        {
            answer?;
        }
        Ok(claimed)
    }

    fn calls<'a>(&'a self, t: &'a ThreadId, claimed: &'a ClaimedDispatch) -> Calls<'a> {
        let store = &self.store;
        let draft = new_dispatch(t.as_str(), dispatch_id("new", t).as_str());
        let of_thread = DispatchQuery::new(DispatchFilter::of_thread(t.clone()));
        vec![
            ("enqueue", call(store.enqueue(vec![draft]))),
            ("cancel", call(async move { store.cancel(&dispatch_id("queued", t)).await })),
            ("interrupt", call(store.interrupt(Interrupt::new(t.clone())))),
            ("interrupt with a key", call(store.interrupt(keyed_interrupt(t)))),
            ("claim", call(store.claim(claim_request().of_thread(second_thread(t))))),
            ("claim of a busy thread", call(store.claim(claim_request().of_thread(t.clone())))),
            ("extend", call(async move { store.extend(&claimed.claim(), LEASE * 10).await })),
            ("start", call(async move { store.start(&claimed.claim(), id("i")).await })),
            ("settle", call(store.settle(vec![(claimed.claim(), ack())]))),
            ("load_dispatch", call(async move { store.load_dispatch(&dispatch_id("held", t)).await })),
            ("list_dispatches", call(store.list_dispatches(of_thread))),
            ("count_dispatches", call(store.count_dispatches(Some(t)))),
            ("list_ready_threads", call(store.list_ready_threads(PageRequest::default()))),
            ("load_epoch", call(store.load_epoch(t))),
            ("reclaim", call(store.reclaim(10))),
            ("purge", call(store.purge(Purge::new(Timestamp::MAX)))),
            ("requeue", call(store.requeue(Requeue::ids([dispatch_id("dead", t)])))),
        ]
    }

    async fn describe(&self, t: &ThreadId) -> Result<String, Failure> {
        let mut description = format!("epoch {}", self.store.load_epoch(t).await?);
        let list = |thread| self.store.list_dispatches(DispatchQuery::new(DispatchFilter::of_thread(thread)));
        let (of_first_thread, of_second_thread) = (list(t.clone()).await?.items, list(second_thread(t)).await?.items);
        for found in of_first_thread.into_iter().chain(of_second_thread) {
            let role = found.id.as_str().split(' ').next().unwrap_or_default().to_owned();
            description += &format!(", {role} {:?} {} of {}", found.status, found.attempts, found.epoch);
            if let Some(claim) = found.claim {
                let lease = Duration::from_millis(claim.lease_until.as_millis() - claim.claimed_at.as_millis());
                description += &format!(", extended {}, {:?}", lease > LEASE * 5, claim.instance);
            }
        }
        Ok(description + &format!(", {:?}", self.store.count_dispatches(Some(t)).await?))
    }

    async fn make_refused_calls(&self, t: &ThreadId) {
        let claim = ClaimRef::new(dispatch_id("held", t), ClaimToken::new("another"));
        let unknown: DispatchId = id("unknown");
        let _refused = tokio::join!(
            self.store.settle(vec![(claim.clone(), ack())]),
            self.store.extend(&claim, LEASE),
            self.store.cancel(&unknown),
            self.store.claim(claim_request().of_dispatch(unknown.clone()))
        );
    }

    async fn check_nothing_locked(&self, t: &ThreadId) -> Verdict {
        for thread in [t.as_str(), "another"] {
            self.store.enqueue(vec![new_dispatch(thread, dispatch_id(thread, t).as_str())]).await?.remove(0)?;
        }
        Ok(self.store.purge(Purge::new(Timestamp::MAX)).await.map(drop)?)
    }
}

#[async_trait]
impl ResolveOutcome for MailboxCalls {
    async fn resolve_outcome(
        &self,
        call: &str,
        t: &ThreadId,
        claimed: &ClaimedDispatch,
    ) -> Result<Resolution, Failure> {
        let store = &self.store;
        let status = async |role: &str| {
            let found = store.load_dispatch(&dispatch_id(role, t)).await?;
            Ok::<_, Failure>(expect_some(found, "dispatch")?.status)
        };
        Ok(match call {
            "enqueue" => {
                let same_draft = new_dispatch(t.as_str(), dispatch_id("new", t).as_str());
                Resolution::ByRepeat(store.enqueue(vec![same_draft]).await?.remove(0)?.deduplicated)
            }
            "cancel" => Resolution::ByRead(status("queued").await? == DispatchStatus::Cancelled),
            "interrupt" => Resolution::ByRead(store.load_epoch(t).await? > claimed.dispatch.epoch),
            "interrupt with a key" => Resolution::ByRepeat(store.interrupt(keyed_interrupt(t)).await?.deduplicated),
            // If the claim took effect, its dispatch cannot be claimed again before the lease has expired.
            "claim" => {
                Resolution::ByRepeat(store.claim(claim_request().of_thread(second_thread(t))).await?.claimed.is_empty())
            }
            "extend" => {
                store.extend(&claimed.claim(), LEASE * 10).await?;
                Resolution::Idempotent
            }
            "start" => {
                store.start(&claimed.claim(), id("i")).await?;
                Resolution::Idempotent
            }
            "settle" => {
                Resolution::ByRepeat(store.settle(vec![(claimed.claim(), ack())]).await?.remove(0)?.deduplicated)
            }
            "purge" => {
                store.purge(Purge::new(Timestamp::MAX)).await?;
                Resolution::Idempotent
            }
            "requeue" => Resolution::ByRead(status("dead").await? == DispatchStatus::Queued),
            _ => return Err(missing_resolution(call)),
        })
    }
}

/// The mailbox on which the calls are made. Each thread `t` of the test has a claimed dispatch whose lease has expired.
struct ExpiredLeaseCalls {
    store: Arc<dyn MailboxStore>,
}

#[async_trait]
impl DropPointTarget for ExpiredLeaseCalls {
    type Prepared = ();

    async fn prepare(&self, given: &Given, t: &ThreadId) -> Verdict {
        MailboxCalls { store: Arc::clone(&self.store) }.enqueue_and_claim("lapsed", t).await?;
        given.advance(LEASE).await;
        Ok(())
    }

    fn calls<'a>(&'a self, _t: &'a ThreadId, (): &'a ()) -> Calls<'a> {
        vec![("reclaim", call(self.store.reclaim(1_000)))]
    }

    async fn describe(&self, t: &ThreadId) -> Result<String, Failure> {
        let found = expect_some(self.store.load_dispatch(&dispatch_id("lapsed", t)).await?, "dispatch")?;
        Ok(format!("{:?} {} {}", found.status, found.attempts, found.claim.is_some()))
    }

    async fn make_refused_calls(&self, t: &ThreadId) {
        let claim = ClaimRef::new(dispatch_id("lapsed", t), ClaimToken::new("another"));
        let _refused = tokio::join!(self.store.settle(vec![(claim.clone(), ack())]), self.store.extend(&claim, LEASE));
    }

    async fn check_nothing_locked(&self, t: &ThreadId) -> Verdict {
        MailboxCalls { store: Arc::clone(&self.store) }.check_nothing_locked(t).await
    }
}

#[async_trait]
impl ResolveOutcome for ExpiredLeaseCalls {
    async fn resolve_outcome(&self, call: &str, _t: &ThreadId, (): &()) -> Result<Resolution, Failure> {
        if call != "reclaim" {
            return Err(missing_resolution(call));
        }
        self.store.reclaim(1_000).await?;
        Ok(Resolution::Idempotent)
    }
}

/// If a call on a mailbox is dropped at any await, it takes effect in full before the next call of the same handle, or
/// never. A dropped claim is released.
pub(super) async fn a_dropped_call_on_a_mailbox_is_all_or_nothing(given: &Given) -> Verdict {
    DropPointTest::new(MailboxCalls { store: mailbox(given)? }).run(given, &CHANGING_CALLS).await
}

/// If a `reclaim` is dropped at any await, it takes effect in full before the next call of the same handle, or never.
pub(super) async fn a_dropped_reclaim_is_all_or_nothing(given: &Given) -> Verdict {
    DropPointTest::new(ExpiredLeaseCalls { store: mailbox(given)? }).run(given, &["reclaim"]).await
}

/// If the answer of a call on a mailbox is lost, the caller can find out whether the call took effect, as the
/// documentation of the method says.
pub(super) async fn an_unknown_outcome_on_a_mailbox_can_be_resolved(given: &Given) -> Verdict {
    check_unknown_outcomes(given, MailboxCalls { store: mailbox(given)? }, &CHANGING_CALLS).await
}

/// If the answer of a `reclaim` is lost, the caller can repeat the call.
pub(super) async fn an_unknown_outcome_of_a_reclaim_can_be_resolved(given: &Given) -> Verdict {
    check_unknown_outcomes(given, ExpiredLeaseCalls { store: mailbox(given)? }, &["reclaim"]).await
}

/// If the answer of a claim is lost, its dispatch can be claimed again, once, after the lease has expired. The lost
/// attempt is counted.
pub(super) async fn a_dispatch_whose_claim_was_lost_can_be_claimed_after_the_lease(given: &Given) -> Verdict {
    enqueue_all(given, [new_dispatch("t", "a"), new_dispatch("u", "b")]).await?;
    let store = mailbox(given)?;
    drop(store.claim(claim_request()).await?);
    let claim_of_b = expect_next_claim(given, "b").await?;
    expect_nothing_to_claim(given).await?;
    settle(given, &claim_of_b, ack()).await?;
    given.advance(LEASE).await;
    expect_eq(expect_next_claim(given, "a").await?.dispatch.attempts, 1)?;
    expect_nothing_to_claim(given).await
}
