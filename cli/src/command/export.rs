//! `export`: writes a thread as a session file of another tool.

use std::{
    fs::{self, File},
    io::BufWriter,
    path::{Path, PathBuf},
};

use agentstore::ThreadId;
use sessions::{Exported, FormatName};

use super::{Ending, import::to_failure};
use crate::{
    failure::{Failure, Result},
    output::Output,
    session::Session,
    text::{terminal_safe, with_noun},
};

/// Export a thread as a session file
///
/// A thread that was imported from `agent-core` or pi and has not changed since then is exported in that format byte
/// for byte.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  agentstore export t-42 --format agent-core > t-42.jsonl\n  \
    agentstore export t-42 --format pi-v3 --output session.jsonl --json\n\n\
    Data that the format cannot represent is listed on standard error. With `--json`, which requires `--output`, the \
    document lists it.")]
pub(crate) struct Args {
    /// The id of the thread
    thread: ThreadId,
    /// The format: `agent-core`, or the format that the thread was imported from
    ///
    /// `pi-v1`, `pi-v2` and `pi-v3` are possible only if the thread was imported from that format and has not changed
    /// since then. A session of `kimi-cli` can be exported only as `agent-core`.
    #[arg(long, value_name = "FORMAT")]
    format: FormatName,
    /// The file to write, which must not exist; standard output if not given
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(crate) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    let threads = session.threads()?;
    let exported = match &args.output {
        Some(path) => {
            let mut file = create_output_file(path)?;
            let exported = sessions::export(&*threads, &args.thread, args.format, &mut file).await.map_err(to_failure);
            if exported.is_err() {
                // A partial file would look like a complete one.
                let _ = fs::remove_file(path);
            }
            exported?
        }
        None if out.is_json() => {
            return Err(Failure::Usage(
                "`--json` prints a document to standard output: name the exported file with `--output`".to_owned(),
            ));
        }
        None => sessions::export(&*threads, &args.thread, args.format, out.writer()).await.map_err(to_failure)?,
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
    if let Some(path) = path {
        out.print_to_stderr(format!("wrote {}: {sizes}{exact}", terminal_safe(&path.display().to_string())));
    }
    for loss in &exported.losses {
        let text = format!("lost: {} at {} of entry {}: {}", loss.kind, loss.path, loss.entry, loss.reason);
        out.print_to_stderr(terminal_safe(&text));
    }
}
