//! Checks the claims of one thread, in the order of their numbers.

use std::collections::{BTreeMap, BTreeSet};

use agentstore::ClaimNumber;

use super::{Rule, Violation, claim_name};
use crate::record::{Claim, ClaimCall, LogLine, LoggedAction};

/// All claims of a thread that the workers recorded.
pub(super) struct ClaimsOfThread {
    by_number: BTreeMap<ClaimNumber, ClaimRecord>,
}

struct ClaimRecord {
    claim: Claim,
    /// When the claim was requested, by the clock of the host in nanoseconds.
    called: u64,
    /// When the holder received the claim, by the same clock.
    answered: u64,
    /// The beginning of the lease, by store time in milliseconds.
    since: u64,
    /// The end of the lease, by store time in milliseconds, according to the answers that the holder received.
    until: u64,
    /// When the first call that may have ended the claim was made.
    first_ending_call: Option<u64>,
    /// When the first accepted commit under the claim was answered.
    first_commit_answered: Option<u64>,
}

impl ClaimsOfThread {
    pub(super) fn from_lines(lines: &[&LogLine], violations: &mut Vec<Violation>) -> Self {
        let mut by_number = BTreeMap::<_, ClaimRecord>::new();
        for LogLine { called, answered, did } in lines.iter().copied() {
            let LoggedAction::Claimed { claim, since, until } = *did else { continue };
            let (called, answered) = (*called, *answered);
            let claim_record = ClaimRecord {
                claim,
                called,
                answered,
                since,
                until,
                first_ending_call: None,
                first_commit_answered: None,
            };
            if let Some(other) = by_number.insert(claim.number, claim_record) {
                let description = format!("claims {} and {}", claim_name(&other.claim), claim_name(&claim));
                violations.push(Violation::new(Rule::TwoClaims, description));
            }
        }
        let mut claims = Self { by_number };
        claims.read_calls(lines);
        claims
    }

    fn read_calls(&mut self, lines: &[&LogLine]) {
        // The calls that certainly did not end their claims.
        let mut calls_without_end = BTreeSet::new();
        for LogLine { called, answered, did } in lines.iter().copied() {
            let (claim, is_still_held) = match did {
                LoggedAction::Accepted { claim, act, until, .. } => {
                    if let Some(claim_record) = self.by_number.get_mut(&claim.number) {
                        claim_record.until = claim_record.until.max(until.unwrap_or_default());
                        if act.is_commit() {
                            claim_record.first_commit_answered = Some(
                                claim_record.first_commit_answered.map_or(*answered, |first| first.min(*answered)),
                            );
                        }
                    }
                    (claim, !act.ends_claim())
                }
                // After an interrupt, a write of the holder is refused, and this write may end the claim.
                LoggedAction::Refused { claim, kind, .. } => (claim, kind != "stale_epoch"),
                _ => continue,
            };
            if is_still_held {
                calls_without_end.insert((claim.number, *called));
            }
        }
        for LogLine { called, did, .. } in lines.iter().copied() {
            let LoggedAction::Calling { claim, .. } = did else { continue };
            if let Some(claim_record) =
                self.by_number.get_mut(&claim.number).filter(|_| !calls_without_end.contains(&(claim.number, *called)))
            {
                claim_record.first_ending_call =
                    Some(claim_record.first_ending_call.map_or(*called, |first| first.min(*called)));
            }
        }
    }

    /// Checks that claim numbers grow with time, and that no claim begins before the previous claim has ended.
    pub(super) fn check_order(&self, violations: &mut Vec<Violation>) {
        let mut earliest_answered: Option<&ClaimRecord> = None;
        for claim_record in self.by_number.values().rev() {
            if let Some(later) = earliest_answered.filter(|later| later.answered < claim_record.called) {
                let description = format!(
                    "claim {} was requested after {} began",
                    claim_name(&claim_record.claim),
                    claim_name(&later.claim)
                );
                violations.push(Violation::new(Rule::NumberOutOfOrder, description));
            }
            if earliest_answered.is_none_or(|later| claim_record.answered < later.answered) {
                earliest_answered = Some(claim_record);
            }
        }
        for (claim_record, next) in self.by_number.values().zip(self.by_number.values().skip(1)) {
            let may_have_ended = claim_record.first_ending_call.is_some_and(|called| called < next.answered);
            if next.since < claim_record.until && !may_have_ended {
                let description = format!(
                    "claim {} began {} ms before the lease of claim {} expired",
                    claim_name(&next.claim),
                    claim_record.until - next.since,
                    claim_name(&claim_record.claim)
                );
                violations.push(Violation::new(Rule::TwoClaims, description));
            }
        }
    }

    /// Checks that nothing is accepted under a claim after a newer claim was made. If threads and mailbox are in two
    /// stores, a commit may still be accepted until a newer holder has committed to the thread (CM-32).
    pub(super) fn check_writes(&self, lines: &[&LogLine], is_fenced: bool, violations: &mut Vec<Violation>) {
        let first_claim_answered = self.earliest_from(|claim_record| Some(claim_record.answered));
        let first_commit_answered = self.earliest_from(|claim_record| claim_record.first_commit_answered);
        for LogLine { called, did, .. } in lines.iter().copied() {
            let LoggedAction::Accepted { claim, act, again: false, .. } = did else { continue };
            let newer = if is_fenced || !act.is_commit() { &first_claim_answered } else { &first_commit_answered };
            let newer_claim = newer.range((std::ops::Bound::Excluded(claim.number), std::ops::Bound::Unbounded)).next();
            if let Some((number, _)) = newer_claim.filter(|(_, from)| *from < called) {
                let description = format!(
                    "{} of {} was accepted after claim {number} or a newer one",
                    call_name(*act),
                    claim_name(claim)
                );
                violations.push(Violation::new(Rule::StaleWrite, description));
            }
        }
    }

    /// Returns for each claim the earliest time that `moment` returns for this claim or for a newer one.
    fn earliest_from(&self, moment: impl Fn(&ClaimRecord) -> Option<u64>) -> BTreeMap<ClaimNumber, u64> {
        let (mut first, mut all) = (None::<u64>, BTreeMap::new());
        for (number, claim_record) in self.by_number.iter().rev() {
            first = first.into_iter().chain(moment(claim_record)).min();
            all.extend(first.map(|first| (*number, first)));
        }
        all
    }
}

fn call_name(act: ClaimCall) -> String {
    format!("{act:?}").to_lowercase()
}
