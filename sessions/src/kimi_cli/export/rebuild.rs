//! Writes any thread as a session that kimi-cli can continue.

use std::collections::BTreeMap;

use super::{
    SessionFiles,
    context_file::ContextsWriter,
    is_of_kimi_cli,
    log::ThreadLog,
    losses, plan,
    restore::{bytes_in_entry, is_line_of, note_left_out_files, whole_file},
    state_file,
    wire_file::METADATA_LINE,
};
use crate::{
    error::Result,
    export::{ExportSource, Loss, Losses, WrittenSession},
    kimi_cli::{
        folder::{CONTEXT_FILE_NAME, STATE_FILE_NAME, WIRE_FILE_NAME, is_context},
        ids::WIRE_PREFIX,
    },
    provenance::{FileProvenance, Provenance, StoredAs},
};

/// Writes the session. Also returns the newest provenance, if the thread was imported from kimi-cli.
pub(super) async fn write(
    source: &ExportSource<'_>,
    files: &mut SessionFiles<'_, '_>,
) -> Result<(WrittenSession, Option<Provenance>)> {
    let log = ThreadLog::load(source).await?;
    let head = source.thread.head.as_ref();
    let targets = plan::context_entries(&log, &source.leaves().await?, head);
    let mut contexts = ContextsWriter::new(source, &log);
    let earlier_files = targets.len().saturating_sub(usize::from(head.is_some()));
    for (at, target) in targets.iter().enumerate() {
        let name = if at < earlier_files { format!("context_{}.jsonl", at + 1) } else { CONTEXT_FILE_NAME.to_owned() };
        files.start(&name)?;
        for line in contexts.lines_at(target).await? {
            files.out.write_line(line, b"\n")?;
        }
    }
    if head.is_none() {
        files.start(CONTEXT_FILE_NAME)?;
    }
    let ContextsWriter { mut losses, written, wire, .. } = contexts;
    write_wire(source, &wire.lines, (&mut *files, &mut losses)).await?;
    write_whole_files(source, log.provenance.as_ref(), files).await?;
    let mut pages = source.entries();
    while let Some(page) = pages.next().await? {
        page.iter().for_each(|entry| losses::note_entry(entry, &written, &mut losses));
    }
    losses::note_thread(source.thread, &mut losses);
    if let Some(provenance) = &log.provenance {
        note_left_out_files(provenance, &mut losses);
    }
    Ok((WrittenSession::with_losses(losses), log.provenance))
}

/// Writes the wire file: the records that were imported, and then those of the other messages.
async fn write_wire(
    source: &ExportSource<'_>,
    made_records: &[String],
    (files, losses): (&mut SessionFiles<'_, '_>, &mut Vec<Loss>),
) -> Result<()> {
    let mut imported = BTreeMap::new();
    let mut pages = source.entries();
    while let Some(page) = pages.next().await? {
        for entry in page.iter().filter(|entry| is_of_kimi_cli(entry) && is_line_of(entry, WIRE_PREFIX)) {
            // An incomplete line may have become another line later. The later entry counts.
            let line = entry.origin.as_ref().map_or(0, |origin| origin.line);
            imported.insert(line, bytes_in_entry(entry).map(|bytes| (entry.id.clone(), bytes)));
        }
    }
    files.start(WIRE_FILE_NAME)?;
    if imported.is_empty() {
        files.out.write_line(METADATA_LINE.as_bytes(), b"\n")?;
    }
    for (id, bytes) in imported.into_values().flatten() {
        if std::str::from_utf8(&bytes).is_err() {
            Losses::new(&id, losses).add("/origin/raw", ("raw", "kimi-cli does not read such a line", "dropped"));
            continue;
        }
        files.out.write_line(&bytes, b"\n")?;
    }
    made_records.iter().try_for_each(|line| files.out.write_line(line.as_bytes(), b"\n"))
}

/// Writes the state with the title of the thread, and the other files that were imported.
async fn write_whole_files(
    source: &ExportSource<'_>,
    provenance: Option<&Provenance>,
    files: &mut SessionFiles<'_, '_>,
) -> Result<()> {
    let mut state = None;
    let is_whole = |file: &&FileProvenance| {
        let name = file.name.as_deref();
        file.stored == StoredAs::Entries && !is_context(name) && name != Some(WIRE_FILE_NAME)
    };
    for file in provenance.iter().flat_map(|provenance| &provenance.files).filter(is_whole) {
        let bytes = whole_file(source, file).await?;
        match file.name.as_deref() {
            Some(STATE_FILE_NAME) => state = Some(bytes),
            Some(name) => {
                files.start(name)?;
                files.out.write_raw(&bytes)?;
            }
            None => {}
        }
    }
    files.start(STATE_FILE_NAME)?;
    let title = source.thread.title.as_deref();
    match state {
        Some(state) if state_file::title_of(&state).as_deref() == title => files.out.write_raw(&state),
        earlier => files.out.write_raw(state_file::with_title(earlier.as_deref(), title).as_bytes()),
    }
}
