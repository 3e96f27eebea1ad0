//! The format of kimi-cli: a folder with the current context, earlier contexts, the wire file (a record of events), and
//! subagents.
//!
//! ```text
//! context_1 … context_N, context   lines of the conversation; `history` joins these files into one tree
//! wire                             times and failures (see `wire_matches`), and a side entry for each record
//! state.json, other files          a side entry for each file
//! subagents/ID/                    a session of its own, which becomes a child thread
//! ```
//!
//! `export` writes threads as such folders, and `place` says where kimi-cli looks for them.

mod context_line;
mod contexts;
mod continuation;
mod drafts;
mod encode;
mod export;
mod first_pass;
mod folder;
mod history;
mod ids;
mod line;
mod message;
mod parts;
mod place;
mod session;
mod state;
#[cfg(test)]
mod tests;
mod wire;
mod wire_matches;

use std::path::{Path, PathBuf};

use async_trait::async_trait;

use self::folder::CONTEXT_FILE_NAME;
use crate::{
    detect::{Sample, SourceKind},
    error::Result,
    export::{ExportFiles, ExportSource, WrittenSession},
    formats::{Format, FormatName, ToolFolders, ToolPlace},
    json::Object,
    options::ImportOptions,
    session::FirstPassResult,
};

const NAME: FormatName = FormatName::new("kimi-cli");

/// The fields of the lines of a context.
const CONTEXT_FIELDS: &[&str] =
    &["role", "content", "id", "token_count", "name", "tool_calls", "tool_call_id", "partial", "metadata"];

/// The format, as the import and the export use it.
pub(crate) struct KimiCliFormat;

#[async_trait]
impl Format for KimiCliFormat {
    fn newest(&self) -> FormatName {
        NAME
    }

    fn names(&self) -> &'static [FormatName] {
        &[NAME]
    }

    fn recognise(&self, sample: &Sample<'_>) -> Option<SourceKind> {
        let is_wire_record = |line: &Object<'_>| {
            line.object("message").is_some_and(|message| message.has("type") && message.has("payload"))
        };
        if sample.lines.iter().any(is_wire_record) {
            return Some(SourceKind::Unsupported("kimi-cli wire", "import the session's folder"));
        }
        let is_context_line = |line: &Object<'_>| {
            line.text("role").is_some() && line.iter().all(|(name, _)| CONTEXT_FIELDS.contains(&name))
        };
        sample.holds_for_most_lines(is_context_line).then_some(SourceKind::Known(NAME))
    }

    fn source_of(&self, path: &Path) -> Result<Option<PathBuf>> {
        if path.is_dir() {
            let has_context = path.join(CONTEXT_FILE_NAME).is_file();
            return Ok((has_context && folder::is_single_session_folder(path)?).then(|| path.to_owned()));
        }
        let is_context = path.file_name().is_some_and(|name| name == CONTEXT_FILE_NAME);
        let Some(folder) = path.parent().filter(|_| is_context && path.exists()) else { return Ok(None) };
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        // If the folder of a context file contains other files of a session, the source is the whole folder.
        Ok(folder::has_other_session_files(folder)?.then(|| folder.to_owned()))
    }

    fn run_first_pass(&self, _name: FormatName, path: &Path, options: &ImportOptions) -> Result<FirstPassResult> {
        first_pass::run_first_pass(path, options)
    }

    async fn export(
        &self,
        _name: FormatName,
        source: &ExportSource<'_>,
        files: &mut ExportFiles<'_>,
    ) -> Result<WrittenSession> {
        export::write(source, files).await
    }

    async fn place(&self, source: &ExportSource<'_>, folders: &ToolFolders) -> Result<Option<ToolPlace>> {
        Ok(Some(place::place(&source.thread.id, folders)))
    }
}
