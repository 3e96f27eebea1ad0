//! The format of Claude Code: one file for each session, in which the lines form a tree, and files of subagents.
//!
//! ```text
//! ID.jsonl                         the session; in old files also the lines of its subagents
//! ID/subagents/agent-NAME.jsonl    a subagent of the session
//! agent-NAME.jsonl                 the same in older versions; its lines name the session
//! agent-NAME.meta.json             beside either: what the subagent is, and which call started it
//! ID/tool-results/                 results that are too large for a line
//! ```
//!
//! Each subagent becomes a child thread. If its lines are in the main file, they also become side entries of the main
//! thread, with their bytes. So the main file can be written again without the child thread.

mod agentstore;
mod blocks;
mod export;
mod facts;
mod files;
mod line_format;
mod message;
mod parallel;
mod preserved_segment;
mod read;
mod tool_results;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use async_trait::async_trait;
use store_core::EntryId;

pub(crate) use self::export::is_summary_line;
use self::{
    facts::FileFacts,
    line_format::{ClaudeCode, MainId},
};
use crate::{
    detect::{Sample, SourceKind},
    error::Result,
    export::{ExportFiles, ExportSource, WrittenSession, uuid_of},
    formats::{Format, FormatName, ToolFolders, ToolPlace},
    issue::{IssueCode, Issues},
    json::Object,
    lines::{FileOfThread, file_stem, run_first_pass_on_file},
    options::ImportOptions,
    session::{FirstPassResult, SessionWithIssues},
    source::Source,
};

const NAME: FormatName = FormatName::new("claude-code");

/// The key in the metadata of a child thread with the name of the subagent.
const AGENT_KEY: &str = "agent_id";

/// The key in the metadata of a child thread with the id of the call that started the subagent.
const CALL_KEY: &str = "tool_use_id";

/// The key in the metadata of a child thread with the content of `agent-NAME.meta.json`.
const DESCRIPTION_KEY: &str = "agent_meta";

/// The beginning of the name of a file in the provenance, if the lines of the thread are in the main file.
const SIDECHAIN_PREFIX: &str = "sidechain:";

/// The format, as the import and the export use it.
pub(crate) struct ClaudeCodeFormat;

#[async_trait]
impl Format for ClaudeCodeFormat {
    fn newest(&self) -> FormatName {
        NAME
    }

    fn names(&self) -> &'static [FormatName] {
        &[NAME]
    }

    fn recognise(&self, sample: &Sample<'_>) -> Option<SourceKind> {
        let first = sample.first()?;
        let is_stream_start = first.text("subtype").as_deref() == Some("init") && first.has("session_id");
        if is_stream_start && first.text("type").as_deref() == Some("system") {
            return Some(SourceKind::Unsupported("the printed output of Claude Code", "import the session file"));
        }
        // Qwen Code writes the same fields, but its messages have `parts`.
        let has_parts = |line: &Object<'_>| {
            line.object("message").is_some_and(|message| message.has("parts") && !message.has("content"))
        };
        if sample.lines.iter().any(has_parts) {
            return None;
        }
        sample.lines.iter().any(is_line).then_some(SourceKind::Known(NAME))
    }

    fn source_of(&self, path: &Path) -> Result<Option<PathBuf>> {
        files::main_file_of(path)
    }

    fn run_first_pass(&self, _name: FormatName, path: &Path, options: &ImportOptions) -> Result<FirstPassResult> {
        Ok(match run_first_pass_on_session(path, options)? {
            Ok(sessions) => FirstPassResult::Sessions(sessions),
            Err(issues) => FirstPassResult::Refused(issues),
        })
    }

    async fn export(
        &self,
        _name: FormatName,
        source: &ExportSource<'_>,
        files: &mut ExportFiles<'_>,
    ) -> Result<WrittenSession> {
        export::write(source, files).await
    }

    async fn place(&self, source: &ExportSource<'_>, folders: &ToolFolders) -> Result<Option<ToolPlace>> {
        let working_folder = folders.working_folder.to_string_lossy();
        // Claude Code itself replaces every character that is not a letter or a digit of ASCII.
        let name = working_folder.replace(|character: char| !character.is_ascii_alphanumeric(), "-");
        let folder = folders.folder("CLAUDE_CONFIG_DIR", ".claude").join("projects").join(name);
        Ok(Some(ToolPlace::new(folder, format!("claude --resume {}", uuid_of(source.thread.id.as_str())))))
    }
}

/// Whether a line is one that only Claude Code writes.
fn is_line(line: &Object<'_>) -> bool {
    let Some(kind) = line.text("type") else { return false };
    match kind.as_str() {
        "user" | "assistant" | "system" | "summary" => {
            line.object("message").is_some() || line.has("sessionId") || line.has("leafUuid")
        }
        "file-history-snapshot" => line.has("messageId") && line.object("snapshot").is_some(),
        kind => read::OTHER_TYPES.contains(&kind) && line.has("sessionId"),
    }
}

/// Runs the first pass over a main file, the lines of subagents in it, and the files of subagents. If a file is
/// refused, the result is the issues that say why.
fn run_first_pass_on_session(path: &Path, options: &ImportOptions) -> Result<Result<Vec<SessionWithIssues>, Issues>> {
    let stem = file_stem(path);
    let source = Source::new(path.to_owned(), options.max_line);
    let facts = Arc::new(FileFacts::of(&source)?);
    let id = MainId::of(&stem, &facts);
    let main = FileOfThread { source: source.clone(), name: None };
    let mut main = match run_first_pass_on_file(ClaudeCode::for_main_file(Arc::clone(&facts), &id), main, options)? {
        Ok(main) => main,
        Err(issues) => return Ok(Err(issues)),
    };
    main.session.info_mut().has_session_id = id.is_made_by_tool();
    if main.session.info().fields.title.is_none() {
        let session = &*main.session;
        let is_own_line = |uuid: &str| EntryId::new(uuid).is_ok_and(|id| session.usual_line(&id).is_some());
        let title = files::summary_in_other_files(path, &is_own_line);
        main.session.info_mut().fields.title = title;
    }
    let mut sessions = vec![tool_results::add(main, &files::results_folder(path), options.max_line)?];
    let mut children = Vec::new();
    for (at, sidechain) in facts.sidechains.iter().enumerate() {
        let name = Some(format!("{SIDECHAIN_PREFIX}{}", sidechain.agent));
        let format = ClaudeCode::for_sidechain(Arc::clone(&facts), at, &id.session);
        children.push((format, FileOfThread { source: source.clone(), name }, None));
    }
    for subagent in files::subagent_files(path)? {
        let description = subagent.description();
        let source = Source::new(subagent.path, options.max_line);
        let own_facts = Arc::new(FileFacts::of(&source)?);
        let format =
            ClaudeCode::for_subagent_file(own_facts, &facts, (&subagent.agent, &id.session, description.as_ref()));
        children.push((format, FileOfThread { source, name: Some(subagent.name) }, description));
    }
    for (format, file, description) in children {
        match run_first_pass_on_file(format, file, options)? {
            Ok(mut child) => {
                if let Some(Err(problem)) = description {
                    child.issues.add_for_file(IssueCode::BadField, problem, "left out");
                }
                child.session.info_mut().is_child = true;
                child.session.info_mut().has_session_id = id.is_made_by_tool();
                sessions.push(child);
            }
            Err(issues) => return Ok(Err(issues)),
        }
    }
    Ok(Ok(sessions))
}
