//! Writes a thread that has not changed since its import: every file as it was imported.

use store_core::{Body, Entry, EntryId};

use super::{SessionFiles, losses::WRITTEN_METADATA, state_file};
use crate::{
    error::Result,
    export::{ExportSource, FileRestorer, Loss, Losses, WrittenSession, note_metadata},
    json::Object,
    kimi_cli::{
        contexts::REFERENCE_KIND,
        drafts::whole_file_id,
        encode,
        folder::{CONTEXT_FILE_NAME, STATE_FILE_NAME, WIRE_FILE_NAME, is_context},
        ids::{FileLineIds, WIRE_PREFIX},
    },
    provenance::{FileProvenance, Provenance, StoredAs},
};

/// Writes every file that the import stored, and notes those that it left out.
pub(super) async fn write(
    source: &ExportSource<'_>,
    provenance: &Provenance,
    files: &mut SessionFiles<'_, '_>,
) -> Result<WrittenSession> {
    if provenance.files.iter().any(|file| file.name.is_some()) {
        files.out.require_folder("its session has several files: export it to a folder")?;
    }
    let mut written = WrittenSession::exact();
    let mut position = 0;
    for file in provenance.files.iter().filter(|file| file.stored == StoredAs::Entries) {
        let name = file.name.as_deref().unwrap_or(CONTEXT_FILE_NAME);
        if name == STATE_FILE_NAME {
            continue;
        }
        files.start(name)?;
        if is_context(file.name.as_deref()) {
            // A context without content has no position in the history.
            if file.bytes > 0 {
                write_lines(source, file, (FileLineIds::prefix(position).as_str(), &mut *files)).await?;
                position += 1;
            }
        } else if name == WIRE_FILE_NAME {
            write_lines(source, file, (WIRE_PREFIX, &mut *files)).await?;
        } else {
            files.out.write_raw(&whole_file(source, file).await?)?;
        }
    }
    write_state(source, provenance, (files, &mut written)).await?;
    note_left_out_files(provenance, &mut written.losses);
    written.exact &= written.losses.is_empty();
    note_metadata(source.thread, |key| WRITTEN_METADATA.contains(&key), &mut written.losses);
    Ok(written)
}

/// Writes the state. If the title of the thread was changed after the import, the state gets the new title.
async fn write_state(
    source: &ExportSource<'_>,
    provenance: &Provenance,
    (files, written): (&mut SessionFiles<'_, '_>, &mut WrittenSession),
) -> Result<()> {
    let file = provenance.file_named(STATE_FILE_NAME).filter(|file| file.stored == StoredAs::Entries);
    let bytes = match file {
        Some(file) => Some(whole_file(source, file).await?),
        None => None,
    };
    let title = source.thread.title.as_deref();
    let state_has_title = bytes.as_deref().and_then(state_file::title_of).as_deref() == title;
    if state_has_title || is_earlier_title(source).await? {
        let Some(bytes) = bytes else { return Ok(()) };
        files.start(STATE_FILE_NAME)?;
        return files.out.write_raw(&bytes);
    }
    let is_left_out = file.is_none() && provenance.file_named(STATE_FILE_NAME).is_some();
    if provenance.files.iter().all(|file| file.name.is_none()) || is_left_out {
        let loss = ("title", "the session has no file for it", "dropped");
        Losses::of_thread(&mut written.losses).add("/title", loss);
        return Ok(());
    }
    written.exact = false;
    files.start(STATE_FILE_NAME)?;
    files.out.write_raw(state_file::with_title(bytes.as_deref(), title).as_bytes())
}

/// Whether the title of the thread comes from an earlier state. If a newer state has no title, the import leaves the
/// title of the thread as it was.
async fn is_earlier_title(source: &ExportSource<'_>) -> Result<bool> {
    let Some(title) = source.thread.title.as_deref() else { return Ok(false) };
    let mut pages = source.entries();
    while let Some(page) = pages.next().await? {
        let mut states = page.iter().filter(|entry| entry.id.as_str().starts_with("state."));
        if states.any(|state| state_file::title_of(&whole_content(state)).as_deref() == Some(title)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Notes the files that the import left out.
pub(super) fn note_left_out_files(provenance: &Provenance, losses: &mut Vec<Loss>) {
    for _file in provenance.files.iter().filter(|file| file.stored == StoredAs::LeftOut) {
        let loss = ("file", "the import left out a link, or a file of more than 1 MiB", "dropped");
        Losses::of_thread(losses).add("", loss);
    }
}

/// Writes a file of lines. The ids of the entries of its lines begin with `prefix`.
async fn write_lines(
    source: &ExportSource<'_>,
    file: &FileProvenance,
    (prefix, files): (&str, &mut SessionFiles<'_, '_>),
) -> Result<()> {
    let mut restorer = FileRestorer::start(&source.thread.id, file, files.out)?;
    let mut pages = source.entries();
    while let Some(page) = pages.next().await? {
        for entry in page.iter().filter(|entry| is_line_of(entry, prefix)) {
            let number = entry.origin.as_ref().map_or(0, |origin| origin.line);
            if restorer.needs_line(number) {
                let bytes = line_bytes(source, entry).await?;
                restorer.add(number, bytes, files.out)?;
            }
        }
    }
    restorer.finish(files.out)
}

/// Whether an entry represents a line of the file whose ids have this prefix.
pub(super) fn is_line_of(entry: &Entry, prefix: &str) -> bool {
    let rest = entry.id.as_str().strip_prefix(prefix).and_then(|rest| rest.strip_prefix('L'));
    rest.is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
}

/// The bytes of the line that an entry represents. For a line that repeats an earlier one, they may be those of the
/// earlier line.
async fn line_bytes(source: &ExportSource<'_>, entry: &Entry) -> Result<Option<Vec<u8>>> {
    match repeated_entry(entry) {
        Some(original) if entry.origin.as_ref().is_some_and(|origin| origin.raw.is_none()) => {
            let original = source.threads.load_entry(&source.thread.id, &original).await?;
            Ok(original.and_then(|original| bytes_in_entry(&original)))
        }
        _ => Ok(bytes_in_entry(entry)),
    }
}

/// The entry whose line an entry repeats.
fn repeated_entry(entry: &Entry) -> Option<EntryId> {
    match &*entry.body {
        Body::Custom(custom) if custom.kind == REFERENCE_KIND => {
            EntryId::new(Object::parse(custom.data.as_str())?.text("entry")?).ok()
        }
        _ => None,
    }
}

/// The bytes that an entry itself contains: raw bytes, or its encoded body.
pub(super) fn bytes_in_entry(entry: &Entry) -> Option<Vec<u8>> {
    if let Some(raw) = entry.origin.as_ref().and_then(|origin| origin.raw.as_ref()) {
        return Some(raw.to_vec());
    }
    let line = encode::encode_context_line(&entry.body).or_else(|| encode::encode_wire_record(&entry.body));
    line.map(String::into_bytes)
}

/// The content of a file that is one entry.
pub(super) async fn whole_file(source: &ExportSource<'_>, file: &FileProvenance) -> Result<Vec<u8>> {
    let entry_id_prefix = if file.name.as_deref() == Some(STATE_FILE_NAME) { "state" } else { "file" };
    let id = EntryId::new(whole_file_id(entry_id_prefix, file))?;
    let entry = source.threads.load_entry(&source.thread.id, &id).await?;
    let Some(entry) = entry else {
        return Err(
            store_core::Error::corrupt(format!("thread `{}`: entry `{id}` is missing", source.thread.id)).into()
        );
    };
    Ok(whole_content(&entry))
}

/// The content of a file in its entry.
fn whole_content(entry: &Entry) -> Vec<u8> {
    let raw = entry.origin.as_ref().and_then(|origin| origin.raw.as_ref()).map(|raw| raw.to_vec());
    let data = || match &*entry.body {
        Body::Custom(custom) => custom.data.as_str().as_bytes().to_vec(),
        _ => Vec::new(),
    };
    raw.unwrap_or_else(data)
}
