//! Writes threads. A session that has not changed since its import is written as the bytes that were imported. Any
//! other thread is written as lines from which Claude Code can continue.

mod blocks;
mod calls;
mod envelope;
mod imported_lines;
mod messages;
mod subagents;
mod thread;

pub(crate) use self::imported_lines::is_summary_line;
use self::{
    subagents::{ChangeSinceImport, SubagentThread, subagent_threads},
    thread::ThreadWriter,
};
use super::{SIDECHAIN_PREFIX, line_format::ClaudeCode};
use crate::{
    error::Result,
    export::{ExportFiles, ExportSource, WrittenSession, losses_of_child, uuid_of, write_unchanged},
    provenance::Provenance,
};

/// Writes a thread, and in a folder also the threads of its subagents. Returns what was lost.
pub(super) async fn write(source: &ExportSource<'_>, files: &mut ExportFiles<'_>) -> Result<WrittenSession> {
    let session = uuid_of(source.thread.id.as_str());
    let mut subagents = subagent_threads(source).await?;
    if !files.is_folder() {
        // A stream has the main file only.
        subagents.retain(|subagent| matches!(subagent.change, ChangeSinceImport::UnchangedInMainFile));
    }
    let replaced_agents: Vec<_> =
        subagents.iter().filter_map(|subagent| subagent.replaced_sidechain().map(str::to_owned)).collect();
    let name = format!("{session}.jsonl");
    let mut unchanged = None;
    if replaced_agents.is_empty() && !is_sidechain(source.unchanged_provenance().await?.as_ref()) {
        unchanged = write_unchanged(source, ClaudeCode::for_imported_lines(), (&name, &mut *files)).await?;
    }
    let mut written = match unchanged {
        Some(written) => written,
        None => {
            files.start(&name)?;
            let writer = ThreadWriter::new(source, files, &session, None).without_sidechains(replaced_agents);
            WrittenSession::with_losses(writer.write().await?)
        }
    };
    for subagent in subagents {
        let written_subagent = write_subagent(source, &subagent, (&session, &mut *files)).await?;
        written.exact &= written_subagent.exact;
        written.losses.extend(losses_of_child(&subagent.thread.id, written_subagent.losses));
        written.children.push(subagent.thread.id);
    }
    Ok(written)
}

/// Writes the file of a subagent, if it has one.
async fn write_subagent(
    source: &ExportSource<'_>,
    subagent: &SubagentThread,
    (session, files): (&str, &mut ExportFiles<'_>),
) -> Result<WrittenSession> {
    let source = ExportSource { thread: &subagent.thread, ..*source };
    if let ChangeSinceImport::UnchangedInMainFile = subagent.change {
        return Ok(WrittenSession::exact());
    }
    if let ChangeSinceImport::UnchangedFile(name) = &subagent.change {
        let name = if name.contains('/') { format!("{session}/{name}") } else { name.clone() };
        // If the thread has changed since it was looked at, it is written as a changed one.
        if let Some(written) = write_unchanged(&source, ClaudeCode::for_imported_lines(), (&name, &mut *files)).await? {
            return Ok(written);
        }
    }
    files.start(&format!("{session}/subagents/agent-{}.jsonl", subagent.file_name()))?;
    let writer = ThreadWriter::new(&source, files, session, Some(&subagent.agent));
    Ok(WrittenSession::with_losses(writer.write().await?))
}

/// Whether a thread was imported from a sidechain: the lines of a subagent in the main file of a session.
fn is_sidechain(provenance: Option<&Provenance>) -> bool {
    let name = provenance.and_then(Provenance::first_file).and_then(|file| file.name.as_deref());
    name.is_some_and(|name| name.starts_with(SIDECHAIN_PREFIX))
}
