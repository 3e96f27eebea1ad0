//! Tests of sequences of decisions about one thread.

use std::{collections::BTreeMap, time::Duration};

use super::{
    MailboxDecision, MailboxView, cancel, check_claim, claim, enqueue, interrupt, purge, settle, visible_dispatch,
};
use crate::{
    ClaimNumber, ClaimRequest, ClaimToken, DedupeKey, DispatchId, DispatchStatus, ErrorKind, Fence, Interrupt,
    Interrupted, NewDispatch, Result, RunId, Settlement, ThreadId, Timestamp, When, WorkerId,
    commit::DecisionContext,
    id::UuidSource,
    limits::Limits,
    mailbox::{
        ClaimRef, QueuePosition, SingleClaim, StoredDispatch, StoredInterrupt, StoredMailboxThread, queue_position,
    },
};

/// A view in memory of a mailbox that has only one thread.
#[derive(Default)]
struct SingleThreadView {
    record: Option<StoredMailboxThread>,
    dispatches: BTreeMap<DispatchId, StoredDispatch>,
    interrupts: BTreeMap<u64, StoredInterrupt>,
}

impl MailboxView for SingleThreadView {
    fn claim_incarnation(&self) -> u64 {
        1
    }

    fn mailbox(&self, _: &ThreadId) -> Result<Option<StoredMailboxThread>> {
        Ok(self.record.clone())
    }

    fn dispatch(&self, id: &DispatchId) -> Result<Option<StoredDispatch>> {
        Ok(self.dispatches.get(id).cloned())
    }

    fn last_dispatch_with_key(&self, _: &ThreadId, _: &DedupeKey) -> Result<Option<DispatchId>> {
        Ok(None)
    }

    fn first_available(&self, _: &ThreadId, _: u64, now: Timestamp) -> Result<Option<DispatchId>> {
        let number_if_due = |stored: &StoredDispatch| {
            queue_position(stored)
                .filter(|position: &QueuePosition| position.due <= now)
                .map(|position| position.number)
        };
        let available =
            self.dispatches.values().filter_map(|stored| Some((number_if_due(stored)?, stored.id().clone())));
        Ok(available.min().map(|(_, id)| id))
    }

    fn interrupt(&self, _: &ThreadId, epoch: u64) -> Result<Option<StoredInterrupt>> {
        Ok(self.interrupts.get(&epoch).cloned())
    }
}

fn time(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis).unwrap()
}

impl SingleThreadView {
    /// Makes a decision at a time. Returns the answer, and the time from which a claim of the thread may find
    /// something.
    fn decide_at<T>(
        &mut self,
        now: u64,
        decide: impl FnOnce(&Self, DecisionContext<'_>) -> Result<MailboxDecision<T>>,
    ) -> (T, Option<u64>) {
        let (limits, ids) = (Limits::default(), UuidSource);
        let decision = decide(self, DecisionContext::new(time(now), &limits, &ids)).unwrap();
        let plan = decision.plan.expect("a plan");
        let claimable_from = plan.claimable_from().map(Timestamp::as_millis);
        self.record = Some(plan.mailbox);
        self.dispatches.extend(plan.dispatches.into_iter().map(|stored| (stored.id().clone(), stored)));
        plan.purged.iter().for_each(|id| drop(self.dispatches.remove(id)));
        for (epoch, interrupt) in plan.interrupts {
            match interrupt {
                Some(interrupt) => drop(self.interrupts.insert(epoch, interrupt)),
                None => drop(self.interrupts.remove(&epoch)),
            }
        }
        (decision.answer.unwrap(), claimable_from)
    }

    fn enqueue(&mut self, now: u64, id: &str, delay: u64) -> Option<u64> {
        let draft = NewDispatch::new(ThreadId::new("t").unwrap(), RunId::new("r").unwrap());
        let draft = draft.with_id(DispatchId::new(id).unwrap()).available(When::In(Duration::from_millis(delay)));
        self.decide_at(now, |view, decision_context| enqueue(view, &draft, decision_context)).1
    }

    fn claim(&mut self, now: u64, lease: u64) -> (ClaimRef, Option<u64>) {
        let request = ClaimRequest::new(WorkerId::new("w").unwrap(), Duration::from_millis(lease));
        let (thread, single_claim) = (ThreadId::new("t").unwrap(), SingleClaim::of(&request).unwrap());
        let (claims, claimable_from) =
            self.decide_at(now, |view, decision_context| claim(view, &thread, single_claim, decision_context));
        (claims.claimed.first().expect("something to claim").claim(), claimable_from)
    }

    fn settle(&mut self, now: u64, claim_ref: &ClaimRef, settlement: &Settlement) -> Option<u64> {
        self.decide_at(now, |view, decision_context| settle(view, claim_ref, settlement, decision_context)).1
    }

    fn interrupt_at(&mut self, now: u64, request: &Interrupt) -> Interrupted {
        self.decide_at(now, |view, decision_context| interrupt(view, request, decision_context)).0
    }

    fn purge(&mut self, id: &str, before: u64) -> bool {
        self.decide_at(before, |view, decision_context| {
            purge(view, &DispatchId::new(id).unwrap(), time(before), decision_context)
        })
        .0
    }

    /// Returns whether a purge with this time keeps the dispatch.
    fn is_kept_by_purge(&self, id: &str, before: u64) -> bool {
        let (limits, ids) = (Limits::default(), UuidSource);
        let decision_context = DecisionContext::new(time(before), &limits, &ids);
        let decision = purge(self, &DispatchId::new(id).unwrap(), time(before), decision_context).unwrap();
        decision.plan.is_none() && !decision.answer.unwrap()
    }

    /// Returns the epochs whose interrupts are kept, each with the number of dispatches that need the interrupt.
    fn kept_interrupts(&self) -> Vec<(u64, u64)> {
        self.interrupts.values().map(|interrupt| (interrupt.epoch, interrupt.holds)).collect()
    }
}

fn new_interrupt() -> Interrupt {
    Interrupt::new(ThreadId::new("t").unwrap())
}

#[test]
fn a_thread_is_claimable_when_a_dispatch_is_due_or_a_lease_expired() {
    let mut mailbox = SingleThreadView::default();
    assert_eq!(mailbox.enqueue(10, "a", 0), Some(10));
    let (claim_ref, claimable_from) = mailbox.claim(20, 100);
    assert_eq!(claimable_from, Some(120));
    assert_eq!(mailbox.enqueue(30, "b", 1_000), Some(120), "the thread is busy until then");
    let retry = Settlement::Retry { after: Duration::from_millis(500), error: "failed".to_owned() };
    assert_eq!(mailbox.settle(40, &claim_ref, &retry), Some(40), "the decision did not read when `b` is due");
    let (claim_ref, _) = mailbox.claim(540, 100);
    let ack = Settlement::Ack { result: None };
    assert_eq!(mailbox.settle(600, &claim_ref, &ack), Some(600));
    assert_eq!(mailbox.enqueue(600, "c", 50), Some(600));
    for (id, claimable_from) in [("c", Some(600)), ("b", None)] {
        let id = DispatchId::new(id).unwrap();
        assert_eq!(
            mailbox.decide_at(600, |view, decision_context| cancel(view, &id, decision_context)).1,
            claimable_from
        );
    }
    assert_eq!(mailbox.enqueue(700, "d", 50), Some(750));
}

#[test]
fn a_refusal_names_the_dispatch_and_its_visible_status() {
    let mut mailbox = SingleThreadView::default();
    mailbox.enqueue(10, "a", 0);
    mailbox.interrupt_at(20, &new_interrupt());
    let (limits, ids) = (Limits::default(), UuidSource);
    let decision_context = DecisionContext::new(time(30), &limits, &ids);
    let error = cancel(&mailbox, &DispatchId::new("a").unwrap(), decision_context).unwrap().answer.unwrap_err();
    assert_eq!(error.to_string(), "dispatch `a` cannot go from superseded to cancelled");
}

#[test]
fn an_interrupt_is_kept_as_long_as_something_needs_it() {
    let mut mailbox = SingleThreadView::default();
    mailbox.enqueue(10, "a", 0);
    mailbox.enqueue(10, "b", 0);
    mailbox.interrupt_at(20, &new_interrupt());
    mailbox.enqueue(30, "c", 0);
    mailbox.interrupt_at(40, &new_interrupt());
    assert_eq!(mailbox.kept_interrupts(), [(1, 2), (2, 1)]);
    assert!(mailbox.purge("a", 100));
    assert_eq!(mailbox.kept_interrupts(), [(1, 1), (2, 1)]);
    assert!(mailbox.purge("b", 100) && mailbox.purge("c", 100));
    assert_eq!(mailbox.kept_interrupts(), [(2, 0)], "the newest one stays");
    mailbox.enqueue(110, "d", 0);
    let (claim_ref, _) = mailbox.claim(120, 1_000);
    mailbox.interrupt_at(130, &new_interrupt());
    assert_eq!(mailbox.kept_interrupts(), [(3, 1)], "the claimed dispatch needs it");
    mailbox.interrupt_at(140, &new_interrupt().with_key("k".parse().unwrap()));
    assert_eq!(mailbox.kept_interrupts(), [(3, 1), (4, 0)]);
    let (result, _) = mailbox.decide_at(150, |view, decision_context| {
        let settled = settle(view, &claim_ref, &Settlement::Ack { result: None }, decision_context)?;
        let refusal = settled.answer.map(drop).map_err(|error| error.kind());
        Ok(MailboxDecision { plan: settled.plan, answer: Ok(refusal) })
    });
    assert_eq!(result, Err(ErrorKind::StaleEpoch));
    mailbox.interrupt_at(160, &new_interrupt());
    assert_eq!(mailbox.kept_interrupts(), [(4, 0), (5, 0)], "its key is remembered");
}

#[test]
fn only_dispatches_that_ended_before_the_given_time_are_purged_mb_49() {
    let mut mailbox = SingleThreadView::default();
    mailbox.enqueue(10, "a", 0);
    assert!(mailbox.is_kept_by_purge("a", 100));
    let (claim_ref, _) = mailbox.claim(20, 1_000);
    assert!(mailbox.is_kept_by_purge("a", 100));
    mailbox.settle(30, &claim_ref, &Settlement::Ack { result: None });
    assert!(mailbox.is_kept_by_purge("a", 30));
    assert!(mailbox.purge("a", 31));
    assert!(mailbox.is_kept_by_purge("a", 31));
}

#[test]
fn a_take_over_keeps_the_reason_of_an_earlier_interrupt_mb_53() {
    let mut mailbox = SingleThreadView::default();
    mailbox.enqueue(10, "a", 0);
    mailbox.claim(20, 1_000);
    mailbox.interrupt_at(30, &new_interrupt().because("first"));
    mailbox.interrupt_at(40, &new_interrupt().because("second").taking_over());
    let stored = visible_dispatch(&mailbox, &mailbox.dispatches[&DispatchId::new("a").unwrap()]).unwrap();
    assert_eq!((stored.status, stored.reason.as_deref()), (DispatchStatus::Superseded, Some("first")));
    assert_eq!(mailbox.kept_interrupts(), [(2, 0)]);
}

#[test]
fn the_fence_of_a_take_over_proves_only_its_own_claim_mb_53() {
    let mut mailbox = SingleThreadView::default();
    mailbox.enqueue(10, "a", 0);
    mailbox.claim(20, 1_000);
    let fence = mailbox.interrupt_at(30, &new_interrupt().taking_over()).fence.unwrap();
    let check =
        |fence: &Fence| check_claim(&mailbox, &ThreadId::new("t").unwrap(), fence).map_err(|error| error.kind());
    assert_eq!(check(&fence), Ok(()));
    let other_number = ClaimNumber { counter: fence.claim.counter + 1, ..fence.claim };
    assert_eq!(check(&Fence { claim: other_number, ..fence.clone() }), Err(ErrorKind::ClaimLost));
}

#[test]
fn every_change_raises_the_revisions() {
    let mut mailbox = SingleThreadView::default();
    let revisions = |mailbox: &SingleThreadView| {
        let stored = &mailbox.dispatches[&DispatchId::new("a").unwrap()];
        (stored.state.revision, mailbox.record.as_ref().unwrap().revision)
    };
    mailbox.enqueue(10, "a", 0);
    let (dispatch_revision, record_revision) = revisions(&mailbox);
    let (claim_ref, _) = mailbox.claim(20, 1_000);
    assert_eq!(revisions(&mailbox), (dispatch_revision + 1, record_revision + 1));
    mailbox.settle(30, &claim_ref, &Settlement::Ack { result: None });
    assert_eq!(revisions(&mailbox), (dispatch_revision + 2, record_revision + 2));
}

#[test]
fn claim_numbers_restart_in_a_later_incarnation_mb_25() {
    let mut mailbox = SingleThreadView::default();
    mailbox.enqueue(10, "a", 0);
    let number = |incarnation, counter| ClaimNumber { incarnation, counter };
    for (last, next) in [(number(0, 7), number(1, 1)), (number(1, 7), number(1, 8)), (number(2, 7), number(2, 8))] {
        mailbox.record.as_mut().unwrap().last_claim = Some(last);
        let (claim_ref, _) = mailbox.claim(20, 1_000);
        assert_eq!(mailbox.record.as_ref().unwrap().last_claim, Some(next));
        mailbox.settle(30, &claim_ref, &Settlement::Release);
    }
}

#[test]
fn dispatches_queued_in_an_earlier_epoch_count_as_superseded_mb_12() {
    let mut mailbox = SingleThreadView::default();
    mailbox.enqueue(10, "a", 0);
    mailbox.interrupt_at(20, &new_interrupt());
    let record = mailbox.record.as_ref().unwrap();
    let counts = record.count([(DispatchStatus::Queued, 0, 2), (DispatchStatus::Queued, 1, 3)]);
    assert_eq!((counts.queued, counts.superseded), (3, 2));
}

#[test]
fn a_dispatch_is_new_until_it_is_claimed() {
    let mut mailbox = SingleThreadView::default();
    mailbox.enqueue(10, "a", 0);
    let flags = |mailbox: &SingleThreadView| {
        let stored = &mailbox.dispatches[&DispatchId::new("a").unwrap()];
        (stored.is_new(), stored.is_claimed())
    };
    assert_eq!(flags(&mailbox), (true, false));
    mailbox.claim(20, 1_000);
    assert_eq!(flags(&mailbox), (false, true));
}

#[test]
fn the_claim_number_of_a_take_over_proves_nothing_without_its_token_mb_53() {
    let mut mailbox = SingleThreadView::default();
    mailbox.enqueue(10, "a", 0);
    mailbox.claim(20, 1_000);
    let fence = mailbox.interrupt_at(30, &new_interrupt().taking_over()).fence.unwrap();
    let forged = Fence { token: ClaimToken::new("forged"), ..fence };
    assert!(check_claim(&mailbox, &ThreadId::new("t").unwrap(), &forged).is_err());
}

#[test]
fn a_token_proves_nothing_under_another_claim_number_cm_31() {
    let mut mailbox = SingleThreadView::default();
    mailbox.enqueue(10, "a", 0);
    let (claim_ref, _) = mailbox.claim(20, 1_000);
    let number = mailbox.record.as_ref().unwrap().last_claim.unwrap();
    let check = |number| {
        let fence = Fence::new(claim_ref.dispatch.clone(), claim_ref.token.clone(), 0, number);
        check_claim(&mailbox, &ThreadId::new("t").unwrap(), &fence).map_err(|error| error.kind())
    };
    assert_eq!(check(number), Ok(()));
    assert_eq!(check(ClaimNumber { counter: number.counter + 1, ..number }), Err(ErrorKind::ClaimLost));
}
