//! Durable state for AI agents on files: one readable log per thread, checksums, and one journal, with one sync for all
//! calls that wait.
//!
//! # Layers
//! Each module imports only modules that come before it. `cargo xtask tidy` checks this, with the table in
//! `xtask/src/tidy/layers.rs`, which has the same order.
//! 1. What the operating system gives. `mutex`; `vfs`: what the store needs of a disk, the real disk, a simulated one,
//!    and files that are compressed in part; `error`: from errors of the operating system to those of the contracts;
//!    `pool`: threads that run jobs, and a queue of requests
//! 2. Files below the root. `line`, `log`: records, groups of lines with a chain of checksums, and the recovery of torn
//!    tails; `files`, `readers`: a bounded number of open files, and the calls that read now; `names`: where logs are;
//!    `registry`: the roots that this process has open
//! 3. What a root is, and its journal. `journal`: changes of many logs, committed together with one sync, and redone
//!    after a crash; `report`, `damage`: what an opening found; `lock`, `meta`, `config`: the holder of a root, its
//!    identity, and the options of an opening; `overlay`: a journal, read as if it were in the logs; `watch`: changes
//!    that a holder makes; `root`: the log of facts about several threads
//! 4. The index. `index`: an ordered map of derived data; `planned`, `tails`: a round that is being committed, and what
//!    a round appends to logs; `pages`: where a page of a list begins; `recent`: a cache of the index; `table`,
//!    `codec`: its keys and rows; `walk`: steps through its lists; `staged`: the index with changes that readers do not
//!    see yet
//! 5. What a group changes in the index. `dispatch_rows`, `outbox_rows`, `sweep`, `fold`
//! 6. From the logs to the index. `facts`, `decoded`, `replay`: by the logs; `catch_up`: by the journal; `recovery`:
//!    what an opening makes of both
//! 7. What all handles share, and what the rules of core read. `remembered`, `shared`, `space`, `records`,
//!    `dispatches`, `dispatch_lists`, `view`
//! 8. Changes. `writer`: plans and commits rounds; `purge`, `rewrite`, `deletion`: facts about several threads, what
//!    deletions left, and logs of which little exists; `refresh`: what a holder wrote; `opening`
//! 9. The contracts. `tenant`, `commit`, `runs`, `entries`, `threads`, `pending`, `events`, `outbox`, `mailbox`,
//!    `documents`;
//!    `health`: the state of a root; `store`; `inspect`: verify and repair; `compress`: logs of threads that were not
//!    written for a while

mod catch_up;
mod codec;
mod commit;
mod compress;
mod config;
mod damage;
mod decoded;
mod deletion;
mod dispatch_lists;
mod dispatch_rows;
mod dispatches;
mod documents;
mod dump;
mod entries;
mod error;
mod events;
mod facts;
mod files;
mod fold;
mod health;
mod index;
mod inspect;
mod journal;
mod line;
mod lock;
mod log;
mod mailbox;
mod meta;
mod mutex;
mod names;
mod object_files;
mod objects;
mod opening;
mod outbox;
mod outbox_rows;
mod overlay;
mod pages;
mod pending;
mod planned;
mod pool;
mod purge;
mod readers;
mod recent;
mod reclaim;
mod records;
mod recovery;
mod refresh;
mod registry;
mod remembered;
mod replay;
mod report;
mod rewrite;
mod root;
mod runs;
mod shared;
mod space;
mod staged;
mod store;
mod sweep;
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
    compress::{CompressLogs, CompressedLogs},
    config::{Create, Durability, FileConfig},
    report::{Opening, SetAside},
    store::FileStore,
};

/// The engine's parts that this crate's integration tests need: not part of what the crate promises.
///
/// This is a module and not a feature, so the code under test is the code that is shipped. The linker leaves out what
/// is not called.
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
