//! Imports session files of other agent tools into agentstore, and exports threads to such files.
//!
//! A thread contains every line of the source that it was imported from. A thread that has not changed since its import
//! is exported byte for byte. The exception is kimi-cli, whose session folders cannot be exported. The [`ImportReport`]
//! lists what is wrong with a source. A line with a fault is kept, too.
//!
//! # Layout
//! - `import`, `detect`, `write`: the driver: it recognises and reads a source, finds its thread and writes new entries
//! - `format`: the interface between the driver and the formats; start there to add a format
//! - `lines`, `tree`: formats whose lines form a tree
//! - `source`, `scan`, `lenient`, `json`, `time`, `blocks`: how lines and their parts are read
//! - `provenance`: what the thread records about its files; `issue`, `report`: what the caller is told about them
//! - `parents`: threads whose parent does not exist yet
//! - `agent_core`, `kimi_cli`, `pi`: the formats; `export`: how threads are written to files
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

mod agent_core;
mod blocks;
mod detect;
mod error;
mod export;
mod format;
mod import;
mod issue;
mod json;
mod kimi_cli;
mod lenient;
mod lines;
mod options;
mod parents;
mod pi;
mod provenance;
mod report;
mod scan;
mod source;
mod time;
mod tree;
mod write;

pub use self::{
    error::{Error, Result},
    export::{Exported, Loss, export},
    import::import,
    issue::{Issue, IssueCode},
    options::{FormatName, HeadChoice, ImportOptions},
    report::ImportReport,
};
