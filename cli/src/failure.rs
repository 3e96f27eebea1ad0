//! Failures of commands: their texts, their advice and their exit codes.

use std::{
    error::Error as StdError,
    io::{self, Write},
    process::ExitCode,
};

use agentstore::{Detail, Error, ErrorKind, SchemaRemedy, UnavailableCause};
use clap::error::ErrorKind as UsageKind;
use serde::Serialize;

use crate::{json_merge::merge_objects, text::terminal_safe};

/// The exit code of a command that failed or found something wrong.
pub(crate) const FAILURE_EXIT_CODE: u8 = 1;
/// The exit code for an invalid command line.
const USAGE_EXIT_CODE: u8 = 2;

const OUTPUT_FAILED: &str = "the output cannot be written";
/// The advice for a command that may have taken effect, although its result is not known.
const CHECK_THE_STORE: &str = "check the store before you repeat the command: it may have taken effect";

/// The result of a command or of a part of it.
pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

/// Why a command failed, or did not print its whole output.
#[derive(Debug)]
pub(crate) enum Failure {
    /// An error of the library, or one that the command itself reports in the same form.
    Library {
        /// The error.
        error: Error,
        /// What the user can do about it. If absent, the usual advice for the error is given.
        advice: Option<String>,
    },
    /// The operating system refused something outside of the store.
    System {
        /// What failed.
        what: String,
        /// Why it failed.
        source: io::Error,
        /// What the user can do about it.
        advice: Option<String>,
    },
    /// The command line is invalid or incomplete.
    Usage(String),
    /// The user was asked, and did not confirm.
    NotConfirmed(String),
    /// The output could not be written.
    Output(io::Error),
    /// The reader of the output has closed it.
    ReaderClosed,
}

impl Failure {
    /// Returns a failure of the operating system outside of the store.
    pub(crate) fn io(what: impl Into<String>, source: io::Error) -> Self {
        Self::System { what: what.into(), source, advice: None }
    }

    /// Sets the advice of a `Library` or `System` failure. Other failures have no advice and are returned unchanged.
    pub(crate) fn with_advice(self, advice: impl Into<String>) -> Self {
        match self {
            Self::Library { error, .. } => Self::Library { error, advice: Some(advice.into()) },
            Self::System { what, source, .. } => Self::System { what, source, advice: Some(advice.into()) },
            other @ (Self::Usage(_) | Self::NotConfirmed(_) | Self::Output(_) | Self::ReaderClosed) => other,
        }
    }

    /// Prints the failure to standard error and returns the exit code. If the output failed, the outcome is reported as
    /// unknown, because the command may have changed the store. A command with `only_prints` changes nothing, so its
    /// outcome is known.
    pub(crate) fn report(self, json: bool, only_prints: bool) -> ExitCode {
        let text = match self {
            Self::Output(source) if only_prints => {
                return Self::io(OUTPUT_FAILED, source).report(json, only_prints);
            }
            Self::Output(source) => {
                let kind = ErrorKind::CommitUnknown;
                let (message, reason) = (format!("{OUTPUT_FAILED}: {source}"), source.to_string());
                let error = SystemError {
                    kind: kind.name(),
                    outcome: kind.outcome().name(),
                    retryable: false,
                    message: message.clone(),
                    reason,
                };
                if json {
                    error_document(&error, Some(CHECK_THE_STORE))
                } else {
                    error_text(&message, None, Some(CHECK_THE_STORE))
                }
            }
            // The reader has read as much as it wanted, as in `agentstore threads | head`. This is not a failure.
            Self::ReaderClosed => return ExitCode::SUCCESS,
            Self::Usage(reason) => {
                return report_usage(json, reason.lines().next().unwrap_or_default(), &format!("error: {reason}\n"));
            }
            Self::NotConfirmed(reason) if json => error_document(&Error::invalid("answer", reason), None),
            Self::NotConfirmed(reason) => format!("{}\n", terminal_safe(&reason)),
            Self::System { what, source, advice } if json => {
                let message = format!("{what}: {source}");
                error_document(
                    &SystemError { message, reason: source.to_string(), ..SystemError::default() },
                    advice.as_deref(),
                )
            }
            Self::System { what, source, advice } => error_text(&format!("{what}: {source}"), None, advice.as_deref()),
            Self::Library { error, advice } => {
                let advice = advice.as_deref().or_else(|| default_advice(&error));
                if json {
                    error_document(&error, advice)
                } else {
                    error_text(&error.to_string(), error.source(), advice)
                }
            }
        };
        print_to_stderr(&text);
        ExitCode::from(FAILURE_EXIT_CODE)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Library { error, advice: None }
    }
}

/// Treats an I/O error as a failed write to the output.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe { Self::ReaderClosed } else { Self::Output(error) }
    }
}

/// Treats the error as a failed write to the output, because every record can be serialized.
impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        io::Error::from(error).into()
    }
}

/// Prints the result of the command-line parser, which may be the help or an error. Returns the exit code.
pub(crate) fn report_parser_result(error: &clap::Error) -> ExitCode {
    if matches!(error.kind(), UsageKind::DisplayHelp | UsageKind::DisplayVersion) {
        // It is not a failure if the reader has closed the output before the whole help was printed.
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    let json = std::env::args_os().any(|arg| arg == "--json");
    let text = error.render();
    let plain = text.to_string();
    // The first paragraph says what is wrong. The others describe the usage.
    let reason: Vec<_> = plain.lines().take_while(|line| !line.is_empty()).map(str::trim).collect();
    let reason = reason.join(" ");
    let styled_text = if console::colors_enabled_stderr() { text.ansi().to_string() } else { plain };
    report_usage(json, reason.strip_prefix("error: ").unwrap_or(&reason), &styled_text)
}

fn report_usage(json: bool, reason: &str, text: &str) -> ExitCode {
    if json {
        print_to_stderr(&error_document(&Error::invalid("command line", reason), Some("see `agentstore --help`")));
    } else {
        print_to_stderr(text);
    }
    ExitCode::from(USAGE_EXIT_CODE)
}

/// Returns the advice that follows from the error alone, without knowledge of the command.
fn default_advice(error: &Error) -> Option<&'static str> {
    Some(match error.kind() {
        ErrorKind::NotFound => not_found_advice(error.detail())?,
        ErrorKind::AlreadyExists => already_exists_advice(error.detail()),
        ErrorKind::Conflict => conflict_advice(error.detail()),
        ErrorKind::HasChildren => "delete the child threads, too, with `--cascade`, or omit `--reject` to keep them",
        ErrorKind::IdempotencyMismatch => {
            "use another `--key`, or repeat the command with the content that the key was first used with"
        }
        ErrorKind::Unavailable if is_missing_file(error) => "check `--store`; `agentstore import` creates a store",
        ErrorKind::Unavailable => unavailable_advice(error.detail()),
        ErrorKind::CommitUnknown if error.is_retryable() => "repeat the command with the `--key` that the error names",
        ErrorKind::CommitUnknown => CHECK_THE_STORE,
        ErrorKind::StorageFull => "free some space, then try again",
        ErrorKind::Poisoned => "run the command again, which reopens the store",
        ErrorKind::Quarantined => {
            "`agentstore buffer quarantine list` shows why the store refused the write; mend the cause, then retry or \
             discard the write"
        }
        ErrorKind::Corrupt if is_about_the_journal(error) => {
            "put the files `journal.0` and `journal.1` back as they were; or restore a backup; or run `agentstore repair \
             --yes --accept-lost-journal`, which opens the store without what only the journal had"
        }
        ErrorKind::Corrupt => "`agentstore verify` shows the damage, and `agentstore repair` rebuilds what it can",
        ErrorKind::SchemaMismatch => schema_advice(error.detail()),
        ErrorKind::UnsafeDurability if is_about_syncing(error) => {
            "set `sync_interval: always` on the servers and add `assume_sync=true` to the URL to confirm it; or add \
             `allow_unsafe=true` to the URL if the store may lose data"
        }
        ErrorKind::UnsafeDurability => {
            "change the setting of the server, or add `allow_unsafe=true` to the URL if the store may lose data"
        }
        _ => return None,
    })
}

/// Returns whether the journal of a file store is lost or damaged, so that the store cannot be opened.
fn is_about_the_journal(error: &Error) -> bool {
    let Detail::Corrupt { location } = error.detail() else { return false };
    location.starts_with("journal.") || location.starts_with("the journal: ")
}

fn already_exists_advice(detail: &Detail) -> &'static str {
    match detail {
        Detail::AlreadyExists { key: Some(_), .. } => {
            "use another `--key`, or wait until the dispatch with this key has finished (`agentstore mailbox cancel` \
             cancels it)"
        }
        _ => "choose another id",
    }
}

fn conflict_advice(detail: &Detail) -> &'static str {
    match detail {
        Detail::Conflict { what: "the input's revision" | "the queue's revision", .. } => {
            "read the queue again with `agentstore pending list THREAD`, then repeat with the current revision"
        }
        Detail::Conflict { what: "the decision of the ticket", .. } => {
            "the ticket is decided: `agentstore pending list THREAD` shows the decision if no run has consumed it yet"
        }
        Detail::DocumentConflict { .. } => "read the value again, then repeat the command with its current revision",
        Detail::SnapshotConflict { .. } => {
            "read the publications again with `agentstore registry list --publications`, then repeat the command"
        }
        _ => "read the thread again with `agentstore threads`, then repeat with the current version",
    }
}

fn unavailable_advice(detail: &Detail) -> &'static str {
    match detail {
        Detail::Unavailable { cause: UnavailableCause::Server, .. } => {
            "check that the server is running and that the URL is correct, then try again"
        }
        Detail::Unavailable { cause: UnavailableCause::Buffered, .. } => {
            "name the servers with the buffer, too, as everything that writes to the store does (`--buffer nats://…`); \
             or run `agentstore buffer detach` with them, if no buffer is needed any more. Commands that only read work \
             without the buffer"
        }
        Detail::Unavailable { cause: UnavailableCause::Held, .. } => {
            "only one process at a time can open a `file:` store: try again when the other process has ended. If one \
             process does the work that others queue, use a separate mailbox (`--mailbox sqlite:PATH` for the worker, \
             `--store sqlite:PATH` for the processes that queue work). If several processes write threads, keep the \
             threads on a server (`--store postgres://…`). docs/compositions.md says which stores can be combined"
        }
        _ => "try again; if the command fails again, remove the cause that the error names",
    }
}

fn schema_advice(detail: &Detail) -> &'static str {
    match detail {
        Detail::SchemaMismatch { remedy: SchemaRemedy::Migrate, .. } => {
            "run `agentstore migrate` with the same `--store`, or use the newest release of agentstore"
        }
        Detail::SchemaMismatch { remedy: SchemaRemedy::Create, .. } => {
            "check the URL: it names a store that does not exist yet; a command that adds data, such as \
             `agentstore mailbox enqueue`, creates the store"
        }
        _ => "use the release of agentstore that wrote the store, or a newer one",
    }
}

/// Returns whether the error is that the servers do not report whether they sync to disk.
fn is_about_syncing(error: &Error) -> bool {
    matches!(error.detail(), Detail::UnsafeDurability { option, .. } if option == "assume_sync")
}

/// Returns whether the store does not exist yet. An opening that may create stores would create it.
pub(crate) fn is_missing_store(error: &Error) -> bool {
    match error.detail() {
        Detail::Unavailable { .. } => is_missing_file(error),
        Detail::SchemaMismatch { found, .. } => found == "none",
        _ => false,
    }
}

/// Returns whether the cause of the error is a file or folder that does not exist.
fn is_missing_file(error: &Error) -> bool {
    let source = std::error::Error::source(error).and_then(|source| source.downcast_ref::<io::Error>());
    source.is_some_and(|source| source.kind() == io::ErrorKind::NotFound)
}

fn not_found_advice(detail: &Detail) -> Option<&'static str> {
    let Detail::NotFound { what } = detail else { return None };
    Some(match &*what.noun {
        "thread" => "`agentstore threads` lists the threads of a tenant",
        "tenant" => "`agentstore tenants` lists the tenants",
        "run" => "`agentstore runs` lists the runs",
        "entry" | "checkpoint" | "snapshot" => "`agentstore tree THREAD` shows the entries of a thread",
        "config record" => {
            "`agentstore config list` lists the namespaces, and `agentstore config list NAMESPACE` their records"
        }
        "profile value" => {
            "`agentstore profile list` lists the owners, and `agentstore profile list OWNER` their values"
        }
        "definition" => "`agentstore registry list` lists the definitions",
        "version" => "`agentstore registry show KIND/ID --versions` lists the versions of a definition",
        "publication" => "`agentstore registry list --publications` lists the publications",
        "audit record" => "`agentstore audit list` lists the records",
        "effect" => "`agentstore effects list` lists the effects",
        "trace" => "`agentstore traces list` lists the traces",
        "dataset" | "dataset version" => "`agentstore dataset list` lists the datasets with their current versions",
        "case" => "`agentstore dataset show NAME@VERSION` lists the cases of a version",
        "evaluation" => "`agentstore eval list` lists the evaluation runs",
        _ => return None,
    })
}

/// Returns the error document of the contract (ER-7) with the advice as a further field.
fn error_document(error: &impl Serialize, advice: Option<&str>) -> String {
    #[derive(Serialize)]
    struct Advice<'a> {
        #[serde(skip_serializing_if = "Option::is_none")]
        advice: Option<&'a str>,
    }
    let document = merge_objects(error, &Advice { advice });
    document.map_or_else(|error| format!("{error}\n"), |document| format!("{document}\n"))
}

/// A failure outside of the library, in the same form as the error document of the contract.
#[derive(Serialize)]
struct SystemError {
    kind: &'static str,
    outcome: &'static str,
    retryable: bool,
    message: String,
    reason: String,
}

impl Default for SystemError {
    fn default() -> Self {
        let kind = ErrorKind::Unavailable;
        let (message, reason) = (String::new(), String::new());
        Self { kind: kind.name(), outcome: kind.outcome().name(), retryable: true, message, reason }
    }
}

/// Returns the error as text for people: what failed, why, and what to do.
fn error_text(message: &str, mut source: Option<&(dyn StdError + 'static)>, advice: Option<&str>) -> String {
    let label = console::style("error:").red().bold().for_stderr();
    let mut text = format!("{label} {}\n", terminal_safe(message));
    while let Some(cause) = source {
        text.push_str(&format!("  because: {}\n", terminal_safe(&cause.to_string())));
        source = cause.source();
    }
    if let Some(advice) = advice {
        text.push_str(&format!("  what to do: {advice}\n"));
    }
    text
}

fn print_to_stderr(text: &str) {
    // If standard error is closed, the failure cannot be reported.
    let _ = io::stderr().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use agentstore::{Error, SchemaRemedy};

    use super::default_advice;

    /// Tests ER-11: errors with the same fields get the same advice, even if their texts differ.
    #[test]
    fn advice_does_not_depend_on_error_texts() {
        let texts = ["x", "none", "the server", "it is held by process 7", "`agentstore migrate` makes it"];
        let constructors: [fn(&str) -> Error; 8] = [
            |text| Error::unavailable(text),
            |text| Error::server_unavailable(text),
            |text| Error::store_in_use(text),
            |text| Error::behind_buffer(text),
            |text| Error::schema_mismatch(text, text, SchemaRemedy::Create),
            |text| Error::schema_mismatch(text, text, SchemaRemedy::Migrate),
            |text| Error::schema_mismatch(text, text, SchemaRemedy::Release),
            |text| Error::corrupt(text),
        ];
        let mut all: Vec<_> = constructors.iter().map(|constructor| default_advice(&constructor("x"))).collect();
        for constructor in constructors {
            assert!(texts.iter().all(|text| default_advice(&constructor(text)) == default_advice(&constructor("x"))));
        }
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), constructors.len(), "different errors have the same advice: {all:?}");
    }
}
