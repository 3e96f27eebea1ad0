//! `export`: writes a thread as a session file of another tool.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, BufWriter},
    path::{Path, PathBuf},
};

use agentstore::ThreadId;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use sessions::{ExportOptions, ExportTarget, Exported, FormatName};

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
    Data that the format cannot represent is listed on standard error. With `--json`, which requires `--output` or \
    `--folder`, the document lists it.\n\n\
    Exit codes: 0 exported, whatever was lost, 1 not exported, 2 invalid command line.")]
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

/// Prints to standard error what was written, and what the format could not represent.
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

/// Prints to standard error what the format could not represent: each kind once, with the number of its entries.
pub(super) fn print_losses(exported: &Exported, out: &Output) {
    let mut kinds: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    for loss in &exported.losses {
        let entries = kinds.entry((loss.kind, loss.reason)).or_default();
        if entries.last() != Some(&loss.entry.as_str()) {
            entries.push(loss.entry.as_str());
        }
    }
    for ((kind, reason), entries) in kinds {
        let first = entries.first().copied().unwrap_or_default();
        let others = with_noun(entries.len().saturating_sub(1) as u64, "other");
        let more = if entries.len() > 1 { format!(" and {others}") } else { String::new() };
        out.print_to_stderr(terminal_safe(&format!("lost: {kind} of entry {first}{more}: {reason}")));
    }
}
