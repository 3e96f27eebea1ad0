//! Large results of calls, which Claude Code writes to files beside the session.
//!
//! The line of such a result contains the beginning of the output and the path of the file. The tool sends only that to
//! the model. The files become side entries at the end of the thread, below the results that they belong to.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
    time::SystemTime,
};

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use sha2::{Digest, Sha256};
use store_core::{
    Block, BlockKind, Custom, EntryId, ImportOrigin, Json, NewBody, NewEntry, ParentRef, Timestamp, ToolResult,
};

use super::{NAME, files::RESULTS_FOLDER};
use crate::{
    activity::Activity,
    error::{Error, Result},
    issue::{IssueCode, Issues},
    provenance::Provenance,
    session::{Draft, Drafts, Session, SessionInfo, SessionWithIssues, StoredEntries, short_digest},
    source::hex,
};

/// The kind of the entries that contain these files.
const TOOL_RESULTS_KIND: &str = "claude-code.tool-results";

/// A file with a result.
#[derive(Debug)]
struct ResultFile {
    name: String,
    path: PathBuf,
    bytes: u64,
    sha256: String,
}

/// Adds the result files in this folder to the main thread of their session.
pub(super) fn add(found: SessionWithIssues, folder: &Path, max_bytes: u64) -> Result<SessionWithIssues> {
    let SessionWithIssues { session, mut issues } = found;
    let files = if folder.is_dir() { result_files(folder, max_bytes, &mut issues)? } else { Vec::new() };
    let session = if files.is_empty() { session } else { Box::new(SessionWithResults { inner: session, files }) };
    Ok(SessionWithIssues { session, issues })
}

/// The files in a folder, in the order in which they were written, so that a new one comes last.
fn result_files(folder: &Path, max_bytes: u64, issues: &mut Issues) -> Result<Vec<ResultFile>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(Error::io(folder))? {
        let path = entry.map_err(Error::io(folder))?.path();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let metadata = fs::metadata(&path).ok().filter(fs::Metadata::is_file);
        let Some(metadata) = metadata.filter(|metadata| metadata.len() <= max_bytes) else {
            let detail = format!("`{RESULTS_FOLDER}/{name}` is not a file, or has more than {max_bytes} bytes");
            issues.add_for_file(IssueCode::UnknownType, detail, "left out");
            continue;
        };
        let content = fs::read(&path).map_err(Error::io(&path))?;
        let bytes = u64::try_from(content.len()).unwrap_or(u64::MAX);
        let written = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        found.push((written, ResultFile { name, path, bytes, sha256: hex(&Sha256::digest(&content)) }));
    }
    found.sort_by(|(time, file), (other_time, other)| (time, &file.name).cmp(&(other_time, &other.name)));
    Ok(found.into_iter().map(|(_, file)| file).collect())
}

/// A session that has files with results.
struct SessionWithResults {
    inner: Box<dyn Session>,
    files: Vec<ResultFile>,
}

impl Session for SessionWithResults {
    fn info(&self) -> &SessionInfo {
        self.inner.info()
    }

    fn info_mut(&mut self) -> &mut SessionInfo {
        self.inner.info_mut()
    }

    fn continues(&self, known: &Provenance) -> Result<bool> {
        self.inner.continues(known)
    }

    fn adopt(&mut self, stored: &StoredEntries) {
        self.inner.adopt(stored);
    }

    fn activity(&self) -> &Activity {
        self.inner.activity()
    }

    fn drafts<'a>(&'a self, stored: &'a StoredEntries) -> Result<Box<dyn Drafts + 'a>> {
        let inner = self.inner.drafts(stored)?;
        Ok(Box::new(DraftsWithResults {
            inner,
            remaining_files: self.files.iter(),
            all_files: &self.files,
            owners: HashMap::new(),
            time: None,
        }))
    }

    fn head(&self, stored: &StoredEntries) -> Option<EntryId> {
        self.inner.head(stored)
    }

    fn usual_line(&self, id: &EntryId) -> Option<u64> {
        self.inner.usual_line(id)
    }
}

/// The drafts of the lines, then those of the files.
struct DraftsWithResults<'a> {
    inner: Box<dyn Drafts + 'a>,
    /// The files whose drafts were not returned yet.
    remaining_files: std::slice::Iter<'a, ResultFile>,
    all_files: &'a [ResultFile],
    /// The entries of the results that files belong to, by the names of the files.
    owners: HashMap<&'a str, EntryId>,
    /// The time of the last draft.
    time: Option<Timestamp>,
}

impl Drafts for DraftsWithResults<'_> {
    fn next(&mut self, issues: &mut Issues) -> Result<Option<Draft>> {
        if let Some(draft) = self.inner.next(issues)? {
            self.time = draft.entry.timestamp.or(self.time);
            self.note_results(&draft.entry);
            return Ok(Some(draft));
        }
        let Some(file) = self.remaining_files.next() else { return Ok(None) };
        self.draft_of(file).map(Some)
    }
}

impl DraftsWithResults<'_> {
    /// Notes which files belong to the results in an entry.
    fn note_results(&mut self, entry: &NewEntry) {
        let (NewBody::Message(message), Some(id)) = (&entry.body, &entry.id) else { return };
        for block in &message.blocks {
            let BlockKind::ToolResult(result) = &block.kind else { continue };
            for file in self.all_files.iter().filter(|file| belongs_to(file, result)) {
                self.owners.entry(&file.name).or_insert_with(|| id.clone());
            }
        }
    }

    fn draft_of(&self, file: &ResultFile) -> Result<Draft> {
        let content = fs::read(&file.path).map_err(Error::io(&file.path))?;
        if hex(&Sha256::digest(&content)) != file.sha256 {
            return Err(Error::Changed { path: file.path.clone() });
        }
        let (field, text) = match String::from_utf8(content) {
            Ok(text) => ("text", text),
            Err(error) => ("base64", BASE64.encode(error.as_bytes())),
        };
        let name = format!("{RESULTS_FOLDER}/{}", file.name);
        let data = Json::of(&std::collections::BTreeMap::from([("file", &name), (field, &text)]))?;
        let digest = hex(&Sha256::digest(format!("{name}\n{}", file.sha256)));
        let parent = self.owners.get(file.name.as_str()).cloned().map_or(ParentRef::Root, ParentRef::Entry);
        let mut entry = NewEntry::new(Custom::new(TOOL_RESULTS_KIND, data))
            .with_id(EntryId::new(format!("L0#result.{}", short_digest(&digest)))?)
            .with_parent(parent)
            .with_side(true)
            .with_origin(ImportOrigin::new(NAME.name(), 0));
        entry.timestamp = self.time;
        Ok(Draft { entry, bytes: file.bytes })
    }
}

/// Whether a file contains the whole of a result: its name is the id of the call, or the result names the file.
fn belongs_to(file: &ResultFile, result: &ToolResult) -> bool {
    let stem = file.name.split('.').next().unwrap_or_default();
    let names_file = |block: &Block| match &block.kind {
        BlockKind::Text(text) => text.contains(RESULTS_FOLDER) && text.contains(&file.name),
        _ => false,
    };
    stem == result.tool_use_id.as_str() || result.blocks.iter().any(names_file)
}
