//! The results of an inspection.

use serde::Serialize;

use super::BlobCheckResult;
use crate::id::{TenantId, ThreadId};

/// What an inspection read and found.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct Inspection {
    /// The number of tenants read.
    pub tenants: u64,
    /// The number of threads read.
    pub threads: u64,
    /// The number of entries read.
    pub entries: u64,
    /// The number of runs read.
    pub runs: u64,
    /// The number of documents read.
    pub documents: u64,
    /// The number of objects read: the bytes of blobs.
    pub objects: u64,
    /// The damage, in the order in which it was found.
    pub findings: Vec<Finding>,
    /// What is not damage: derived data that the store rebuilds by itself, and what interrupted calls have left.
    pub notes: Vec<Note>,
    /// Whether the inspection was stopped before its end.
    pub stopped: bool,
}

impl Inspection {
    /// Adds what a check of the bytes of blobs read and found.
    pub fn add_blobs(&mut self, checked: BlobCheckResult) {
        self.objects += checked.objects;
        self.findings.extend(checked.findings);
        self.notes.extend(checked.notes);
        self.stopped |= checked.stopped;
    }

    /// Adds what the inspection of another part of a composition read and found. A tenant that both parts have counts
    /// once.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.tenants = self.tenants.max(other.tenants);
        self.threads += other.threads;
        self.entries += other.entries;
        self.runs += other.runs;
        self.documents += other.documents;
        self.objects += other.objects;
        self.findings.extend(other.findings);
        self.notes.extend(other.notes);
        self.stopped |= other.stopped;
        self
    }
}

/// What is not damage: derived data that the store rebuilds by itself when it is opened for writing, or what an
/// interrupted call has left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Note {
    /// Where it is.
    pub place: String,
    /// What it is, and when it is rebuilt or removed.
    pub detail: String,
}

impl Note {
    /// Makes a note about `place`.
    #[must_use]
    pub fn new(place: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { place: place.into(), detail: detail.into() }
    }
}

/// One case of damage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Finding {
    /// The kind of damage.
    pub kind: FindingKind,
    /// The tenant, if the finding is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<TenantId>,
    /// The thread, if the finding is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread: Option<ThreadId>,
    /// Where the damage is: a file and an offset, an entry, a run.
    pub place: String,
    /// What was found, and what should be there.
    pub detail: String,
    /// Whether a repair of the store can undo the damage, has undone it, or cannot.
    pub repair: RepairStatus,
}

impl Finding {
    /// Makes a finding at `place`.
    #[must_use]
    pub fn new(kind: FindingKind, place: impl Into<String>, detail: impl Into<String>) -> Self {
        let repair = kind.initial_repair_status();
        Self { kind, tenant: None, thread: None, place: place.into(), detail: detail.into(), repair }
    }

    /// Sets the tenant that the finding is about.
    #[must_use]
    pub fn of_tenant(mut self, tenant: &TenantId) -> Self {
        self.tenant = Some(tenant.clone());
        self
    }

    /// Sets the tenant and the thread that the finding is about.
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
pub enum RepairStatus {
    /// A repair rebuilds the record from sound records.
    CanBeRebuilt,
    /// A repair rebuilt the record.
    Rebuilt,
    /// Accepted data is damaged or missing. A repair does not change it: restore it from a backup.
    NeedsBackup,
    /// The file that was found does not belong to the store. A repair does not change it: the person who put it there
    /// can remove it.
    LeftAlone,
}

/// The kinds of damage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FindingKind {
    /// Stored bytes are not the bytes that were written.
    Damaged,
    /// A log is missing.
    MissingLog,
    /// Bytes after the last complete commit, left by a crash. The next opening for writing moves them aside.
    TornTail,
    /// Something other than the store changed a log.
    ForeignChange,
    /// Sequence numbers have a gap.
    SequenceGap,
    /// The parent of an entry does not exist.
    MissingParent,
    /// The stored head differs from the head that follows from the log.
    WrongHead,
    /// A count, a sum or a time that is derived from the log does not agree with it.
    WrongSum,
    /// A run belongs to a thread that does not exist.
    OrphanRun,
    /// A document belongs to a thread that does not exist.
    OrphanDocument,
    /// A reference names something that does not exist.
    DanglingReference,
    /// The index does not agree with the logs.
    StaleIndex,
    /// A file belongs to nothing in the store.
    OrphanFile,
}

impl FindingKind {
    const fn initial_repair_status(self) -> RepairStatus {
        match self {
            Self::WrongHead | Self::WrongSum | Self::StaleIndex | Self::TornTail => RepairStatus::CanBeRebuilt,
            Self::OrphanFile => RepairStatus::LeftAlone,
            _ => RepairStatus::NeedsBackup,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Finding, FindingKind, RepairStatus};

    #[test]
    fn a_new_finding_has_the_repair_status_of_its_kind() {
        let repair = |kind| Finding::new(kind, "", "").repair;
        assert_eq!(repair(FindingKind::TornTail), RepairStatus::CanBeRebuilt);
        assert_eq!(repair(FindingKind::OrphanFile), RepairStatus::LeftAlone);
        assert_eq!(repair(FindingKind::Damaged), RepairStatus::NeedsBackup);
    }
}
