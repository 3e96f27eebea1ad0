//! `continue-in`: writes a thread where another agent tool looks for its sessions.

use std::{
    collections::BTreeMap,
    env,
    path::{Path, PathBuf},
};

use agentstore::ThreadId;
use serde_json::json;
use sessions::{ExportOptions, ExportTarget, Exported, FormatName, ToolFolders};

use super::{
    Ending,
    export::{format_parser, print_losses, to_export_failure},
};
use crate::{
    failure::{Failure, Result},
    output::Output,
    prompt,
    session::Session,
    text::{terminal_safe, with_noun},
};

/// Write a thread where another agent tool looks for its sessions, so that the tool can continue it
///
/// The thread itself is not changed. What the tool adds comes back with `agentstore import`, as a new thread.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  agentstore continue-in codex t-42\n  \
    agentstore continue-in claude-code t-42 --working-folder ~/project --yes\n\n\
    The command first prints where it would write and what the tool will not see, and asks for confirmation.")]
pub(crate) struct Args {
    /// The tool
    #[arg(value_name = "TOOL", value_parser = format_parser())]
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

pub(crate) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    let threads = session.threads()?;
    let working_folder = match &args.working_folder {
        Some(folder) => std::path::absolute(folder),
        None => env::current_dir(),
    };
    let working_folder =
        working_folder.map_err(|error| Failure::io("the working folder cannot be determined", error))?;
    let options = ExportOptions::new(args.tool).with_working_folder(&working_folder);
    let folders = tool_folders(&working_folder)?;
    let place = sessions::tool_place(&*threads, &args.thread, &options, &folders).await.map_err(to_export_failure)?;
    let preview = tempfile::tempdir().map_err(|error| Failure::io("a temporary folder cannot be made", error))?;
    let target = ExportTarget::Folder(preview.path());
    let planned = sessions::export(&*threads, &args.thread, &options, target).await.map_err(to_export_failure)?;
    print_losses(&planned, out);
    let files = with_noun(planned.files.len() as u64, "file");
    let folder = terminal_safe(&place.folder.display().to_string());
    prompt::confirm(args.yes, &format!("Write {files} to {folder}?"))?;
    let target = ExportTarget::Folder(&place.folder);
    let written = sessions::export(&*threads, &args.thread, &options, target).await.map_err(to_export_failure)?;
    print_written(&written, &place.command, out)?;
    Ok(Ending::Success)
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

fn print_written(written: &Exported, command: &str, out: &mut Output) -> Result<()> {
    if out.is_json() {
        return out.print_document(&json!({ "exported": written, "command": command }));
    }
    for file in &written.files {
        out.print_line(format!("wrote {}", terminal_safe(&file.display().to_string())))?;
    }
    out.print_line(format!("continue it with: {}", out.style(terminal_safe(command)).bold()))
}
