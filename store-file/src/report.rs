//! What an opening has found and done.

use crate::log::Aside;

/// What an opening has found and done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Opening {
    /// Whether the last holder did not close the root.
    pub unclean: bool,
    /// Whether the index was made anew from the logs.
    pub index_rebuilt: bool,
    /// Logs that were read, to their end or from their beginning.
    pub logs_read: u64,
    /// Bytes after the last whole commit of a log that were set aside (FI-3).
    pub set_aside: Vec<SetAside>,
    /// What is damaged: the store works, and calls that need it are refused (FI-4). A thread whose log is damaged from
    /// its first commit on is in no list: what there is of it is named here, and found by a verification.
    pub damaged: Vec<String>,
    /// Why the journal could not be used, if that was accepted: what it had and the logs have not is lost.
    pub lost_journal: Option<String>,
    /// Why the index that was there was of no use.
    pub(crate) stale_index: Option<&'static str>,
}

/// Bytes after the last whole commit of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SetAside {
    /// The log, below the root.
    pub log: String,
    /// Where they started.
    pub offset: u64,
    /// How many they were.
    pub bytes: u64,
    /// Where they are now, below the root.
    pub path: Option<String>,
    /// Whether they had been acknowledged: damage, not a crash.
    pub acknowledged: bool,
}

impl SetAside {
    pub(crate) fn of(aside: &Aside) -> Self {
        Self {
            log: aside.log.as_str().to_owned(),
            offset: aside.offset,
            bytes: aside.bytes,
            path: aside.path.as_ref().map(|path| path.as_str().to_owned()),
            acknowledged: aside.acknowledged,
        }
    }
}
