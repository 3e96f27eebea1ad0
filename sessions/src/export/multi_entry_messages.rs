//! Messages that were logged as several entries, such as those of Claude Code, which has a line for each block. An
//! export to a format whose tool does not merge lines writes each of these messages as a whole. The entries of one
//! message, and the message that they form, are those of the context (CX-17).
//!
//! ```text
//! as logged                        as written
//! call 1 ── result 1 ── call 2     calls 1 and 2 ── result 1
//! ```
//!
//! If branches leave such a message at different entries, the file has the message of one path, for example that of the
//! head. A message that a compaction covers only in part is not changed.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use store_core::{
    Block, Body, Compaction, ContextRequest, Entry, EntryId, Message, OpenCalls, Role, Visibility,
    context::{self, ContextPart},
};

use super::{
    ExportSource, Loss, Losses,
    loss::{LossDescription, MERGED},
};
use crate::error::Result;

const SEPARATE_CONTINUATION: LossDescription =
    ("separate", "the message that it continues has another end in the file", "replaced");
const CHILD_OF_PART: LossDescription =
    ("inside", "it follows a part of a message that the file has as a whole", "moved");

/// The messages of a thread that were logged as several entries.
#[derive(Debug, Default)]
pub(crate) struct MultiEntryMessages {
    /// For each entry into which others are merged: these other entries, in order.
    parts: HashMap<EntryId, Vec<EntryId>>,
    /// The entries that are merged into another one.
    merged_entries: HashMap<EntryId, MergedEntry>,
    /// Every entry from the first to the last one of each message. The value says whether it is the last one.
    message_entries: HashMap<EntryId, bool>,
    /// Entries that continue a message, and are not merged into it.
    separate_continuations: HashSet<EntryId>,
}

/// An entry that is merged into another one.
#[derive(Debug)]
struct MergedEntry {
    /// The entry with the whole message.
    merged_into: EntryId,
    /// The last entry before it that has a line of its own. Children of the merged entry become children of this line.
    preceding_line: EntryId,
}

impl MultiEntryMessages {
    /// Finds the messages of a thread, as the path of `leaf` has them. Entries that were imported from the written
    /// format (`is_own`) are not changed.
    pub(crate) async fn find(
        source: &ExportSource<'_>,
        leaf: Option<&EntryId>,
        is_own: fn(&Entry) -> bool,
    ) -> Result<Self> {
        let mut finder = Finder::default();
        let mut pages = source.entries();
        while let Some(page) = pages.next().await? {
            page.iter().filter(|entry| !entry.side).for_each(|entry| finder.add(entry, is_own(entry)));
        }
        let mut path = HashSet::new();
        if let Some(leaf) = leaf.filter(|_| !finder.continuations.is_empty()) {
            let mut pages = source.path_of(leaf);
            while let Some(page) = pages.next().await? {
                path.extend(page.iter().map(|entry| entry.id.clone()));
            }
        }
        Ok(finder.finish(&path))
    }

    /// Whether an entry is a part of another one.
    pub(crate) fn is_merged(&self, entry: &EntryId) -> bool {
        self.merged_entries.contains_key(entry)
    }

    /// The entry that other lines name as their parent instead of `entry`.
    pub(crate) fn line_of<'a>(&'a self, entry: &'a EntryId) -> &'a EntryId {
        self.merged_entries.get(entry).map_or(entry, |merged| &merged.preceding_line)
    }

    /// What is lost of an entry because entries are merged.
    pub(crate) fn loss(&self, entry: &Entry) -> Option<LossDescription> {
        if self.is_merged(&entry.id) {
            return Some(MERGED);
        }
        if self.separate_continuations.contains(&entry.id) {
            return Some(SEPARATE_CONTINUATION);
        }
        let parent = entry.parent.as_ref().filter(|_| !entry.side && !self.message_entries.contains_key(&entry.id));
        let is_in_the_middle = parent.and_then(|parent| self.message_entries.get(parent)).is_some_and(|is_end| !is_end);
        is_in_the_middle.then_some(CHILD_OF_PART)
    }

    /// The entry in the form that is written, or `None` if it is a part of an earlier one. Notes what is lost.
    pub(crate) async fn entry_to_write(
        &self,
        source: &ExportSource<'_>,
        entry: &Arc<Entry>,
        losses: &mut Vec<Loss>,
    ) -> Result<Option<Arc<Entry>>> {
        if let Some(loss) = self.loss(entry) {
            Losses::new(&entry.id, losses).add("", loss);
        }
        self.entry(source, entry).await
    }

    /// Like [`Self::entry_to_write`], but notes no losses.
    pub(crate) async fn entry(&self, source: &ExportSource<'_>, entry: &Arc<Entry>) -> Result<Option<Arc<Entry>>> {
        if self.is_merged(&entry.id) {
            return Ok(None);
        }
        let parent = entry.parent.as_ref().map(|parent| self.line_of(parent));
        let body = match self.parts.get(&entry.id) {
            Some(parts) => Some(body_with_parts(source, entry, parts).await?),
            None => self.body_with_lines(&entry.body),
        };
        if body.is_none() && parent == entry.parent.as_ref() {
            return Ok(Some(Arc::clone(entry)));
        }
        let mut written = Entry::clone(entry);
        written.parent = parent.cloned();
        if let Some(body) = body {
            written.body = Arc::new(body);
        }
        Ok(Some(Arc::new(written)))
    }

    /// Replaces the merged entries that a body names by entries that have lines. Returns `None` if the body names no
    /// merged entry.
    fn body_with_lines(&self, body: &Body) -> Option<Body> {
        let merged = |id: &EntryId| self.merged_entries.get(id);
        match body {
            Body::Label(label) => {
                let mut label = label.clone();
                label.target = merged(&label.target)?.merged_into.clone();
                Some(Body::Label(label))
            }
            Body::Rewind(rewind) => {
                let preceding_line = merged(rewind.to.as_ref()?)?.preceding_line.clone();
                let mut rewind = rewind.clone();
                rewind.to = Some(preceding_line);
                Some(Body::Rewind(rewind))
            }
            Body::Compaction(compaction) => {
                let covers = compaction.covers.as_ref()?;
                let (from, to) = (merged(&covers.from), merged(&covers.to));
                from.or(to)?;
                let mut covers = covers.clone();
                covers.from = from.map_or(covers.from, |merged| merged.merged_into.clone());
                covers.to = to.map_or(covers.to, |merged| merged.preceding_line.clone());
                let mut compaction = compaction.clone();
                compaction.covers = Some(covers);
                Some(Body::Compaction(compaction))
            }
            _ => None,
        }
    }
}

/// The message that an entry and its parts form.
async fn body_with_parts(source: &ExportSource<'_>, first: &Arc<Entry>, parts: &[EntryId]) -> Result<Body> {
    let thread = &source.thread.id;
    let mut entries = vec![Arc::clone(first)];
    for part in parts {
        let Some(entry) = source.threads.load_entry(thread, part).await? else {
            return Err(store_core::Error::corrupt(format!("thread `{thread}`: entry `{part}` is missing")).into());
        };
        entries.push(entry);
    }
    let whole = merged_messages(entries).into_iter().next();
    Ok(whole.map_or_else(|| Body::clone(&first.body), Body::Message))
}

/// The messages that a context makes of entries.
fn merged_messages(entries: Vec<Arc<Entry>>) -> Vec<Message> {
    let parts = entries.into_iter().map(|entry| (ContextPart::Entry(entry.seq), entry)).collect();
    let request = ContextRequest::head().with_open_calls(OpenCalls::Keep);
    context::build(parts, &request).messages.into_iter().map(|found| found.message).collect()
}

/// Finds the messages that were logged as several entries.
#[derive(Default)]
struct Finder {
    /// The entries whose children can continue a message.
    open_entries: HashMap<EntryId, OpenEntry>,
    /// The first entry of each message, with a short block instead of its own blocks.
    first_entries: HashMap<EntryId, Arc<Entry>>,
    /// The entries that continue a message, in the order of the log.
    continuations: Vec<EntryId>,
    /// The first entries that compactions cover.
    first_covered: HashSet<EntryId>,
    /// The last entries that compactions cover.
    last_covered: HashSet<EntryId>,
}

struct OpenEntry {
    /// The first entry of the message.
    first: EntryId,
    parent: Option<EntryId>,
}

impl Finder {
    fn add(&mut self, entry: &Entry, is_own: bool) {
        let message_of_parent =
            entry.parent.as_ref().and_then(|parent| self.open_entries.get(parent)).map(|open| open.first.clone());
        let message = entry.message().filter(|message| message.visibility != Visibility::Aside);
        if let Body::Compaction(Compaction { covers: Some(covers), .. }) = &*entry.body {
            self.first_covered.insert(covers.from.clone());
            self.last_covered.insert(covers.to.clone());
        }
        let first = match (&*entry.body, message) {
            (Body::Compaction(_), _) => None,
            (_, Some(message)) if message.role == Role::Assistant => {
                self.first_of(entry, message, message_of_parent, is_own)
            }
            (_, Some(message)) if message.role != Role::Tool => None,
            // Results, and entries that a model does not get, do not end a message.
            _ => message_of_parent,
        };
        if let Some(first) = first {
            self.open_entries.insert(entry.id.clone(), OpenEntry { first, parent: entry.parent.clone() });
        }
    }

    /// The first entry of the message that an entry is a part of, if the message can have several entries.
    /// `message_of_parent` is the first entry of the message that the parent belongs to.
    fn first_of(
        &mut self,
        entry: &Entry,
        message: &Message,
        message_of_parent: Option<EntryId>,
        is_own: bool,
    ) -> Option<EntryId> {
        message.provenance.as_ref()?.message_id.as_ref().filter(|_| !is_own)?;
        let mut short_message = message.clone();
        short_message.blocks = vec![Block::text("-")];
        let mut shortened = entry.clone();
        shortened.body = Arc::new(Body::Message(short_message));
        let shortened = Arc::new(shortened);
        let is_continued =
            |first: &Arc<Entry>| merged_messages(vec![Arc::clone(first), Arc::clone(&shortened)]).len() == 1;
        if let Some(first) = message_of_parent.filter(|first| self.first_entries.get(first).is_some_and(is_continued)) {
            self.continuations.push(entry.id.clone());
            return Some(first);
        }
        self.first_entries.insert(entry.id.clone(), shortened);
        Some(entry.id.clone())
    }

    /// Decides which entries are merged. `path` contains the entries on the path of the leaf.
    fn finish(self, path: &HashSet<EntryId>) -> MultiEntryMessages {
        let mut last: HashMap<&EntryId, &EntryId> = HashMap::new();
        for id in &self.continuations {
            if let Some(OpenEntry { first, .. }) = self.open_entries.get(id)
                && (!path.contains(first) || path.contains(id))
            {
                last.insert(first, id);
            }
        }
        let continuations: HashSet<_> = self.continuations.iter().collect();
        let mut found = MultiEntryMessages::default();
        for (first, last) in last {
            let path = self.path_between(first, last);
            let ends_inside = |end: &EntryId| end != last && self.last_covered.contains(end);
            if !ends_inside(first) && !path.iter().any(|id| ends_inside(id) || self.first_covered.contains(*id)) {
                found.add(first, &path, &continuations);
            }
        }
        let separate = self.continuations.iter().filter(|id| !found.is_merged(id));
        found.separate_continuations = separate.cloned().collect();
        found
    }

    /// The entries after the first one of a message, up to its last one.
    fn path_between<'a>(&'a self, first: &EntryId, last: &'a EntryId) -> Vec<&'a EntryId> {
        let parent = |id: &&'a EntryId| self.open_entries.get(*id)?.parent.as_ref();
        let mut path: Vec<_> = std::iter::successors(Some(last), parent).take_while(|id| *id != first).collect();
        path.reverse();
        path
    }
}

impl MultiEntryMessages {
    /// Adds a message with the entries that follow its first one.
    fn add(&mut self, first: &EntryId, path: &[&EntryId], continuations: &HashSet<&EntryId>) {
        let mut preceding_line = first;
        let mut parts = Vec::new();
        self.message_entries.insert(first.clone(), false);
        for (at, id) in path.iter().enumerate() {
            self.message_entries.insert((*id).clone(), at + 1 == path.len());
            if continuations.contains(id) {
                parts.push((*id).clone());
                self.merged_entries.insert(
                    (*id).clone(),
                    MergedEntry { merged_into: first.clone(), preceding_line: preceding_line.clone() },
                );
            } else {
                preceding_line = id;
            }
        }
        self.parts.insert(first.clone(), parts);
    }
}
