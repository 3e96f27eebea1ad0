//! The report of an import.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use serde::{Serialize, Serializer};
use store_core::ThreadId;

use crate::issue::{Code, Issue};

/// What an import did with one session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// The file or folder. In documents what is no UTF-8 of it is shown as `\u{fffd}`.
    #[serde(serialize_with = "as_text")]
    pub file: PathBuf,
    /// The format that was recognised, also one that is refused.
    pub format: Option<&'static str>,
    /// The version of the format, where it names one.
    pub version: Option<String>,
    /// The thread; absent if nothing was imported.
    pub thread: Option<ThreadId>,
    /// Lines of the source.
    pub lines: u64,
    /// Entries that stand for the source in the thread.
    pub entries: u64,
    /// Those of them that this import added; 0 if it was all there.
    pub added: u64,
    /// Bytes of the source, after decompression.
    pub bytes: u64,
    /// Messages among the entries.
    pub messages: u64,
    /// Ends of branches.
    pub leaves: u64,
    /// What was wrong: at most 100 of each code.
    pub issues: Vec<Issue>,
    /// How many issues there are of each code.
    pub issue_counts: BTreeMap<Code, u64>,
}

impl Report {
    /// Whether the source was imported.
    #[must_use]
    pub const fn is_imported(&self) -> bool {
        self.thread.is_some()
    }

    /// How many issues of `code` there are.
    #[must_use]
    pub fn count(&self, code: Code) -> u64 {
        self.issue_counts.get(&code).copied().unwrap_or_default()
    }
}

fn as_text<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&path.display())
}
