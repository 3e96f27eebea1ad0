//! Writes threads. A session that has not changed since its import is written as the bytes that were imported. Any
//! other thread is written as lines from which Claude Code can continue.

mod blocks;
mod calls;
mod children;
mod envelope;
mod imported_lines;
mod messages;
mod thread;

pub(crate) use self::imported_lines::is_summary_line;
use self::{
    children::{Child, ChildState, children},
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
    let mut children = children(source).await?;
    if !files.is_folder() {
        // A stream has the main file only.
        children.retain(|child| matches!(child.state, ChildState::InMainFile));
    }
    let replaced_agents: Vec<_> =
        children.iter().filter_map(|child| child.replaced_sidechain().map(str::to_owned)).collect();
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
    for child in children {
        let written_child = write_child(source, &child, (&session, &mut *files)).await?;
        written.exact &= written_child.exact;
        written.losses.extend(losses_of_child(&child.thread.id, written_child.losses));
        written.children.push(child.thread.id);
    }
    Ok(written)
}

/// Writes the file of a subagent, if it has one.
async fn write_child(
    source: &ExportSource<'_>,
    child: &Child,
    (session, files): (&str, &mut ExportFiles<'_>),
) -> Result<WrittenSession> {
    let source = ExportSource { thread: &child.thread, ..*source };
    if let ChildState::InMainFile = child.state {
        return Ok(WrittenSession::exact());
    }
    if let ChildState::Unchanged(name) = &child.state {
        let name = if name.contains('/') { format!("{session}/{name}") } else { name.clone() };
        let written = write_unchanged(&source, ClaudeCode::for_imported_lines(), (&name, &mut *files)).await?;
        return Ok(written.unwrap_or_default());
    }
    files.start(&format!("{session}/subagents/agent-{}.jsonl", child.file_name()))?;
    let writer = ThreadWriter::new(&source, files, session, Some(&child.agent));
    Ok(WrittenSession::with_losses(writer.write().await?))
}

/// Whether the lines of a thread are only some of the lines of their file.
fn is_sidechain(provenance: Option<&Provenance>) -> bool {
    let name = provenance.and_then(Provenance::first_file).and_then(|file| file.name.as_deref());
    name.is_some_and(|name| name.starts_with(SIDECHAIN_PREFIX))
}
