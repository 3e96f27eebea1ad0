//! `import`: imports session files of other tools as threads.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use agentstore::{BlobOptions, CommitCoordinator, Error};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use sessions::{FormatName, HeadChoice, ImportOptions, ImportReport, Importer, IssueCode, ParentChoice};

use super::Ending;
use crate::{
    failure::{Failure, Result},
    output::Output,
    progress::TerminalProgress,
    session::Session,
    text::{terminal_safe, with_noun},
};

/// Import session files of other tools without loss
///
/// An import can be repeated: it adds only what has not been imported yet.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  agentstore import ~/.pi/agent/sessions/*/*.jsonl\n  \
    agentstore import --strict --json session.jsonl\n  \
    agentstore import --blobs-above 65536 ~/.claude/projects\n\n\
    The command prints a report for each session; with `--json` each report is one line. A session with issues is \
    imported unless `--strict` is given.\n\n\
    Exit codes: 0 every session was imported, 1 at least one was not (the others were), 2 invalid command line. A file \
    without a conversation does not count if another session of its folder was imported.")]
pub(crate) struct Args {
    /// Session files, session folders, or folders that contain session files; `-` for standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The format of the files, or `auto` to recognise it
    #[arg(long, value_name = "FORMAT", default_value = AUTO, value_parser = format_parser())]
    format: FormatChoice,
    /// Refuse a session that has any issue, and write nothing of it
    #[arg(long)]
    strict: bool,
    /// If the tool has rewritten a session since its import, delete the imported thread and import the session anew
    ///
    /// Entries that were added to the thread after its import are deleted, too. Without this option, such a session is
    /// refused.
    #[arg(long)]
    replace: bool,
    /// Where the head of the thread is placed: `writer` or `first-leaf`
    ///
    /// `writer` is the entry after which the other tool would continue. `first-leaf` is the first leaf of the file.
    #[arg(long, value_name = "WHERE", default_value = "writer", value_parser = parse_head)]
    head: HeadChoice,
    /// What becomes the parent of a line that has no parent in the file: `as-given` or `nearest`
    ///
    /// With `as-given` such a line becomes a root, and its context contains nothing of what comes before it. With
    /// `nearest` its parent is the line before it.
    #[arg(long, value_name = "WHICH", default_value = "as-given", value_parser = parse_parents)]
    parents: ParentChoice,
    /// The length of the longest line that is accepted, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = ImportOptions::default().max_line)]
    max_line: u64,
    /// Store each block of a message, and each raw line, of more than this many bytes as a blob
    ///
    /// The same block is then stored once, however many messages contain it. All commands show and export it as
    /// before. A good number for sessions with images is 65536.
    #[arg(long, value_name = "BYTES")]
    blobs_above: Option<u64>,
}

/// The format that the user chose, or `None` for `auto`.
#[derive(Debug, Clone, Copy)]
struct FormatChoice(Option<FormatName>);

/// The value of `--format` that lets the import recognise the format.
const AUTO: &str = "auto";

fn format_parser() -> impl TypedValueParser<Value = FormatChoice> {
    let texts = std::iter::once(AUTO).chain(FormatName::accepted_texts());
    PossibleValuesParser::new(texts).try_map(|text| -> Result<FormatChoice, sessions::Error> {
        if text == AUTO { Ok(FormatChoice(None)) } else { text.parse().map(|format| FormatChoice(Some(format))) }
    })
}

fn parse_head(text: &str) -> Result<HeadChoice, String> {
    match text {
        "writer" => Ok(HeadChoice::Writer),
        "first-leaf" => Ok(HeadChoice::FirstLeaf),
        _ => Err("expected `writer` (where the tool would continue) or `first-leaf` (the first leaf)".to_owned()),
    }
}

fn parse_parents(text: &str) -> Result<ParentChoice, String> {
    match text {
        "as-given" => Ok(ParentChoice::AsGiven),
        "nearest" => Ok(ParentChoice::Nearest),
        _ => Err("expected `as-given` (the line becomes a root) or `nearest` (the line before it)".to_owned()),
    }
}

pub(crate) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    let mut options =
        ImportOptions::default().with_head(args.head).with_parents(args.parents).with_max_line(args.max_line);
    options.format = args.format.0;
    options.strict = args.strict;
    options.replace = args.replace;
    let commits = commits(args.blobs_above, session)?;
    let bar = Arc::new(TerminalProgress::of_bytes("importing"));
    options.progress = Arc::<TerminalProgress>::clone(&bar);
    let mut importer = Importer::new(&*commits, &options);
    // The report of the last session that was not imported, and the number of the others that were not.
    let mut last_refused = None;
    let import_all = import_files(&args.files, &mut importer, |report| {
        bar.while_hidden(|| print(&report, out))?;
        if report.is_failure() {
            let other_count = last_refused.take().map_or(0, |(_, other_count)| other_count + 1);
            last_refused = Some((report, other_count));
        }
        Ok(())
    });
    let (import_result, print_result) = match import_all.await {
        Ok(import_result) => (import_result, Ok(())),
        Err(failure) => (Ok(()), Err(failure)),
    };
    importer.finish(import_result).await.map_err(to_failure)?;
    print_result?;
    bar.finish();
    match last_refused {
        Some((report, other_count)) => Err(refusal_failure(&report, other_count, args.strict, out.is_json())),
        None => Ok(Ending::Success),
    }
}

/// Returns the coordinator of the tenant. It stores blocks of more than `blobs_above` bytes as blobs.
fn commits(blobs_above: Option<u64>, session: &Session) -> Result<Arc<dyn CommitCoordinator>> {
    let Some(bytes) = blobs_above else { return session.commits() };
    // A store without blobs would keep all blocks in their records.
    let _supported = session.blobs()?;
    let options = BlobOptions::default().moving_above(Some(bytes));
    Ok(session.stores().clone().with_blob_options(options).commits(session.tenant())?)
}

/// Imports each path, and passes each report to `on_report`. An error of `on_report` is in the outer result, an error
/// of the import in the inner result.
async fn import_files(
    files: &[PathBuf],
    importer: &mut Importer<'_>,
    mut on_report: impl FnMut(ImportReport) -> Result<()>,
) -> Result<sessions::Result<()>> {
    for file in files {
        let file = if file.as_os_str() == "-" { Path::new("/dev/stdin") } else { file };
        match importer.import(file).await {
            Ok(reports) => reports.into_iter().try_for_each(&mut on_report)?,
            Err(error) => return Ok(Err(error)),
        }
    }
    Ok(Ok(()))
}

/// Converts an error of an import or export to a failure of the command.
pub(super) fn to_failure(error: sessions::Error) -> Failure {
    match error {
        sessions::Error::Store(error) => error.into(),
        sessions::Error::Io { path, source } => {
            let advice = "check that it exists and is readable";
            Failure::io(format!("`{}` cannot be read", path.display()), source).with_advice(advice)
        }
        sessions::Error::ParentsNotSet { import, parents } => {
            to_failure(*import).with_advice(format!("the parents of imported threads were not set: {parents}"))
        }
        other => Error::invalid("session", other.to_string()).into(),
    }
}

/// Returns the failure of an import. Without `--json` it does not repeat the reasons, because the report has named
/// them.
fn refusal_failure(report: &ImportReport, other_count: u64, strict: bool, json: bool) -> Failure {
    let reasons: Vec<_> =
        report.issues.iter().map(|issue| format!("{}: {}", issue.code.name(), issue.detail)).collect();
    let reasons = match reasons.as_slice() {
        [] => "nothing was read".to_owned(),
        _ if !json => "not imported; its report says why".to_owned(),
        reasons => reasons.join("; "),
    };
    let more = if other_count == 0 { String::new() } else { format!(" (and {other_count} more)") };
    let what = format!("session `{}`{more}", report.file.display());
    Failure::from(Error::invalid(what, reasons)).with_advice(refusal_advice(report, strict))
}

/// Returns what the user can do about a refused session.
fn refusal_advice(report: &ImportReport, strict: bool) -> String {
    let has_issue = |code| report.issue_counts.contains_key(&code);
    if has_issue(IssueCode::LongLine) {
        return "if the long line is intended, allow it with a larger `--max-line`".to_owned();
    }
    if has_issue(IssueCode::TakenId) {
        return "its id belongs to a thread with other content: import it into another store or `--tenant`".to_owned();
    }
    if has_issue(IssueCode::ChangedFile) {
        return "to delete the thread and import the file anew, add `--replace`; to keep both, import the file into \
                another store or `--tenant`"
            .to_owned();
    }
    if has_issue(IssueCode::Unreadable) {
        return "check that the file exists, is readable and is not damaged".to_owned();
    }
    if has_issue(IssueCode::NoSession) {
        return "name a session file, or a folder that contains files whose names end in `.jsonl`, `.jsonl.gz` or \
                `.jsonl.zst`"
            .to_owned();
    }
    if has_issue(IssueCode::NoMessage) {
        return "it contains no conversation yet: leave it out, or import it when it does".to_owned();
    }
    if has_issue(IssueCode::EmptyFile) {
        return "the file is empty: leave it out".to_owned();
    }
    if !strict || has_issue(IssueCode::UnknownFormat) || has_issue(IssueCode::UnsupportedFormat) {
        return format!("supported formats: {}; select one with `--format`", FormatName::known_names());
    }
    "correct the file, or leave out `--strict`".to_owned()
}

fn print(report: &ImportReport, out: &mut Output) -> Result<()> {
    if out.is_json() {
        return out.print_document(report);
    }
    let format = report.format.unwrap_or("not recognised");
    let file = terminal_safe(&report.file.display().to_string());
    match &report.thread {
        Some(thread) => {
            let thread = terminal_safe(thread.as_str());
            out.print_line(format!("{} ({format}) is thread {}", out.style(file).bold(), out.style(thread).green()))?;
        }
        None if report.has_no_conversation() => {
            out.print_line(format!("{} ({format}) has no conversation", out.style(file).bold()))?
        }
        None => {
            out.print_line(format!("{} ({format}) {}", out.style(file).bold(), out.style("was not imported").red()))?
        }
    }
    let ImportReport { lines, entries, added, bytes, messages, leaves, .. } = report;
    let parts = [(*lines, "line"), (*entries, "entry"), (*messages, "message"), (*leaves, "leaf"), (*bytes, "byte")];
    let parts: Vec<_> = parts.iter().map(|&(number, noun)| with_noun(number, noun)).collect();
    if report.is_imported() {
        out.print_line(format!("  {}; {added} added now", parts.join(", ")))?;
    }
    for issue in &report.issues {
        let line = issue.line.map_or_else(String::new, |line| format!("line {line}: "));
        let text = format!("{line}{}: {} ({})", issue.code.name(), issue.detail, issue.action);
        out.print_line(format!("  {}", terminal_safe(&text)))?;
    }
    let listed = report.issues.len() as u64;
    let total: u64 = report.issue_counts.values().sum();
    if total > listed {
        out.print_line(format!("  and {} more", total - listed))?;
    }
    Ok(())
}
