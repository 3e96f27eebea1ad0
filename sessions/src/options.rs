//! The options of imports and exports.

use std::{path::PathBuf, sync::Arc};

use store_core::{IgnoreProgress, Progress};

use crate::formats::FormatName;

/// Which entry becomes the head of an imported thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum HeadChoice {
    /// The entry after which the program that wrote the source would continue.
    #[default]
    Writer,
    /// The first leaf in file order, as Agent Core's own loader chooses it. In a session with several files, it is the
    /// first leaf of the oldest file.
    FirstLeaf,
}

/// What becomes the parent of a line whose parent is not in the file, and of a line in the middle of a file that says
/// that it has no parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ParentChoice {
    /// The line becomes a root. Its context contains none of the earlier lines.
    #[default]
    AsGiven,
    /// The preceding line becomes its parent.
    Nearest,
}

/// How a source is imported.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ImportOptions {
    /// The format. If it is absent, it is recognised by content.
    pub format: Option<FormatName>,
    /// Whether a source with any issue is refused before anything is written.
    pub strict: bool,
    /// Which entry becomes the head.
    pub head: HeadChoice,
    /// What becomes the parent of a line that has no parent in the file. This has no effect on a kimi-cli
    /// session, which names no parents.
    pub parents: ParentChoice,
    /// The length of the longest line that is read, in bytes. A source with a longer line is refused.
    pub max_line: u64,
    /// What happens if a thread was imported from an earlier state of the same session, and the source does not
    /// continue that state. If this is true, the thread is deleted and the session is imported anew. If it is false,
    /// the session is refused.
    pub replace: bool,
    /// The object that is told how many bytes of the sources are imported, and how many bytes the sources have. If it
    /// stops the import, the same call continues the import.
    pub progress: Arc<dyn Progress>,
}

impl Default for ImportOptions {
    fn default() -> Self {
        Self {
            format: None,
            strict: false,
            head: HeadChoice::Writer,
            parents: ParentChoice::AsGiven,
            max_line: 16 << 20,
            replace: false,
            progress: Arc::new(IgnoreProgress),
        }
    }
}

impl ImportOptions {
    /// Sets the format, so that it is not recognised by content.
    #[must_use]
    pub const fn with_format(mut self, format: FormatName) -> Self {
        self.format = Some(format);
        self
    }

    /// Makes the import refuse sources with issues.
    #[must_use]
    pub const fn strict(mut self) -> Self {
        self.strict = true;
        self
    }

    /// Sets which entry becomes the head.
    #[must_use]
    pub const fn with_head(mut self, head: HeadChoice) -> Self {
        self.head = head;
        self
    }

    /// Replaces threads whose sources were rewritten.
    #[must_use]
    pub const fn replacing(mut self) -> Self {
        self.replace = true;
        self
    }

    /// Sets the object that is told about the progress.
    #[must_use]
    pub fn with_progress(mut self, progress: Arc<dyn Progress>) -> Self {
        self.progress = progress;
        self
    }

    /// Sets what becomes the parent of a line that has no parent in the file.
    #[must_use]
    pub const fn with_parents(mut self, parents: ParentChoice) -> Self {
        self.parents = parents;
        self
    }

    /// Sets the length of the longest line that is read, in bytes.
    #[must_use]
    pub const fn with_max_line(mut self, bytes: u64) -> Self {
        self.max_line = bytes;
        self
    }
}

/// How a thread is exported.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExportOptions {
    /// The format.
    pub format: FormatName,
    /// Whether a format that has one branch in a file also gets a file for each of the other branches. This requires
    /// [`ExportTarget::Folder`](crate::ExportTarget::Folder).
    pub all_branches: bool,
    /// The working folder that the session names. If it is absent, it is the `cwd` in the metadata of the thread, or
    /// else `/`.
    pub working_folder: Option<PathBuf>,
}

impl ExportOptions {
    /// The export in this format, with the default of every other option.
    #[must_use]
    pub const fn new(format: FormatName) -> Self {
        Self { format, all_branches: false, working_folder: None }
    }

    /// Also writes the branches that do not lead to the head.
    #[must_use]
    pub const fn with_all_branches(mut self) -> Self {
        self.all_branches = true;
        self
    }

    /// Sets the working folder that the session names.
    #[must_use]
    pub fn with_working_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.working_folder = Some(folder.into());
        self
    }
}
