//! The second pass: turns lines of contexts, records of the wire file and whole files into drafts.

use std::collections::VecDeque;

use bytes::Bytes;
use store_core::{Body, Custom, EntryId, ImportOrigin, NewBody, NewEntry, ParentRef, Timestamp};

use super::{
    contexts::ContextDrafts,
    encode,
    folder::CONTEXT_FILE_NAME,
    session::{KimiSession, LineFile, ThreadLayout},
    state::WholeFile,
    wire,
    wire_matches::HistoryLine,
};
use crate::{
    error::{Error, Result},
    issue::Issues,
    json::Object,
    lenient,
    lines::stored_body,
    provenance::{FileProvenance, IMPORT_LINE},
    session::{Draft, Drafts, StoredEntries, short_digest},
    source::{Line, Lines, NextLine},
};

/// The drafts of a session, in the order in which they are appended.
pub(super) struct KimiDrafts<'a> {
    session: &'a KimiSession,
    /// Drafts that have not been returned yet.
    ready: VecDeque<Draft>,
    stage: Stage<'a>,
    /// The time of the previous entry. An entry without a time of its own gets it.
    time: Option<Timestamp>,
}

/// The file that is being read, or that is read next.
enum Stage<'a> {
    /// The context at this position comes next.
    BeforeContext(usize),
    Context(usize, OpenFile, Box<ContextDrafts<'a>>),
    Wire(OpenFile),
    /// The whole file at this position comes next.
    WholeFiles(usize),
    End,
}

/// A file that is being read, and the provenance that its bytes must match.
struct OpenFile {
    lines: Lines,
    provenance: FileProvenance,
}

impl OpenFile {
    /// Opens a file. kimi-cli may rename the current context at any time, so the bytes of this file are checked
    /// before any of its lines is written.
    fn new<T>(file: &LineFile<T>) -> Result<Self> {
        let provenance = file.provenance.clone();
        let is_renamed = provenance.name.as_deref() == Some(CONTEXT_FILE_NAME)
            && file.source.hash_of_first(provenance.bytes)?.as_ref() != Some(&provenance.sha256);
        if is_renamed {
            return Err(Error::Changed { path: file.source.path().to_owned() });
        }
        Ok(Self { lines: file.source.lines(provenance.bytes)?, provenance })
    }

    /// Returns the next line, or `None` at the end. It is an error if the bytes are not those that the first pass
    /// read.
    fn next<T>(&mut self, file: &LineFile<T>) -> Result<Option<Line>> {
        if let NextLine::Line(line) = self.lines.next()? {
            return Ok(Some(line));
        }
        let (bytes, hash) = self.lines.bytes_and_hash();
        if (bytes, hash.as_str()) == (self.provenance.bytes, self.provenance.sha256.as_str()) {
            return Ok(None);
        }
        Err(Error::Changed { path: file.source.path().to_owned() })
    }
}

impl Drafts for KimiDrafts<'_> {
    fn next(&mut self, _issues: &mut Issues) -> Result<Option<Draft>> {
        loop {
            if let Some(draft) = self.ready.pop_front() {
                return Ok(Some(draft));
            }
            if matches!(self.stage, Stage::End) {
                return Ok(None);
            }
            self.process_next()?;
        }
    }
}

impl<'a> KimiDrafts<'a> {
    pub(super) fn new(session: &'a KimiSession, stored: &StoredEntries) -> Result<Self> {
        let mut drafts =
            Self { session, ready: VecDeque::new(), stage: Stage::BeforeContext(0), time: session.info.created_at };
        drafts.push_provenance("L0")?;
        let digest = session.info.provenance.digest();
        // A stored provenance is never changed. If the files have grown since, the new one becomes another entry.
        let grown_file_id = format!("L0#file.{}", short_digest(&digest));
        if let Some(known) = &stored.provenance
            && (known.digest() != digest || stored.has_imported(session, &EntryId::new(&grown_file_id)?))
        {
            drafts.push_provenance(&grown_file_id)?;
        }
        Ok(drafts)
    }

    fn layout(&self) -> &'a ThreadLayout {
        &self.session.layout
    }

    fn push_provenance(&mut self, id: &str) -> Result<()> {
        let entry = self.layout().provenance.to_entry(EntryId::new(id)?, self.session.info.format);
        self.ready.push_back(Draft { entry, bytes: 0 });
        Ok(())
    }

    /// Processes the next line, or goes to the next file.
    fn process_next(&mut self) -> Result<()> {
        let session = self.session;
        let stage = std::mem::replace(&mut self.stage, Stage::End);
        self.stage = match stage {
            Stage::BeforeContext(at) => self.open_context(at)?,
            Stage::Context(at, mut open, mut context) => match session.contexts.get(at) {
                Some(file) => match open.next(file)? {
                    Some(line) => {
                        self.time = self.time_of_line((at, index_of_line(line.number))).or(self.time);
                        context.add_line(line, self.time, &mut self.ready)?;
                        Stage::Context(at, open, context)
                    }
                    None => {
                        context.add_remaining(self.time, &mut self.ready)?;
                        Stage::BeforeContext(at + 1)
                    }
                },
                None => Stage::End,
            },
            Stage::Wire(mut open) => match session.wire.as_ref().map(|wire| open.next(wire)).transpose()?.flatten() {
                Some(line) => {
                    self.add_record(line)?;
                    Stage::Wire(open)
                }
                None => Stage::WholeFiles(0),
            },
            Stage::WholeFiles(at) => match session.whole_files.get(at) {
                Some((entry_id_prefix, whole)) => {
                    self.add_whole_file(entry_id_prefix, whole)?;
                    Stage::WholeFiles(at + 1)
                }
                None => Stage::End,
            },
            Stage::End => Stage::End,
        };
        Ok(())
    }

    /// The time of a line of a context, if the wire file says it.
    fn time_of_line(&self, at: HistoryLine) -> Option<Timestamp> {
        self.session.wire.as_ref()?.line_data.time(self.layout().wire_matches.record_of_line(at)?)
    }

    fn open_context(&mut self, at: usize) -> Result<Stage<'a>> {
        let session = self.session;
        let Some((file, context)) = session.contexts.get(at).zip(ContextDrafts::new(session, at)) else {
            return Ok(match &session.wire {
                Some(wire) => Stage::Wire(OpenFile::new(wire)?),
                None => Stage::WholeFiles(0),
            });
        };
        let has_times = session.wire.as_ref().is_some_and(|wire| wire.line_data.first_time().is_some());
        if !has_times {
            self.time = file.modified_at.or(self.time);
        }
        Ok(Stage::Context(at, OpenFile::new(file)?, Box::new(context)))
    }

    fn add_record(&mut self, line: Line) -> Result<()> {
        if line.is_blank() {
            return Ok(());
        }
        let at = index_of_line(line.number);
        self.time = self.session.wire.as_ref().and_then(|wire| wire.line_data.time(at)).or(self.time);
        let matched_line = self.layout().wire_matches.line_of_record(at);
        let position = matched_line.and_then(|(file, line_index)| self.layout().history.position(file, line_index));
        let parent = self.layout().node_id(position.and_then(|position| position.next_parent))?;
        let lenient = lenient::read(&line.bytes);
        let body = match Object::parse(&lenient.text).map(|object| wire::body(&object)) {
            Some(body) => body,
            None => Custom::new(IMPORT_LINE, store_core::Json::null()).into(),
        };
        drop(lenient);
        let entry = EntryParts { id: self.layout().wire_ids.line(line.number)?, parent, side: true, body };
        self.ready.push_back(self.session.line_draft(entry, line, self.time, encode::encode_wire_record));
        Ok(())
    }

    fn add_whole_file(&mut self, entry_id_prefix: &str, whole: &WholeFile) -> Result<()> {
        let id = self.layout().wire_ids.free_id(&whole_file_id(entry_id_prefix, &whole.provenance))?;
        let mut origin = ImportOrigin::new(self.session.info.format, 0);
        let bytes = whole.bytes()?;
        if whole.custom.data.as_str().as_bytes() != bytes {
            origin = origin.with_raw(bytes);
        }
        let entry = NewEntry::new(whole.custom.clone())
            .with_id(id)
            .with_parent(ParentRef::Root)
            .with_side(true)
            .with_origin(origin);
        self.ready.push_back(Draft { entry, bytes: whole.provenance.bytes });
        Ok(())
    }
}

/// The id of the entry of a whole file. After the prefix, it contains a hash of the name and the content of the file.
pub(super) fn whole_file_id(entry_id_prefix: &str, file: &FileProvenance) -> String {
    use sha2::{Digest, Sha256};
    let name = file.name.as_deref().unwrap_or_default();
    let digest = crate::source::hex(&Sha256::digest(format!("{name}\n{}", file.sha256)));
    format!("{entry_id_prefix}.{}", short_digest(&digest))
}

/// The position of a line in its file, from 0.
pub(super) fn index_of_line(line: u64) -> usize {
    usize::try_from(line.saturating_sub(1)).unwrap_or(usize::MAX)
}

/// The parts of an entry that represents a line.
pub(super) struct EntryParts {
    pub(super) id: EntryId,
    pub(super) parent: Option<EntryId>,
    pub(super) side: bool,
    pub(super) body: NewBody,
}

impl KimiSession {
    /// Makes the draft of a line. It keeps the raw bytes if the typed form does not reproduce them.
    pub(super) fn line_draft(
        &self,
        parts: EntryParts,
        line: Line,
        time: Option<Timestamp>,
        encode: fn(&Body) -> Option<String>,
    ) -> Draft {
        let bytes = u64::try_from(line.bytes.len()).unwrap_or(u64::MAX);
        let mut origin = ImportOrigin::new(self.info.format, line.number);
        let text = stored_body(&parts.body).and_then(|body| encode(&body));
        if text.is_none_or(|text| text.as_bytes() != line.bytes) {
            origin = origin.with_raw(Bytes::from(line.bytes));
        }
        let parent = parts.parent.map_or(ParentRef::Root, ParentRef::Entry);
        let mut entry =
            NewEntry::new(parts.body).with_id(parts.id).with_parent(parent).with_side(parts.side).with_origin(origin);
        entry.timestamp = time;
        Draft { entry, bytes }
    }
}
