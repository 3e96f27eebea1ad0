//! Durable state for AI agents on files: one readable log per thread, checksums, one journal with one sync for
//! all that wait.
//!
//! # Layout
//! The engine, which knows nothing of threads and commits:
//! - `vfs`: what is asked of a disk, the real one and a simulated one
//! - `log`: header lines and groups of lines with a chain of checksums; recovery of torn tails
//! - `journal`: changes of many logs committed together with one sync; redo after a crash
//! - `meta`, `lock`, `registry`: what a root is, and who holds it
//! - `index`: an ordered map of derived data
//! - `pool`: threads that take jobs and drain the queue of a key together
//! - `files`, `readers`: a bounded number of open files, and who reads them now
//! - `error`: from the system's errors to those of the contracts
//!
//! The store, in the roles that every backend has:
//! - `store`, `config`, `tenant`, `shared`: opening, closing, options, handles, and what all handles share
//! - `threads`, `entries`, `runs`, `pending`, `events`, `outbox`, `mailbox`, `commit`: the contracts
//! - `codec`, `line`, `table`: how records stand in logs and in the index
//! - `rows`, `dispatches`: outbox and mailbox in the index, as their rules ask for them; `walk`: steps through lists;
//!   `pages`: where a page begins in one
//! - `writer`, `view`, `staged`, `tails`, `fold`: planning and writing the groups of a round, and what they change in
//!   the index; `give_back`: claims whose answer nobody received
//! - `root`, `deletion`, `purge`, `facts`: facts about several threads, and what deletions left behind
//! - `space`: what a full disk leaves to work with
//! - `opening`: what a crash left; `catch_up`, `replay`, `decoded`: bringing the index to where the logs are, by the
//!   journal or by the logs; `damage`: what stands in the way; `overlay`: a journal, read as if it were in the logs
//! - `inspect`: verify and repair

mod catch_up;
mod codec;
mod commit;
mod config;
mod damage;
mod decoded;
mod deletion;
mod dispatches;
mod entries;
mod error;
mod events;
mod facts;
mod files;
mod fold;
mod give_back;
mod index;
mod inspect;
mod journal;
mod line;
mod lock;
mod log;
mod mailbox;
mod meta;
mod opening;
mod outbox;
mod overlay;
mod pages;
mod pending;
mod pool;
mod purge;
mod readers;
mod recent;
mod registry;
mod replay;
mod root;
mod rows;
mod runs;
mod shared;
mod space;
mod staged;
mod store;
mod table;
mod tails;
mod tenant;
mod threads;
mod vfs;
mod view;
mod walk;
mod watch;
mod writer;

pub use self::{
    config::{Create, Durability, FileConfig},
    opening::{Opening, SetAside},
    store::FileStore,
};

/// The engine's parts that this crate's integration tests need: not part of what the crate promises.
///
/// A module rather than a feature: the code under test is then the code that is shipped, and what nobody calls the
/// linker leaves out.
#[doc(hidden)]
pub mod testing {
    pub use crate::{
        index::Journal,
        log::{
            Aside, Group, Header, Known, MAX_GROUP_BYTES, Placed, Position, Recovered, Recovery, Scanner, Span, Tail,
            add_checksum, classify, encode_group, read_header, read_line, read_lines, recover, rewrite_tail, set_aside,
            verified_checksum,
        },
        vfs::{
            Disk, Entry, FilePath, Identity, Kind, Open, Vfs, VfsFile, ensure_dir, name_of, read_exact_at, read_small,
            replace,
            sim::{Asked, Fault, SimDisk, Survivors},
        },
    };
}
