//! Files that are replaced: they are moved aside first, and come back if their replacement fails.

use std::{
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
};

use crate::failure::{Failure, Result};

/// The end of the name of a replaced file. No tool takes a file with such a name for a session.
const SUFFIX: &str = ".replaced";

/// Files that were moved aside, each with its old and its new name. Unless [`ReplacedFiles::keep`] is called, they are
/// moved back.
#[derive(Debug, Default)]
pub(crate) struct ReplacedFiles(Vec<(PathBuf, PathBuf)>);

impl ReplacedFiles {
    /// Moves files aside.
    pub(crate) fn move_aside(files: Vec<PathBuf>) -> Result<Self> {
        let mut moved = Self::default();
        for file in files {
            let aside = free_name(&file);
            fs::rename(&file, &aside)
                .map_err(|error| Failure::io(format!("`{}` cannot be renamed", file.display()), error))?;
            moved.0.push((file, aside));
        }
        Ok(moved)
    }

    /// Ends the replacement. A file whose replacement has the same bytes is removed; the others stay under their new
    /// names. Returns the old and the new name of each file that stays.
    pub(crate) fn keep(mut self) -> Vec<(PathBuf, PathBuf)> {
        let mut moved = std::mem::take(&mut self.0);
        // If a file cannot be removed, it stays and its names are returned.
        moved.retain(|(file, aside)| !have_same_bytes(file, aside) || fs::remove_file(aside).is_err());
        moved
    }
}

impl Drop for ReplacedFiles {
    fn drop(&mut self) {
        for (file, aside) in self.0.drain(..) {
            // If a new file with the old name exists, it is not overwritten.
            if fs::symlink_metadata(&file).is_err() {
                let _ = fs::rename(&aside, &file);
            }
        }
    }
}

/// Returns the first name beside a file that is not in use.
fn free_name(file: &Path) -> PathBuf {
    let name = |number: u64| {
        let mut name = OsString::from(file);
        name.push(SUFFIX);
        if number > 1 {
            name.push(format!("-{number}"));
        }
        PathBuf::from(name)
    };
    (1..).map(name).find(|name| fs::symlink_metadata(name).is_err()).unwrap_or_else(|| name(0))
}

/// Returns whether both files can be read and have the same bytes.
pub(crate) fn have_same_bytes(first: &Path, second: &Path) -> bool {
    let compare = || -> io::Result<bool> {
        let is_same_length = fs::metadata(first)?.len() == fs::metadata(second)?.len();
        Ok(is_same_length && fs::read(first)? == fs::read(second)?)
    };
    compare().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::ReplacedFiles;

    #[test]
    fn a_replaced_file_is_kept_and_comes_back_if_nothing_replaces_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("session.jsonl");
        let text = |name: &str| fs::read_to_string(folder.path().join(name)).ok();
        fs::write(&file, "one").unwrap();
        drop(ReplacedFiles::move_aside(vec![file.clone()]).unwrap());
        assert_eq!((text("session.jsonl").as_deref(), text("session.jsonl.replaced")), (Some("one"), None));
        for (written, kept) in [("two", 1), ("two", 0), ("three", 1)] {
            let replaced = ReplacedFiles::move_aside(vec![file.clone()]).unwrap();
            fs::write(&file, written).unwrap();
            assert_eq!(replaced.keep().len(), kept, "{written}");
        }
        let kept = ["session.jsonl", "session.jsonl.replaced", "session.jsonl.replaced-2"].map(text);
        assert_eq!(kept.map(Option::unwrap), ["three", "one", "two"]);
    }
}
