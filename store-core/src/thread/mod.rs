//! Threads: conversations with their own fields, and how they are created, changed, found and deleted.

mod family;
mod query;
mod record;
mod rules;
mod store;
mod stored;

pub(crate) use self::rules::check_fields;
pub use self::{
    family::{Family, PruneSelection},
    query::{
        ChildStrategy, DeleteRequest, Deletion, ParentFilter, PruneRequest, Pruned, ThreadFilter, ThreadOrder,
        ThreadQuery, ThreadScope,
    },
    record::{NewThread, Thread, ThreadFields, ThreadPatch},
    rules::{REMEMBERED_FOR, ThreadChange, check_parent, create, deleted_id, detach, is_forgotten, update},
    store::{ThreadAdmin, ThreadReader, ThreadRunStore},
    stored::{IdRecord, StoredThread},
};
