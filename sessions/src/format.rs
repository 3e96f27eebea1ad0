//! The seam between the import and the formats: what a format gives, and what the import does with it.

use std::{collections::BTreeMap, path::PathBuf};

use store_core::{EntryId, NewEntry, ThreadFields, ThreadId, Timestamp};

use crate::{
    error::Result,
    facts::{Facts, FileFacts, LastLine, Retaken},
    issue::Issues,
};

/// One thread to be: a session that was looked through once.
///
/// # How to add a format
/// 1. Write a function that looks through a source once (ids, parents, hashes, lengths, everything that needs the whole
///    file) and gives a [`Surveyed`] for each thread that comes of it. A format whose lines form a tree implements
///    [`LineFormat`](crate::lines::LineFormat) instead and gets this from [`survey`](crate::lines::survey).
/// 2. Give the entries in [`Session::drafts`], in the order in which they are to be appended, each with an id that is
///    the same in every import of the same bytes, an explicit parent (`ParentRef::Entry` or `Root`; side entries too),
///    and an `ImportOrigin`. The first draft holds the facts ([`Facts::to_entry`], [`Facts::to_custom`]).
/// 3. Name it in [`FormatName`](crate::FormatName), recognise it in `detect.rs`, and call its survey in `import.rs`.
///
/// The import leaves out drafts whose ids are stored already, cuts the others into batches, commits each under its key,
/// moves the head to [`Session::head`] at the end, and writes the report.
pub(crate) trait Session: Send + Sync {
    /// What is known after the first pass.
    fn about(&self) -> &About;

    /// The same, to be filled in: which thread is the parent.
    fn about_mut(&mut self) -> &mut About;

    /// Whether the source begins with the bytes that a thread was made of.
    fn continues(&self, known: &Facts) -> Result<bool>;

    /// Takes over what cannot be otherwise any more because it is stored: an entry whose parent was not in the file
    /// when it was imported stays a root. Called once, before the second pass.
    fn adopt(&mut self, _stored: &Stored) {}

    /// The second pass: every entry, also those that are stored already.
    fn drafts<'a>(&'a self, stored: &'a Stored) -> Result<Box<dyn Drafts + 'a>>;

    /// Where the source's writer stands: an id of a draft that is no side entry.
    fn head(&self, stored: &Stored) -> Option<EntryId>;
}

/// A stream of entries to be. Issues that only show in the second pass are noted on the way.
pub(crate) trait Drafts: Send {
    /// The next entry; none at the end.
    fn next(&mut self, issues: &mut Issues) -> Result<Option<Draft>>;
}

/// An entry to be.
#[derive(Debug, Clone)]
pub(crate) struct Draft {
    /// The entry; its id is set.
    pub(crate) entry: NewEntry,
    /// Bytes of the source that it stands for, to size batches.
    pub(crate) bytes: u64,
}

/// What the first pass found out about a session.
#[derive(Debug, Clone)]
pub(crate) struct About {
    /// The file or folder, as reports name it.
    pub(crate) file: PathBuf,
    /// The name of the format, as origins have it.
    pub(crate) format: &'static str,
    /// The version that the source names.
    pub(crate) version: Option<String>,
    /// The wanted thread id; it gets a suffix if other content has it.
    pub(crate) thread: ThreadId,
    /// Whether it is a child of the first session of the same source.
    pub(crate) is_child: bool,
    /// The own fields of the thread.
    pub(crate) fields: ThreadFields,
    /// When the session was made.
    pub(crate) at: Option<Timestamp>,
    /// The files, as they are now.
    pub(crate) facts: Facts,
}

impl About {
    /// Lines of all files.
    pub(crate) fn lines(&self) -> u64 {
        self.facts.0.iter().map(|file| file.lines).sum()
    }

    /// Bytes of all files.
    pub(crate) fn bytes(&self) -> u64 {
        self.facts.0.iter().map(|file| file.bytes).sum()
    }
}

/// A session, and what was wrong with it so far.
pub(crate) struct Surveyed {
    /// The session.
    pub(crate) session: Box<dyn Session>,
    /// Its issues.
    pub(crate) issues: Issues,
}

/// What comes of looking through a source.
pub(crate) enum Outcome {
    /// The threads to be, parents first.
    Sessions(Vec<Surveyed>),
    /// Nothing: the issues say why.
    Refused(Issues),
}

/// What the thread of a session holds already; empty for a new one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stored {
    /// Entries that were imported.
    pub(crate) imported: BTreeMap<EntryId, Imported>,
    /// Entries that are no import: their ids are taken.
    pub(crate) foreign: Vec<EntryId>,
    /// The newest facts; none for a new thread.
    pub(crate) facts: Option<Facts>,
}

impl Stored {
    /// Whether an import wrote this entry.
    pub(crate) fn has(&self, id: &EntryId) -> bool {
        self.imported.contains_key(id)
    }

    /// The lines of a file that were imported before they were whole. `ends` is where its lines end now, `prefix` what
    /// the ids of their entries begin with.
    pub(crate) fn retaken(&self, known: Option<&FileFacts>, ends: &[u64], prefix: &str) -> Vec<Retaken> {
        let Some(known) = known else { return Vec::new() };
        let mut retaken = known.retaken.clone();
        let end = usize::try_from(known.lines).ok().and_then(|lines| ends.get(lines.checked_sub(1)?));
        // What may be half of a CR LF is no part of the line.
        let end_then = known.bytes.saturating_sub(u64::from(known.crlf.contains(known.lines)));
        let has_grown = known.last != LastLine::Ended && end.is_some_and(|end| *end > end_then);
        // Facts come before lines: an import that was cut off may not have come to the last one.
        let before = retaken.iter().filter(|retaken| retaken.line == known.lines).count();
        if has_grown && self.times(known.lines, prefix) > before {
            retaken.push(Retaken { line: known.lines, torn: known.last == LastLine::Torn });
        }
        retaken
    }

    /// How often a line was imported.
    fn times(&self, line: u64, prefix: &str) -> usize {
        let is_of = |(id, entry): &(&EntryId, &Imported)| entry.line == line && id.as_str().starts_with(prefix);
        self.imported.iter().filter(is_of).count()
    }
}

/// An entry that was imported.
#[derive(Debug, Clone)]
pub(crate) struct Imported {
    pub(crate) parent: Option<EntryId>,
    /// The line that it stands for; 0 for none.
    pub(crate) line: u64,
}

/// A thread id of the first of these texts that can be one.
pub(crate) fn thread_id(texts: &[&str]) -> Result<ThreadId> {
    let mut found = ThreadId::new("");
    for text in texts {
        found = found.or_else(|_| ThreadId::new(text));
    }
    Ok(found?)
}

/// The first 12 digits of a hash: enough to tell the states of one file apart.
pub(crate) fn short(digest: &str) -> &str {
    digest.get(..12).unwrap_or(digest)
}
