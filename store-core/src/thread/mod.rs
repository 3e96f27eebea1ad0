//! Threads: conversations with their own fields, and how they are created, changed, found and deleted.

mod query;
mod record;
mod removal;
mod rules;
mod store;
mod stored;

pub use self::{
    query::{
        ChildStrategy, DeleteRequest, Deletion, ParentFilter, PruneRequest, Pruned, ThreadFilter, ThreadListKey,
        ThreadOrder, ThreadQuery,
    },
    record::{NewThread, Thread, ThreadFields, ThreadPatch},
    removal::{DeletionSet, PruneSelection},
    rules::{
        DELETED_ID_RETENTION, ThreadChange, can_be_forgotten, check_fields, check_parent, check_patch, create, detach,
        id_record_after_deletion, update,
    },
    store::{ThreadAdmin, ThreadReader, ThreadRunStore},
    stored::{StoredThread, ThreadIdRecord},
};
