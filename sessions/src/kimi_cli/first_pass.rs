//! The first pass: reads every file of a session once.

use std::path::{Path, PathBuf};

use store_core::{JsonMap, ThreadFields};

use super::{
    context_line::ContextLines,
    folder::{CONTEXT_FILE_NAME, FoundFile, SessionFolder, modification_time},
    line,
    session::{KimiSession, LineFile, ThreadLayout},
    state::{StateFile, WholeFile},
    wire::{self, WireEvent, WireRecords},
};
use crate::{
    blocks::cut_to_1_kib,
    compact::{BitSet, TextTable},
    error::{Error, Result},
    issue::{IssueCode, Issues},
    json::json_string,
    lines::file_stem,
    options::ImportOptions,
    provenance::{FileProvenance, Provenance, StoredAs},
    scan::{LineContent, ScannedFile, scan},
    session::{FirstPassResult, SessionInfo, SessionWithIssues, StoredEntries, first_valid_thread_id},
    source::{Line, Source},
};

/// The key in the metadata of a thread for the folder of a subagent, as a path relative to the imported folder.
pub(super) const SUBAGENT_FOLDER: &str = "subagent_folder";

/// Runs the first pass over a session folder or a single context file.
pub(super) fn run_first_pass(path: &Path, options: &ImportOptions) -> Result<FirstPassResult> {
    let folder = if path.is_dir() { SessionFolder::list(path)? } else { SessionFolder::single_file(path) };
    let mut unread_sessions =
        vec![UnreadSession { path: path.to_owned(), name: session_name(path), subfolder: None, folder }];
    let mut sessions = Vec::new();
    while let Some(session) = unread_sessions.pop() {
        for found in session.folder.subagents.iter().rev() {
            unread_sessions.push(session.subagent(found)?);
        }
        let mut reader = SessionReader::new(options);
        if !reader.read(&session.folder)? {
            // The report names the imported folder, so the issues of a subagent name the folder of the subagent.
            if let Some(subfolder) = &session.subfolder {
                reader.issues.set_folder(subfolder);
            }
            return Ok(FirstPassResult::Refused(reader.issues));
        }
        sessions.push(reader.finish(session)?);
    }
    Ok(FirstPassResult::Sessions(sessions))
}

/// A session whose files have not been read yet.
struct UnreadSession {
    path: PathBuf,
    /// The name of the session. It becomes the id of the thread.
    name: String,
    /// For a subagent: its folder, as a path relative to the imported folder.
    subfolder: Option<String>,
    folder: SessionFolder,
}

impl UnreadSession {
    /// The session of a subagent of this session.
    fn subagent(&self, found: &FoundFile) -> Result<Self> {
        let name = found.name.clone().unwrap_or_default();
        Ok(Self {
            path: found.path.clone(),
            name: format!("{}.{}", self.name, session_name(&found.path)),
            subfolder: Some(
                self.subfolder.as_ref().map_or(name.clone(), |parent_folder| format!("{parent_folder}/{name}")),
            ),
            folder: SessionFolder::list(&found.path)?,
        })
    }
}

/// The name of a session: the name of its folder, even if only the `context.jsonl` in that folder is imported. For any
/// other single file it is the name of the file without its extensions.
fn session_name(path: &Path) -> String {
    if path.file_name().is_some_and(|name| name == CONTEXT_FILE_NAME)
        && let Ok(absolute) = std::path::absolute(path)
        && let Some(folder) = absolute.parent()
    {
        return session_name(folder);
    }
    let named = path.file_name().map(|name| name.to_string_lossy().into_owned());
    let name = named.or_else(|| {
        let canonical = path.canonicalize().ok()?;
        canonical.file_name().map(|name| name.to_string_lossy().into_owned())
    });
    let name = name.unwrap_or_default();
    if path.is_dir() {
        return name;
    }
    file_stem(Path::new(&name))
}

/// Reads the files of one session.
struct SessionReader<'a> {
    options: &'a ImportOptions,
    issues: Issues,
    /// The provenance of all files, in the order of their entries.
    provenance: Vec<FileProvenance>,
    contexts: Vec<LineFile<ContextLines>>,
    /// The wire file, in which kimi-cli records events, if the folder has one.
    wire: Option<LineFile<WireRecords>>,
    /// The ids of all calls.
    call_ids: TextTable,
    version: Option<String>,
    state: Option<StateFile>,
    /// The state and the unknown files, each with the prefix of the id of its entry.
    whole_files: Vec<(&'static str, WholeFile)>,
}

impl<'a> SessionReader<'a> {
    fn new(options: &'a ImportOptions) -> Self {
        Self {
            options,
            issues: Issues::default(),
            provenance: Vec::new(),
            contexts: Vec::new(),
            wire: None,
            call_ids: TextTable::default(),
            version: None,
            state: None,
            whole_files: Vec::new(),
        }
    }

    /// Reads every file. Returns false if the session is refused.
    fn read(&mut self, folder: &SessionFolder) -> Result<bool> {
        for found in &folder.contexts {
            let context_lines = ContextLines::new(folder.contexts.len() == 1);
            let call_ids = &mut self.call_ids;
            let add_line = |context_lines: &mut ContextLines,
                            line: &Line,
                            content: LineContent<'_>,
                            issues: &mut Issues| match content {
                LineContent::Object(object) => {
                    context_lines.push_object(line, &object, &line::read(line.number, &object, issues), call_ids);
                }
                LineContent::Blank | LineContent::Broken => context_lines.push_blank_or_broken(line),
            };
            let Some(read) = read_line_file(found, self.options, &mut self.issues, context_lines, add_line)? else {
                return Ok(false);
            };
            self.provenance.push(read.provenance.clone());
            self.contexts.push(read);
        }
        if self.provenance.iter().all(|file| file.blank.count() == file.lines) {
            self.issues.set_file(None);
            self.issues.add_for_file(
                IssueCode::EmptyFile,
                "the contexts are empty or contain only blank lines",
                "refused",
            );
            return Ok(false);
        }
        if let Some(found) = &folder.wire {
            let mut version = None;
            let call_ids = &mut self.call_ids;
            let add_record =
                |records: &mut WireRecords, line: &Line, content: LineContent<'_>, issues: &mut Issues| match content {
                    LineContent::Object(object) => {
                        version = version.take().or_else(|| wire::version(&object));
                        records.push_object(line.number, &object, issues, call_ids);
                    }
                    LineContent::Blank | LineContent::Broken => records.push(None, WireEvent::Other),
                };
            let Some(read) = read_line_file(found, self.options, &mut self.issues, WireRecords::default(), add_record)?
            else {
                return Ok(false);
            };
            self.version = version.or_else(|| Some(wire::FIRST_VERSION.to_owned()));
            self.provenance.push(read.provenance.clone());
            self.wire = Some(read);
        }
        if let Some(found) = &folder.state {
            self.state = StateFile::read(found, &mut self.issues)?;
            let whole_file = self.state.as_ref().map(|state| state.file.clone());
            self.keep_whole_file("state", found, whole_file)?;
        }
        for found in &folder.other_files {
            self.keep_whole_file("file", found, WholeFile::read(found)?)?;
        }
        if folder.contexts.iter().any(|found| found.name.is_some()) {
            self.note_other_content(folder);
        }
        self.issues.set_file(None);
        Ok(true)
    }

    /// Adds to the provenance the parts of the folder that are not in the thread.
    fn note_other_content(&mut self, folder: &SessionFolder) {
        for found in &folder.special_files {
            let name = found.name.clone();
            self.provenance.push(FileProvenance::without_entries(name.clone().unwrap_or_default(), StoredAs::LeftOut));
            self.issues.set_file(name);
            self.issues.add_for_file(IssueCode::UnknownType, "a link, or another special file", "left out");
        }
        let names = folder.subagents.iter().filter_map(|found| found.name.clone());
        self.provenance.extend(names.map(|name| FileProvenance::without_entries(name, StoredAs::Thread)));
        // This record states that the provenance names everything in the folder.
        self.provenance.push(FileProvenance::without_entries("", StoredAs::WholeFolder));
    }

    fn keep_whole_file(
        &mut self,
        entry_id_prefix: &'static str,
        found: &FoundFile,
        whole_file: Option<WholeFile>,
    ) -> Result<()> {
        if let Some(whole_file) = whole_file {
            self.provenance.push(whole_file.provenance.clone());
            self.whole_files.push((entry_id_prefix, whole_file));
            return Ok(());
        }
        let name = found.name.clone().unwrap_or_default();
        self.provenance.push(FileProvenance::without_entries(name, StoredAs::LeftOut));
        let bytes = std::fs::metadata(&found.path).map_err(Error::io(&found.path))?.len();
        self.issues.set_file(found.name.clone());
        let detail = format!("a file of {bytes} bytes that is not part of the conversation");
        self.issues.add_for_file(IssueCode::UnknownType, detail, "left out: only files of at most 1 MiB are stored");
        Ok(())
    }

    fn finish(self, unread: UnreadSession) -> Result<SessionWithIssues> {
        let Self { options, mut issues, provenance, contexts, wire, call_ids, version, state, whole_files } = self;
        let UnreadSession { path, name, subfolder, .. } = unread;
        let first_record = wire.as_ref().and_then(|wire| wire.line_data.first_time());
        let mut fields = ThreadFields::default();
        fields.metadata = JsonMap::from([("session_id".to_owned(), json_string(&cut_to_1_kib(&session_name(&path))))]);
        if let Some(subfolder) = &subfolder {
            fields.metadata.insert(SUBAGENT_FOLDER.to_owned(), json_string(subfolder));
        }
        if let Some(version) = &version {
            fields.metadata.insert("version".to_owned(), json_string(&cut_to_1_kib(version)));
        }
        if let Some(state) = state {
            fields.title = state.title;
            fields.metadata.extend(state.metadata.map(|metadata| ("state".to_owned(), metadata)));
        }
        let is_folder = path.is_dir();
        let info = SessionInfo {
            file: path,
            format: super::NAME.name(),
            version,
            thread: first_valid_thread_id(&[&name, "session"])?,
            has_session_id: is_folder,
            is_child: subfolder.is_some(),
            fields,
            created_at: first_record.or_else(|| contexts.first()?.modified_at),
            provenance: Provenance { files: provenance },
        };
        let is_cleared = contexts.last().is_some_and(|context| context.provenance.bytes == 0);
        let contexts = contexts.into_iter().filter(|context| context.provenance.bytes > 0).collect();
        let head = options.head;
        let mut session =
            KimiSession { info, contexts, wire, whole_files, head, is_cleared, layout: ThreadLayout::default() };
        session.layout = session.layout(&StoredEntries::default());
        note_unpaired_calls(&session, &call_ids, &mut issues);
        issues.set_file(None);
        Ok(SessionWithIssues { session: Box::new(session), issues })
    }
}

/// Reads a file of lines, and adds each line to `line_data`. Returns `None` if a line is too long.
fn read_line_file<R>(
    found: &FoundFile,
    options: &ImportOptions,
    issues: &mut Issues,
    mut line_data: R,
    mut read: impl FnMut(&mut R, &Line, LineContent<'_>, &mut Issues),
) -> Result<Option<LineFile<R>>> {
    let source = Source::new(found.path.clone(), options.max_line);
    let mut add_line =
        |line: &Line, content: LineContent<'_>, issues: &mut Issues| read(&mut line_data, line, content, issues);
    let Some(ScannedFile { provenance, line_ends }) = scan(&source, found.name.as_ref(), issues, &mut add_line)? else {
        return Ok(None);
    };
    Ok(Some(LineFile { source, provenance, line_ends, modified_at: modification_time(&found.path), line_data }))
}

/// Notes calls without a result and results without a call. Each file contains a complete history, so a call and its
/// result are looked for in the same file, including the lines that the file repeats from earlier files.
fn note_unpaired_calls(session: &KimiSession, call_ids: &TextTable, issues: &mut Issues) {
    for (file, LineFile { provenance, line_data, .. }) in session.contexts.iter().enumerate() {
        issues.set_file(provenance.name.clone());
        let called = set_of(line_data.all_calls());
        let answered = set_of(line_data.all_answered_calls());
        let mut noted = BitSet::default();
        let mut is_unpaired = |call: u32, others: &BitSet| {
            let call = usize::try_from(call).unwrap_or(usize::MAX);
            let is_unpaired = !others.contains(call) && !noted.contains(call);
            if is_unpaired {
                noted.insert(call);
            }
            is_unpaired
        };
        for line_index in session.layout.history.new_lines(file) {
            let line = u64::try_from(line_index).unwrap_or(u64::MAX).saturating_add(1);
            let id = |call: u32| call_ids.text(call).unwrap_or_default();
            for call in line_data.calls(line_index).filter(|call| is_unpaired(*call, &answered)) {
                let problem = format!("no result for call `{}`", id(call));
                issues.add(line, IssueCode::OpenCall, problem, "kept; the context adds a result");
            }
            for call in line_data.answered_call(line_index).into_iter().filter(|call| is_unpaired(*call, &called)) {
                let problem = format!("no call for result `{}`", id(call));
                issues.add(line, IssueCode::OrphanResult, problem, "kept; the context leaves the result out");
            }
        }
    }
}

fn set_of(numbers: impl Iterator<Item = u32>) -> BitSet {
    let mut set = BitSet::default();
    numbers.filter_map(|number| usize::try_from(number).ok()).for_each(|number| set.insert(number));
    set
}
