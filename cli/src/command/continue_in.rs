//! `continue-in`: writes a thread where another agent tool looks for its sessions.

use std::{
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
};

use agentstore::{COPIED_FROM, Error, ThreadId};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde_json::json;
use sessions::{ExportOptions, ExportTarget, Exported, FormatName, ToolFolders, ToolPlace};

use super::{
    Ending,
    export::{print_losses, to_export_failure},
};
use crate::{
    failure::{Failure, Result},
    output::Output,
    prompt,
    replaced_files::{ReplacedFiles, have_same_bytes},
    session::Session,
    text::{terminal_safe, with_noun},
};

/// Write a thread where another agent tool looks for its sessions, so that the tool can continue it
///
/// The thread itself is not changed. What the tool adds comes back with `agentstore import`, as a new thread.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  agentstore continue-in codex t-42\n  \
    agentstore continue-in claude-code t-42 --working-folder ~/project --yes\n\n\
    The command first prints where it would write and what the tool will not see, and asks for confirmation. If an \
    earlier `continue-in` of the same thread wrote files there, these are kept under another name, because the tool may \
    have added to them. The session that the thread was imported from is never replaced.\n\n\
    Exit codes: 0 written or already there, 1 not written, 2 not confirmed or invalid command line.")]
pub(crate) struct Args {
    /// The tool, or a version of its format
    #[arg(value_name = "TOOL", value_parser = tool_parser())]
    tool: FormatName,
    /// The id of the thread
    thread: ThreadId,
    /// The folder in which the tool will be started; by default the current folder
    #[arg(long, value_name = "FOLDER")]
    working_folder: Option<PathBuf>,
    /// Do not ask for confirmation
    #[arg(long, short)]
    yes: bool,
}

/// Accepts the names of the formats whose tools can continue a session.
fn tool_parser() -> impl TypedValueParser<Value = FormatName> {
    PossibleValuesParser::new(FormatName::accepted_tools()).try_map(|text| text.parse::<FormatName>())
}

pub(crate) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    let threads = session.threads()?;
    let working_folder = working_folder(args.working_folder.as_deref())?;
    let options = ExportOptions::new(args.tool).with_working_folder(&working_folder);
    let folders = tool_folders(&working_folder)?;
    let place = sessions::tool_place(&*threads, &args.thread, &options, &folders).await.map_err(to_export_failure)?;
    let preview = tempfile::tempdir().map_err(|error| Failure::io("a temporary folder cannot be made", error))?;
    let target = ExportTarget::Folder(preview.path());
    let mut planned_export =
        sessions::export(&*threads, &args.thread, &options, target).await.map_err(to_export_failure)?;
    let previews = planned_export.files.clone();
    planned_export.files = moved_paths(&previews, preview.path(), &place.folder);
    let existing: Vec<_> =
        planned_export.files.iter().filter(|file| fs::symlink_metadata(file).is_ok()).cloned().collect();
    if planned_export.files.iter().zip(&previews).all(|(file, preview)| have_same_bytes(file, preview)) {
        print_written(&planned_export, (&place, &working_folder), "is there already:", out)?;
        return Ok(Ending::Success);
    }
    print_losses(&planned_export, out);
    if let Some(file) = existing.first()
        && was_imported_from(args.tool, &args.thread, session).await?
    {
        return Err(may_be_original_failure(file, &args.thread));
    }
    prompt::confirm(args.yes, &question(&planned_export, &existing, &place.folder))?;
    let replaced = ReplacedFiles::move_aside(existing)?;
    let target = ExportTarget::Folder(&place.folder);
    let written_export =
        sessions::export(&*threads, &args.thread, &options, target).await.map_err(to_export_failure)?;
    for (file, kept) in replaced.keep() {
        let (file, kept) = (file.display().to_string(), kept.display().to_string());
        out.print_to_stderr(terminal_safe(&format!("the earlier {file} is now {kept}")));
    }
    print_written(&written_export, (&place, &working_folder), "wrote", out)?;
    Ok(Ending::Success)
}

/// Returns the absolute path of the folder in which the tool will be started. It must exist.
fn working_folder(folder_arg: Option<&Path>) -> Result<PathBuf> {
    let folder = folder_arg.map_or_else(env::current_dir, std::path::absolute);
    let folder = folder.map_err(|error| Failure::io("the working folder cannot be determined", error))?;
    let what = || format!("the working folder `{}` cannot be read", folder.display());
    fs::read_dir(&folder).map_err(|error| Failure::io(what(), error).with_advice("name a folder that exists"))?;
    Ok(folder)
}

/// Returns the paths that files have after they are moved from one folder to another.
fn moved_paths(files: &[PathBuf], from: &Path, to: &Path) -> Vec<PathBuf> {
    files.iter().map(|file| to.join(file.strip_prefix(from).unwrap_or(file))).collect()
}

/// Returns whether the thread was imported from a session of this tool. If so, the file at its place may be that
/// session. A copy of such a thread does not count, because only this command writes a file for it.
async fn was_imported_from(tool: FormatName, thread: &ThreadId, session: &Session) -> Result<bool> {
    let is_copy = session.require_thread(thread).await?.metadata.contains_key(COPIED_FROM);
    let imported = session.imported_format(thread).await?;
    Ok(!is_copy && imported.is_some_and(|format| format.is_version_of_same_format(tool)))
}

/// Returns the error for a file that the tool itself may have made.
fn may_be_original_failure(file: &Path, thread: &ThreadId) -> Failure {
    let file = file.display().to_string();
    // The error message shortens a long name, so the advice repeats the whole name.
    Failure::from(Error::already_exists("file", &file)).with_advice(terminal_safe(&format!(
        "`{file}` may be the session that the thread was imported from, and is not replaced: make a copy of the thread \
         with `agentstore step {thread} --fork`, and continue the copy, which gets a file of its own"
    )))
}

fn question(planned_export: &Exported, existing: &[PathBuf], folder: &Path) -> String {
    let (files, folder) =
        (with_noun(planned_export.files.len() as u64, "file"), terminal_safe(&folder.display().to_string()));
    if existing.is_empty() {
        return format!("Write {files} to {folder}?");
    }
    let existing_files = with_noun(existing.len() as u64, "file");
    format!("Rename {existing_files} of an earlier `continue-in` in {folder}, and write {files} there?")
}

/// The folders of the user, and the environment variables that move the folders of tools.
fn tool_folders(working_folder: &Path) -> Result<ToolFolders> {
    let home = env::home_dir().ok_or_else(|| Failure::Usage("the home folder is unknown: set `HOME`".to_owned()))?;
    let mut folders = ToolFolders::new(home, working_folder);
    folders.variables = env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect::<BTreeMap<_, _>>();
    Ok(folders)
}

fn print_written(
    written_export: &Exported,
    (place, working_folder): (&ToolPlace, &Path),
    what: &str,
    out: &mut Output,
) -> Result<()> {
    if out.is_json() {
        return out.print_document(&json!({ "exported": written_export, "command": place.command }));
    }
    for file in &written_export.files {
        out.print_line(format!("{what} {}", terminal_safe(&file.display().to_string())))?;
    }
    let folder = terminal_safe(&working_folder.display().to_string());
    out.print_line(format!("continue it in {folder} with: {}", out.style(terminal_safe(&place.command)).bold()))
}
