//! The import: recognises sources, reads them, finds their threads and writes what is new.

use std::path::Path;

use store_core::{
    BodyKind, CommitCoordinator, Direction, EntryQuery, Expect, MAX_PAGE, PageRequest, Thread, ThreadId, ThreadPatch,
    ThreadRunStore,
};

use crate::{
    detect::{self, Detected},
    error::Result,
    formats::FormatName,
    issue::{IssueCode, Issues},
    options::ImportOptions,
    parents,
    provenance::Provenance,
    report::ImportReport,
    session::{ImportedEntry, Session, SessionInfo, StoredEntries, SurveyOutcome, SurveyedSession},
    source::Source,
    write,
};

/// Imports a file, a session folder, or every session file below a folder.
///
/// Nothing is imported twice: a second import of the same bytes changes nothing, an import of a file that has grown
/// adds the new lines, and the same call after an interrupted import continues that import. The result has one report
/// for each thread, and one for each file that is refused. A refused file changes nothing.
///
/// If the parent of a thread does not exist, the metadata of the thread names it as `import.parent`. A later import
/// sets the parent as soon as it exists.
///
/// # Errors
/// [`Error::Io`](crate::Error::Io) if a source cannot be read, [`Error::Changed`](crate::Error::Changed) if a source
/// changes during the import, [`Error::Store`](crate::Error::Store) if the store fails. What was written before the
/// error stays, and the same call continues the import.
pub async fn import(
    commits: &dyn CommitCoordinator,
    path: &Path,
    options: &ImportOptions,
) -> Result<Vec<ImportReport>> {
    let threads = commits.threads();
    let target = ImportTarget { commits, threads: &*threads, options };
    let mut reports = Vec::new();
    let done = import_all(&target, path, &mut reports).await;
    // The parents are set last, because the file of a parent may come after that of its child. This also happens
    // after an error, for the threads that were written before it.
    if reports.iter().any(|report| report.added > 0) {
        parents::set_waiting_parents(&*threads).await?;
    }
    done.map(|()| reports)
}

async fn import_all(target: &ImportTarget<'_>, path: &Path, reports: &mut Vec<ImportReport>) -> Result<()> {
    for source in detect::find_sources(path)? {
        reports.extend(import_source(target, &source).await?);
    }
    Ok(())
}

async fn import_source(target: &ImportTarget<'_>, path: &Path) -> Result<Vec<ImportReport>> {
    let options = target.options;
    let detected = detect::detect(path, options)?;
    let format = match (options.format, detected) {
        (_, Detected::Empty) => return Ok(vec![unsupported_report(path, Detected::Empty, options)?]),
        (Some(format), _) | (None, Detected::Known(format)) => format,
        (None, other) => return Ok(vec![unsupported_report(path, other, options)?]),
    };
    let surveyed = match format.format() {
        Some(found) => found.survey(format, path, options)?,
        None => return Ok(vec![unsupported_report(path, Detected::Unknown, options)?]),
    };
    let sessions = match surveyed {
        SurveyOutcome::Sessions(sessions) => sessions,
        SurveyOutcome::Refused(issues) => return Ok(vec![refused_report(path, Some(format.name()), issues)]),
    };
    let mut reports: Vec<ImportReport> = Vec::new();
    let mut parent: Option<ThreadId> = None;
    for surveyed in sessions {
        let report = target.import(surveyed, parent.as_ref()).await?;
        parent = parent.or_else(|| report.thread.clone());
        reports.push(report);
    }
    Ok(reports)
}

/// The report of a source that no format reads.
fn unsupported_report(path: &Path, detected: Detected, options: &ImportOptions) -> Result<ImportReport> {
    let mut issues = Issues::default();
    let known = FormatName::known_names();
    let format = match detected {
        Detected::Unsupported(name, instead) => {
            let detail = format!("this is {name}: {instead}; this release reads {known}");
            issues.add_for_file(IssueCode::UnsupportedFormat, detail, "refused");
            Some(name)
        }
        Detected::Foreign(name) => {
            issues.add_for_file(
                IssueCode::UnknownFormat,
                format!("this is {name}; known formats are {known}"),
                "refused",
            );
            Some(name)
        }
        Detected::Empty => {
            issues.add_for_file(IssueCode::EmptyFile, "the source is empty or contains only blank lines", "refused");
            None
        }
        Detected::Unknown | Detected::Known(_) => {
            let start = Source::new(path.to_owned(), options.max_line).first_text(200)?;
            let detail = format!("no known format begins with {start:?}; known formats are {known}");
            issues.add_for_file(IssueCode::UnknownFormat, detail, "refused");
            None
        }
    };
    Ok(refused_report(path, format, issues))
}

fn refused_report(path: &Path, format: Option<&'static str>, issues: Issues) -> ImportReport {
    let (issues, issue_counts) = issues.into_parts();
    ImportReport {
        file: path.to_owned(),
        format,
        version: None,
        thread: None,
        lines: 0,
        entries: 0,
        added: 0,
        bytes: 0,
        messages: 0,
        leaves: 0,
        issues,
        issue_counts,
    }
}

/// The store that sessions are written to, and the options.
struct ImportTarget<'a> {
    commits: &'a dyn CommitCoordinator,
    threads: &'a dyn ThreadRunStore,
    options: &'a ImportOptions,
}

impl ImportTarget<'_> {
    async fn import(&self, surveyed: SurveyedSession, parent: Option<&ThreadId>) -> Result<ImportReport> {
        let SurveyedSession { mut session, mut issues } = surveyed;
        let (thread, stored) = self.find_thread(&*session, &mut issues).await?;
        if stored.provenance.is_none() {
            self.decide_parent(session.info_mut(), parent).await?;
        }
        session.adopt(&stored);
        let session = &*session;
        if self.options.strict {
            let mut all = issues.clone();
            let _tally = write::dry_run(session, &stored, &mut all)?;
            if !all.is_empty() {
                return Ok(report(session.info(), None, &write::Tally::default(), all));
            }
        }
        let tally = write::write(self.commits, session, (&thread, &stored), &mut issues).await?;
        if stored.provenance.is_some() {
            self.update_known_thread(session, &thread, tally.added > 0).await?;
        }
        Ok(report(session.info(), Some(thread), &tally, issues))
    }

    /// Decides which parent a new thread gets. `first` is the first thread of the same source.
    async fn decide_parent(&self, info: &mut SessionInfo, first: Option<&ThreadId>) -> Result<()> {
        if info.is_child {
            info.fields.parent_thread_id = first.cloned();
        }
        info.fields.parent_thread_id.take_if(|parent| *parent == info.thread);
        parents::defer_missing_parent(self.threads, &mut info.fields).await
    }

    /// Finds the thread of a session: one that was imported from the same bytes or their beginning, or else a new one.
    async fn find_thread(&self, session: &dyn Session, issues: &mut Issues) -> Result<(ThreadId, StoredEntries)> {
        let info = session.info();
        let mut conflict = None;
        for n in 1_u32.. {
            let id = candidate_id(&info.thread, n)?;
            let Some(thread) = self.threads.load_thread(&id).await? else {
                if let Some((code, detail)) = conflict {
                    issues.add_for_file(code, detail, "imported as a new thread");
                }
                return Ok((id, StoredEntries::default()));
            };
            match self.load_provenance(&thread, info.format).await? {
                Some(provenance) if session.continues(&provenance)? => {
                    let stored = self.load_stored(&id, provenance, info.format).await?;
                    return Ok((id, stored));
                }
                Some(_) => {
                    conflict = Some((IssueCode::ChangedFile, format!("thread `{id}` was imported from other bytes")))
                }
                None => conflict = conflict.or(Some((IssueCode::TakenId, format!("thread `{id}` has other content")))),
            }
        }
        Ok((info.thread.clone(), StoredEntries::default()))
    }

    /// The newest provenance of a thread that was imported from this format.
    async fn load_provenance(&self, thread: &Thread, format: &str) -> Result<Option<Provenance>> {
        let mut query = EntryQuery::all().with_direction(Direction::Backward);
        query.kinds = Some(vec![BodyKind::Custom]);
        query.side = Some(true);
        query.page = PageRequest::first(MAX_PAGE);
        loop {
            let page = self.threads.list_entries(&thread.id, query.clone()).await?;
            let ours = page.items.iter().filter(|entry| entry.origin.as_ref().is_some_and(|o| o.format == format));
            if let Some(provenance) = ours.into_iter().find_map(|entry| Provenance::read(entry)) {
                return Ok(Some(provenance));
            }
            let Some(next) = page.next else { return Ok(None) };
            query.page = query.page.after(next);
        }
    }

    /// The ids and parents of the entries of a thread.
    async fn load_stored(&self, thread: &ThreadId, provenance: Provenance, format: &str) -> Result<StoredEntries> {
        let mut stored = StoredEntries { provenance: Some(provenance), ..StoredEntries::default() };
        let mut query = EntryQuery::all().with_page(PageRequest::first(MAX_PAGE));
        loop {
            let page = self.threads.list_entries(thread, query.clone()).await?;
            for entry in &page.items {
                match entry.origin.as_ref().filter(|origin| origin.format == format) {
                    Some(origin) => {
                        let imported = ImportedEntry { parent: entry.parent.clone(), line: origin.line };
                        stored.imported.insert(entry.id.clone(), imported);
                    }
                    None => stored.foreign.push(entry.id.clone()),
                }
            }
            let Some(next) = page.next else { return Ok(stored) };
            query.page = query.page.after(next);
        }
    }

    /// Sets the parent of a known thread that waits for it. A thread that has grown also gets the title and the
    /// metadata that its source has now.
    async fn update_known_thread(&self, session: &dyn Session, id: &ThreadId, has_grown: bool) -> Result<()> {
        let Some(thread) = self.threads.load_thread(id).await? else { return Ok(()) };
        parents::set_waiting_parent(self.threads, &thread).await?;
        if !has_grown {
            return Ok(());
        }
        let fields = &session.info().fields;
        let mut patch = ThreadPatch::default();
        patch.title = fields.title.clone().filter(|title| thread.title.as_ref() != Some(title)).map(Some);
        for (key, value) in &fields.metadata {
            if thread.metadata.get(key) != Some(value) {
                patch = patch.with_metadata(key.as_str(), value.clone());
            }
        }
        if patch != ThreadPatch::default() {
            let _thread = self.threads.update_thread(id, patch, Expect::Any).await?;
        }
        Ok(())
    }
}

/// The candidate number `n` for a thread id: the id itself, then the id with the suffix `-n`.
fn candidate_id(id: &ThreadId, n: u32) -> Result<ThreadId> {
    if n == 1 {
        return Ok(id.clone());
    }
    let suffix = format!("-{n}");
    let mut end = id.as_str().len().min(store_core::MAX_ID_BYTES - suffix.len());
    while !id.as_str().is_char_boundary(end) {
        end -= 1;
    }
    Ok(ThreadId::new(format!("{}{suffix}", id.as_str().get(..end).unwrap_or_default()))?)
}

fn report(info: &SessionInfo, thread: Option<ThreadId>, tally: &write::Tally, issues: Issues) -> ImportReport {
    let (issues, issue_counts) = issues.into_parts();
    ImportReport {
        file: info.file.clone(),
        format: Some(info.format),
        version: info.version.clone(),
        thread,
        lines: info.lines(),
        entries: tally.entries,
        added: tally.added,
        bytes: info.bytes(),
        messages: tally.messages,
        leaves: tally.leaves(),
        issues,
        issue_counts,
    }
}
