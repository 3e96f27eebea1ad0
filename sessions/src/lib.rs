//! Imports session files of other agent tools into agentstore, and exports threads to such files.
//!
//! A thread contains every line of the source that it was imported from. A thread that has not changed since its import
//! is exported byte for byte. Any other thread can be exported to every format. The [`ImportReport`] lists what is
//! wrong with a source. A line with a fault is kept, too.
//!
//! # Layout
//! - `import`, `detect`, `find_thread`, `write`: the driver, which recognises and reads a source, finds its thread and
//!   writes new entries
//! - `formats`: the list of the formats, and what each provides; start there to add a format
//! - `session`: what a format makes of a source; `stored_entries`: what the thread of a session already contains
//! - `lines`, `tree`: formats whose lines form a tree; `compact`: lists and tables that need few bytes for each line
//! - `source`, `scan`, `lenient`, `recover`, `json`, `time`, `blocks`: how lines and their parts are read
//! - `provenance`: what the thread records about its files; `issue`, `report`: what the caller is told about them
//! - `parents`: threads whose parent does not exist yet
//! - `agent_core`, `claude_code`, `codex`, `kimi_cli`, `pi`: the formats; `other_tools`: files of tools that are not
//!   read
//! - `export`: what the formats have in common when they write threads
//!
//! ```no_run
//! # async fn show(commits: &dyn store_core::CommitCoordinator) -> sessions::Result<()> {
//! use sessions::{ImportOptions, import};
//!
//! for report in import(commits, "session.jsonl".as_ref(), &ImportOptions::default()).await? {
//!     println!("{:?}: {} entries, {} issues", report.thread, report.entries, report.issues.len());
//! }
//! # Ok(())
//! # }
//! ```

mod activity;
mod agent_core;
mod blocks;
mod claude_code;
mod codex;
mod compact;
mod comparison;
mod detect;
mod error;
mod export;
mod field_types;
mod find_thread;
mod formats;
mod import;
mod issue;
mod json;
mod kimi_cli;
mod lenient;
mod lines;
mod options;
mod other_tools;
mod parents;
mod pi;
mod provenance;
mod recover;
mod report;
mod scan;
mod session;
mod source;
mod stored_entries;
mod stream_copy;
mod time;
mod tree;
mod write;

pub use self::{
    error::{Error, Result},
    export::{ExportTarget, Exported, Loss, LossesOfKind, export, tool_place},
    formats::{FormatName, ToolFolders, ToolPlace},
    import::{Importer, import},
    issue::{Issue, IssueCode},
    options::{ExportOptions, HeadChoice, ImportOptions, ParentChoice},
    report::ImportReport,
};
