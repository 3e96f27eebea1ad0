//! The export. A thread that has not changed since its import is written as the bytes that were imported. Any other
//! thread is written as the tool of the format would write it, and what the format cannot represent is listed.

mod files;
mod ids;
mod loss;
mod multi_entry_messages;
mod source;
mod thread_losses;
mod unchanged_thread;

use std::path::PathBuf;

use serde::{Serialize, Serializer};
use store_core::{ThreadId, ThreadRunStore};

pub(crate) use self::{
    files::ExportFiles,
    ids::{file_name_part, shell_word, uuid_of},
    loss::{LossDescription, Losses, MERGED, NO_FIELD, loss_of_foreign_line, losses_of_child},
    multi_entry_messages::MultiEntryMessages,
    source::ExportSource,
    thread_losses::{json_pointer, note_metadata, note_parent},
    unchanged_thread::{FileRestorer, line_of, write_unchanged},
};
pub use self::{
    files::ExportTarget,
    loss::{Loss, LossesOfKind},
};
use crate::{
    error::{Error, Result},
    formats::{ToolFolders, ToolPlace},
    options::ExportOptions,
};

/// What an export did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Exported {
    /// The thread.
    pub thread: ThreadId,
    /// The format.
    pub format: &'static str,
    /// The files that were written, if the target is a folder. In the serialized form, the parts of a path that are not
    /// UTF-8 are replaced by `\u{fffd}`.
    #[serde(serialize_with = "as_texts")]
    pub files: Vec<PathBuf>,
    /// Lines that were written.
    pub lines: u64,
    /// Bytes that were written.
    pub bytes: u64,
    /// Whether the written bytes are those that the thread was imported from.
    pub exact: bool,
    /// What the format could not represent.
    pub losses: Vec<Loss>,
}

impl Exported {
    /// The losses by their kinds, in the order of the names of the kinds. With these, a report for the user stays
    /// short, although a message can have several losses of one kind, and every message of a thread can have the same
    /// losses.
    #[must_use]
    pub fn losses_by_kind(&self) -> Vec<LossesOfKind<'_>> {
        loss::by_kind(&self.losses)
    }
}

fn as_texts<S: Serializer>(paths: &[PathBuf], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(paths.iter().map(|path| path.display().to_string()))
}

/// What a format wrote.
#[derive(Debug, Default)]
pub(crate) struct WrittenSession {
    /// Whether the bytes are those that the thread was imported from.
    pub(crate) exact: bool,
    /// The agent that an import gives to the runs in the written files. It is `None` if the files contain no runs.
    pub(crate) agent_of_imported_runs: Option<&'static str>,
    pub(crate) losses: Vec<Loss>,
    /// The child threads that the session contains.
    pub(crate) children: Vec<ThreadId>,
}

impl WrittenSession {
    /// The bytes that the thread was imported from.
    pub(crate) const fn exact() -> Self {
        Self { exact: true, agent_of_imported_runs: None, losses: Vec::new(), children: Vec::new() }
    }

    /// A new session, with these losses.
    pub(crate) const fn with_losses(losses: Vec<Loss>) -> Self {
        Self { exact: false, agent_of_imported_runs: None, losses, children: Vec::new() }
    }
}

/// Writes a thread as a session of another tool.
///
/// A thread that was imported from this format and has not changed since then is written as the bytes that were
/// imported. Any other thread is written so that the tool can continue it, and the result lists what was lost.
///
/// # Errors
/// [`Error::NotExportable`] if the session has several files and the target is a stream; [`Error::Store`] if the thread
/// does not exist or the store fails; [`Error::Io`] if the target cannot be written. After an error, no file of the
/// export remains in a folder.
pub async fn export(
    threads: &dyn ThreadRunStore,
    thread: &ThreadId,
    options: &ExportOptions,
    target: ExportTarget<'_>,
) -> Result<Exported> {
    let Some(record) = threads.load_thread(thread).await? else {
        return Err(store_core::Error::not_found("thread", thread).into());
    };
    let source = ExportSource { threads, thread: &record, options };
    let name = options.format;
    let mut files = ExportFiles::new(target, name, thread.as_str().to_owned());
    let written = match name.format() {
        Some(format) => format.export(name, &source, &mut files).await,
        // No such name exists: every `FormatName` is the name of a format in the list of formats.
        None => Ok(WrittenSession::default()),
    };
    let mut written = written?;
    thread_losses::note_thread(&source, &mut written).await?;
    let WrittenSession { exact, losses, .. } = written;
    files.finish()?;
    Ok(Exported {
        thread: thread.clone(),
        format: name.name(),
        lines: files.lines,
        bytes: files.bytes,
        files: files.keep(),
        exact,
        losses,
    })
}

/// Where the tool of a format looks for the sessions of a working folder, and the command that continues this thread
/// there. To continue the thread, give [`ToolPlace::folder`] to [`export`]
/// as the target.
///
/// # Errors
/// [`Error::NotExportable`] if no tool reads the format; [`Error::Store`] if the thread does not exist or the store
/// fails.
pub async fn tool_place(
    threads: &dyn ThreadRunStore,
    thread: &ThreadId,
    options: &ExportOptions,
    folders: &ToolFolders,
) -> Result<ToolPlace> {
    let Some(record) = threads.load_thread(thread).await? else {
        return Err(store_core::Error::not_found("thread", thread).into());
    };
    let source = ExportSource { threads, thread: &record, options };
    let place = match options.format.format() {
        Some(format) => format.place(&source, folders).await?,
        None => None,
    };
    place.ok_or_else(|| Error::NotExportable {
        thread: thread.as_str().to_owned(),
        format: options.format.name(),
        reason: "no tool continues its sessions; write a file instead",
    })
}
