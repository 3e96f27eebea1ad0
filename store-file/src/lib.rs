//! Durable state for AI agents on files: one readable log per thread, checksums, one journal with one sync for
//! all that wait.
//!
//! # Layers
//! Each module imports only what comes before it; `cargo xtask tidy` checks this.
//! 1. What the system gives. `vfs`: what is asked of a disk, the real one and a simulated one, and logs that are
//!    compressed in part; `error`: from the system's errors to those of the contracts; `pool`: threads that take jobs and drain a queue together; `mutex`
//! 2. Files below the root. `line`, `log`: records, and groups of lines with a chain of checksums; recovery of torn
//!    tails; `files`, `readers`: a bounded number of open files, and who reads them now; `names`: where logs stand
//! 3. The root. `journal`: changes of many logs committed together with one sync, redo after a crash; `overlay`: a
//!    journal, read as if it were in the logs; `meta`, `lock`, `registry`, `config`: what a root is, and who holds it;
//!    `root`: the log of facts about several threads; `tails`: what is not written yet; `watch`: changes of a holder
//! 4. The index. `index`: an ordered map of derived data; `table`, `codec`: its keys and rows; `walk`, `pages`: steps
//!    through lists; `staged`, `recent`: the index with changes that readers do not see yet, and a cache of it
//! 5. What a group changes in the index. `fold`, `dispatch_rows`, `outbox_rows`, `sweep`
//! 6. From the logs to the index. `catch_up`: by the journal; `replay`, `decoded`, `facts`: by the logs; `recovery`:
//!    what an opening makes of both
//! 7. What all handles share, and what the rules of core look at. `shared`, `remembered`, `space`, `records`,
//!    `dispatches`, `dispatch_lists`, `view`
//! 8. Changes. `writer`: planning and writing the groups of a round; `deletion`, `purge`: facts about several threads,
//!    and what deletions left behind; `refresh`: what a holder wrote; `opening`
//! 9. The contracts. `tenant`, `threads`, `entries`, `runs`, `pending`, `events`, `outbox`, `mailbox`, `commit`;
//!    `store`; `inspect`: verify and repair; `compress`: logs of threads that nobody wrote for a while

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
mod entries;
mod error;
mod events;
mod facts;
mod files;
mod fold;
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
mod records;
mod recovery;
mod refresh;
mod registry;
mod remembered;
mod replay;
mod report;
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
