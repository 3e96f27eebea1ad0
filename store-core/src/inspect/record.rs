//! What an inspection finds.

use serde::Serialize;

use crate::id::{TenantId, ThreadId};

/// What an inspection saw.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct Inspection {
    /// Tenants read.
    pub tenants: u64,
    /// Threads read.
    pub threads: u64,
    /// Entries read.
    pub entries: u64,
    /// Runs read.
    pub runs: u64,
    /// What is wrong, in the order found.
    pub findings: Vec<Finding>,
    /// Whether it was stopped before its end.
    pub stopped: bool,
}

/// Something that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Finding {
    /// What is wrong.
    pub kind: FindingKind,
    /// The tenant, if it is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<TenantId>,
    /// The thread, if it is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread: Option<ThreadId>,
    /// Where: a file and an offset, an entry, a run.
    pub place: String,
    /// What was found, and what should be there.
    pub detail: String,
    /// What a repair does about it, did, or why it does nothing.
    pub repair: Repairable,
}

impl Finding {
    /// Something wrong at `place`.
    #[must_use]
    pub fn new(kind: FindingKind, place: impl Into<String>, detail: impl Into<String>) -> Self {
        let repair = kind.repairable();
        Self { kind, tenant: None, thread: None, place: place.into(), detail: detail.into(), repair }
    }

    /// The same about this thread.
    #[must_use]
    pub fn of_thread(mut self, tenant: &TenantId, thread: &ThreadId) -> Self {
        self.tenant = Some(tenant.clone());
        self.thread = Some(thread.clone());
        self
    }
}

/// What can be done about a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Repairable {
    /// A repair rebuilds it from what is sound.
    CanBeRebuilt,
    /// A repair rebuilt it.
    Rebuilt,
    /// Accepted data is damaged or gone: restore it from a copy; a repair does not touch it.
    NeedsBackup,
    /// It is of no use to the store: a repair does not touch it, whoever put it there can take it away.
    LeftAlone,
}

/// The kinds of damage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FindingKind {
    /// Bytes are not those that were written.
    Damaged,
    /// A log is missing.
    MissingLog,
    /// Bytes after the last whole commit, which a crash left: the next opening to write puts them aside.
    TornTail,
    /// A log was changed behind the store's back.
    ForeignChange,
    /// Sequence numbers are not dense.
    SequenceGap,
    /// An entry hangs below one that does not exist.
    MissingParent,
    /// The head is not where the log puts it.
    WrongHead,
    /// A counter or sum does not agree with the log.
    WrongSum,
    /// A run belongs to a thread that does not exist.
    OrphanRun,
    /// A reference leads nowhere.
    DanglingReference,
    /// The index does not agree with the logs.
    StaleIndex,
    /// A file that belongs to nothing.
    OrphanFile,
}

impl FindingKind {
    const fn repairable(self) -> Repairable {
        match self {
            Self::WrongHead | Self::WrongSum | Self::StaleIndex | Self::TornTail => Repairable::CanBeRebuilt,
            Self::OrphanFile => Repairable::LeftAlone,
            _ => Repairable::NeedsBackup,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Finding, FindingKind, Repairable};

    #[test]
    fn a_finding_says_what_a_repair_does_with_it() {
        let repair = |kind| Finding::new(kind, "", "").repair;
        assert_eq!(repair(FindingKind::TornTail), Repairable::CanBeRebuilt);
        assert_eq!(repair(FindingKind::OrphanFile), Repairable::LeftAlone);
        assert_eq!(repair(FindingKind::Damaged), Repairable::NeedsBackup);
    }
}
