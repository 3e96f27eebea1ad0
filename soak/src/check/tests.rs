//! Tests of the checker with logs that contain one mistake each. The checker must find the violated rule.

use agentstore::{AttemptEnd, ClaimNumber, DispatchStatus};

use super::{Evidence, Rule, check};
use crate::{
    final_state::{FinalDispatch, FinalThread},
    record::{Act, Claim, Did, Line, Name},
    worker::DoneBy,
};

const LEASE: u64 = 2_000;

fn number(counter: u64) -> ClaimNumber {
    ClaimNumber { incarnation: 1, counter }
}

fn name(job: u32) -> Name {
    Name { job, round: 0 }
}

/// Returns the claim of thread 0 with this number.
fn claim(counter: u64, job: u32) -> Claim {
    Claim { thread: 0, number: number(counter), dispatch: name(job), epoch: 0 }
}

/// The calls about thread 0, one after the other. Host time and store time are the same, in milliseconds.
struct Story {
    time: u64,
    evidence: Evidence,
}

impl Story {
    /// Begins with `jobs` enqueued jobs, in one store that keeps threads and the mailbox.
    fn of(jobs: u32) -> Self {
        let mut story = Self { time: 1, evidence: Evidence { jobs, is_fenced: true, ..Evidence::default() } };
        story.evidence.threads.insert(0, FinalThread { epoch: 0, said: Some(Vec::new()) });
        (0..jobs).for_each(|job| story.enqueue(name(job), 0));
        story
    }

    fn enqueue(&mut self, dispatch: Name, epoch: u64) {
        self.note(Did::Enqueued { dispatch, thread: 0, epoch });
        let final_state =
            FinalDispatch { thread: 0, epoch, status: DispatchStatus::Queued, done_by: None, history: Vec::new() };
        self.evidence.dispatches.insert(dispatch, final_state);
    }

    fn final_state(&mut self, dispatch: Name) -> &mut FinalDispatch {
        self.evidence.dispatches.get_mut(&dispatch).unwrap()
    }

    fn thread(&mut self) -> &mut FinalThread {
        self.evidence.threads.get_mut(&0).unwrap()
    }

    fn note(&mut self, did: Did) {
        self.evidence.lines.push(Line { called: self.time, answered: self.time + 1, did });
        self.time += 2;
    }

    fn claims(&mut self, claim: Claim) {
        let (since, until) = (self.time, self.time + LEASE);
        self.final_state(claim.dispatch).history.push((claim.number, AttemptEnd::LeaseExpired));
        self.note(Did::Claimed { claim, since, until });
    }

    /// Records a call. If no answer is recorded after it, its answer was lost.
    fn tries(&mut self, claim: Claim, act: Act) {
        self.evidence.lines.push(Line { called: self.time, answered: self.time, did: Did::Tries { claim, act } });
    }

    fn accepted(&mut self, claim: Claim, act: Act) {
        self.tries(claim, act);
        let until = (act == Act::Extend).then_some(self.time + LEASE);
        self.note(Did::Accepted { claim, act, until, again: false });
    }

    fn refused(&mut self, claim: Claim, act: Act, kind: &str) {
        self.tries(claim, act);
        self.note(Did::Refused { claim, act, kind: kind.to_owned() });
    }

    /// Stores the end of a dispatch, and the entry that was committed with it.
    fn keeps_end(&mut self, claim: Claim) {
        let done_by = DoneBy { dispatch: claim.dispatch, claim: claim.number };
        let final_state = self.final_state(claim.dispatch);
        (final_state.status, final_state.done_by) = (DispatchStatus::Acked, Some(done_by));
        final_state.history.retain(|(number, _)| *number != claim.number);
        final_state.history.push((claim.number, AttemptEnd::Acked));
        self.thread().said.as_mut().unwrap().push(done_by);
    }

    /// Records a claim whose dispatch is committed and settled correctly.
    fn does(&mut self, claim: Claim) {
        self.claims(claim);
        self.accepted(claim, Act::SayAndAck);
        self.keeps_end(claim);
    }

    fn interrupts(&mut self) {
        self.thread().epoch += 1;
        let epoch = self.thread().epoch;
        self.note(Did::Interrupted { thread: 0, epoch });
    }

    fn lease_ends(&mut self) {
        self.time += LEASE + 1;
    }

    /// Returns the violated rules, each once.
    fn rules(&self) -> Vec<Rule> {
        let mut rules: Vec<_> = check(&self.evidence).1.into_iter().map(|violation| violation.rule).collect();
        rules.sort_unstable();
        rules.dedup();
        rules
    }
}

/// All jobs were done, one of them in its second attempt, and one in the next epoch.
#[test]
fn a_correct_history_raises_no_objection() {
    let mut story = Story::of(3);
    story.does(claim(1, 0));
    let (late, next) = (claim(2, 1), claim(3, 1));
    story.claims(late);
    story.accepted(late, Act::Start);
    story.accepted(late, Act::Extend);
    story.lease_ends();
    story.does(next);
    story.refused(late, Act::SayAndAck, "claim_lost");
    story.interrupts();
    story.final_state(name(2)).status = DispatchStatus::Superseded;
    let again = Name { job: 2, round: 1 };
    story.enqueue(again, 1);
    story.does(Claim { dispatch: again, epoch: 1, ..claim(4, 2) });
    let (seen, violations) = check(&story.evidence);
    assert_eq!(violations, []);
    assert_eq!((seen.claims, seen.redelivered, seen.refused, seen.unknown), (4, 1, 1, 0));
}

/// The last call of a holder that was killed may have taken effect. A write that is refused after an interrupt ends
/// the claim.
#[test]
fn a_possible_history_raises_no_objection() {
    let mut story = Story::of(2);
    let killed = claim(1, 0);
    story.claims(killed);
    story.tries(killed, Act::SayAndAck);
    story.keeps_end(killed);
    let stopped = claim(2, 1);
    story.claims(stopped);
    story.interrupts();
    story.refused(stopped, Act::Extend, "stale_epoch");
    story.final_state(name(1)).status = DispatchStatus::Superseded;
    let again = Name { job: 1, round: 1 };
    story.enqueue(again, 1);
    story.does(Claim { dispatch: again, epoch: 1, ..claim(3, 1) });
    assert_eq!(story.rules(), []);
}

#[test]
fn work_that_comes_back_is_found() {
    let mut story = Story::of(1);
    story.does(claim(1, 0));
    story.evidence.came_back.insert(name(0));
    assert_eq!(story.rules(), [Rule::Twice]);
}

#[test]
fn lost_work_is_found() {
    let mut story = Story::of(2);
    story.does(claim(1, 0));
    assert_eq!(story.rules(), [Rule::Lost], "the job was not done");
    story.evidence.dispatches.remove(&name(1));
    assert_eq!(story.rules(), [Rule::Lost], "the dispatch is gone");
    let mut story = Story::of(1);
    story.does(claim(1, 0));
    story.thread().said = Some(Vec::new());
    assert_eq!(story.rules(), [Rule::Lost, Rule::Forgotten], "its entry is gone");
    let mut story = Story::of(1);
    story.claims(claim(1, 0));
    story.accepted(claim(1, 0), Act::Ack);
    assert_eq!(story.rules(), [Rule::Lost, Rule::Forgotten], "its acknowledgement is gone");
    let mut story = Story::of(1);
    story.claims(claim(1, 0));
    story.lease_ends();
    story.does(claim(2, 0));
    story.final_state(name(0)).history.remove(0);
    assert_eq!(story.rules(), [Rule::Forgotten], "a claim is gone");
}

#[test]
fn work_that_is_done_twice_is_found() {
    let mut story = Story::of(1);
    story.does(claim(1, 0));
    let again = Name { job: 0, round: 1 };
    story.enqueue(again, 0);
    story.does(Claim { dispatch: again, ..claim(2, 0) });
    assert_eq!(story.rules(), [Rule::Twice]);
    let mut story = Story::of(1);
    story.does(claim(1, 0));
    let said = story.thread().said.as_mut().unwrap();
    said.push(said[0]);
    assert_eq!(story.rules(), [Rule::Twice]);
}

#[test]
fn two_live_claims_of_a_thread_are_found() {
    let mut story = Story::of(2);
    let held = claim(1, 0);
    story.claims(held);
    story.accepted(held, Act::Start);
    story.claims(claim(2, 1));
    story.evidence.jobs = 0;
    story.evidence.dispatches.clear();
    assert_eq!(story.rules(), [Rule::Lost, Rule::TwoClaims], "the lease has not expired");

    let mut story = Story::of(1);
    story.claims(claim(1, 0));
    story.time += LEASE - 10;
    story.accepted(claim(1, 0), Act::Extend);
    story.time += 100;
    story.does(claim(2, 0));
    assert_eq!(story.rules(), [Rule::TwoClaims], "the lease was extended");

    let mut story = Story::of(1);
    story.claims(claim(1, 0));
    story.refused(claim(1, 0), Act::SayAndAck, "unavailable");
    story.does(claim(2, 0));
    assert_eq!(story.rules(), [Rule::TwoClaims], "a refused settlement ends no claim");

    let mut story = Story::of(2);
    story.does(claim(1, 0));
    story.does(claim(1, 1));
    assert_eq!(story.rules(), [Rule::TwoClaims], "both claims have the same number");
}

#[test]
fn claims_that_go_backwards_are_found() {
    let mut story = Story::of(2);
    story.does(claim(2, 0));
    story.does(claim(1, 1));
    story.thread().said.as_mut().unwrap().sort_unstable_by_key(|by| by.claim);
    assert_eq!(story.rules(), [Rule::TwoClaims, Rule::Backwards, Rule::Stale]);
}

#[test]
fn writes_of_stale_claims_are_found() {
    for act in [Act::Start, Act::Extend, Act::GiveBack, Act::TakeOver] {
        let mut story = Story::of(1);
        story.claims(claim(1, 0));
        story.lease_ends();
        story.does(claim(2, 0));
        story.accepted(claim(1, 0), act);
        assert!(story.rules().contains(&Rule::Stale), "{act:?}");
    }
    let mut story = Story::of(2);
    story.claims(claim(1, 0));
    story.lease_ends();
    story.does(claim(2, 1));
    story.tries(claim(1, 0), Act::SayAndAck);
    story.keeps_end(claim(1, 0));
    assert_eq!(story.rules(), [Rule::Stale], "only the log of the thread shows the write");
    let mut story = Story::of(1);
    story.does(claim(1, 0));
    story.final_state(name(0)).done_by = Some(DoneBy { dispatch: name(0), claim: number(7) });
    assert_eq!(story.rules(), [Rule::Stale], "the result is from another claim");
}

/// On two stores, an attempt may write until a later attempt has made its first commit, and not after that.
#[test]
fn on_two_stores_commits_are_stale_only_after_the_take_over() {
    let two_stores = |takes_over| {
        let mut story = Story::of(1);
        story.evidence.is_fenced = false;
        story.claims(claim(1, 0));
        story.lease_ends();
        story.claims(claim(2, 0));
        if takes_over {
            story.accepted(claim(2, 0), Act::TakeOver);
        }
        story.accepted(claim(1, 0), Act::Say);
        story.accepted(claim(2, 0), Act::Ack);
        story.keeps_end(claim(2, 0));
        story.thread().said = Some(vec![DoneBy { dispatch: name(0), claim: number(1) }]);
        story.rules()
    };
    assert_eq!(two_stores(false), []);
    assert_eq!(two_stores(true), [Rule::Stale]);
}

#[test]
fn mistakes_with_epochs_are_found() {
    let mut story = Story::of(1);
    story.interrupts();
    story.does(claim(1, 0));
    assert_eq!(story.rules(), [Rule::Epoch], "the claim was given after the interrupt");

    let mut story = Story::of(1);
    story.claims(claim(1, 0));
    story.interrupts();
    story.accepted(claim(1, 0), Act::SayAndAck);
    story.keeps_end(claim(1, 0));
    assert_eq!(story.rules(), [Rule::Epoch], "the write was accepted after the interrupt");

    let mut story = Story::of(1);
    story.does(claim(1, 0));
    story.interrupts();
    story.thread().epoch = 2;
    assert_eq!(story.rules(), [Rule::Epoch], "an interrupt counted twice");
    story.thread().epoch = 1;
    story.enqueue(Name { job: 0, round: 1 }, 0);
    story.final_state(Name { job: 0, round: 1 }).status = DispatchStatus::Superseded;
    assert_eq!(story.rules(), [Rule::Epoch], "the dispatch was enqueued in the previous epoch");

    let mut story = Story::of(1);
    story.final_state(name(0)).status = DispatchStatus::Superseded;
    assert_eq!(story.rules(), [Rule::Lost, Rule::Epoch], "there was no interrupt");
}
