//! Records as a store keeps them, for copies: each with everything that the store knows about it (VF-6).
//!
//! A backend implements [`RecordPort`]: it dumps its records list by list, and restores them unchanged. Everything else
//! is here: the order of the lists, what a copy continues with after a kill, the comparison, the digest.

mod compare;
mod copy;
mod digest;
mod gate;
mod in_memory_mailbox;
mod key;
mod list;
mod mailbox_plan;
mod mark;
mod objects;
mod page;
mod record;
mod store;
mod walk;

pub use self::{
    compare::{Difference, DifferenceCounts, DifferenceKind},
    copy::{CopyOptions, CopyReport, ListCount, MissingPlace, UNFINISHED_COPY, compare_tenants, copy_tenant},
    digest::{ListDigest, TenantDigest, digest_tenant},
    gate::{WriteGate, WriteTicket},
    in_memory_mailbox::dump_mailbox,
    key::{KeyPart, RecordKey},
    list::{RecordList, RecordPart},
    mailbox_plan::{mailbox_plan, restore_to_mailbox},
    mark::{COPY_COLLECTION, CopyMark, is_copy_mark},
    page::RecordPage,
    record::{NumbersGiven, StoredRecord, ThreadRecord},
    store::{JoinedRecords, RecordPort, RecordQuery, WriteHold, no_list},
};
