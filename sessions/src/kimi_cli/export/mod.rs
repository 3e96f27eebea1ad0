//! Writes threads as sessions of kimi-cli.
//!
//! - `restore`: a thread that has not changed since its import, as the files that were imported
//! - `rebuild`: any other thread, as files that kimi-cli can continue
//! - `log`, `plan`: the entries of the thread, and the contexts that become files
//! - `context_file`, `file_lines`, `wire_file`, `state_file`: the files of a session
//! - `adapt`, `losses`: what a message becomes, and what is lost

mod adapt;
mod context_file;
mod file_lines;
mod log;
mod losses;
mod plan;
mod rebuild;
mod restore;
mod state_file;
mod wire_file;

use std::collections::BTreeSet;

use store_core::{Entry, Thread};

use super::{NAME, first_pass::SUBAGENT_FOLDER};
use crate::{
    error::Result,
    export::{ExportFiles, ExportSource, Losses, WrittenSession, losses_of_child},
    json::parse_json_string,
    provenance::{Provenance, StoredAs},
};

/// Writes a thread and the threads of its subagents.
pub(super) async fn write(source: &ExportSource<'_>, out: &mut ExportFiles<'_>) -> Result<WrittenSession> {
    let (mut written, provenance) = write_session(source, &mut SessionFiles::new(out, None)).await?;
    if !out.is_folder() {
        return Ok(written);
    }
    let mut expected_subfolders = subfolders_of(provenance.as_ref(), "");
    let mut written_subfolders = BTreeSet::new();
    for child in source.children().await? {
        let Some(thread) = source.threads.load_thread(&child).await? else { continue };
        let Some(subfolder) = subagent_folder(&thread) else { continue };
        // Another thread may have the same folder. This thread is then not written, and the caller lists it as a loss.
        if !written_subfolders.insert(subfolder.clone()) {
            continue;
        }
        let child = ExportSource { threads: source.threads, thread: &thread, options: source.options };
        let (written_child, provenance) = write_session(&child, &mut SessionFiles::new(out, Some(&subfolder))).await?;
        written.exact &= written_child.exact;
        written.losses.extend(losses_of_child(&thread.id, written_child.losses));
        written.children.push(thread.id.clone());
        expected_subfolders.extend(subfolders_of(provenance.as_ref(), &format!("{subfolder}/")));
    }
    for _subfolder in expected_subfolders.difference(&written_subfolders) {
        written.exact = false;
        let loss = ("subagent", "its thread is not a child of this thread", "dropped");
        Losses::of_thread(&mut written.losses).add("", loss);
    }
    Ok(written)
}

/// The folders of the subagents of a session, as paths relative to the folder of the exported session.
fn subfolders_of(provenance: Option<&Provenance>, prefix: &str) -> BTreeSet<String> {
    let files = provenance.into_iter().flat_map(|provenance| &provenance.files);
    let names = files.filter(|file| file.stored == StoredAs::Thread).filter_map(|file| file.name.as_ref());
    names.map(|name| format!("{prefix}{name}")).collect()
}

/// Writes a thread without its subagents. Also returns the provenance of the thread.
async fn write_session(
    source: &ExportSource<'_>,
    files: &mut SessionFiles<'_, '_>,
) -> Result<(WrittenSession, Option<Provenance>)> {
    match source.unchanged_provenance().await?.filter(Provenance::is_complete) {
        Some(provenance) => Ok((restore::write(source, &provenance, files).await?, Some(provenance))),
        None => {
            files.out.require_folder("its session has several files: export it to a folder")?;
            rebuild::write(source, files).await
        }
    }
}

/// The folder of the thread of a subagent, from the metadata that the import has written.
fn subagent_folder(thread: &Thread) -> Option<String> {
    let folder = parse_json_string(thread.metadata.get(SUBAGENT_FOLDER)?.as_str())?;
    folder.starts_with("subagents/").then_some(folder)
}

/// The files of one session that is being written.
struct SessionFiles<'a, 'b> {
    out: &'a mut ExportFiles<'b>,
    /// Empty, or the folder of a subagent with a slash at its end.
    prefix: String,
}

impl<'a, 'b> SessionFiles<'a, 'b> {
    fn new(out: &'a mut ExportFiles<'b>, subfolder: Option<&str>) -> Self {
        let prefix = subfolder.map_or_else(String::new, |subfolder| format!("{subfolder}/"));
        Self { out, prefix }
    }

    /// Starts the file with this name.
    fn start(&mut self, name: &str) -> Result<()> {
        self.out.start(&format!("{}{name}", self.prefix))
    }
}

/// Whether an entry was imported from this format.
fn is_of_kimi_cli(entry: &Entry) -> bool {
    entry.origin.as_ref().is_some_and(|origin| origin.format == NAME.name())
}
