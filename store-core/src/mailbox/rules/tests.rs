//! From when on a thread is worth a claim after a decision.

use std::{collections::BTreeMap, time::Duration};

use super::{MailboxChange, MailboxView, cancel, claim, enqueue, settle};
use crate::{
    ClaimRequest, DedupeKey, DispatchId, NewDispatch, Result, RunId, Settlement, ThreadId, Timestamp, When, WorkerId,
    commit::Setting,
    id::Uuids,
    limits::Limits,
    mailbox::{ClaimOne, ClaimRef, InQueue, StoredDispatch, StoredInterrupt, StoredMailbox, in_queue},
};

/// The mailbox of the only thread.
#[derive(Default)]
struct OfThread {
    record: Option<StoredMailbox>,
    rows: BTreeMap<DispatchId, StoredDispatch>,
}

impl MailboxView for OfThread {
    fn claim_incarnation(&self) -> u64 {
        1
    }

    fn mailbox(&self, _: &ThreadId) -> Result<Option<StoredMailbox>> {
        Ok(self.record.clone())
    }

    fn dispatch(&self, id: &DispatchId) -> Result<Option<StoredDispatch>> {
        Ok(self.rows.get(id).cloned())
    }

    fn last_with_key(&self, _: &ThreadId, _: &DedupeKey) -> Result<Option<DispatchId>> {
        Ok(None)
    }

    fn first_available(&self, _: &ThreadId, _: u64, now: Timestamp) -> Result<Option<DispatchId>> {
        let place = |row: &StoredDispatch| in_queue(row).filter(|at: &InQueue| at.due <= now).map(|at| at.number);
        let available = self.rows.values().filter_map(|row| Some((place(row)?, row.id().clone())));
        Ok(available.min().map(|(_, id)| id))
    }

    fn interrupt(&self, _: &ThreadId, _: u64) -> Result<Option<StoredInterrupt>> {
        Ok(None)
    }
}

fn time(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis).unwrap()
}

impl OfThread {
    /// Makes a decision at a time. Gives the answer, and from when on the thread is worth a claim.
    fn at<T>(
        &mut self,
        now: u64,
        decide: impl FnOnce(&Self, Setting<'_>) -> Result<MailboxChange<T>>,
    ) -> (T, Option<u64>) {
        let (limits, ids) = (Limits::default(), Uuids);
        let change = decide(self, Setting::new(time(now), &limits, &ids)).unwrap();
        let plan = change.plan.expect("a plan");
        let from = plan.claimable_from().map(Timestamp::as_millis);
        self.record = Some(plan.mailbox);
        self.rows.extend(plan.dispatches.into_iter().map(|row| (row.id().clone(), row)));
        (change.answer.unwrap(), from)
    }

    fn enqueue(&mut self, now: u64, id: &str, delay: u64) -> Option<u64> {
        let new = NewDispatch::new(ThreadId::new("t").unwrap(), RunId::new("r").unwrap());
        let new = new.with_id(DispatchId::new(id).unwrap()).available(When::In(Duration::from_millis(delay)));
        self.at(now, |view, setting| enqueue(view, &new, setting)).1
    }

    fn claim(&mut self, now: u64, lease: u64) -> (ClaimRef, Option<u64>) {
        let request = ClaimRequest::new(WorkerId::new("w").unwrap(), Duration::from_millis(lease));
        let (thread, one) = (ThreadId::new("t").unwrap(), ClaimOne::of(&request).unwrap());
        let (found, from) = self.at(now, |view, setting| claim(view, &thread, one, setting));
        (found.claimed.first().expect("something to claim").claim(), from)
    }

    fn settle(&mut self, now: u64, held: &ClaimRef, settlement: &Settlement) -> Option<u64> {
        self.at(now, |view, setting| settle(view, held, settlement, setting)).1
    }
}

#[test]
fn a_thread_is_worth_a_claim_when_something_is_due_or_a_lease_is_over() {
    let mut mailbox = OfThread::default();
    assert_eq!(mailbox.enqueue(10, "a", 0), Some(10));
    let (held, from) = mailbox.claim(20, 100);
    assert_eq!(from, Some(120));
    assert_eq!(mailbox.enqueue(30, "b", 1_000), Some(120), "the thread is busy until then");
    let again = Settlement::Retry { after: Duration::from_millis(500), error: "failed".to_owned() };
    assert_eq!(mailbox.settle(40, &held, &again), Some(40), "what `b` waits for is not known");
    let (held, _) = mailbox.claim(540, 100);
    let ack = Settlement::Ack { result: None };
    assert_eq!(mailbox.settle(600, &held, &ack), Some(600));
    assert_eq!(mailbox.enqueue(600, "c", 50), Some(600));
    for (id, from) in [("c", Some(600)), ("b", None)] {
        let id = DispatchId::new(id).unwrap();
        assert_eq!(mailbox.at(600, |view, setting| cancel(view, &id, setting)).1, from);
    }
    assert_eq!(mailbox.enqueue(700, "d", 50), Some(750));
}
