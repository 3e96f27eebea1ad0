//! Writes a thread that has not changed since its import: the lines in the order of their file, with its line ends,
//! blank lines and byte order mark.

use std::collections::BTreeMap;

use store_core::{Entry, ThreadId};

use super::{ExportFiles, ExportSource, Losses, WrittenSession, note_metadata};
use crate::{
    error::{Error, Result},
    issue::Issues,
    json::Object,
    lenient,
    lines::{EncodableEntry, LineFormat, ObjectLine},
    parents::AWAITED_PARENT_KEY,
    provenance::{FileProvenance, LastLine, Provenance},
};

/// The keys of the metadata that an import gives to a thread.
const IMPORTED_METADATA: &[&str] = &["session_id", "cwd", "version", "agent_id", "tool_use_id", AWAITED_PARENT_KEY];

/// Writes a thread that has not changed since its import from a file whose lines form a tree. Returns `None` if the
/// thread has changed. `name` is the name of the file in a folder.
pub(crate) async fn write_unchanged<F: LineFormat>(
    source: &ExportSource<'_>,
    mut format: F,
    (name, files): (&str, &mut ExportFiles<'_>),
) -> Result<Option<WrittenSession>> {
    let Some(provenance) = source.unchanged_provenance().await? else { return Ok(None) };
    files.start(name)?;
    write_file(source, &format, &provenance, files).await?;
    let mut written = WrittenSession::exact();
    note_metadata(source.thread, |key| IMPORTED_METADATA.contains(&key), &mut written.losses);
    if let Some(title) = &source.thread.title
        && !has_title(source, &mut format, title).await?
    {
        let loss = ("title", "the imported bytes have another title, or none", "dropped");
        Losses::of_thread(&mut written.losses).add("/title", loss);
    }
    Ok(Some(written))
}

/// Whether a line of the file gives the thread this title.
async fn has_title<F: LineFormat>(source: &ExportSource<'_>, format: &mut F, title: &str) -> Result<bool> {
    let mut issues = Issues::default();
    let mut pages = source.entries();
    while let Some(page) = pages.next().await? {
        for entry in page.iter().filter(|entry| entry.origin.as_ref().is_some_and(|origin| origin.line > 0)) {
            let bytes = line_of(format, entry).unwrap_or_default();
            let line = lenient::read(&bytes);
            let Some(object) = Object::parse(&line.text) else { continue };
            let number = entry.origin.as_ref().map_or(0, |origin| origin.line);
            let _parsed = format.parse_line(&ObjectLine { number, object }, &mut issues);
            if format.thread_info().title.as_deref() == Some(title) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

async fn write_file<F: LineFormat>(
    source: &ExportSource<'_>,
    format: &F,
    provenance: &Provenance,
    out: &mut ExportFiles<'_>,
) -> Result<()> {
    let Some(file) = provenance.first_file() else { return Ok(()) };
    let mut restorer = FileRestorer::start(&source.thread.id, file, out)?;
    let mut pages = source.entries();
    while let Some(page) = pages.next().await? {
        for entry in &page {
            let number = entry.origin.as_ref().map_or(0, |origin| origin.line);
            if restorer.needs_line(number) {
                restorer.add(number, line_of(format, entry), out)?;
            }
        }
    }
    restorer.finish(out)
}

/// Writes a file again from the entries of its lines, in the order of the log.
pub(crate) struct FileRestorer<'a> {
    thread: &'a ThreadId,
    lines: LineQueue<'a>,
}

impl<'a> FileRestorer<'a> {
    /// Begins a file that this thread was imported from.
    pub(crate) fn start(thread: &'a ThreadId, file: &'a FileProvenance, out: &mut ExportFiles<'_>) -> Result<Self> {
        if file.bom {
            out.write_raw(b"\xef\xbb\xbf")?;
        }
        Ok(Self { thread, lines: LineQueue::new(file) })
    }

    /// Takes note of an entry of this line, and returns whether the file needs its bytes. An entry that corresponds to
    /// no line has line 0.
    pub(crate) fn needs_line(&mut self, number: u64) -> bool {
        number > 0 && self.lines.is_newest(number)
    }

    /// Adds the bytes of a line. It is an error if the entry does not have them.
    pub(crate) fn add(&mut self, number: u64, bytes: Option<Vec<u8>>, out: &mut ExportFiles<'_>) -> Result<()> {
        let bytes = bytes.ok_or_else(|| missing_line(self.thread, number))?;
        self.lines.waiting_lines.insert(number, bytes);
        self.lines.flush(out)
    }

    /// Ends the file. It is an error if a line is missing, or if the bytes are not those that were imported.
    pub(crate) fn finish(mut self, out: &mut ExportFiles<'_>) -> Result<()> {
        self.lines.flush(out)?;
        if self.lines.next_line <= self.lines.file.lines {
            return Err(missing_line(self.thread, self.lines.next_line));
        }
        if out.hash() != self.lines.file.sha256 {
            let place = format!("thread `{}`: its lines differ from those that were imported", self.thread);
            return Err(store_core::Error::corrupt(place).into());
        }
        Ok(())
    }
}

/// The line of an entry in the format that it was imported from: its raw bytes if they were kept, else its encoded
/// body.
pub(crate) fn line_of<F: LineFormat>(format: &F, entry: &Entry) -> Option<Vec<u8>> {
    if let Some(raw) = entry.origin.as_ref().and_then(|origin| origin.raw.as_ref()) {
        return Some(raw.to_vec());
    }
    format.encode(&EncodableEntry::of(entry)).map(String::into_bytes)
}

fn missing_line(thread: &ThreadId, line: u64) -> Error {
    store_core::Error::corrupt(format!("thread `{thread}`: line {line} of its import is missing")).into()
}

/// Holds each line until all earlier lines are written.
struct LineQueue<'a> {
    file: &'a FileProvenance,
    /// For each line, how many outdated entries still come before its newest entry. Each import of an incomplete line
    /// left one.
    outdated_entries: BTreeMap<u64, u64>,
    /// The bytes of lines that cannot be written yet.
    waiting_lines: BTreeMap<u64, Vec<u8>>,
    /// The number of the line that is written next.
    next_line: u64,
}

impl<'a> LineQueue<'a> {
    fn new(file: &'a FileProvenance) -> Self {
        let mut outdated_entries = BTreeMap::new();
        for reimported in &file.reimported {
            *outdated_entries.entry(reimported.line).or_default() += 1;
        }
        let mut lines = Self { file, outdated_entries, waiting_lines: BTreeMap::new(), next_line: 1 };
        lines.queue_blank_lines();
        lines
    }

    /// Counts an entry of a line, and returns whether it is the newest entry of this line.
    fn is_newest(&mut self, line: u64) -> bool {
        match self.outdated_entries.get_mut(&line) {
            Some(outdated_entries) if *outdated_entries > 0 => {
                *outdated_entries -= 1;
                false
            }
            _ => true,
        }
    }

    /// Adds the blank lines that come next. They are added here because no entry represents them.
    fn queue_blank_lines(&mut self) {
        let mut line = self.next_line;
        while line <= self.file.lines && self.file.blank.contains(line) {
            self.waiting_lines.insert(line, self.file.white_space_of(line).as_bytes().to_vec());
            line += 1;
        }
    }

    /// Writes the next lines, up to the first one that is not known yet.
    fn flush(&mut self, out: &mut ExportFiles<'_>) -> Result<()> {
        while let Some(bytes) = self.waiting_lines.remove(&self.next_line) {
            let is_unterminated = self.next_line == self.file.lines && self.file.last != LastLine::Ended;
            let end: &[u8] = match is_unterminated {
                true if self.file.crlf.contains(self.next_line) => b"\r",
                true => b"",
                false if self.file.crlf.contains(self.next_line) => b"\r\n",
                false => b"\n",
            };
            out.write_line(&bytes, end)?;
            self.next_line += 1;
            self.queue_blank_lines();
        }
        Ok(())
    }
}
