//! The report of an import.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use serde::{Serialize, Serializer};
use store_core::ThreadId;

use crate::issue::{Issue, IssueCode};

/// What an import did with one session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ImportReport {
    /// The file or folder. In the serialized report, the parts of the path that are not UTF-8 are replaced by
    /// `\u{fffd}`.
    #[serde(serialize_with = "as_text")]
    pub file: PathBuf,
    /// The format that was recognised, even if it is refused.
    pub format: Option<&'static str>,
    /// The version of the format, if the source names one.
    pub version: Option<String>,
    /// The thread. It is absent if nothing was imported.
    pub thread: Option<ThreadId>,
    /// The number of lines of the source.
    pub lines: u64,
    /// The number of entries that represent the source in the thread.
    pub entries: u64,
    /// How many of these entries this import added. It is 0 if all of them existed.
    pub added: u64,
    /// The number of bytes of the source, after decompression.
    pub bytes: u64,
    /// The number of messages among the entries.
    pub messages: u64,
    /// The number of leaves among the entries.
    pub leaves: u64,
    /// What was wrong, with at most 100 issues of each code.
    pub issues: Vec<Issue>,
    /// How many issues there are of each code.
    pub issue_counts: BTreeMap<IssueCode, u64>,
    /// Whether the import of the given path also imported a session from another source.
    #[serde(skip)]
    pub(crate) is_beside_session: bool,
}

impl ImportReport {
    /// Whether the source was imported.
    #[must_use]
    pub const fn is_imported(&self) -> bool {
        self.thread.is_some()
    }

    /// Whether the import failed for this source. A source without a conversation that was found beside a session is
    /// not a failure, because tools leave such files in their folders.
    #[must_use]
    pub fn is_failure(&self) -> bool {
        let is_left_over = self.is_beside_session && self.has_no_conversation();
        !(self.is_imported() || is_left_over)
    }

    /// Whether the source was refused only because it contains no conversation: it is empty, or none of its lines is a
    /// message.
    #[must_use]
    pub fn has_no_conversation(&self) -> bool {
        !self.is_imported() && (self.count(IssueCode::NoMessage) > 0 || self.count(IssueCode::EmptyFile) > 0)
    }

    /// How many issues of `code` there are.
    #[must_use]
    pub fn count(&self, code: IssueCode) -> u64 {
        self.issue_counts.get(&code).copied().unwrap_or_default()
    }
}

fn as_text<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&path.display())
}
