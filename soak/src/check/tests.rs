//! Tests of the checker with logs that contain one mistake each. The checker must find the violated rule.

use agentstore::{AttemptEnd, ClaimNumber, DispatchStatus};

use super::{Evidence, Rule, check};
use crate::{
    final_state::{FinalDispatch, FinalThread},
    record::{Claim, ClaimCall, DispatchName, LogLine, LoggedAction},
    worker::DoneBy,
};

/// The length of every lease, in milliseconds.
const LEASE: u64 = 2_000;

fn claim_number(counter: u64) -> ClaimNumber {
    ClaimNumber { incarnation: 1, counter }
}

fn first_dispatch_of(job: u32) -> DispatchName {
    DispatchName { job, round: 0 }
}

/// Returns the claim of thread 0 with this number.
fn claim(counter: u64, job: u32) -> Claim {
    Claim { thread: 0, number: claim_number(counter), dispatch: first_dispatch_of(job), epoch: 0 }
}

/// Records calls about thread 0, one after another. Host time and store time are the same, in milliseconds.
struct EvidenceBuilder {
    time: u64,
    evidence: Evidence,
}

impl EvidenceBuilder {
    /// Begins with `jobs` enqueued jobs. One store keeps both the threads and the mailbox.
    fn with_jobs(jobs: u32) -> Self {
        let mut builder = Self { time: 1, evidence: Evidence { jobs, is_fenced: true, ..Evidence::default() } };
        builder.evidence.threads.insert(0, FinalThread { epoch: 0, written_by: Some(Vec::new()) });
        (0..jobs).for_each(|job| builder.enqueue(first_dispatch_of(job), 0));
        builder
    }

    fn enqueue(&mut self, dispatch: DispatchName, epoch: u64) {
        self.record(LoggedAction::Enqueued { dispatch, thread: 0, epoch });
        let final_state =
            FinalDispatch { thread: 0, epoch, status: DispatchStatus::Queued, done_by: None, history: Vec::new() };
        self.evidence.dispatches.insert(dispatch, final_state);
    }

    fn final_state(&mut self, dispatch: DispatchName) -> &mut FinalDispatch {
        self.evidence.dispatches.get_mut(&dispatch).unwrap()
    }

    fn thread(&mut self) -> &mut FinalThread {
        self.evidence.threads.get_mut(&0).unwrap()
    }

    fn record(&mut self, did: LoggedAction) {
        self.evidence.lines.push(LogLine { called: self.time, answered: self.time + 1, did });
        self.time += 2;
    }

    fn record_claim(&mut self, claim: Claim) {
        let (since, until) = (self.time, self.time + LEASE);
        self.final_state(claim.dispatch).history.push((claim.number, AttemptEnd::LeaseExpired));
        self.record(LoggedAction::Claimed { claim, since, until });
    }

    /// Records a call. If no answer is recorded after it, its answer was lost.
    fn record_call(&mut self, claim: Claim, act: ClaimCall) {
        self.evidence.lines.push(LogLine {
            called: self.time,
            answered: self.time,
            did: LoggedAction::Calling { claim, act },
        });
    }

    fn record_acceptance(&mut self, claim: Claim, act: ClaimCall) {
        self.record_call(claim, act);
        let until = (act == ClaimCall::Extend).then_some(self.time + LEASE);
        self.record(LoggedAction::Accepted { claim, act, until, again: false });
    }

    fn record_refusal(&mut self, claim: Claim, act: ClaimCall, kind: &str) {
        self.record_call(claim, act);
        self.record(LoggedAction::Refused { claim, act, kind: kind.to_owned() });
    }

    /// Stores the end of a dispatch, and the entry that was committed with it.
    fn store_end(&mut self, claim: Claim) {
        let done_by = DoneBy { dispatch: claim.dispatch, claim: claim.number };
        let final_state = self.final_state(claim.dispatch);
        (final_state.status, final_state.done_by) = (DispatchStatus::Acked, Some(done_by));
        final_state.history.retain(|(number, _)| *number != claim.number);
        final_state.history.push((claim.number, AttemptEnd::Acked));
        self.thread().written_by.as_mut().unwrap().push(done_by);
    }

    /// Records a claim, and a commit under it that acknowledges the dispatch.
    fn record_done(&mut self, claim: Claim) {
        self.record_claim(claim);
        self.record_acceptance(claim, ClaimCall::CommitAndAck);
        self.store_end(claim);
    }

    fn record_interrupt(&mut self) {
        self.thread().epoch += 1;
        let epoch = self.thread().epoch;
        self.record(LoggedAction::Interrupted { thread: 0, epoch });
    }

    fn let_lease_expire(&mut self) {
        self.time += LEASE + 1;
    }

    /// Returns the violated rules, each once.
    fn violated_rules(&self) -> Vec<Rule> {
        let mut rules: Vec<_> = check(&self.evidence).1.into_iter().map(|violation| violation.rule).collect();
        rules.sort_unstable();
        rules.dedup();
        rules
    }
}

/// All jobs were done, one of them in its second attempt, and one in the next epoch.
#[test]
fn a_correct_history_has_no_violations() {
    let mut builder = EvidenceBuilder::with_jobs(3);
    builder.record_done(claim(1, 0));
    let (late_claim, next_claim) = (claim(2, 1), claim(3, 1));
    builder.record_claim(late_claim);
    builder.record_acceptance(late_claim, ClaimCall::Start);
    builder.record_acceptance(late_claim, ClaimCall::Extend);
    builder.let_lease_expire();
    builder.record_done(next_claim);
    builder.record_refusal(late_claim, ClaimCall::CommitAndAck, "claim_lost");
    builder.record_interrupt();
    builder.final_state(first_dispatch_of(2)).status = DispatchStatus::Superseded;
    let second_dispatch = DispatchName { job: 2, round: 1 };
    builder.enqueue(second_dispatch, 1);
    builder.record_done(Claim { dispatch: second_dispatch, epoch: 1, ..claim(4, 2) });
    let (work_figures, violations) = check(&builder.evidence);
    assert_eq!(violations, []);
    assert_eq!(
        (work_figures.claims, work_figures.redelivered, work_figures.refused, work_figures.unknown),
        (4, 1, 1, 0)
    );
}

/// The last call of a holder that was killed may have taken effect. A write that is refused after an interrupt ends
/// the claim.
#[test]
fn an_unusual_but_correct_history_has_no_violations() {
    let mut builder = EvidenceBuilder::with_jobs(2);
    let claim_of_killed_worker = claim(1, 0);
    builder.record_claim(claim_of_killed_worker);
    builder.record_call(claim_of_killed_worker, ClaimCall::CommitAndAck);
    builder.store_end(claim_of_killed_worker);
    let interrupted_claim = claim(2, 1);
    builder.record_claim(interrupted_claim);
    builder.record_interrupt();
    builder.record_refusal(interrupted_claim, ClaimCall::Extend, "stale_epoch");
    builder.final_state(first_dispatch_of(1)).status = DispatchStatus::Superseded;
    let second_dispatch = DispatchName { job: 1, round: 1 };
    builder.enqueue(second_dispatch, 1);
    builder.record_done(Claim { dispatch: second_dispatch, epoch: 1, ..claim(3, 1) });
    assert_eq!(builder.violated_rules(), []);
}

#[test]
fn work_that_reappears_is_found() {
    let mut builder = EvidenceBuilder::with_jobs(1);
    builder.record_done(claim(1, 0));
    builder.evidence.reappeared_dispatches.insert(first_dispatch_of(0));
    assert_eq!(builder.violated_rules(), [Rule::DoneTwice]);
}

#[test]
fn lost_work_is_found() {
    let mut builder = EvidenceBuilder::with_jobs(2);
    builder.record_done(claim(1, 0));
    assert_eq!(builder.violated_rules(), [Rule::LostWork], "the job was not done");
    builder.evidence.dispatches.remove(&first_dispatch_of(1));
    assert_eq!(builder.violated_rules(), [Rule::LostWork], "the dispatch is missing");
    let mut builder = EvidenceBuilder::with_jobs(1);
    builder.record_done(claim(1, 0));
    builder.thread().written_by = Some(Vec::new());
    assert_eq!(builder.violated_rules(), [Rule::LostWork, Rule::MissingFromStore], "its entry is missing");
    let mut builder = EvidenceBuilder::with_jobs(1);
    builder.record_claim(claim(1, 0));
    builder.record_acceptance(claim(1, 0), ClaimCall::Ack);
    assert_eq!(builder.violated_rules(), [Rule::LostWork, Rule::MissingFromStore], "its acknowledgement is missing");
    let mut builder = EvidenceBuilder::with_jobs(1);
    builder.record_claim(claim(1, 0));
    builder.let_lease_expire();
    builder.record_done(claim(2, 0));
    builder.final_state(first_dispatch_of(0)).history.remove(0);
    assert_eq!(builder.violated_rules(), [Rule::MissingFromStore], "a claim is missing");
}

#[test]
fn work_that_is_done_twice_is_found() {
    let mut builder = EvidenceBuilder::with_jobs(1);
    builder.record_done(claim(1, 0));
    let second_dispatch = DispatchName { job: 0, round: 1 };
    builder.enqueue(second_dispatch, 0);
    builder.record_done(Claim { dispatch: second_dispatch, ..claim(2, 0) });
    assert_eq!(builder.violated_rules(), [Rule::DoneTwice]);
    let mut builder = EvidenceBuilder::with_jobs(1);
    builder.record_done(claim(1, 0));
    let written_by = builder.thread().written_by.as_mut().unwrap();
    written_by.push(written_by[0]);
    assert_eq!(builder.violated_rules(), [Rule::DoneTwice]);
}

#[test]
fn two_live_claims_of_a_thread_are_found() {
    let mut builder = EvidenceBuilder::with_jobs(2);
    let held_claim = claim(1, 0);
    builder.record_claim(held_claim);
    builder.record_acceptance(held_claim, ClaimCall::Start);
    builder.record_claim(claim(2, 1));
    builder.evidence.jobs = 0;
    builder.evidence.dispatches.clear();
    assert_eq!(builder.violated_rules(), [Rule::LostWork, Rule::TwoClaims], "the lease has not expired");

    let mut builder = EvidenceBuilder::with_jobs(1);
    builder.record_claim(claim(1, 0));
    builder.time += LEASE - 10;
    builder.record_acceptance(claim(1, 0), ClaimCall::Extend);
    builder.time += 100;
    builder.record_done(claim(2, 0));
    assert_eq!(builder.violated_rules(), [Rule::TwoClaims], "the lease was extended");

    let mut builder = EvidenceBuilder::with_jobs(1);
    builder.record_claim(claim(1, 0));
    builder.record_refusal(claim(1, 0), ClaimCall::CommitAndAck, "unavailable");
    builder.record_done(claim(2, 0));
    assert_eq!(builder.violated_rules(), [Rule::TwoClaims], "a refused settlement ends no claim");

    let mut builder = EvidenceBuilder::with_jobs(2);
    builder.record_done(claim(1, 0));
    builder.record_done(claim(1, 1));
    assert_eq!(builder.violated_rules(), [Rule::TwoClaims], "both claims have the same number");
}

#[test]
fn decreasing_claim_numbers_are_found() {
    let mut builder = EvidenceBuilder::with_jobs(2);
    builder.record_done(claim(2, 0));
    builder.record_done(claim(1, 1));
    builder.thread().written_by.as_mut().unwrap().sort_unstable_by_key(|done_by| done_by.claim);
    assert_eq!(builder.violated_rules(), [Rule::TwoClaims, Rule::NumberOutOfOrder, Rule::StaleWrite]);
}

#[test]
fn writes_of_stale_claims_are_found() {
    for act in [ClaimCall::Start, ClaimCall::Extend, ClaimCall::Release, ClaimCall::TakeOver] {
        let mut builder = EvidenceBuilder::with_jobs(1);
        builder.record_claim(claim(1, 0));
        builder.let_lease_expire();
        builder.record_done(claim(2, 0));
        builder.record_acceptance(claim(1, 0), act);
        assert!(builder.violated_rules().contains(&Rule::StaleWrite), "{act:?}");
    }
    let mut builder = EvidenceBuilder::with_jobs(2);
    builder.record_claim(claim(1, 0));
    builder.let_lease_expire();
    builder.record_done(claim(2, 1));
    builder.record_call(claim(1, 0), ClaimCall::CommitAndAck);
    builder.store_end(claim(1, 0));
    assert_eq!(builder.violated_rules(), [Rule::StaleWrite], "only the log of the thread shows the write");
    let mut builder = EvidenceBuilder::with_jobs(1);
    builder.record_done(claim(1, 0));
    builder.final_state(first_dispatch_of(0)).done_by =
        Some(DoneBy { dispatch: first_dispatch_of(0), claim: claim_number(7) });
    assert_eq!(builder.violated_rules(), [Rule::StaleWrite], "the result is from another claim");
}

/// On two stores, an attempt may write until a later attempt has made its first commit, and not after that.
#[test]
fn on_two_stores_commits_are_stale_only_after_the_take_over() {
    let violated_rules = |call_of_newer_claim: Option<ClaimCall>| {
        let mut builder = EvidenceBuilder::with_jobs(1);
        builder.evidence.is_fenced = false;
        builder.record_claim(claim(1, 0));
        builder.let_lease_expire();
        builder.record_claim(claim(2, 0));
        if let Some(call) = call_of_newer_claim {
            builder.record_acceptance(claim(2, 0), call);
        }
        builder.record_acceptance(claim(1, 0), ClaimCall::Commit);
        builder.record_acceptance(claim(2, 0), ClaimCall::Ack);
        builder.store_end(claim(2, 0));
        builder.thread().written_by = Some(vec![DoneBy { dispatch: first_dispatch_of(0), claim: claim_number(1) }]);
        builder.violated_rules()
    };
    assert_eq!(violated_rules(None), []);
    assert_eq!(violated_rules(Some(ClaimCall::TakeOver)), [Rule::StaleWrite]);
}

#[test]
fn mistakes_with_epochs_are_found() {
    let mut builder = EvidenceBuilder::with_jobs(1);
    builder.record_interrupt();
    builder.record_done(claim(1, 0));
    assert_eq!(builder.violated_rules(), [Rule::WrongEpoch], "the claim was made after the interrupt");

    let mut builder = EvidenceBuilder::with_jobs(1);
    builder.record_claim(claim(1, 0));
    builder.record_interrupt();
    builder.record_acceptance(claim(1, 0), ClaimCall::CommitAndAck);
    builder.store_end(claim(1, 0));
    assert_eq!(builder.violated_rules(), [Rule::WrongEpoch], "the write was accepted after the interrupt");

    let mut builder = EvidenceBuilder::with_jobs(1);
    builder.record_done(claim(1, 0));
    builder.record_interrupt();
    builder.thread().epoch = 2;
    assert_eq!(builder.violated_rules(), [Rule::WrongEpoch], "an interrupt counted twice");
    builder.thread().epoch = 1;
    builder.enqueue(DispatchName { job: 0, round: 1 }, 0);
    builder.final_state(DispatchName { job: 0, round: 1 }).status = DispatchStatus::Superseded;
    assert_eq!(builder.violated_rules(), [Rule::WrongEpoch], "the dispatch was enqueued in the previous epoch");

    let mut builder = EvidenceBuilder::with_jobs(1);
    builder.final_state(first_dispatch_of(0)).status = DispatchStatus::Superseded;
    assert_eq!(builder.violated_rules(), [Rule::LostWork, Rule::WrongEpoch], "there was no interrupt");
}
