//! A temporary folder for an index of a reader.

use std::{
    fs::{self, File},
    io,
    path::Path,
};

use tempfile::TempDir;

const PREFIX: &str = "agentstore-index-";
/// A file that the process with the folder has locked.
const LOCK: &str = "lock";

/// A folder that is removed with this value. That of a process that was killed is removed by the next reader.
#[derive(Debug)]
pub(super) struct TemporaryFolder {
    folder: TempDir,
    _lock: File,
}

impl TemporaryFolder {
    pub(super) fn new() -> io::Result<Self> {
        let place = std::env::temp_dir();
        remove_abandoned(&place);
        let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(place)?;
        // It gets its name once it is locked: a folder without it is not looked at.
        let unnamed = folder.path().join("new");
        let lock = File::create(&unnamed)?;
        lock.lock()?;
        fs::rename(unnamed, folder.path().join(LOCK))?;
        Ok(Self { folder, _lock: lock })
    }

    /// The folder for the files of the index.
    pub(super) fn index(&self) -> std::path::PathBuf {
        self.folder.path().join("index")
    }
}

/// Removes the folders of processes that are gone. What cannot be removed stays.
fn remove_abandoned(place: &Path) {
    let Ok(entries) = fs::read_dir(place) else { return };
    for entry in entries.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX)) {
        let Ok(lock) = File::open(entry.path().join(LOCK)) else { continue };
        if lock.try_lock().is_ok() {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{TemporaryFolder, remove_abandoned};

    #[test]
    fn the_folder_of_a_killed_process_is_removed_and_that_of_another_one_stays() {
        let place = tempfile::tempdir().unwrap();
        let abandoned = place.path().join("agentstore-index-1");
        std::fs::create_dir_all(abandoned.join("index")).unwrap();
        remove_abandoned(place.path());
        assert!(abandoned.exists(), "it may be being made");
        std::fs::write(abandoned.join("lock"), []).unwrap();
        let in_use = std::fs::File::open(abandoned.join("lock")).unwrap();
        in_use.lock().unwrap();
        remove_abandoned(place.path());
        assert!(abandoned.exists(), "somebody has it");
        drop(in_use);
        remove_abandoned(place.path());
        assert!(!abandoned.exists());
        let folder = TemporaryFolder::new().unwrap();
        let path = folder.folder.path().to_owned();
        remove_abandoned(&std::env::temp_dir());
        assert!(path.exists());
        drop(folder);
        assert!(!path.exists());
    }
}
