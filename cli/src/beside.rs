//! Folders for what is tried out: on the medium of the store that was named, and gone afterwards.

use std::{io, path::Path};

use tempfile::TempDir;

/// A new folder in the one that holds `path`.
pub(crate) fn beside(path: &Path, prefix: &str) -> io::Result<TempDir> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    TempDir::with_prefix_in(prefix, parent)
}
