//! The files of a session: its main file, and the files of its subagents.

use std::{
    fs::{self, File},
    io::{Read, Seek, SeekFrom},
    path::{Path, PathBuf},
};

use store_core::Json;

use crate::{
    blocks::cut_to_1_kib,
    error::{Error, Result},
    json::Object,
    lenient,
    lines::file_stem,
    source::{NextLine, Source},
};

const SUBAGENTS_FOLDER: &str = "subagents";

/// The folder with the results that are too large for a line.
pub(super) const RESULTS_FOLDER: &str = "tool-results";

/// The largest description of a subagent, in bytes. A larger one is left out.
const MAX_DESCRIPTION: u64 = 64 << 10;

/// The longest first line, in bytes, in which the session of a subagent is looked for.
const MAX_FIRST_LINE: u64 = 16 << 20;

/// How many bytes at the beginning and at the end of a file are searched for the summaries of other sessions.
const SUMMARY_BYTES: u64 = 16 << 10;

/// The file of a subagent.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SubagentFile {
    /// The name of the subagent.
    pub(super) agent: String,
    /// The path below the folder of the session's files: `subagents/agent-NAME.jsonl` or `agent-NAME.jsonl`.
    pub(super) name: String,
    pub(super) path: PathBuf,
}

impl SubagentFile {
    /// What the file `agent-NAME.meta.json` says about the subagent, if it exists beside this file. The error says
    /// that the content is not a small JSON object, or cannot be read.
    pub(super) fn description(&self) -> Option<std::result::Result<Json, String>> {
        let path = self.path.with_extension("meta.json");
        let name = path.file_name()?.to_string_lossy().into_owned();
        let length = fs::metadata(&path).ok()?.len();
        let text =
            Some(length).filter(|length| *length <= MAX_DESCRIPTION).and_then(|_| fs::read_to_string(&path).ok());
        let object = text.filter(|text| Object::parse(text).is_some()).and_then(|text| Json::parse(&text).ok());
        Some(object.ok_or_else(|| format!("`{name}` is not a JSON object of at most {MAX_DESCRIPTION} bytes")))
    }
}

/// The folder with the large results of a session.
pub(super) fn results_folder(main: &Path) -> PathBuf {
    main.with_file_name(file_stem(main)).join(RESULTS_FOLDER)
}

/// The main file of the session to which `path` belongs, if `path` is the file of a subagent or of a large result, and
/// both files exist.
pub(super) fn main_file_of(path: &Path) -> Result<Option<PathBuf>> {
    let Some(folder) = path.parent() else { return Ok(None) };
    let is_in = |name: &str| folder.file_name().is_some_and(|found| found == name);
    if (agent_of(path).is_none() && !is_in(RESULTS_FOLDER)) || !path.is_file() {
        return Ok(None);
    }
    let session_folder = folder.parent().filter(|_| is_in(SUBAGENTS_FOLDER) || is_in(RESULTS_FOLDER));
    let main = session_folder.and_then(|session| main_file(session.parent()?, &session.file_name()?.to_string_lossy()));
    if main.as_ref().is_some_and(|main| main.is_file()) {
        return Ok(main);
    }
    if agent_of(path).is_none() {
        return Ok(None);
    }
    let main_beside = session_of(path)?.and_then(|session| main_file(folder, &session));
    Ok(main_beside.filter(|main| main.is_file()))
}

fn main_file(folder: &Path, session: &str) -> Option<PathBuf> {
    // The name comes from a file, so it must not lead out of the folder.
    let is_name = !session.is_empty() && !session.contains(['/', '\\']);
    is_name.then(|| folder.join(format!("{session}.jsonl")))
}

/// The files of the subagents of a session: first those in its folder, then those beside the main file, each part in
/// the order of their names.
pub(super) fn subagent_files(main: &Path) -> Result<Vec<SubagentFile>> {
    let (Some(folder), Some(name)) = (main.parent(), main.file_name()) else { return Ok(Vec::new()) };
    let name = name.to_string_lossy();
    let Some(session) = name.strip_suffix(".jsonl").filter(|_| agent_of(main).is_none()) else {
        return Ok(Vec::new());
    };
    let mut found = Vec::new();
    let own_folder = folder.join(session).join(SUBAGENTS_FOLDER);
    if own_folder.is_dir() {
        for (agent, path) in agent_files(&own_folder)? {
            found.push(SubagentFile { name: format!("{SUBAGENTS_FOLDER}/agent-{agent}.jsonl"), agent, path });
        }
    }
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    for (agent, path) in agent_files(folder)? {
        let is_known = found.iter().any(|file| file.agent == agent);
        // A file that cannot be read gets a report of its own.
        let is_of_session = session_of(&path).is_ok_and(|found| found.as_deref() == Some(session));
        if !is_known && is_of_session {
            found.push(SubagentFile { name: format!("agent-{agent}.jsonl"), agent, path });
        }
    }
    Ok(found)
}

/// The names of the subagents that have a file in a folder, and these files. Empty files are left out.
fn agent_files(folder: &Path) -> Result<Vec<(String, PathBuf)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(Error::io(folder))? {
        let path = entry.map_err(Error::io(folder))?.path();
        if let Some(agent) = agent_of(&path)
            && fs::metadata(&path).is_ok_and(|metadata| metadata.is_file() && metadata.len() > 0)
        {
            found.push((agent, path));
        }
    }
    found.sort();
    Ok(found)
}

/// The name of the subagent in the name of its file.
fn agent_of(path: &Path) -> Option<String> {
    let agent = path.file_name()?.to_str()?.strip_prefix("agent-")?.strip_suffix(".jsonl")?;
    (!agent.is_empty()).then(|| agent.to_owned())
}

/// Finds the summary of a conversation in the other files of its folder. Claude Code writes it at the beginning or the
/// end of the file of a later session. `is_own_line` says whether a uuid is that of a line of the conversation.
pub(super) fn summary_in_other_files(main: &Path, is_own_line: &dyn Fn(&str) -> bool) -> Option<String> {
    let folder = main.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut files: Vec<_> = fs::read_dir(folder).ok()?.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.retain(|path| path.extension().is_some_and(|end| end == "jsonl") && path.file_name() != main.file_name());
    files.retain(|path| path.is_file());
    files.sort();
    // A file that cannot be read gets a report of its own.
    let summaries = files.iter().rev().filter_map(|path| last_summary(&beginning_and_end_of(path).ok()?, is_own_line));
    summaries.into_iter().next()
}

/// The last summary of a conversation in these lines.
fn last_summary(lines: &[u8], is_own_line: &dyn Fn(&str) -> bool) -> Option<String> {
    lines.split(|byte| *byte == b'\n').rev().find_map(|line| {
        let text = std::str::from_utf8(line).ok().filter(|text| text.contains("\"leafUuid\""))?;
        let object = Object::parse(text)?;
        let is_summary = object.text("type").as_deref() == Some("summary");
        let leaf = object.text("leafUuid").filter(|leaf| is_summary && is_own_line(leaf));
        leaf.and(object.text("summary")).map(|summary| cut_to_1_kib(&summary))
    })
}

/// The beginning and the end of a file, which are the whole file if it is short.
fn beginning_and_end_of(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    let mut bytes = Vec::new();
    file.by_ref().take(SUMMARY_BYTES).read_to_end(&mut bytes)?;
    if length > 2 * SUMMARY_BYTES {
        bytes.push(b'\n');
        file.seek(SeekFrom::Start(length - SUMMARY_BYTES))?;
    }
    file.take(SUMMARY_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The session that the first JSON object of a file names.
fn session_of(path: &Path) -> Result<Option<String>> {
    let mut lines = Source::new(path.to_owned(), MAX_FIRST_LINE).lines(u64::MAX)?;
    while let NextLine::Line(line) = lines.next()? {
        if let Some(object) = Object::parse(&lenient::read(&line.bytes).text) {
            return Ok(object.text("sessionId"));
        }
    }
    Ok(None)
}
