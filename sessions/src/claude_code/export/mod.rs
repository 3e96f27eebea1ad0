//! Writes threads: a session that has not changed since its import as the bytes that were imported, and any other
//! thread as lines that Claude Code continues.

mod blocks;
mod calls;
mod children;
mod envelope;
mod messages;
mod own_lines;
mod thread;

use self::{
    children::{ChildState, children},
    thread::ThreadWriter,
};
use super::{SIDECHAIN_PREFIX, line_format::ClaudeCode};
use crate::{
    error::Result,
    export::{ExportFiles, ExportSource, Written, uuid_of, write_unchanged},
    provenance::Provenance,
};

/// Writes a thread, and in a folder also the threads of its subagents. Returns what was lost.
pub(super) async fn write(source: &ExportSource<'_>, files: &mut ExportFiles<'_>) -> Result<Written> {
    let session = uuid_of(source.thread.id.as_str());
    let children = if files.is_folder() { children(source).await? } else { Vec::new() };
    let replaced: Vec<_> = children.iter().filter_map(|child| child.replaced_sidechain().map(str::to_owned)).collect();
    let name = format!("{session}.jsonl");
    let (mut exact, mut losses) = (false, Vec::new());
    if replaced.is_empty() && !is_sidechain(source.unchanged_provenance().await?.as_ref()) {
        let format = ClaudeCode::without_facts();
        exact = write_unchanged(source, &format, (&name, &mut *files)).await?.is_some();
    }
    if !exact {
        files.start(&name)?;
        losses = ThreadWriter::new(source, files, &session, None).without_sidechains(replaced).write().await?;
    }
    for child in &children {
        let child_source = ExportSource { thread: &child.thread, ..*source };
        match &child.state {
            ChildState::InMainFile => {}
            ChildState::Unchanged(name) => {
                let name = if name.contains('/') { format!("{session}/{name}") } else { name.clone() };
                let format = ClaudeCode::without_facts();
                exact &= write_unchanged(&child_source, &format, (&name, &mut *files)).await?.is_some();
            }
            ChildState::Changed { .. } => {
                exact = false;
                files.start(&format!("{session}/subagents/agent-{}.jsonl", child.file_name()))?;
                let writer = ThreadWriter::new(&child_source, files, &session, Some(&child.agent));
                losses.extend(writer.write().await?);
            }
        }
    }
    Ok(if exact { Written::exact() } else { Written::with_losses(losses) })
}

/// Whether the lines of a thread are only some of the lines of their file.
fn is_sidechain(provenance: Option<&Provenance>) -> bool {
    let name = provenance.and_then(Provenance::first_file).and_then(|file| file.name.as_deref());
    name.is_some_and(|name| name.starts_with(SIDECHAIN_PREFIX))
}
