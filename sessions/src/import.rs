//! The import: recognises sources, reads them, finds their threads and writes what is new.

use std::{collections::BTreeSet, fmt, path::Path, sync::Arc};

use store_core::{
    CommitCoordinator, DeleteRequest, ErrorKind, Expect, ThreadId, ThreadPatch, ThreadRunStore, Timestamp,
};

use crate::{
    detect::{self, FoundSources, SourceKind},
    error::{Error, Result},
    find_thread::{FoundThread, ReplacedThread, ThreadsOfOtherFiles},
    formats::FormatName,
    issue::{IssueCode, Issues},
    options::ImportOptions,
    parents,
    report::ImportReport,
    session::{FirstPassResult, Session, SessionInfo, SessionWithIssues},
    stream_copy::StreamCopy,
    write::{self, SourceProgress, WriteTarget},
};

/// Imports a file, a session folder, or every session file below a folder.
///
/// Nothing is imported twice: a second import of the same bytes changes nothing, an import of a file that has grown
/// adds the new lines, and the same call after an interrupted import continues that import. The result has one report
/// for each thread, and one for each source that is refused or cannot be read. A refused source changes nothing.
///
/// A path that is not a file or a folder, such as a pipe, is read once into a temporary file.
///
/// If the parent of a thread does not exist, the metadata of the thread names the parent as `import.parent`. A later
/// import sets the parent as soon as it exists.
///
/// # Errors
/// [`Error::Store`] if the store fails, [`Error::Stopped`] if [`ImportOptions::progress`] stops the import. What was
/// written before the error stays, and the same call continues the import. [`Error::ParentsNotSet`] if, after such an
/// error, the parents of the written threads cannot be set either.
pub async fn import(
    commits: &dyn CommitCoordinator,
    path: &Path,
    options: &ImportOptions,
) -> Result<Vec<ImportReport>> {
    let mut importer = Importer::new(commits, options);
    let result = importer.import(path).await;
    importer.finish(result).await
}

/// Imports several paths in turn. After the last path, it looks once for threads that wait for a parent.
pub struct Importer<'a> {
    commits: &'a dyn CommitCoordinator,
    threads: Arc<dyn ThreadRunStore>,
    options: &'a ImportOptions,
    /// The threads that were written to.
    written: BTreeSet<ThreadId>,
    threads_of_other_files: ThreadsOfOtherFiles,
}

impl fmt::Debug for Importer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Importer")
            .field("options", self.options)
            .field("written", &self.written)
            .finish_non_exhaustive()
    }
}

impl<'a> Importer<'a> {
    /// An importer that writes to this store.
    #[must_use]
    pub fn new(commits: &'a dyn CommitCoordinator, options: &'a ImportOptions) -> Self {
        Self {
            commits,
            threads: commits.threads(),
            options,
            written: BTreeSet::new(),
            threads_of_other_files: ThreadsOfOtherFiles::default(),
        }
    }

    /// Imports a path, as [`import`] does, but leaves the parents to [`Self::finish`].
    ///
    /// # Errors
    /// As for [`import`].
    pub async fn import(&mut self, path: &Path) -> Result<Vec<ImportReport>> {
        let Self { commits, threads, options, threads_of_other_files, .. } = &*self;
        let target = ImportTarget { commits: *commits, threads: &**threads, options, threads_of_other_files };
        let mut reports = Vec::new();
        let result = import_all(&target, path, &mut reports).await;
        let written = reports.iter().filter(|report| report.added > 0).filter_map(|report| report.thread.clone());
        self.written.extend(written);
        result.map(|()| reports)
    }

    /// Sets the parents of threads that wait for them. This must also be called after an error, for the threads that
    /// were written before it. `result` is the result of the imports. It is returned if the parents were set.
    ///
    /// # Errors
    /// The error in `result`, an error of the store, or both as [`Error::ParentsNotSet`].
    pub async fn finish<T: Send>(self, result: Result<T>) -> Result<T> {
        // The parents are set last, because the file of a parent may come after that of its child.
        match (result, parents::set_waiting_parents(&*self.threads, &self.written).await) {
            (Err(import), Err(parents)) => {
                Err(Error::ParentsNotSet { import: Box::new(import), parents: Box::new(parents) })
            }
            (Ok(_), Err(error)) => Err(error),
            (result, Ok(())) => result,
        }
    }
}

async fn import_all(target: &ImportTarget<'_>, path: &Path, reports: &mut Vec<ImportReport>) -> Result<()> {
    let found = FoundSources::at(path);
    let is_empty = found.sources.is_empty() && found.unreadable_folders.is_empty();
    reports.extend(found.unreadable_folders.into_iter().map(|(path, error)| unreadable_report(&path, &error)));
    if is_empty {
        let mut issues = Issues::default();
        issues.add_for_file(IssueCode::NoSession, "there is no session file in this folder or below it", "refused");
        reports.push(refused_report(path, None, issues));
    }
    let sizes: Vec<_> = found.sources.iter().map(|source| size_of(source)).collect();
    let mut progress =
        SourceProgress { progress: &*target.options.progress, bytes_before: 0, bytes: 0, total: sizes.iter().sum() };
    for (source, bytes) in found.sources.iter().zip(sizes) {
        progress.bytes = bytes;
        match import_source(target, source, &progress).await {
            Ok(imported) => reports.extend(imported),
            Err(error @ (Error::Io { .. } | Error::Changed { .. })) => reports.push(unreadable_report(source, &error)),
            Err(Error::Store(error)) if is_about_content(&error) => reports.push(store_refusal_report(source, &error)),
            Err(error) => return Err(error),
        }
        progress.bytes_before += bytes;
        progress.bytes = 0;
        if !progress.advance(0) {
            return Err(Error::Stopped { path: source.clone() });
        }
    }
    let is_beside_session = reports.iter().any(ImportReport::is_imported);
    reports.iter_mut().for_each(|report| report.is_beside_session = is_beside_session);
    Ok(())
}

/// The size of a file, or of the files of a folder that is one source.
fn size_of(path: &Path) -> u64 {
    let Ok(metadata) = std::fs::metadata(path) else { return 0 };
    if !metadata.is_dir() {
        return metadata.len();
    }
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.metadata().ok()).filter(std::fs::Metadata::is_file).map(|file| file.len()).sum()
}

async fn import_source(
    target: &ImportTarget<'_>,
    path: &Path,
    progress: &SourceProgress<'_>,
) -> Result<Vec<ImportReport>> {
    let Some(copy) = StreamCopy::of(path)? else { return import_file(target, path, progress).await };
    let mut reports =
        import_file(target, copy.path(), progress).await.map_err(|error| copy.with_original_path(error, path))?;
    for report in &mut reports {
        report.file = path.to_owned();
    }
    Ok(reports)
}

async fn import_file(
    target: &ImportTarget<'_>,
    path: &Path,
    progress: &SourceProgress<'_>,
) -> Result<Vec<ImportReport>> {
    let options = target.options;
    let detected = detect::detect(path, options)?;
    let format = match (options.format, detected) {
        (_, SourceKind::Empty) => return Ok(vec![unsupported_report(path, SourceKind::Empty, options)?]),
        (Some(format), _) | (None, SourceKind::Known(format)) => format,
        (None, other) => return Ok(vec![unsupported_report(path, other, options)?]),
    };
    let first_pass = match format.format() {
        Some(found) => found.run_first_pass(format, path, options)?,
        None => return Ok(vec![unsupported_report(path, SourceKind::Unknown, options)?]),
    };
    let sessions = match first_pass {
        FirstPassResult::Sessions(sessions) => sessions,
        FirstPassResult::Refused(issues) => return Ok(vec![refused_report(path, Some(format.name()), issues)]),
    };
    let mut reports: Vec<ImportReport> = Vec::new();
    let mut parent: Option<ThreadId> = None;
    for found in sessions {
        let report = target.import(found, (parent.as_ref(), progress)).await?;
        let is_refused_parent = reports.is_empty() && report.thread.is_none();
        parent = parent.or_else(|| report.thread.clone());
        reports.push(report);
        if is_refused_parent {
            break;
        }
    }
    Ok(reports)
}

/// Whether the store refused the content of a source. Other sources can then still be imported.
fn is_about_content(error: &store_core::Error) -> bool {
    matches!(error.kind(), ErrorKind::LimitExceeded | ErrorKind::Invalid | ErrorKind::Conflict)
}

/// The report of a source that the store refused.
fn store_refusal_report(path: &Path, error: &store_core::Error) -> ImportReport {
    let mut issues = Issues::default();
    issues.add_for_file(IssueCode::StoreRefused, error.to_string(), "not imported to its end");
    refused_report(path, None, issues)
}

/// The report of a source that cannot be read to its end.
fn unreadable_report(path: &Path, error: &Error) -> ImportReport {
    let mut issues = Issues::default();
    let detail = match error {
        Error::Io { source, .. } => source.to_string(),
        other => other.to_string(),
    };
    issues.add_for_file(IssueCode::Unreadable, detail, "not imported to its end");
    refused_report(path, None, issues)
}

/// The report of a source that no format reads.
fn unsupported_report(path: &Path, detected: SourceKind, options: &ImportOptions) -> Result<ImportReport> {
    let mut issues = Issues::default();
    let known = FormatName::known_names();
    let format = match detected {
        SourceKind::Unsupported(name, instead) => {
            let detail = format!("this is {name}: {instead}; this release reads {known}");
            issues.add_for_file(IssueCode::UnsupportedFormat, detail, "refused");
            Some(name)
        }
        SourceKind::Foreign(name) => {
            issues.add_for_file(
                IssueCode::UnknownFormat,
                format!("this is {name}; known formats are {known}"),
                "refused",
            );
            Some(name)
        }
        SourceKind::Empty => {
            issues.add_for_file(IssueCode::EmptyFile, "the source is empty or contains only blank lines", "refused");
            None
        }
        SourceKind::Unknown | SourceKind::Known(_) => {
            let first = detect::describe_first_line(path, options)?;
            let detail = format!("no known format begins with {first}; known formats are {known}");
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
        is_beside_session: false,
    }
}

/// The store that sessions are written to, and the options.
pub(crate) struct ImportTarget<'a> {
    pub(crate) commits: &'a dyn CommitCoordinator,
    pub(crate) threads: &'a dyn ThreadRunStore,
    pub(crate) options: &'a ImportOptions,
    pub(crate) threads_of_other_files: &'a ThreadsOfOtherFiles,
}

impl ImportTarget<'_> {
    async fn import(
        &self,
        found: SessionWithIssues,
        (parent, progress): (Option<&ThreadId>, &SourceProgress<'_>),
    ) -> Result<ImportReport> {
        let SessionWithIssues { mut session, mut issues } = found;
        let FoundThread::Target { thread, stored, replaced } = self.find_thread(&*session, &mut issues).await? else {
            return Ok(report(session.info(), None, &write::EntryCounts::default(), issues));
        };
        if stored.provenance.is_none() {
            self.decide_parent(session.info_mut(), parent).await?;
        }
        session.adopt(&stored);
        let session = &*session;
        let is_child = session.info().is_child;
        if (is_child || stored.provenance.is_none()) && !write::has_conversation(session, &stored)? {
            let detail = format!("none of its lines is a message of a conversation of {}", session.info().format);
            if !is_child {
                let _tally = write::dry_run(session, &stored, &mut issues)?;
                issues.add_for_file(IssueCode::NoMessage, detail, "refused");
                return Ok(report(session.info(), None, &write::EntryCounts::default(), issues));
            }
            issues.add_for_file(IssueCode::NoMessage, detail, "imported with the session that it is part of");
        }
        if self.options.strict {
            let mut all_issues = issues.clone();
            let _tally = write::dry_run(session, &stored, &mut all_issues)?;
            if !all_issues.is_empty() {
                return Ok(report(session.info(), None, &write::EntryCounts::default(), all_issues));
            }
        }
        let detached_children = match replaced {
            Some(replaced) => self.delete_replaced(&thread, replaced, &mut issues).await?,
            None => Vec::new(),
        };
        let target = WriteTarget { commits: self.commits, thread: &thread, progress };
        let counts = match write::write(target, session, &stored, &mut issues).await {
            Err(error @ Error::Changed { .. }) if stored.provenance.is_none() => {
                // The thread has the hash of bytes that no longer exist, so no later import could continue it.
                let _deletion = self.threads.delete_thread(&thread, DeleteRequest::default()).await;
                return Err(error);
            }
            other => other?,
        };
        for child in detached_children {
            parents::set_parent(self.threads, &child, &thread).await?;
        }
        if stored.provenance.is_some() {
            let newest = counts.newest_time.filter(|_| counts.added > 0);
            self.update_known_thread(session, &thread, newest).await?;
        }
        Ok(report(session.info(), Some(thread), &counts, issues))
    }

    /// Deletes the thread that a rewritten session replaces, and returns its children.
    async fn delete_replaced(
        &self,
        thread: &ThreadId,
        replaced: ReplacedThread,
        issues: &mut Issues,
    ) -> Result<Vec<ThreadId>> {
        let request = DeleteRequest { expect: Expect::Version(replaced.version), ..DeleteRequest::default() };
        let deletion = self.threads.delete_thread(thread, request).await?;
        issues.add_for_file(IssueCode::ChangedFile, replaced.detail, "the thread is replaced");
        Ok(deletion.detached)
    }

    /// Decides which parent a new thread gets. `first` is the first thread of the same source.
    async fn decide_parent(&self, info: &mut SessionInfo, first: Option<&ThreadId>) -> Result<()> {
        if info.is_child {
            info.fields.parent_thread_id = first.cloned();
        }
        info.fields.parent_thread_id.take_if(|parent| *parent == info.thread);
        parents::defer_missing_parent(self.threads, &mut info.fields).await
    }

    /// Sets the parent of a known thread that waits for it. A thread that has grown also gets the title and the
    /// metadata that its source has now. Its last activity is then the newest time of an entry.
    async fn update_known_thread(
        &self,
        session: &dyn Session,
        id: &ThreadId,
        newest_if_grown: Option<Timestamp>,
    ) -> Result<()> {
        let Some(thread) = self.threads.load_thread(id).await? else { return Ok(()) };
        parents::set_waiting_parent(self.threads, &thread).await?;
        let Some(newest) = newest_if_grown else { return Ok(()) };
        let fields = &session.info().fields;
        let mut patch = ThreadPatch::default();
        patch.title = fields.title.clone().filter(|title| thread.title.as_ref() != Some(title)).map(Some);
        for (key, value) in &fields.metadata {
            if thread.metadata.get(key) != Some(value) {
                patch = patch.with_metadata(key.as_str(), value.clone());
            }
        }
        if patch == ThreadPatch::default() {
            return Ok(());
        }
        let at_newest = self.threads.update_thread(id, patch.clone().at(newest), Expect::Any).await;
        if at_newest.as_ref().is_err_and(write::is_after_store_time) {
            let _thread = self.threads.update_thread(id, patch, Expect::Any).await?;
        } else {
            let _thread = at_newest?;
        }
        Ok(())
    }
}

fn report(info: &SessionInfo, thread: Option<ThreadId>, counts: &write::EntryCounts, issues: Issues) -> ImportReport {
    let (issues, issue_counts) = issues.into_parts();
    ImportReport {
        file: info.file.clone(),
        format: Some(info.format),
        version: info.version.clone(),
        thread,
        lines: info.lines(),
        entries: counts.entries,
        added: counts.added,
        bytes: info.bytes(),
        messages: counts.messages,
        leaves: counts.leaves(),
        issues,
        issue_counts,
        is_beside_session: false,
    }
}
