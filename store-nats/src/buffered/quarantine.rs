//! The quarantine as a node knows it: deltas that the inner store refused for good, and deltas that rely on these.
//! Pure, without a server.

use std::{collections::BTreeMap, sync::Arc};

use store_core::{
    Detail, Error, Result, Subject, TenantId,
    buffer::{AppliedPosition, Delta, DeltaKeys, QuarantinedDelta},
    codec::Codec,
};

use super::message::DeltaMessage;

/// A delta in quarantine.
#[derive(Debug)]
pub(crate) struct Quarantined {
    pub(crate) record: QuarantinedDelta,
    pub(crate) keys: DeltaKeys,
    pub(crate) delta: Arc<Delta>,
}

impl Quarantined {
    fn read(record: QuarantinedDelta) -> Result<Self> {
        let unreadable = |reason: &dyn std::fmt::Display| {
            Error::corrupt(format!("write {} in the quarantine of the write buffer: {reason}", record.sequence))
        };
        let message = DeltaMessage::read(&record.message).map_err(|error| unreadable(&error))?;
        let delta = message.delta.ok_or_else(|| unreadable(&"it has no delta"))?;
        Ok(Self { keys: message.keys, delta: Arc::new(delta), record })
    }

    /// Returns the error for a write that relies on this one.
    pub(crate) fn refusal(&self) -> Error {
        let what = match self.delta.thread() {
            Some(thread) => Subject::new("thread", thread),
            None => Subject::new("tenant", &self.record.tenant),
        };
        Error::new(Detail::Quarantined { what, sequence: self.record.sequence })
    }
}

/// The quarantine.
#[derive(Debug, Default)]
pub(crate) struct Quarantine {
    revision: u64,
    deltas: BTreeMap<u64, Quarantined>,
    /// The last message after which the inner store must be asked before the quarantine is used; 0 if there is none.
    stale_since: u64,
}

impl Quarantine {
    pub(crate) const fn revision(&self) -> u64 {
        self.revision
    }

    pub(crate) const fn is_stale(&self) -> bool {
        self.stale_since > 0
    }

    /// Notes that the quarantine may have changed before the message `at`.
    pub(crate) fn set_stale(&mut self, at: u64) {
        self.stale_since = self.stale_since.max(at);
    }

    /// Notes that the inner store was asked after the message `at` was read.
    pub(crate) const fn set_fresh(&mut self, at: u64) {
        if self.stale_since <= at {
            self.stale_since = 0;
        }
    }

    pub(crate) fn get(&self, sequence: u64) -> Option<&Quarantined> {
        self.deltas.get(&sequence)
    }

    /// Returns the deltas in the order of the stream.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Quarantined> {
        self.deltas.values()
    }

    pub(crate) fn len(&self) -> usize {
        self.deltas.len()
    }

    /// Replaces the content, unless it is newer. Returns whether it was replaced.
    pub(crate) fn replace(&mut self, position: &AppliedPosition, records: Vec<QuarantinedDelta>) -> Result<bool> {
        if position.quarantine_revision <= self.revision {
            return Ok(false);
        }
        let read = records.into_iter().map(|record| Ok((record.sequence, Quarantined::read(record)?)));
        self.deltas = read.collect::<Result<_>>()?;
        self.revision = position.quarantine_revision;
        Ok(true)
    }

    /// Returns the first delta that a delta with these keys relies on.
    pub(crate) fn relied_on(&self, tenant: &TenantId, keys: &DeltaKeys) -> Option<&Quarantined> {
        self.deltas.values().find(|earlier| earlier.record.tenant == *tenant && keys.relies_on(&earlier.keys))
    }

    /// Returns the deltas before this one that it relies on.
    pub(crate) fn relied_on_by(&self, later: &Quarantined) -> Vec<u64> {
        let before = self.deltas.range(..later.record.sequence).map(|(_, earlier)| earlier);
        before.filter(|earlier| is_reliance(later, earlier)).map(|earlier| earlier.record.sequence).collect()
    }

    /// Returns a delta that relies on one of `sequences` and is not one of them, and the one that it relies on.
    pub(crate) fn left_behind(&self, sequences: &[u64]) -> Option<(u64, u64)> {
        let named = || sequences.iter().filter_map(|sequence| self.deltas.get(sequence));
        let others = self.deltas.values().filter(|other| !sequences.contains(&other.record.sequence));
        others.into_iter().find_map(|other| {
            let earlier = named().find(|earlier| is_reliance(other, earlier))?;
            Some((other.record.sequence, earlier.record.sequence))
        })
    }
}

fn is_reliance(later: &Quarantined, earlier: &Quarantined) -> bool {
    later.record.sequence > earlier.record.sequence
        && later.record.tenant == earlier.record.tenant
        && later.keys.relies_on(&earlier.keys)
}

#[cfg(test)]
mod tests {
    use store_core::{
        ErrorKind, TenantId, Timestamp,
        buffer::{AppliedPosition, Delta, DeltaKeys, QuarantinedDelta, ThreadDeletion},
        codec::Codec,
    };

    use super::{DeltaMessage, Quarantine};

    fn record(sequence: u64, reads: &[&str], writes: &[&str]) -> QuarantinedDelta {
        let list = |keys: &[&str]| keys.iter().map(|key| (*key).to_owned()).collect();
        let message = DeltaMessage {
            tenant: TenantId::default_tenant(),
            as_of: sequence - 1,
            keys: DeltaKeys::from_lists(list(reads), list(writes)),
            delta: Some(Delta::Deletion(ThreadDeletion::new(Timestamp::MIN))),
            refreshes: false,
            detached: None,
        };
        let (tenant, reason) = (TenantId::default_tenant(), "it is refused".to_owned());
        QuarantinedDelta::new(sequence, tenant, reason, Timestamp::MIN, message.encode())
    }

    fn position(revision: u64) -> AppliedPosition {
        AppliedPosition::new(Some("b".to_owned()), 9, revision)
    }

    /// Tests NB-4 and NB-7.
    #[test]
    fn what_relies_on_a_delta_in_quarantine_is_known() {
        let mut quarantine = Quarantine::default();
        let records = vec![record(3, &["*"], &["ta"]), record(5, &["*", "ta"], &["tb"]), record(7, &["*"], &["tc"])];
        assert!(quarantine.replace(&position(1), records).unwrap());
        assert!(!quarantine.replace(&position(1), Vec::new()).unwrap(), "an old answer changes nothing");
        let keys = |write: &str| DeltaKeys::from_lists(vec!["*".to_owned()], vec![write.to_owned()]);
        let tenant = TenantId::default_tenant();
        let refusal = quarantine.relied_on(&tenant, &keys("ta")).unwrap().refusal();
        assert_eq!(refusal.kind(), ErrorKind::Quarantined);
        assert!(quarantine.relied_on(&tenant, &keys("td")).is_none());
        assert!(quarantine.relied_on(&TenantId::new("other").unwrap(), &keys("ta")).is_none());
        assert_eq!(quarantine.relied_on_by(quarantine.get(5).unwrap()), [3]);
        assert_eq!(quarantine.left_behind(&[3]), Some((5, 3)));
        assert_eq!(quarantine.left_behind(&[3, 5]), None);
        assert_eq!(quarantine.left_behind(&[7]), None);
    }

    /// Tests NB-7.
    #[test]
    fn an_answer_from_before_a_message_does_not_count() {
        let mut quarantine = Quarantine::default();
        quarantine.set_stale(8);
        quarantine.set_fresh(7);
        assert!(quarantine.is_stale());
        quarantine.set_fresh(8);
        assert!(!quarantine.is_stale());
    }
}
