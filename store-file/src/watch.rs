//! Notices that the holder of a root, in another process, has written.

use std::{
    path::Path,
    sync::{Arc, Condvar, Mutex, OnceLock, PoisonError},
    time::Duration,
};

use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};

use crate::{journal::PUBLISHED, mutex::guard};

/// Waits for the file that a holder writes after the logs of each batch.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    changes: Arc<Changes>,
    /// Made when it is first needed. None if the operating system cannot watch the root.
    watcher: OnceLock<Option<RecommendedWatcher>>,
}

#[derive(Debug, Default)]
struct Changes {
    count: Mutex<u64>,
    more: Condvar,
}

impl Watch {
    /// How often the file has changed since a watch of this root began, which it does now if it has not yet.
    pub(crate) fn changes(&self, root: Option<&Path>) -> u64 {
        self.watcher.get_or_init(|| root.and_then(|root| watcher(root, Arc::clone(&self.changes)).ok()));
        *guard(&self.changes.count)
    }

    /// Waits until the file has changed more often than `seen` times, at most for so long: not every file system
    /// reports changes. Returns how often the file has changed.
    pub(crate) fn wait(&self, seen: u64, at_most: Duration) -> u64 {
        let count = guard(&self.changes.count);
        let waited = self.changes.more.wait_timeout_while(count, at_most, |count| *count <= seen);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

fn watcher(root: &Path, changes: Arc<Changes>) -> notify::Result<RecommendedWatcher> {
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        // After an error it is not known what changed.
        let is_change = event.map_or(true, |event| {
            let is_published = |path: &std::path::PathBuf| path.file_name().is_some_and(|name| name == PUBLISHED);
            !event.kind.is_access() && (event.need_rescan() || event.paths.iter().any(is_published))
        });
        if is_change {
            *guard(&changes.count) += 1;
            changes.more.notify_all();
        }
    })?;
    watcher.watch(root, RecursiveMode::NonRecursive)?;
    Ok(watcher)
}

#[cfg(test)]
mod tests {
    use std::{fs, time::Duration};

    use super::Watch;

    #[test]
    fn a_change_of_the_file_is_told_and_one_of_another_file_is_not() {
        let root = tempfile::tempdir().unwrap();
        let watch = Watch::default();
        let before = watch.changes(Some(root.path()));
        fs::write(root.path().join("journal.0"), "x").unwrap();
        assert_eq!(watch.wait(before, Duration::from_millis(100)), before);
        fs::write(root.path().join("journal.last"), "x").unwrap();
        assert!(watch.wait(before, Duration::from_secs(60)) > before);
    }
}
