//! Session files of other agent tools, in and out of agentstore without loss.
//!
//! Every line of a source ends up in a thread, and an untouched thread gives its file back byte for byte. What is wrong
//! with a source is listed in the [`Report`], never a reason to lose a line.
//!
//! # Layout
//! - `import`, `detect`, `write`: the driver: recognise, look through, find the thread, write what is new
//! - `format`: the seam between driver and formats; start there to add one
//! - `lines`, `tree`: formats whose lines form a tree; `source`, `lenient`, `json`, `time`: how lines are read
//! - `facts`: what is remembered of a file; `issue`, `report`: what is said about it
//! - `parents`: what is remembered of a parent that is not there yet
//! - `agent_core`, `kimi_cli`, `pi`: the formats; `export`: back to files
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
mod facts;
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
    issue::{Code, Issue},
    options::{FormatName, HeadChoice, ImportOptions},
    report::Report,
};
