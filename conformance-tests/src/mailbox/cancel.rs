//! Cases of calls on a mailbox whose future is dropped, or whose outcome is unknown.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use store_core::{
    ClaimRef, ClaimToken, ClaimedDispatch, DispatchFilter, DispatchId, DispatchQuery, DispatchStatus, Interrupt,
    MailboxStore, PageRequest, Purge, Requeue, Settlement, ThreadId, Timestamp,
};

use super::draft::{LEASE, ack, claim, mailbox, nothing_to_claim, put, request, settle, work};
use crate::{
    Failure, Given, Verdict,
    call::{Calls, call},
    check::{expect_eq, expect_some},
    given::id,
    sweep::{SETTLE_DELAY, Sweep, Target, poll_then_drop},
    unknown::{Resolution, ResolveOutcome, undocumented, unknown_outcomes_can_be_resolved},
};

/// The number of claims that the case drops, each after one, two or three polls.
const CLAIMS: usize = 30;
/// How often the case tries to claim the dispatch of a dropped claim. With the delay after each try, this takes 10 s.
const MAX_CHECKS: usize = 500;

/// If the future of a claim is dropped before it returns, the claim is released within 10 s. The number of attempts of
/// the dispatch does not change.
pub(super) async fn a_claim_that_was_not_received_is_released(given: &Given) -> Verdict {
    put(given, [work("t", "a")]).await?;
    for claim in 0..CLAIMS {
        let store = mailbox(given)?;
        let answer = poll_then_drop(Box::pin(store.claim(request())), 1 + claim % 3).await?;
        let held = match answer.map(|claims| claims.claimed).unwrap_or_default().pop() {
            Some(received) => received,
            None => given_back(given).await?,
        };
        expect_eq((held.dispatch.id.as_str(), held.dispatch.attempts), ("a", 0))?;
        settle(given, &held, Settlement::Release).await?;
    }
    Ok(())
}

async fn given_back(given: &Given) -> Result<ClaimedDispatch, Failure> {
    for _ in 0..MAX_CHECKS {
        if let Some(held) = mailbox(given)?.claim(request()).await?.claimed.pop() {
            return Ok(held);
        }
        tokio::time::sleep(SETTLE_DELAY).await;
    }
    Err(Failure::new("the dispatch of a dropped claim was not released within 10 s"))
}

/// The calls of [`Work`] that change something.
const CHANGING: [&str; 10] = [
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

/// A mailbox in which the thread `t` has a dead letter, a claimed dispatch and a queued one. For each `t` there is a
/// second thread with a dispatch that can be claimed.
struct Work(Arc<dyn MailboxStore>);

/// Returns the second thread for `t`, which has no claim.
fn free(t: &ThreadId) -> ThreadId {
    id(&format!("{t} free"))
}

fn keyed(t: &ThreadId) -> Interrupt {
    Interrupt::new(t.clone()).with_key(id("dropped"))
}

fn name(what: &str, t: &ThreadId) -> DispatchId {
    id(&format!("{what} {t}"))
}

impl Work {
    async fn claimed(&self, what: &str, t: &ThreadId) -> Result<ClaimedDispatch, Failure> {
        let new = work(t.as_str(), name(what, t).as_str());
        self.0.enqueue(vec![new]).await?.remove(0)?;
        let claims = self.0.claim(request().of_dispatch(name(what, t))).await?;
        expect_some(claims.claimed.into_iter().next(), "dispatch")
    }
}

#[async_trait]
impl Target for Work {
    type Prepared = ClaimedDispatch;

    async fn prepare(&self, _given: &Given, t: &ThreadId) -> Result<ClaimedDispatch, Failure> {
        let (dead, end) = (self.claimed("dead", t).await?, Settlement::DeadLetter { error: "gone".to_owned() });
        self.0.settle(vec![(dead.claim(), end)]).await?.remove(0)?;
        let held = self.claimed("held", t).await?;
        let free = work(free(t).as_str(), name("free", t).as_str());
        for answer in self.0.enqueue(vec![work(t.as_str(), name("queued", t).as_str()), free]).await? {
            answer?;
        }
        Ok(held)
    }

    fn calls<'a>(&'a self, t: &'a ThreadId, held: &'a ClaimedDispatch) -> Calls<'a> {
        let store = &self.0;
        let new = work(t.as_str(), name("new", t).as_str());
        let of_thread = DispatchQuery::new(DispatchFilter::of_thread(t.clone()));
        vec![
            ("enqueue", call(store.enqueue(vec![new]))),
            ("cancel", call(async move { store.cancel(&name("queued", t)).await })),
            ("interrupt", call(store.interrupt(Interrupt::new(t.clone())))),
            ("interrupt with a key", call(store.interrupt(keyed(t)))),
            ("claim", call(store.claim(request().of_thread(free(t))))),
            ("claim of a busy thread", call(store.claim(request().of_thread(t.clone())))),
            ("extend", call(async move { store.extend(&held.claim(), LEASE * 10).await })),
            ("start", call(async move { store.start(&held.claim(), id("i")).await })),
            ("settle", call(store.settle(vec![(held.claim(), ack())]))),
            ("load_dispatch", call(async move { store.load_dispatch(&name("held", t)).await })),
            ("list_dispatches", call(store.list_dispatches(of_thread))),
            ("count_dispatches", call(store.count_dispatches(Some(t)))),
            ("list_ready_threads", call(store.list_ready_threads(PageRequest::default()))),
            ("load_epoch", call(store.load_epoch(t))),
            ("reclaim", call(store.reclaim(10))),
            ("purge", call(store.purge(Purge::new(Timestamp::MAX)))),
            ("requeue", call(store.requeue(Requeue::ids([name("dead", t)])))),
        ]
    }

    async fn look(&self, t: &ThreadId) -> Result<String, Failure> {
        let mut seen = format!("epoch {}", self.0.load_epoch(t).await?);
        let list = |thread| self.0.list_dispatches(DispatchQuery::new(DispatchFilter::of_thread(thread)));
        let (own, behind) = (list(t.clone()).await?.items, list(free(t)).await?.items);
        for found in own.into_iter().chain(behind) {
            let what = found.id.as_str().split(' ').next().unwrap_or_default().to_owned();
            seen += &format!(", {what} {:?} {} of {}", found.status, found.attempts, found.epoch);
            if let Some(claim) = found.claim {
                let lease = Duration::from_millis(claim.lease_until.as_millis() - claim.claimed_at.as_millis());
                seen += &format!(", long {}, {:?}", lease > LEASE * 5, claim.instance);
            }
        }
        Ok(seen + &format!(", {:?}", self.0.count_dispatches(Some(t)).await?))
    }

    async fn interfere(&self, t: &ThreadId) {
        let claim = ClaimRef::new(name("held", t), ClaimToken::new("another"));
        let unknown: DispatchId = id("unknown");
        let _refused = tokio::join!(
            self.0.settle(vec![(claim.clone(), ack())]),
            self.0.extend(&claim, LEASE),
            self.0.cancel(&unknown),
            self.0.claim(request().of_dispatch(unknown.clone()))
        );
    }

    async fn write(&self, t: &ThreadId) -> Verdict {
        for thread in [t.as_str(), "another"] {
            self.0.enqueue(vec![work(thread, name(thread, t).as_str())]).await?.remove(0)?;
        }
        Ok(self.0.purge(Purge::new(Timestamp::MAX)).await.map(drop)?)
    }
}

#[async_trait]
impl ResolveOutcome for Work {
    async fn resolve_outcome(&self, call: &str, t: &ThreadId, held: &ClaimedDispatch) -> Result<Resolution, Failure> {
        let store = &self.0;
        let status = async |what: &str| {
            let found = store.load_dispatch(&name(what, t)).await?;
            Ok::<_, Failure>(expect_some(found, "dispatch")?.status)
        };
        Ok(match call {
            "enqueue" => {
                let again = work(t.as_str(), name("new", t).as_str());
                Resolution::ByRepeat(store.enqueue(vec![again]).await?.remove(0)?.deduplicated)
            }
            "cancel" => Resolution::ByRead(status("queued").await? == DispatchStatus::Cancelled),
            "interrupt" => Resolution::ByRead(store.load_epoch(t).await? > held.dispatch.epoch),
            "interrupt with a key" => Resolution::ByRepeat(store.interrupt(keyed(t)).await?.deduplicated),
            // If the claim took effect, its dispatch cannot be claimed again before the lease has expired.
            "claim" => Resolution::ByRepeat(store.claim(request().of_thread(free(t))).await?.claimed.is_empty()),
            "extend" => {
                store.extend(&held.claim(), LEASE * 10).await?;
                Resolution::Idempotent
            }
            "start" => {
                store.start(&held.claim(), id("i")).await?;
                Resolution::Idempotent
            }
            "settle" => Resolution::ByRepeat(store.settle(vec![(held.claim(), ack())]).await?.remove(0)?.deduplicated),
            "purge" => {
                store.purge(Purge::new(Timestamp::MAX)).await?;
                Resolution::Idempotent
            }
            "requeue" => Resolution::ByRead(status("dead").await? == DispatchStatus::Queued),
            _ => return Err(undocumented(call)),
        })
    }
}

/// A mailbox in which the thread `t` has a claimed dispatch whose lease has expired.
struct Lapsed(Arc<dyn MailboxStore>);

#[async_trait]
impl Target for Lapsed {
    type Prepared = ();

    async fn prepare(&self, given: &Given, t: &ThreadId) -> Verdict {
        Work(Arc::clone(&self.0)).claimed("lapsed", t).await?;
        given.advance(LEASE).await;
        Ok(())
    }

    fn calls<'a>(&'a self, _t: &'a ThreadId, (): &'a ()) -> Calls<'a> {
        vec![("reclaim", call(self.0.reclaim(1_000)))]
    }

    async fn look(&self, t: &ThreadId) -> Result<String, Failure> {
        let found = expect_some(self.0.load_dispatch(&name("lapsed", t)).await?, "dispatch")?;
        Ok(format!("{:?} {} {}", found.status, found.attempts, found.claim.is_some()))
    }

    async fn interfere(&self, t: &ThreadId) {
        let claim = ClaimRef::new(name("lapsed", t), ClaimToken::new("another"));
        let _refused = tokio::join!(self.0.settle(vec![(claim.clone(), ack())]), self.0.extend(&claim, LEASE));
    }

    async fn write(&self, t: &ThreadId) -> Verdict {
        Work(Arc::clone(&self.0)).write(t).await
    }
}

#[async_trait]
impl ResolveOutcome for Lapsed {
    async fn resolve_outcome(&self, call: &str, _t: &ThreadId, (): &()) -> Result<Resolution, Failure> {
        if call != "reclaim" {
            return Err(undocumented(call));
        }
        self.0.reclaim(1_000).await?;
        Ok(Resolution::Idempotent)
    }
}

/// If a call on a mailbox is dropped at any await, it takes effect in full before the next call of the same handle, or
/// never. A dropped claim is released.
pub(super) async fn a_dropped_call_on_a_mailbox_is_all_or_nothing(given: &Given) -> Verdict {
    Sweep::new(Work(mailbox(given)?)).run(given, &CHANGING).await
}

/// If a `reclaim` is dropped at any await, it takes effect in full before the next call of the same handle, or never.
pub(super) async fn a_dropped_reclaim_is_all_or_nothing(given: &Given) -> Verdict {
    Sweep::new(Lapsed(mailbox(given)?)).run(given, &["reclaim"]).await
}

/// If the answer of a call on a mailbox is lost, the caller can find out whether the call took effect, as the
/// documentation of the method says.
pub(super) async fn an_unknown_outcome_on_a_mailbox_can_be_resolved(given: &Given) -> Verdict {
    unknown_outcomes_can_be_resolved(given, Work(mailbox(given)?), &CHANGING).await
}

/// If the answer of a `reclaim` is lost, the caller can repeat the call.
pub(super) async fn an_unknown_outcome_of_a_reclaim_can_be_resolved(given: &Given) -> Verdict {
    unknown_outcomes_can_be_resolved(given, Lapsed(mailbox(given)?), &["reclaim"]).await
}

/// If the answer of a claim is lost, its dispatch can be claimed again, once, after the lease has expired. The lost
/// attempt is counted.
pub(super) async fn an_unknown_claim_becomes_claimable_when_its_lease_expires(given: &Given) -> Verdict {
    put(given, [work("t", "a"), work("u", "b")]).await?;
    let store = mailbox(given)?;
    drop(store.claim(request()).await?);
    let other = claim(given, "b").await?;
    nothing_to_claim(given).await?;
    settle(given, &other, ack()).await?;
    given.advance(LEASE).await;
    expect_eq(claim(given, "a").await?.dispatch.attempts, 1)?;
    nothing_to_claim(given).await
}
