//! Temporary folders next to a named store, so that they are on the same medium.

use std::{io, path::Path};

use tempfile::TempDir;

/// Creates a new folder in the folder that contains `path`. Dropping the returned value removes the new folder.
pub(crate) fn sibling_dir(path: &Path, prefix: &str) -> io::Result<TempDir> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    TempDir::with_prefix_in(prefix, parent)
}
