//! Logs that are damaged from a place on, or from their first line, as the opening found them.

use std::collections::{HashMap, HashSet};

use store_core::{Detail, TenantId, ThreadId};

use crate::{names::ThreadKey, vfs::FilePath};

/// Why threads cannot be read, as the opening found it: their logs are damaged, or of a later release.
#[derive(Debug, Default)]
pub(crate) struct Damage {
    /// Of threads whose name is known.
    pub(crate) threads: HashMap<ThreadKey, Detail>,
    /// Logs of deleted threads that could not be read to their end: a purge leaves them, as events may be in them.
    pub(crate) unread: HashSet<(TenantId, ThreadId, u64)>,
    /// Logs without a header, by their paths without generation: the generation, and the file and the offset of the
    /// damage.
    pub(crate) headless: HashMap<String, (u64, String)>,
}

/// The path of a log without its generation, and the generation.
pub(crate) fn without_generation(path: &FilePath) -> Option<(&str, u64)> {
    let (name, generation) = path.as_str().strip_suffix(".jsonl")?.rsplit_once('.')?;
    Some((name, generation.parse().ok()?))
}
