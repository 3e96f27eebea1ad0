//! `export`: writes a thread as a session file of another tool.

use std::{
    fs::{self, File},
    io::{self, BufWriter},
    path::{Path, PathBuf},
};

use agentstore::ThreadId;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use sessions::{ExportOptions, ExportTarget, Exported, FormatName, Loss};

use super::{Ending, import::to_failure};
use crate::{
    failure::{Failure, Result},
    output::Output,
    session::Session,
    text::{terminal_safe, with_noun},
};

/// Export a thread as a session of another tool
///
/// A thread that was imported from the format and has not changed since is exported byte for byte. Any other thread
/// is written so that the tool can continue it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  agentstore export t-42 --format agent-core > t-42.jsonl\n  \
    agentstore export t-42 --format pi --output session.jsonl --json\n  \
    agentstore export t-42 --format kimi-cli --folder session\n\n\
    Data that the format cannot represent is listed on standard error, a line for each kind with its first entries. \
    Child threads that are not part of the session are listed, too; pending input is not. With `--json`, which \
    requires `--output` or `--folder`, the document lists everything.\n\n\
    Exit codes: 0 exported, even if something was lost, 1 not exported, 2 invalid command line.")]
pub(crate) struct Args {
    /// The id of the thread
    thread: ThreadId,
    /// The format; by default the one that the thread was imported from
    #[arg(long, value_name = "FORMAT", value_parser = format_parser())]
    format: Option<FormatName>,
    /// The file to write, which must not exist; standard output if neither this nor `--folder` is given
    #[arg(long, short, value_name = "FILE", conflicts_with = "folder")]
    output: Option<PathBuf>,
    /// The folder that gets the files of the session, under the names that the tool expects
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
    /// Also write the branches that do not lead to the head, in a format that has one branch in a file
    #[arg(long, requires = "folder")]
    all_branches: bool,
    /// The working folder that the session names; by default that of the imported session, or else `/`
    #[arg(long, value_name = "FOLDER")]
    working_folder: Option<PathBuf>,
}

/// Accepts the texts that name a format, and lists them in the help.
fn format_parser() -> impl TypedValueParser<Value = FormatName> {
    PossibleValuesParser::new(FormatName::accepted_texts()).try_map(|text| text.parse::<FormatName>())
}

pub(crate) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    let threads = session.threads()?;
    let format = match args.format {
        Some(format) => format,
        None => session.imported_format(&args.thread).await?.ok_or_else(|| {
            let known = FormatName::known_names();
            Failure::Usage(format!("thread `{}` was not imported: name a format with `--format`: {known}", args.thread))
        })?,
    };
    let mut options = ExportOptions::new(format);
    options.all_branches = args.all_branches;
    options.working_folder = args.working_folder;
    let exported = match (&args.output, &args.folder) {
        (_, Some(folder)) => {
            let target = ExportTarget::Folder(folder);
            sessions::export(&*threads, &args.thread, &options, target).await.map_err(to_export_failure)?
        }
        (Some(path), None) => {
            let mut file = create_output_file(path)?;
            let target = ExportTarget::Stream(&mut file);
            let exported = sessions::export(&*threads, &args.thread, &options, target).await.map_err(to_export_failure);
            if exported.is_err() {
                // A partial file would look like a complete one.
                let _ = fs::remove_file(path);
            }
            exported?
        }
        (None, None) if out.is_json() => {
            return Err(Failure::Usage(
                "`--json` prints a document to standard output: name the exported file with `--output`, or the folder \
                 with `--folder`"
                    .to_owned(),
            ));
        }
        (None, None) => {
            let target = ExportTarget::Stream(out.writer());
            sessions::export(&*threads, &args.thread, &options, target).await.map_err(to_export_failure)?
        }
    };
    if out.is_json() {
        out.print_document(&exported)?;
    } else {
        print_summary(&exported, args.output.as_deref(), out);
    }
    Ok(Ending::Success)
}

fn create_output_file(path: &Path) -> Result<BufWriter<File>> {
    let file = File::create_new(path).map_err(|error| {
        let advice = "choose a file that does not exist yet, in a folder that exists";
        Failure::io(format!("`{}` cannot be written", path.display()), error).with_advice(advice)
    })?;
    Ok(BufWriter::new(file))
}

/// Prints to standard error the files that were written, and the data that the format could not represent.
fn print_summary(exported: &Exported, path: Option<&Path>, out: &Output) {
    let sizes = format!("{}, {}", with_noun(exported.lines, "line"), with_noun(exported.bytes, "byte"));
    let exact = if exported.exact { ", identical to the imported file" } else { "" };
    for file in exported.files.iter().map(PathBuf::as_path).chain(path) {
        out.print_to_stderr(format!("wrote {}", terminal_safe(&file.display().to_string())));
    }
    if path.is_some() || !exported.files.is_empty() {
        out.print_to_stderr(format!("{sizes}{exact}"));
    }
    print_losses(exported, out);
}

/// Converts an error of an export to a failure of the command.
pub(super) fn to_export_failure(error: sessions::Error) -> Failure {
    match error {
        sessions::Error::Io { source, .. } if source.kind() == io::ErrorKind::BrokenPipe => source.into(),
        sessions::Error::Io { path, source } => {
            let advice = "remove the file if it is an older export, or export to another folder with `export --folder`";
            Failure::io(format!("`{}` cannot be written", path.display()), source).with_advice(advice)
        }
        other => to_failure(other),
    }
}

/// How many entries are named for each kind of loss.
const NAMED_ENTRIES: usize = 3;

/// Prints to standard error what the format could not represent: a line for each kind, with the number of its entries
/// and the first of them.
pub(super) fn print_losses(exported: &Exported, out: &Output) {
    for losses in exported.losses_by_kind() {
        let (count, first) = (losses.first_of_each.len(), losses.first_of_each.iter().take(NAMED_ENTRIES));
        let mut named = first.map(|loss| place_of_loss(loss)).collect::<Vec<_>>().join(", ");
        if count > NAMED_ENTRIES {
            named += &format!(" and {}", with_noun((count - NAMED_ENTRIES) as u64, "other"));
        }
        let reasons = losses.reasons.join("; ");
        out.print_to_stderr(terminal_safe(&format!("lost: {} ({count}): {named}: {reasons}", losses.kind)));
    }
}

/// The place of a loss: an entry or a whole thread.
fn place_of_loss(loss: &Loss) -> String {
    match (&loss.thread, &loss.entry) {
        (None, Some(entry)) => format!("entry {entry}"),
        (None, None) => "the thread".to_owned(),
        (Some(thread), Some(entry)) => format!("entry {entry} of thread {thread}"),
        (Some(thread), None) => format!("thread {thread}"),
    }
}
