//! The second pass: turns lines into drafts, each after the draft of its parent.

use std::collections::{HashMap, VecDeque};

use bytes::Bytes;
use store_core::{
    Custom, EntryId, ImportOrigin, Label, NewBody, NewEntry, ParentRef, Timestamp, UsageRecord, log::check_message,
};

use super::{
    BodyAndTime, EarlierNodes, EncodableEntry, ImpliedLabel, LineFormat, LineIds, LinePosition, LineTime, ObjectLine,
    session::LineSession, source_ids::SourceLine, stored_body,
};
use crate::{
    blocks::cut_to_1_kib,
    compact::{BitSet, to_u32},
    error::{Error, Result},
    issue::{IssueCode, Issues},
    json::Object,
    lenient,
    provenance::{IMPORT_LINE, Provenance},
    session::{Draft, Drafts, StoredEntries, short_digest},
    source::{Line, Lines, NextLine},
};

/// The drafts of a file, in the order in which they are appended.
pub(super) struct LineDrafts<'a, F: LineFormat> {
    session: &'a LineSession<F>,
    ids: LineIds<'a>,
    lines: Lines,
    provenance: Provenance,
    /// Drafts that have not been returned yet.
    ready: VecDeque<Draft>,
    /// Lines whose parent has no draft yet, by the position of the parent in the tree.
    waiting_lines: HashMap<usize, Vec<(usize, Line)>>,
    /// Lines of side entries that name a node without a draft as their parent, by the position of that node.
    waiting_side_entries: HashMap<usize, Vec<Line>>,
    /// The node that got a draft last.
    last_node: Option<usize>,
    /// The time of the previous entry.
    time: Option<Timestamp>,
    earlier: EarlierNodes,
    /// Whether the header is still to come.
    expects_header: bool,
    implied_labels: Vec<ImpliedLabel>,
    /// The token counts in the current line that the body of its entry cannot contain.
    separate_usage: Option<UsageRecord>,
}

impl<F: LineFormat> Drafts for LineDrafts<'_, F> {
    fn next(&mut self, issues: &mut Issues) -> Result<Option<Draft>> {
        loop {
            if let Some(draft) = self.ready.pop_front() {
                return Ok(Some(draft));
            }
            match self.lines.next()? {
                NextLine::Line(line) => self.add_line(line, issues),
                NextLine::TooLong(_) | NextLine::End => {
                    self.check_end()?;
                    let labels = std::mem::take(&mut self.implied_labels);
                    if labels.is_empty() {
                        return Ok(None);
                    }
                    for label in labels {
                        self.push_label(label, issues)?;
                    }
                }
            }
        }
    }
}

impl<'a, F: LineFormat> LineDrafts<'a, F> {
    pub(super) fn new(session: &'a LineSession<F>, stored: &StoredEntries) -> Result<Self> {
        let mut drafts = Self {
            session,
            ids: session.ids(stored),
            lines: session.source.lines(session.info.bytes())?,
            provenance: session.provenance(stored),
            ready: VecDeque::new(),
            waiting_lines: HashMap::new(),
            waiting_side_entries: HashMap::new(),
            last_node: None,
            time: session.info.created_at,
            earlier: EarlierNodes { nodes: BitSet::new(session.tree.len()), ..EarlierNodes::default() },
            expects_header: session.has_header,
            implied_labels: Vec::new(),
            separate_usage: None,
        };
        if !session.has_header {
            drafts.push_provenance("L0")?;
        }
        let digest = session.info.provenance.digest();
        let known = stored.provenance.as_ref().filter(|known| known.digest() != digest);
        let known_lines = known.and_then(Provenance::first_file).map_or(0, |file| file.lines);
        drafts.implied_labels = session.format.implied_labels(known_lines);
        // A file that has grown since an earlier import gets a further entry with its provenance. A later import of the
        // same bytes makes this draft again, because the drafts include entries that are already stored.
        let grown_file_id = format!("L0#file.{}", short_digest(&digest));
        if let Some(known) = &stored.provenance
            && (known.digest() != digest || stored.has_imported(session, &EntryId::new(&grown_file_id)?))
        {
            drafts.push_provenance(&grown_file_id)?;
        }
        Ok(drafts)
    }

    /// Ends the pass. It is an error if the bytes are not those that the first pass read.
    fn check_end(&self) -> Result<()> {
        let known = self.session.info.provenance.first_file().map(|file| (file.bytes, file.sha256.as_str()));
        let (bytes, hash) = self.lines.bytes_and_hash();
        if known == Some((bytes, hash.as_str())) {
            return Ok(());
        }
        Err(Error::Changed { path: self.session.source.path().to_owned() })
    }

    /// Adds a label that the lines imply.
    fn push_label(&mut self, label: ImpliedLabel, issues: &mut Issues) -> Result<()> {
        let ImpliedLabel { key, line, target, text } = label;
        let Some(at) = self.earlier.nearest(&self.session.tree, &target) else {
            super::note_bad_field(issues, line, format!("`{target}` is not a line of the tree"));
            return Ok(());
        };
        let ParentRef::Entry(entry) = self.parent_ref_to(at) else { return Ok(()) };
        let body = Label::new(entry.clone(), text.as_deref().map(cut_to_1_kib));
        self.push_entry_without_line(&format!("L0#label.{key}"), ParentRef::Entry(entry), body.into())
    }

    /// Adds a side entry that represents no line. Its id begins with `L0`, because lines are counted from 1.
    fn push_entry_without_line(&mut self, id: &str, parent: ParentRef, body: NewBody) -> Result<()> {
        let mut entry = NewEntry::new(body)
            .with_id(EntryId::new(id)?)
            .with_parent(parent)
            .with_side(true)
            .with_origin(ImportOrigin::new(self.session.info.format, 0));
        entry.timestamp = self.time;
        self.ready.push_back(Draft { entry, bytes: 0 });
        Ok(())
    }

    fn push_provenance(&mut self, id: &str) -> Result<()> {
        let entry = self.provenance.to_entry(EntryId::new(id)?, self.session.info.format);
        self.ready.push_back(Draft { entry, bytes: 0 });
        Ok(())
    }

    fn add_line(&mut self, line: Line, issues: &mut Issues) {
        match self.session.tree.source_ids().kind(to_u32(line.number)) {
            SourceLine::Skipped => {}
            SourceLine::HeaderOrBroken => self.push_header_or_broken(line),
            SourceLine::Content => match self.session.tree.position(line.number) {
                Some(at) => self.add_node(at, line, issues),
                None => self.add_side_entry(line, issues),
            },
        }
    }

    fn push_header_or_broken(&mut self, line: Line) {
        let is_header = std::mem::take(&mut self.expects_header);
        let body =
            if is_header { self.provenance.to_custom() } else { Custom::new(IMPORT_LINE, store_core::Json::null()) };
        self.push(line, body.into(), EntryPosition::side_entry(self.last_parent()));
    }

    fn last_parent(&self) -> ParentRef {
        self.last_node.map_or(ParentRef::Root, |at| self.parent_ref_to(at))
    }

    fn parent_ref_to(&self, at: usize) -> ParentRef {
        let id = self.session.tree.line(at).and_then(|line| self.ids.of(line));
        id.map_or(ParentRef::Root, ParentRef::Entry)
    }

    fn add_node(&mut self, at: usize, line: Line, issues: &mut Issues) {
        if let Some(parent) = self.session.tree.parent(at).filter(|parent| !self.is_appended(*parent)) {
            self.waiting_lines.entry(parent).or_default().push((at, line));
            return;
        }
        let mut next = vec![(at, line)];
        while let Some((at, line)) = next.pop() {
            self.append(at, line, issues);
            for line in self.waiting_side_entries.remove(&at).into_iter().flatten() {
                self.push_side_entry(line, self.parent_ref_to(at), issues);
            }
            next.extend(self.waiting_lines.remove(&at).into_iter().flatten().rev());
        }
    }

    fn is_appended(&self, at: usize) -> bool {
        self.earlier.nodes.contains(at)
    }

    fn append(&mut self, at: usize, line: Line, issues: &mut Issues) {
        let parent = self.session.tree.parent(at).map_or(ParentRef::Root, |parent| self.parent_ref_to(parent));
        let Some(body) = self.read_body(&line, Some(at), issues) else { return };
        self.keep_messages(at, &body);
        let number = line.number;
        let usage = self.separate_usage.take();
        self.push(line, body, EntryPosition { parent, side: false });
        if let Some(usage) = usage {
            let parent = self.parent_ref_to(at);
            // The id contains a number only, so it is valid.
            let _valid = self.push_entry_without_line(&format!("L0#usage.{number}"), parent, usage.into());
        }
        self.earlier.nodes.insert(at);
        self.last_node = Some(at);
    }

    /// Keeps the messages of a node, if later lines need them.
    fn keep_messages(&mut self, at: usize, body: &NewBody) {
        match body {
            _ if !self.session.format.keeps_messages_of(at) => {}
            NewBody::Message(message) => {
                self.earlier.messages.insert(at, message.clone());
            }
            NewBody::Compaction(compaction) => {
                if let Some(replacement) = &compaction.replacement {
                    self.earlier.replacements.insert(at, replacement.clone());
                }
            }
            _ => {}
        }
    }

    fn add_side_entry(&mut self, line: Line, issues: &mut Issues) {
        let lenient = lenient::read(&line.bytes);
        let object = Object::parse(&lenient.text).map(|object| ObjectLine { number: line.number, object });
        let parent_id = object.and_then(|line| self.session.format.side_parent(&line));
        drop(lenient);
        let parent = match parent_id {
            Some(parent_id) => match self.earlier.nearest(&self.session.tree, &parent_id) {
                Some(at) => self.parent_ref_to(at),
                // The first node with this id has no draft yet.
                None => match self.session.tree.nodes_with_id(&parent_id).first().copied() {
                    Some(at) => return self.waiting_side_entries.entry(at).or_default().push(line),
                    None => self.last_parent(),
                },
            },
            None => self.last_parent(),
        };
        self.push_side_entry(line, parent, issues);
    }

    fn push_side_entry(&mut self, line: Line, parent: ParentRef, issues: &mut Issues) {
        let Some(body) = self.read_body(&line, self.last_node, issues) else { return };
        self.push(line, body, EntryPosition::side_entry(parent));
    }

    /// Returns the body of a line, and notes its time. A body that the store would refuse becomes a custom body of
    /// the line's own type.
    fn read_body(&mut self, line: &Line, at: Option<usize>, issues: &mut Issues) -> Option<NewBody> {
        let lenient = lenient::read(&line.bytes);
        let object = Object::parse(&lenient.text)?;
        let line = ObjectLine { number: line.number, object };
        self.separate_usage = self.session.format.separate_usage(&line);
        let position = LinePosition { tree: &self.session.tree, at, ids: &self.ids, earlier: &self.earlier };
        let BodyAndTime { body, time } = self.session.format.read_body_and_time(&line, &position, issues);
        match time {
            LineTime::At(time) => self.time = Some(time),
            LineTime::NotGiven => {}
            LineTime::Invalid => {
                issues.add(line.number, IssueCode::BadTime, "the time cannot be read", "the previous time is used")
            }
        }
        let refusal = match &body {
            NewBody::Message(message) => check_message(message).err(),
            NewBody::Compaction(compaction) => {
                compaction.replacement.iter().flatten().find_map(|message| check_message(message).err())
            }
            _ => None,
        };
        let Some(error) = refusal else { return Some(body) };
        super::note_bad_field(issues, line.number, error.to_string());
        let kind = line.object.text("type").unwrap_or_else(|| "line".to_owned());
        Some(
            Custom::new(format!("{}.{kind}", self.session.format.kind_prefix()), line.object.without_fields(&[]))
                .into(),
        )
    }

    fn push(&mut self, line: Line, body: NewBody, entry_position: EntryPosition) {
        let Some(id) = self.ids.of(line.number) else { return };
        let bytes = line.end.min(u64::try_from(line.bytes.len()).unwrap_or(u64::MAX));
        let mut origin = ImportOrigin::new(self.session.info.format, line.number);
        if !self.is_reproducible(&line, &id, &body, &entry_position) {
            origin = origin.with_raw(Bytes::from(line.bytes));
        }
        let mut entry = NewEntry::new(body)
            .with_id(id)
            .with_parent(entry_position.parent)
            .with_side(entry_position.side)
            .with_origin(origin);
        entry.timestamp = self.time;
        self.ready.push_back(Draft { entry, bytes });
    }

    /// Whether the typed form reproduces the bytes of the line.
    fn is_reproducible(&self, line: &Line, id: &EntryId, body: &NewBody, entry_position: &EntryPosition) -> bool {
        // An entry without a time gets the time of the store. This time is not known here, and it would be part of
        // the encoded line.
        let Some(body) = stored_body(body).filter(|_| self.time.is_some()) else { return false };
        let parent = match &entry_position.parent {
            ParentRef::Entry(parent) => Some(parent.as_str()),
            ParentRef::Head | ParentRef::Root => None,
        };
        let encodable =
            EncodableEntry { id: id.as_str(), parent, side: entry_position.side, timestamp: self.time, body: &body };
        self.session.format.encode(&encodable).is_some_and(|text| text.as_bytes() == line.bytes)
    }
}

/// The parent of an entry, and whether it is a side entry.
struct EntryPosition {
    parent: ParentRef,
    side: bool,
}

impl EntryPosition {
    const fn side_entry(parent: ParentRef) -> Self {
        Self { parent, side: true }
    }
}
